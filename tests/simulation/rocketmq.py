"""RocketMQ below the real endpoints and their real client: its connections lead to a model of a broker.

Connections end, are refused, or hang; requests arrive and answers do not; the broker restarts with offsets of seconds
before, moves to another address, is busy, takes small batches only, has not written what it stored; another member
joins and leaves the group; commits fail; the topic is made anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from bridge.endpoints.rocketmq.source import RocketmqSource
from bridge.endpoints.rocketmq.target import RocketmqTarget
from bridge.endpoints.topics import TopicDestination
from bridge.interop import to_rocketmq
from bridge.rocketmq.consumer.pulling import BROKER_SUSPEND_MAX_TIME
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.channel import Channel, ChannelSettings
from bridge.rocketmq.remoting.client import ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import Command, Decoder, encode
from bridge.rocketmq.remoting.errors import ConnectError
from bridge.rocketmq.remoting.message import RocketMessage
from tests.simulation.plan import Fault
from tests.simulation.rocketmq_broker import GROUP, ModelBroker
from tests.simulation.sources import Client
from tests.simulation.world import World
from tests.support.virtual_loop import pass_time

__all__ = ["RocketmqServer", "RocketmqTopic", "rocketmq_simulated"]

SECONDS: Final = 0.01
"""Maximum number of seconds until a request has arrived, and until its answer has."""
EXPIRED: Final = 120.0
"""Seconds until a broker forgets a member whose heartbeat came when its connection had ended."""
MOST: Final = 3
"""Maximum number of messages in a batch that the broker takes, as if by their size (``maxMessageSize``)."""
COMMIT_FAULTS: Final = ("refuse", "lose request", "lose answer", "forbid", "refuse", "lose answer")


class Link(asyncio.Transport):
    """A connection of the real client, and where it leads."""

    def __init__(self, host: Host, channel: Channel) -> None:
        super().__init__({"sockname": ("127.0.0.1", 1)})
        self._host = host
        self.host_name = host.machine
        self._channel = channel
        self._decoder = Decoder()
        self.is_over = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: what is written leaves at once."""

    def write(self, data: Any) -> None:
        for request in self._decoder.feed(bytes(data)):
            self._later(self._arrive, request)

    def _later(self, do: Any, command: Command) -> None:
        asyncio.get_running_loop().call_later(self._host.world.delay(SECONDS), do, command)

    def _arrive(self, request: Command) -> None:
        # What was written before the connection ended may arrive all the same.
        if not self.is_over or self._host.world.random.random() < 0.5:
            self._host.arrive(self, request)

    def answer(self, command: Command) -> None:
        """Have a command arrive at the client."""
        self._later(self._give, command)

    def _give(self, command: Command) -> None:
        if not self.is_over and not self._host.has("mute"):
            self._channel.data_received(encode(command))

    def close(self) -> None:
        self.end()

    def abort(self) -> None:
        self.end()

    def end(self) -> None:
        """End it, which both ends notice."""
        if not self.is_over:
            self.is_over = True
            self._host.links.remove(self)
            self._host.broker.leave(self)
            asyncio.get_running_loop().call_soon(self._channel.connection_lost, None)


class Host(Client):
    """The cluster, as one endpoint of one process sees it."""

    machines: Final[dict[str, Host]] = {}
    """Name by which a process knows the cluster -> the cluster, which one that was killed cannot reach."""

    def __init__(self, name: str, world: World, broker: ModelBroker) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self.broker = broker
        self.links: list[Link] = []
        self.is_to_be_cut = False
        self._frozen: list[tuple[Link, Command]] = []
        """Requests that a broker which hangs has not looked at."""
        self.machine: Final = f"m{len(self.machines)}"
        self.machines[self.machine] = self
        self.settings: Final = ClientSettings(f"{self.machine}:1", instance_name=self.machine)

    async def connect(self, address: str, settings: ChannelSettings) -> Channel:
        """Connect to the name server or the broker. Raises ConnectError."""
        await pass_time(self.world.delay(SECONDS))
        port = int(address.partition(":")[2])
        if self.is_dead or not (port == 1 or (port == self.broker.port and not self.has("down"))):
            raise ConnectError(f"{address}: Connection refused")
        channel = Channel(address, settings)
        link = Link(self, channel)
        self.links.append(link)
        channel.connection_made(link)
        return channel

    def arrive(self, link: Link, request: Command) -> None:
        """Have the broker take a request, at once or when it goes on."""
        if self.has("hang"):
            self._frozen.append((link, request))
        elif not self.has("down"):
            if link.is_over:
                asyncio.get_running_loop().call_later(EXPIRED, self.broker.leave, link)
            self.broker.take(link, request)
            if self.is_to_be_cut and request.code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
                self.is_to_be_cut = False
                self.lose()

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        loop = asyncio.get_running_loop()
        if fault.what == "down":
            self.broker.restart()
            self.broker.is_listed = fault.number % 2 == 0
            loop.call_later(fault.seconds, self._list)
        elif fault.what == "hang":
            loop.call_later(fault.seconds + 1e-6, self._thaw)
        elif fault.what == "moved":
            self.broker.port += 1
            self.lose()

    def _list(self) -> None:
        self.broker.is_listed = True

    def _thaw(self) -> None:
        if not self.has("hang"):
            frozen, self._frozen = self._frozen, []
            for link, request in frozen:
                self.arrive(link, request)

    def lose(self) -> None:
        for link in [*self.links]:
            link.end()
        self.news.set()

    def cut_soon(self) -> None:
        """End the connections as soon as a request is under way."""
        self.is_to_be_cut = True

    def kill(self) -> None:
        self.is_dead = True
        self.broker.reset_moved()
        self.lose()


