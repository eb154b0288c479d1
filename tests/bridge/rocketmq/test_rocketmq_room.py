"""The bound on what a member keeps of all queues together."""

from __future__ import annotations

import asyncio
import struct
import zlib
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.fetching import QueuePulls
from bridge.rocketmq.consumer.pulling import Pulled, PullStatus
from bridge.rocketmq.consumer.room import ANSWER_BYTES, PulledQueue, Room
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.rocketmq.stored_record import PACKED, V1
from tests.bridge.rocketmq.test_rocketmq_stored import record as any_record
from tests.support.bridge.behaviour import on_a_loop


def record(magic: int, system_flag: int, body: bytes, topic: bytes, properties: bytes, offset: int) -> bytes:
    raw = bytearray(any_record(magic, system_flag, body, topic, properties))
    raw[20:28] = struct.pack(">q", offset)
    return bytes(raw)


def stored(offset: int, size: int) -> StoredMessage:
    return StoredMessage("t", bytes(size), {}, 0, "b", 0, offset, 0, 0, 0, b"", 0, b"", 0)


def reading(number: int) -> PulledQueue:
    return PulledQueue(AssignedQueue(TopicQueue("t", "b", number), 0))


@on_a_loop
async def test_a_queue_without_room_is_woken_when_there_is_room() -> None:
    one, two = reading(0), reading(1)
    room = Room({one.assigned.queue: one, two.assigned.queue: two}, 1_000)
    one.assigned.put([stored(0, 600), stored(1, 600)], 2, 2)
    assert room.left() == -200
    assert room.messages_for(two) == 0
    one.assigned.take(2, asyncio.get_running_loop().time())
    room.wake()
    assert not two.moved.is_set()
    one.assigned.done_before(1)
    room.wake()
    assert two.moved.is_set()
    assert room.messages_for(two) > 0


@on_a_loop
async def test_a_queue_may_pull_as_many_messages_as_fit_at_their_present_size() -> None:
    one = reading(0)
    room = Room({one.assigned.queue: one}, 1_000)
    one.assigned.put([stored(at, 100) for at in range(4)], 4, 4)
    assert room.messages_for(one) == 6
    assert Room({one.assigned.queue: one}, 401).messages_for(one) == 1


@on_a_loop
async def test_a_queue_that_is_given_up_makes_room_and_does_not_wait() -> None:
    one, two = reading(0), reading(1)
    readings = {one.assigned.queue: one, two.assigned.queue: two}
    room = Room(readings, 10)
    one.assigned.put([stored(0, 100)], 1, 1)
    assert room.messages_for(one) == room.messages_for(two) == 0
    one.assigned.drop()
    del readings[one.assigned.queue]
    room.remove(one)
    assert two.moved.is_set()
    assert not one.moved.is_set()


def fetching(left: float) -> QueuePulls:
    group: Any = SimpleNamespace(retry_topic="%RETRY%g", name="g")
    nobody: Any = None
    return QueuePulls(nobody, group, nobody, {}, news=lambda: None, reset=lambda *_: None, bytes_left=lambda: left)


def test_an_answer_is_unpacked_in_steps_and_not_at_all_without_room() -> None:
    body, size = zlib.compress(bytes(4_000_000)), 4_000_000

    def answer(first: int) -> Pulled:
        records = [record(V1, PACKED, body, b"t", b"", offset=at) for at in range(first, 32)]
        return Pulled(PullStatus.FOUND, 32, 0, 32, 0, 0, b"".join(records))

    assigned = AssignedQueue(TopicQueue("t", "b", 0), 0)
    for step in range(1, 4):
        fetching(1 << 30)._take_answer(assigned, answer(assigned.next_offset), Subscription("t"))
        assert assigned.size <= step * (ANSWER_BYTES + size)
        assert assigned.next_offset == len(assigned) == 3 * step
    fetching(0)._take_answer(assigned, answer(assigned.next_offset), Subscription("t"))
    assert assigned.next_offset == len(assigned) == 9


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 400)), max_size=40))
def test_no_queue_waits_while_there_is_room(steps: list[tuple[int, int]]) -> None:
    @on_a_loop
    async def check() -> None:
        every = [reading(number) for number in range(3)]
        room = Room({each.assigned.queue: each for each in every}, 500)
        offsets = [0, 0, 0]
        for at, size in steps:
            each = every[at]
            if room.messages_for(each):
                each.assigned.put([stored(offsets[at], size)], offsets[at] + 1, offsets[at] + 1)
                offsets[at] += 1
            else:
                each.moved.clear()
                fullest = max(every, key=lambda found: found.assigned.size).assigned
                fullest.take(99, 0.0)
                fullest.done_before(10_000)
                room.wake()
                assert each.moved.is_set() or room.left() <= 0
        assert room.left() > -400

    check()
