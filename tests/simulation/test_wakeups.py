"""Whatever the order of the turns of the loop is, nothing that is due is left undone: no wakeup is lost.

A real source and a real target of RabbitMQ, a pump between them, and the test server, on the simulated loop: callbacks
that are ready together run in any order, bytes arrive in any pieces, answers are seen late. All moves in virtual time,
so that a bridge that stands still is noticed at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.testing.server.channel import Channel as ServedChannel
from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.consumer import reading
from bridge.endpoints.rabbitmq.consumer.queue_facts import QueueFacts
from bridge.endpoints.rabbitmq.consumer.reading import RabbitmqSource
from bridge.endpoints.rabbitmq.routes import PublishAddress
from bridge.endpoints.rabbitmq.target import RabbitmqTarget
from bridge.endpoints.rabbitmq.wire import SECONDS
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Queue, Router, Topology
from exchange.errors import BrokerError, PreconditionFailed
from tests.simulation.amqp import URL, Server, amqp_simulated
from tests.simulation.loop import simulate
from tests.simulation.run import _without_logs
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time

BRIDGED: Final = Topology([Exchange("in", "fanout")], [Queue("out")], [Binding.to_queue("in", "out")])

KINDS: Final = {
    "classic": ({}, None),
    "quorum": ({"x-queue-type": "quorum", "x-delivery-limit": -1}, None),
    "limited": ({"x-queue-type": "quorum", "x-delivery-limit": 20}, 20),
    "limited to 3": ({"x-queue-type": "quorum", "x-delivery-limit": 3}, 3),
}
"""Name -> arguments of the queue that is read, and its delivery limit."""

ENDS: Final = 25.0
"""Virtual seconds after which all is moved once nothing happens any more: fewer than any answer is waited for."""


@dataclass(frozen=True)
class Life:
    """What happens to one bridge."""

    seed: int
    kind: str
    messages: int
    size: int
    """Number of bytes of a message."""
    prefetch: int
    window: int
    window_bytes: int
    events: tuple[tuple[float, str, float], ...]
    """Seconds since the one before, what happens, and for how many seconds."""


LIVES: Final = st.builds(
    Life,
    st.integers(0, 1 << 32),
    st.sampled_from(["limited", "limited to 3", *KINDS]),
    st.sampled_from([1, 8, 40]),
    st.sampled_from([1, 2_000]),
    st.sampled_from([1, 5, 100]),
    st.sampled_from([1, 4, 30]),
    st.sampled_from([1_000, 10_000, 1 << 20]),
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.05, 0.3]),
            st.sampled_from(["pause", "leave", "cut", "stop"]),
            st.sampled_from([0.0, 0.01, 0.2, 40.0]),
        ),
        max_size=3,
    ).map(tuple),
)


class Events:
    """What becomes of connections."""

    def __init__(self) -> None:
        self.lost: list[str] = []

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        self.lost.append(f"{name}: {error}")

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Bridge:
    """The bridges of a life, one after the other."""

    def __init__(self, life: Life, server: Server, random: Random) -> None:
        self.life = life
        self.server = server
        self.random = random
        self.events: Any = Events()
        self.pump = self._make()
        self.running = asyncio.create_task(self.pump.run())

    def _make(self) -> Pump:
        life, broker = self.life, parse_broker(URL)
        source = RabbitmqSource(
            "from", [broker], "q", prefetch=life.prefetch, window_bytes=life.window_bytes, management="http://nowhere"
        )
        target = RabbitmqTarget("to", [broker], {"out": PublishAddress.queue("out")})
        policy = Policy(life.window, life.window_bytes, drain=10 * ENDS)
        return Pump(
            [Inlet(source, "in")], Router(BRIDGED), {"out": target}, self.events, policy, random=self.random.random
        )

    async def strike(self, what: str, seconds: float) -> None:
        """Let something happen, which lasts for some seconds."""
        pump = self.pump
        if what == "cut":
            self.server.cut()
        elif what == "stop":
            await self.stop()
            await pass_time(seconds)
            self.pump = self._make()
            self.running = asyncio.create_task(self.pump.run())
        else:
            (pump.pause if what == "pause" else pump.drain)()
            await pass_time(seconds)
            pump.resume()

    async def stop(self) -> None:
        """Stop, which does not wait for the end of the drain."""
        self.pump.stop()
        async with asyncio.timeout(ENDS):
            await self.running


def describe_life(life: Life) -> str | None:
    """Live through it; return what was wrong."""
    random = Random(life.seed)
    servers: list[Server] = []
    arguments, limit = KINDS[life.kind]
    kind = str(arguments.get("x-queue-type", "classic"))
    topology = Topology(queues=[Queue("q", arguments=arguments), Queue("out")])

    async def fetch_facts(*_: Any) -> QueueFacts:
        await pass_time(random.random() * 0.01)
        return QueueFacts(kind, limit)

    async def live() -> str | None:
        server = Server(topology, random)
        servers.append(server)
        bodies = [b"%d" % number + bytes(life.size) for number in range(life.messages)]
        for body in bodies:
            server.publish("q", body)
        bridge = Bridge(life, server, random)
        for wait, what, seconds in life.events:
            await pass_time(wait + random.random() * 0.1)
            await bridge.strike(what, seconds)
        ends = asyncio.get_running_loop().time() + ENDS
        while len({*server.bodies("out")}) < life.messages or server.bodies("q") or bridge.pump.in_flight:
            if asyncio.get_running_loop().time() > ends:
                return f"stands still: {len({*server.bodies('out')})} are moved, {bridge.events.lost}"
            await pass_time(0.5)
        await bridge.stop()
        moved, has_cut = server.bodies("out"), any(what == "cut" for _, what, _ in life.events)
        if not has_cut and (moved != bodies or bridge.events.lost):
            return f"{len(moved)} are moved, {bridge.events.lost}"
        return f"{len(server.bodies('q'))} are left" if server.bodies("q") else None

    with _without_logs(), amqp_simulated(lambda: servers[0]), patch.object(reading, "fetch_facts", fetch_facts):
        wrong, _ = simulate(live(), random)
    return wrong


@given(LIVES)
@examples(1_000)
def test_all_is_moved_in_time_whatever_the_order_of_the_turns_is(life: Life) -> None:
    assert describe_life(life) is None


# What is lost or refused just then, at the connections themselves.


def meet_server(work: Callable[[Server, Connection], Awaitable[None]], lost: list[str]) -> None:
    """Run work with a server that has a queue, and a connection to it, in several orders of the turns."""
    for seed in range(12):
        lost.clear()
        random = Random(seed)
        server: list[Server] = []

        async def go() -> None:
            server.append(Server(Topology(queues=[Queue("q")]), random))  # noqa: B023  it runs at once
            connection = await Connection.open([parse_broker(URL)], lambda error: lost.append(str(error)))
            await work(server[0], connection)  # noqa: B023
            await connection.close()

        with amqp_simulated(lambda: server[0]):  # noqa: B023
            simulate(go(), random)


def test_a_channel_that_ends_right_behind_an_answer_is_lost_though_nobody_has_seen_the_answer_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end is no refusal of what was asked then: nobody would hear of it, and the source would stand still."""
    consume = ServedChannel._basic_consume

    def consume_and_end(self: ServedChannel, given: Any) -> None:
        consume(self, given)
        raise PreconditionFailed("delivery acknowledgement timed out")

    monkeypatch.setattr(ServedChannel, "_basic_consume", consume_and_end)
    lost: list[str] = []

    async def work(_: Server, connection: Connection) -> None:
        channel = await connection.channel()
        with suppress(BrokerError, Disconnected):
            await channel.consume("q", exclusive=False, arguments={}, prefetch=1)
        await pass_time(1)
        assert "delivery acknowledgement timed out" in " ".join(lost)

    meet_server(work, lost)