class RocketmqTopic(Host):
    """A topic that the real source reads, with the broker's locks if its name begins with ``orderly``."""

    def __init__(self, name: str, world: World, broker: ModelBroker, *, until_end: bool = False) -> None:
        super().__init__(name, world, broker)
        self.endpoint = RocketmqSource(
            name, self.settings, GROUP, [Subscription.to_tags(broker.topic)], orderly=name.startswith("orderly"),
            until_end=until_end, window=world.plan.window,
        )  # fmt: skip

    def take_over(self, before: Client | None) -> None:
        super().take_over(before)
        broker = self.broker
        broker.commit_fault, broker.begun = self._commit_fault, self._begin
        broker.seen, broker.is_heard = self._put_unsent, lambda: not self.has("mute")

    def _begin(self) -> None:
        self.world.repeats[self.name] += 1

    def _commit_fault(self) -> str:
        return COMMIT_FAULTS[self.numbers["commit"] % len(COMMIT_FAULTS)] if self.has("commit") else ""

    @property
    def is_empty(self) -> bool:
        return self.broker.exists and not self.broker.left() and not self.broker.unsent

    def put(self, number: int) -> None:
        message = self.world.make_message(number)
        self.put_message(to_rocketmq(message, self.broker.topic, message.routing_key.encode()))

    def put_message(self, message: RocketMessage) -> None:
        """Add a message to the queue of its key."""
        queue = int(message.properties["KEYS"].rpartition(".")[2]) % len(self.broker.queues)
        if not self.broker.exists or queue in self.broker.unseen:
            self.broker.unsent.append(message)
        else:
            self.broker.append(queue, [message])

    def _put_unsent(self) -> None:
        unsent, self.broker.unsent = self.broker.unsent, []
        for each in sorted(unsent, key=lambda message: int(message.body)):
            self.put_message(each)

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        self.world.repeats[self.name] += 1
        loop = asyncio.get_running_loop()
        if fault.what == "down" and fault.number >= 3:
            self.world.again += self.broker.crash()
        elif fault.what == "rebalance":
            self.broker.set_other(is_there=True, first=fault.number % 2 == 0)
            loop.call_later(fault.seconds, lambda: self.broker.set_other(is_there=False))
        elif fault.what == "remade":
            self._remake(fault)

    def _remake(self, fault: Fault) -> None:
        """Delete the topic and make it anew; its owner moves what was in it to the new one.

        Not while its broker hangs, when nobody can be told that it is gone: the guide says to wait.
        """
        self.broker.delete()
        loop = asyncio.get_running_loop()

        def make() -> None:
            if self.has("hang"):
                loop.call_later(BROKER_SUSPEND_MAX_TIME + 1.0, make)
            elif not self.broker.exists:
                self.broker.remake(1 + fault.number % 3)

        loop.call_later(fault.seconds + 0.02, make)


class RocketmqServer(Host):
    """A topic that the real target writes to."""

    def __init__(self, name: str, world: World, broker: ModelBroker) -> None:
        super().__init__(name, world, broker)
        self.queue: Final = "" if name == "dead" else name
        self.endpoint = RocketmqTarget(name, self.settings, {self.queue: TopicDestination(broker.topic)})

    def take_over(self, before: Client | None) -> None:
        super().take_over(before)
        self.broker.judge, self.broker.stored = self._judge, self._note_stored

    def is_at_fault(self, number: int) -> bool:
        """Return whether a message is refused by itself."""
        return self.world.odd.get(number) == "refused"

    def _judge(self, messages: Sequence[RocketMessage]) -> tuple[int, str]:
        if self.has("push back"):
            return ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy"
        if len(messages) > MOST:
            code = ResponseCode.SYSTEM_ERROR if self.world.plan.seed % 2 else ResponseCode.MESSAGE_ILLEGAL
            return code, "message size exceeded"
        if self.queue and not self.world.well and any(self.is_at_fault(int(each.body)) for each in messages):
            return ResponseCode.MESSAGE_ILLEGAL, "it is wrong"
        if self.has("forbid"):
            return ResponseCode.NO_PERMISSION, "the broker's permission is to read"
        if self.has("unsafe"):
            self.world.repeats[self.name] += 1
            return ResponseCode.FLUSH_DISK_TIMEOUT, "not written yet"
        return ResponseCode.SUCCESS, ""

    def _note_stored(self, messages: Sequence[RocketMessage], is_safe: bool) -> None:
        for each in messages:
            dead_queue = each.properties.get("hashstar-queue", "")
            self.world.store(self.queue, int(each.body), dead_queue, is_safe=is_safe)

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        if fault.what == "mute":
            asyncio.get_running_loop().call_later(fault.seconds, self.lose)


@contextmanager
def rocketmq_simulated() -> Iterator[None]:
    """Have the client's connections lead to models, and its clocks be virtual."""

    async def connect(_: Any, address: str, settings: ChannelSettings | None = None) -> Channel:
        return await Host.machines[address.partition(":")[0]].connect(address, settings or ChannelSettings())

    def now() -> float:
        return asyncio.get_running_loop().time()

    clock: Any = SimpleNamespace(monotonic=now)
    with ExitStack() as stack:
        for name, replaced in {
            "remoting.channel.Channel.open": classmethod(connect),
            "remoting.connections.time": clock, "producer.tries.time": clock,
            "consumer.group.now_ms": lambda: round(now() * 1_000), "producer.tries.now_ms": lambda: 1,
        }.items():  # fmt: skip
            stack.enter_context(patch(f"bridge.rocketmq.{name}", replaced))
        yield
    Host.machines.clear()
