"""What the lanes of an assignment owe, whatever comes and goes, and what a group has when a lane begins anew."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Message as Found
from confluent_kafka import TopicPartition
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery
from bridge.endpoints.kafka.consumer.assignment import METADATA, PartitionAssignment, PartitionLane, is_current
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

TOPIC: Final = "orders"
WINDOW: Final = 12
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["assign", "take away", "replace", "read", "read", "take", "settle", "settle", "answer", "wait"]
        ),
        st.integers(0, 1),
        st.integers(0, 9),
    ),
    max_size=40,
)
Steps = list[tuple[str, int, int]]
COMMITTED: Final[Steps] = [("assign", 0, 0), ("read", 0, 6), ("settle", 0, 5), ("wait", 0, 1)]


class Consumer:
    """A member of a group that keeps what is committed until the test answers."""

    def __init__(self, generation: int = 0, *, has_member_id: bool = True) -> None:
        self.commits: deque[Sequence[TopicPartition]] = deque()
        self._generation = generation
        self._has_member_id = has_member_id

    def commit(self, offsets: Sequence[TopicPartition], asynchronous: bool) -> None:
        self.commits.append(offsets)

    def consumer_group_metadata(self) -> bytes:
        return METADATA + self._generation.to_bytes(4, sys.byteorder, signed=True) + b"member"

    def memberid(self) -> str:
        return "member" if self._has_member_id else ""


class Scene:
    """An assignment, and what an obvious account of it has."""

    def __init__(self, *, transactional: bool) -> None:
        self.assignment = PartitionAssignment("kafka", WINDOW, transactional=transactional)
        consumer: Any = Consumer()
        self.consumer = self.assignment.consumer = consumer
        self.given: list[Delivery] = []
        """Deliveries that the pump has, also of lanes that are gone."""
        self.begun: dict[PartitionLane, int] = {}
        """Lane -> the first offset that is not settled, as far as the group must know it."""
        self.anew: set[PartitionLane] = set()
        """Lanes whose first offset the group must know: what it has is of the lane before."""
        self.group: dict[int, TopicPartition] = {}

    def step(self, action: str, partition: int, number: int) -> None:
        assignment, there = self.assignment, [TopicPartition(TOPIC, partition)]
        lane = assignment.lanes.get((TOPIC, partition))
        if action == "answer":
            self.answer()
        elif action == "take":
            self.given += assignment.unread
            assignment.unread.clear()
        elif action == "settle" and self.given:
            self.settle(self.given[number % len(self.given)])
        elif action == "assign" and lane is None:
            assignment.add(there)
            assignment.lanes[TOPIC, partition].next = self.group[partition].offset if partition in self.group else 0
        elif action == "take away" and lane is not None:
            assignment.commit_last([lane])
            self.answer_all()  # librdkafka waits for it before the partition goes
            assignment.remove(there)
        elif action == "replace" and lane is not None:
            new = assignment.replace(lane, "")
            new.mark = lane.mark + "'" * (number % 2)
            self.anew.add(new)
        elif action == "read" and lane is not None:
            self.read(lane, min(number, assignment.room))

    def read(self, lane: PartitionLane, count: int) -> None:
        """Read messages as a member does: those behind others that wait for the pump wait, too."""
        for offset in range(lane.next, lane.next + count):
            found = Found(topic=TOPIC, partition=lane.partition, offset=offset, value=b"", timestamp=(0, -1))
            if lane.begins_anew and lane.settled < 0:
                self.assignment.begin_at(lane, offset)
            if lane in self.anew:
                self.begun.setdefault(lane, offset)
            lane.next = offset + 1
            lane.offsets.append(offset)
            self.assignment.uncommitted += 1
            waits = count % 2 or self.assignment.unread
            (self.assignment.unread if waits else self.given).append(lane.reader.make_delivery(found, lane))

    def settle(self, delivery: Delivery) -> None:
        lane: Any = delivery.lane
        self.given = [each for each in self.given if each.lane is not lane or each.position > delivery.position]
        if lane in self.assignment.lanes.values():
            self.begun[lane] = delivery.position + 1
        self.assignment.settle(delivery)

    def answer(self) -> None:
        if self.consumer.commits:
            offsets = self.consumer.commits.popleft()
            self.group.update({each.partition: each for each in offsets})
            self.assignment.on_commit(None, offsets)

    def answer_all(self) -> None:
        while self.consumer.commits:
            self.answer()

    def check(self) -> None:
        """Compare what the assignment counts with its lanes."""
        assignment = self.assignment
        waiting = {(each.lane, each.position) for each in assignment.unread}
        held = {(lane, offset) for lane in assignment.lanes.values() for offset in lane.offsets}
        assert waiting <= held
        assert assignment.uncommitted == len(held)
        assert assignment.room == WINDOW - len(held - waiting)


@examples(300)
@given(STEPS, st.booleans())
@example([*COMMITTED, ("replace", 0, 0), ("read", 0, 2), ("wait", 0, 9), ("answer", 0, 0), ("answer", 0, 0)], False)
@example([*COMMITTED, ("replace", 0, 1), ("read", 0, 6), ("settle", 0, 5), ("answer", 0, 0)], False)
@example([*COMMITTED, ("answer", 0, 0), ("replace", 0, 0), ("read", 0, 2)], False)
@example([("assign", 0, 0), ("read", 0, 4), ("take away", 0, 0), ("assign", 0, 0), ("settle", 0, 3)], True)
@example([("assign", 0, 0), ("read", 0, 5), ("take away", 0, 0)], False)
def test_a_window_is_what_lanes_hold_and_a_group_has_offsets_of_the_last_lane_of_a_partition(
    steps: Steps, transactional: bool
) -> None:
    """Whichever lanes come and go, and whenever commits of others are answered; after a rewind, nothing is ours."""

    async def play() -> None:
        scene = Scene(transactional=transactional)
        committing = asyncio.create_task(scene.assignment.keep_committing())
        for action, partition, number in steps:
            if action == "wait":
                await pass_time(number / 10)
            scene.step(action, partition, number)
            scene.check()
        for _ in range(4):
            await pass_time(2)
            scene.answer_all()
        if not transactional:
            scene.check()
            for lane in scene.assignment.lanes.values():
                if lane in scene.begun:
                    assert scene.group[lane.partition].offset == scene.begun[lane]
                    assert (scene.group[lane.partition].metadata or "") == lane.mark
        ours = [*scene.given, *scene.assignment.unread]
        scene.assignment.rewind("a transaction failed")
        assert not any(map(is_current, ours))
        committing.cancel()

    run_virtually(play())


@examples(300)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 99), st.booleans()), max_size=8),
)
def test_an_offset_is_committed_with_the_epoch_of_the_record_before_it(
    steps: list[tuple[int, int]], commits: list[tuple[int, bool]]
) -> None:
    """Also where a transaction with a later offset was aborted. Offsets have gaps, epochs only grow."""
    lane = PartitionLane(PartitionAssignment("kafka", WINDOW, transactional=True), TOPIC, 0)
    offset, epochs = -1, dict[int, int]()
    for gap, more in steps:
        offset += gap
        epochs[offset] = (lane.epoch or 0) + more
        if epochs[offset] != lane.epoch:
            lane.begin_epoch(offset, epochs[offset])
    assert lane.commit_at(offset + 1).leader_epoch is None  # of a topic without an id
    lane.mark = "mark"
    for number, is_done in commits:
        at = [each for each in epochs if each >= lane.committed][number % len(epochs) :][:1]
        for each in at:
            assert lane.commit_at(each + 1).leader_epoch == epochs[each]
            lane.committed = each + 1 if is_done else lane.committed


@examples(50)
@given(st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-1, 0]), st.booleans())
def test_a_transaction_commits_offsets_only_as_a_member_of_a_generation(generation: int, has_member_id: bool) -> None:
    assignment = PartitionAssignment("kafka", WINDOW, transactional=True)
    consumer: Any = Consumer(generation, has_member_id=has_member_id)
    assignment.consumer = consumer
    is_member = generation >= 0 and has_member_id
    assert assignment.group_metadata() == (consumer.consumer_group_metadata() if is_member else None)
    assignment.close()
    assert assignment.group_metadata() is None
