"""A partition on a channel of the test: what is handled and announced when, whatever comes in which order.

The channel is as a broker's: acknowledgements are certain only when a request sent after them is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from pamqp.commands import Basic

from bridge.consumers.groups.barrier import GATE, MARKER, Resize, read_news, write_news
from bridge.consumers.groups.connection import Lease
from bridge.consumers.groups.partition import ApplicationFailed, OwnedPartition, PartitionSettings
from exchange import Message
from exchange.partition.slots import find_moved_slots
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

SLOTS = 6
GIVES = Resize("1" * 32, 1, 2, SLOTS)
"""A change that takes slots away from partition 0."""
GETS = Resize("2" * 32, 3, 1, SLOTS)
"""A change that gives slots of partitions 1 and 2 to partition 0."""
SOURCE_OF = {slot: old for slot, (old, new) in find_moved_slots(SLOTS, 3, 1).items() if new == 0}


class Channel:
    """A channel, of which the broker has what was sent before the last request that it answered."""

    def __init__(self) -> None:
        self.is_closed = False
        self.closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.unanswered: dict[int, None] = {}
        self.sent: set[int] = set()
        self.known: set[int] = set()
        """Delivery tags of the answers that the broker certainly has."""
        self.deliver: Callable[[Any], Awaitable[None]] | None = None

    async def basic_qos(self, prefetch_count: int) -> None:
        sent = set(self.sent)
        await pass_time(0.01)
        self.known |= sent

    async def basic_consume(self, queue: str, callback: Callable[[Any], Awaitable[None]]) -> None:
        self.deliver = callback

    async def basic_ack(self, tag: int, multiple: bool, wait: bool) -> None:
        for each in [each for each in self.unanswered if (each <= tag if multiple else each == tag)]:
            del self.unanswered[each]
            self.sent.add(each)

    async def basic_nack(self, tag: int, requeue: bool, wait: bool) -> None:
        assert not requeue
        await self.basic_ack(tag, multiple=False, wait=wait)

    async def rpc(self, _: Any) -> None:
        self.is_closed = True
        if not self.closing.done():
            self.closing.set_result(None)


class World:
    """A member with one partition, whose handlers end when the test lets them."""

    def __init__(self, concurrency: int, dead_letters: bool) -> None:
        self.settings = PartitionSettings("orders", self.handle, dead_letters, 100, concurrency, 60.0)
        self.lease = Lease(1e9)
        self.carrying: Any = self
        self.call: Callable[[str, int], Awaitable[None]] = self.note_call
        self.channels: list[Channel] = []
        self.calls: list[str] = []
        self.running: dict[int, asyncio.Future[None]] = {}
        """Delivery tag -> what the handler of the message waits for."""
        self.handled: list[int] = []
        """Delivery tags, in the order in which their handlers began."""
        self.slots: dict[int, int] = {}
        """Delivery tag -> slot."""
        self.markers: dict[int, set[int]] = {}
        """Delivery tag of a marker -> tags before it."""
        self.news: list[tuple[int | None, int | None]] = []
        self.gone: set[int] = set()
        """Old partitions that are passed."""
        self.failed = False
        """Whether a handler has failed while the partition was handed over."""
        self.together: list[tuple[int, int]] = []
        """Messages of one slot that were handled at the same time."""
        self.partition = OwnedPartition(0, self)

    async def channel(self, publisher_confirms: bool) -> Channel:
        self.channels.append(Channel())
        return self.channels[-1]

    async def note_call(self, what: str, number: int) -> None:
        if what == "revoked":
            channel = self.channels[0]
            assert {*self.handled} <= channel.known  # else the next owner may get a message again
        self.calls.append(what)

    async def publish(self, exchange: str, body: bytes) -> bool:
        passed, opened = read_news(body)
        if passed is not None:
            before = next(iter(self.markers.values()))
            assert before - {tag for tag in before if tag in self.markers} <= self.channels[0].known
            del self.markers[next(iter(self.markers))]
        if opened is not None:
            assert self.gone >= {1, 2}
        self.news.append((passed, opened))
        return True

    async def handle(self, message: Message) -> None:
        tag = int(message.body)
        self.together += [(each, tag) for each in self.running if self.slots[each] == self.slots[tag]]
        waits = self.running[tag] = asyncio.get_running_loop().create_future()
        self.handled.append(tag)
        try:
            await waits
        finally:
            del self.running[tag]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("message"), st.integers(0, SLOTS - 1)),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("passed"), st.integers(1, 2)),
        st.tuples(st.sampled_from(["gate", "marker", "wait"]), st.none()),
    ),
    max_size=40,
)


def run_steps(
    steps: list[tuple[str, Any]], concurrency: int, fails_at_end: bool, dead_letters: bool
) -> tuple[World, BaseException | None]:
    """Let these things happen, then hand the partition over while handlers run; and check the order on the way."""

    async def play() -> tuple[World, BaseException | None]:
        world = World(concurrency, dead_letters)
        running = asyncio.create_task(world.partition.run())
        await pass_time(1)
        channel, tag, gated = world.channels[0], 0, False
        begins_behind: set[int] = set()

        async def deliver(kind: str | None, key: str, body: bytes) -> None:
            nonlocal tag
            tag += 1
            channel.unanswered[tag] = None
            header = SimpleNamespace(properties=Basic.Properties(message_type=kind))
            assert channel.deliver is not None
            await channel.deliver(
                SimpleNamespace(
                    delivery_tag=tag, header=header, exchange="" if kind else "orders", routing_key=key,
                    body=body or b"%d" % tag,
                )
            )  # fmt: skip

        for step, number in steps:
            if step == "message":
                world.slots[tag + 1] = number
                if gated and SOURCE_OF.get(number) not in {*world.gone, None}:
                    begins_behind.add(tag + 1)
                await deliver(None, f"{number}.k", b"")
            elif step == "gate":
                if not world.gone >= {1, 2}:
                    gated = True
                    await deliver(GATE, "", GETS.to_bytes())
            elif step == "marker":
                world.markers[tag + 1] = {*range(1, tag + 1)}
                await deliver(MARKER, "", GIVES.to_bytes())
            elif step == "passed" and gated:
                world.gone.add(number)
                for inbox in world.channels[1:]:
                    assert inbox.deliver is not None
                    await inbox.deliver(SimpleNamespace(body=write_news(passed=number)))
            elif step == "end" and world.running:
                [*world.running.values()][number % len(world.running)].set_result(None)
            await pass_time(0.05 if step in ("wait", "gate") else 0)
            begins_behind = {each for each in begins_behind if SOURCE_OF[world.slots[each]] not in world.gone}
            assert not begins_behind & {*world.handled}
        await pass_time(1)
        world.partition.release()
        await pass_time(1)
        for number, waits in enumerate([*world.running.values()]):
            if fails_at_end and not number:
                world.failed = True
                waits.set_exception(ValueError("a mistake"))
            else:
                waits.set_result(None)
            await pass_time(0.1)
        await asyncio.wait([running], timeout=600)
        assert not world.together
        for slot in range(SLOTS):
            line = [each for each in world.handled if world.slots[each] == slot]
            assert line == [each for each in world.slots if world.slots[each] == slot][: len(line)]
        return world, running.exception()

    return run_virtually(play())


GATED: list[tuple[str, Any]] = [("gate", None), ("message", min(SOURCE_OF)), ("gate", None)]
PASSED: list[tuple[str, Any]] = [("passed", 1), ("passed", 2), ("wait", None)]


@examples(400)
@given(STEPS, st.sampled_from([1, 3]))
@example([*GATED, *PASSED], 1)
@example([("message", 0), ("marker", None), ("wait", None), ("end", 0), ("wait", None)], 1)
def test_messages_keep_their_order_and_what_is_announced_is_true(
    steps: list[tuple[str, Any]], concurrency: int
) -> None:
    """A marker is passed when the broker has the answers to all before it; a gate opens as its sources are passed."""
    world, error = run_steps(steps, concurrency, fails_at_end=False, dead_letters=True)
    assert error is None
    assert world.calls in ([], ["assigned", "revoked"])
    channel = world.channels[0]
    if world.gone >= {1, 2}:
        assert (None, 0) in world.news
    assert {*world.handled} == {tag for tag in world.slots if tag not in channel.unanswered}


@examples(100)
@given(STEPS, st.sampled_from([1, 3]), st.booleans())
def test_a_handler_that_fails_while_its_partition_is_handed_over_fails_the_member(
    steps: list[tuple[str, Any]], concurrency: int, dead_letters: bool
) -> None:
    """Unless its message is to be a dead letter: then all is as if it had not failed."""
    steps = [*steps, ("message", 0)]
    world, error = run_steps(steps, concurrency, fails_at_end=True, dead_letters=dead_letters)
    if world.failed and not dead_letters:
        assert isinstance(error, ApplicationFailed)
        assert world.calls == ["assigned", "lost"]
    else:
        assert error is None
        assert world.calls == ["assigned", "revoked"]