def test_a_refusal_that_came_when_nobody_waited_refuses_nothing_else() -> None:
    lost: list[str] = []

    async def work(_: Server, connection: Connection) -> None:
        with suppress(TimeoutError, BrokerError):
            async with asyncio.timeout(0.001):
                await connection.look("queue", "missing")
        await pass_time(1)
        assert (await connection.look("queue", "q")).method.queue == "q"
        assert not lost

    meet_server(work, lost)


def test_an_answer_is_waited_for_while_nothing_is_read_however_long_that_is() -> None:
    lost: list[str] = []

    async def work(_: Server, connection: Connection) -> None:
        await connection.look("queue", "q")
        connection.pause()
        asked = asyncio.create_task(connection.look("queue", "q"))
        await pass_time(3 * SECONDS)
        assert not asked.done()
        connection.resume()
        assert (await asked).method.queue == "q"
        assert not lost

    meet_server(work, lost)


def test_a_broker_that_does_not_answer_is_given_up_after_the_time_in_which_it_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[str] = []

    async def work(_: Server, connection: Connection) -> None:
        connection.pause()
        asked = asyncio.create_task(connection.look("queue", "q"))
        await pass_time(SECONDS + 5)
        connection.resume()
        await pass_time(SECONDS - 1)
        assert not asked.done()
        with pytest.raises(Disconnected, match=r"no answer to queue_declare in 30 s"):
            await asked

    monkeypatch.setattr(ServedChannel, "_queue_declare", lambda *_: None)
    meet_server(work, lost)
