"""What a RabbitMQ source has not read, and what was removed unread: a queue or stream, and a reader, as a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoints.deletions import MAX_GAPS
from bridge.endpoints.rabbitmq.consumer import backlog as module
from bridge.endpoints.rabbitmq.consumer.backlog import Backlog, Reading, Removed
from bridge.endpoints.rabbitmq.frames import Arrived
from exchange.amqp import ContentHeader
from exchange.amqp.streams import STREAM_OFFSET
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually


class Queue:
    """A queue, and a consumer with a prefetch. What it is given may be under way for a moment."""

    is_paused = False
    silence = None

    def __init__(self, prefetch: int, consumers: int) -> None:
        self.prefetch, self.consumers = prefetch, consumers
        self.ready = self.under_way = self.arrived = self.acked = self.removed = 0

    def settle(self) -> None:
        """Give the consumer what its prefetch allows."""
        room = self.prefetch - (self.arrived + self.under_way - self.acked)
        given_now = min(self.ready, max(0, room))
        self.ready -= given_now
        self.under_way += given_now

    async def look(self, kind: str, name: str) -> Any:
        answer = SimpleNamespace(message_count=self.ready, consumer_count=self.consumers)
        await pass_time(0.01)
        return SimpleNamespace(method=answer)

    @property
    def reading(self) -> Reading:
        return Reading(self.arrived, 0, self.acked)


STEPS = st.lists(
    st.tuples(st.sampled_from(["publish", "expire", "arrive", "ack", "count", "count", "count"]), st.integers(1, 20)),
    max_size=40,
)


@examples(300)
@given(STEPS, st.integers(1, 30), st.integers(1, 2))
def test_of_a_queue_no_more_are_counted_as_removed_than_were(
    steps: list[tuple[str, int]], prefetch: int, consumers: int
) -> None:
    async def play() -> None:
        queue, removed = Queue(prefetch, consumers), Removed("from", "q")
        connection: Any = queue
        backlog = Backlog(connection, "q", lambda: queue.reading, None, removed)
        for step, number in steps:
            if step == "publish":
                queue.ready += number
            elif step == "expire":
                gone = min(queue.ready, number)
                queue.ready -= gone
                queue.removed += gone if consumers == 1 else 0
            elif step == "arrive":
                queue.arrived += queue.under_way
                queue.under_way = 0
            elif step == "ack":
                queue.acked = min(queue.arrived, queue.acked + number)
            else:
                await backlog._count()
                assert backlog.lag == queue.ready
                await pass_time(1.0)
                queue.arrived, queue.under_way = queue.arrived + queue.under_way, 0  # nothing is under way for so long
                continue
            queue.settle()
            assert removed.count <= queue.removed
        assert removed.count <= queue.removed

    run_virtually(play())


def test_what_expires_while_nothing_is_read_is_counted_and_what_arrived_waits_no_more(caplog: Any) -> None:
    async def play() -> None:
        queue, removed = Queue(10, 1), Removed("from", "q")
        queue.arrived, queue.ready = 10, 5_000
        connection: Any = queue
        backlog = Backlog(connection, "q", lambda: queue.reading, None, removed)
        counting = asyncio.create_task(backlog.keep_counting())
        for ready, vanished in ((5_000, 0), (5_000, 0), (4_000, 1_000), (4_500, 1_000), (0, 5_500)):
            queue.ready = ready
            await pass_time(module.COUNT_EVERY)
            assert (backlog.lag, removed.count) == (ready, vanished)
        queue.ready = 4_000
        await pass_time(module.COUNT_EVERY)
        for queue.arrived, lag in ((2_010, 2_000), (4_010, 0), (4_020, 0)):  # between two counts
            queue.acked = queue.arrived
            assert backlog.lag == lag
        counting.cancel()

    run_virtually(play())
    assert (
        "from: queue 'q': RabbitMQ has removed 1,000 messages before they were read; see its message-ttl" in caplog.text
    )


def arrived(offsets: Sequence[int]) -> list[Arrived]:
    name = bytes([len(STREAM_OFFSET)]) + STREAM_OFFSET.encode()
    headers = [ContentHeader.from_parts({}, name + b"l" + offset.to_bytes(8)) for offset in offsets]
    return [Arrived(n, False, b"", b"", header.raw, b"") for n, header in enumerate(headers)]


@examples(300)
@given(
    st.sets(st.integers(1, 60), min_size=1, max_size=MAX_GAPS),
    st.lists(st.integers(1, 7), max_size=20),
    st.integers(0, 60),
)
def test_of_a_stream_offsets_that_were_passed_over_and_are_gone_are_counted(
    there: set[int], sizes: list[int], first: int
) -> None:
    """Other gaps are of the broker's own entries. The oracle looks at each offset before the first one that is left."""
    removed, whole = Removed("from", "q"), sorted(there)
    expected, rest = None, whole
    while rest:
        size = sizes.pop(0) if sizes else 3
        expected = removed.pass_over(arrived(rest[:size]), expected)
        rest = rest[size:]
    assert expected == whole[-1] + 1
    counted = removed.deletions.count(expected, first, is_drained=False)
    gaps = [range(one + 1, other) for one, other in pairwise(whole)]
    assert counted == len([each for gap in gaps for each in gap if each < first])


READS = st.lists(st.tuples(st.floats(0, 400), st.none() | st.integers(0, 100)), max_size=60)
"""Seconds since the read before, and the expiration of the message."""


@given(READS)
def test_the_shortest_expiration_is_that_of_ten_minutes_before_the_last_read(
    reads: list[tuple[float, int | None]],
) -> None:
    """Give or take the minute in which it began; that nothing is read afterwards forgets none."""
    removed, now, seen = Removed("from", "q"), 0.0, list[tuple[float, float]]()
    for seconds, expiration in reads:
        now += seconds
        removed.note_read(now)
        if expiration is not None:
            removed.see_expiration(ContentHeader.encode({}, {"expiration": str(1_000 * expiration)}))
            seen.append((now, float(expiration)))
    shortest = next((each.seconds for each in removed.expirations), None)
    surely = [each for at, each in seen if at > now - 540]
    maybe: list[float | None] = [each for at, each in seen if at > now - 600]
    assert shortest in (maybe or [None])
    assert all(shortest is not None and shortest <= each for each in surely)
    assert len(removed._shortest) <= 10
