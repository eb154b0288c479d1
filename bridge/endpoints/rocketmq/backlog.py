"""How many messages of its queues a source has not read, how many brokers removed before it could, and when they do.

Each answer to a pull has the offsets at which its queue begins and ends. A queue that is not pulled, as its messages
wait for targets, has no answers: its broker is asked for both. Messages that are delayed, and those of transactions
that have not ended, are in topics of the broker's own and do not wait here before they are due.

Brokers remove whole files, with messages of all topics, read or not. A pull before the first that is left is answered
with the offset of that one. A subscription to some tags passes over the messages of others, too: among those that were
removed there may be some of these.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from bridge.endpoint import Removal
from bridge.endpoints.deletions import Deletions
from bridge.endpoints.outages import show_seconds
from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.errors import RemotingError
from exchange.text.numbers import is_digits

LOG: Final = logging.getLogger(__name__)

ASK_EVERY: Final = 5.0
"""Seconds between questions about queues that are not pulled."""


class Offsets(Protocol):
    """Asks brokers where queues begin and end: `bridge.rocketmq.consumer.pulling.BrokerQueues`."""

    async def min_offset(self, queue: TopicQueue) -> int: ...
    async def max_offset(self, queue: TopicQueue) -> int: ...


class Consumer(Protocol):
    """The part of a consumer that is looked at."""

    @property
    def unpulled(self) -> Sequence[AssignedQueue]: ...


class Backlog:
    """Counts what waits, and what was removed; it outlives the source's connections, as the latter only grows."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._deletions: dict[AssignedQueue, Deletions] = {}
        self._starts: dict[AssignedQueue, int] = {}
        """Offset at which a queue begins, as far as it is known."""
        self.vanished = 0
        """Number of messages that were removed before they were read."""

    def count(self, queues: Iterable[AssignedQueue]) -> int:
        """Return how many messages of these queues the pump has not read."""
        return sum([
            max(0, each.max_offset - max(each.next_offset, self._starts.get(each, 0))) + each.ready for each in queues
        ])  # fmt: skip

    def take_answer(self, assigned: AssignedQueue, asked: int, first: int, start: int) -> None:
        """Take the answer to a pull; see `bridge.rocketmq.consumer.fetching.Answered`."""
        deletions = self._deletions.get(assigned)
        if deletions is None:
            deletions = self._deletions[assigned] = Deletions()
            deletions.begun = assigned.begun
        self._starts[assigned] = start
        if first > asked:
            deletions.pass_over(asked, first)
        count = deletions.count(first, start, is_drained=False)
        if count:
            self.vanished += count
            LOG.error(
                "%s: %s: its broker has removed %s messages before they were read: it begins at offset %d; raise the "
                "broker's fileReservedTime, or give it more room", self._name, assigned.queue, f"{count:,}", start,
            )  # fmt: skip

    def forget(self, assigned: AssignedQueue) -> None:
        """Forget a queue that was taken away."""
        self._deletions.pop(assigned, None)
        self._starts.pop(assigned, None)

    def clear(self) -> None:
        """Forget all queues."""
        self._deletions.clear()
        self._starts.clear()

    async def keep_asking(self, consumer: Consumer, offsets: Offsets) -> None:
        """Ask for the beginnings and ends of queues that are not pulled, until cancelled."""
        while True:
            await asyncio.sleep(ASK_EVERY)
            for assigned in consumer.unpulled:
                try:
                    start = await offsets.min_offset(assigned.queue)
                    end = await offsets.max_offset(assigned.queue)
                except RemotingError:  # the pulse and the pulls report it
                    continue
                if assigned in consumer.unpulled:  # else an answer to a pull knows better
                    assigned.max_offset = end
                    self.take_answer(assigned, assigned.next_offset, max(assigned.next_offset, start), start)


RESERVED: Final = "fileReservedTime"
"""Setting of a broker: hours for which it keeps a file of messages after the last one was stored in it."""
HOURS: Final = 1_000_000
"""Greatest number of hours that is understood."""


async def look_up_removals(client: Client, servers: Mapping[str, str], hidden: list[str]) -> Sequence[Removal]:
    """Return what removes messages at brokers, address -> name; ``hidden`` gets those that do not show theirs."""
    removals = []
    for address, broker in servers.items():
        try:
            answer = await client.ask(address, RequestCode.GET_BROKER_CONFIG)
        except RemotingError:
            hidden.append(broker)
            continue
        lines = answer.body.decode("utf-8", "replace").splitlines()
        settings = {name.strip(): value.strip() for name, _, value in [line.partition("=") for line in lines]}
        hours = settings.get(RESERVED, "")
        if is_digits(hours) and int(hours[:8]) <= HOURS:
            seconds = int(hours[:8]) * 3_600.0
            what = f"broker {broker!r} removes messages, read or not, after {show_seconds(seconds)} ({RESERVED})"
            removals.append(Removal(what, seconds))
        else:
            hidden.append(broker)
    return removals
