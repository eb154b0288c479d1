"""The partitions that are assigned to one consumer, as lanes: how far each is read, settled and committed.

A partition is a lane for as long as it is assigned. Settled offsets are committed within `COMMIT_EVERY` seconds, when
the partition is taken away, and when the consumer ends. librdkafka's own commits are off: it would commit offsets of a
deleted topic to a new topic of the same name.

A partition whose offsets go back, or whose topic has another id than before, becomes a new lane: deliveries of the old
lane settle nothing any more, and none of its offsets is committed from then on.

An offset is committed with the epoch of the leader that wrote the record before it: an election of a leader that had
not all records leaves others at the same offsets, which nothing else shows (KIP-320); see `remade_topics`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridge.endpoint import Delivery, Disconnected
from bridge.endpoints.deletions import Deletions
from bridge.endpoints.kafka.cluster.errors import MOVING, PASSING, describe_error
from bridge.endpoints.kafka.consumer.reader import LaneReader

COMMIT_EVERY: Final = 0.1
"""Seconds between commits; sooner when a quarter of the window is settled."""

ANSWER: Final = 1.0
"""Seconds to wait for the answer to a commit before the same offsets are committed again."""

AGAIN: Final = frozenset({
    KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REQUEST_TIMED_OUT, KafkaError._STATE, KafkaError._NO_OFFSET, KafkaError._ASSIGNMENT_LOST,
    KafkaError.STALE_MEMBER_EPOCH, *MOVING, *PASSING,
})  # fmt: skip
"""Errors of commits that may succeed later, or of partitions that are no longer ours."""

METADATA: Final = b"CGMDv2:"
"""Beginning of librdkafka's group metadata; the generation follows, four bytes in the machine's order
(`rd_kafka_consumer_group_metadata_write`)."""


class PartitionLane:
    """A partition, from its assignment until it is taken away, or until its offsets mean something else."""

    __slots__ = (
        "assignment", "at_end", "begins_anew", "checked", "committed", "deletions", "end", "epoch", "epochs", "kept",
        "mark", "next", "offsets", "partition", "reader", "settled", "topic", "topic_id",
    )  # fmt: skip

    def __init__(self, assignment: PartitionAssignment, topic: str, partition: int, topic_id: str = "") -> None:
        self.assignment = assignment
        self.topic = topic
        self.partition = partition
        self.reader = LaneReader(assignment.name, topic, partition)
        self.offsets: deque[int] = deque()
        """Offsets of the deliveries that are not committed."""
        self.next = 0
        """Least offset that the next message may have; a lesser one shows that the offsets went back."""
        self.settled = self.committed = -1
        """First offset that is not settled, and first that is not committed, as far as this lane knows; -1: nothing is
        settled, or committed, here."""
        self.at_end = False
        """Whether the partition was read to its end; known only if the consumer reports ends."""
        self.topic_id = topic_id
        """Id of the topic that was read before; "" where it is unknown."""
        self.mark = ""
        """Metadata to commit beside offsets; see `topic_ids`."""
        self.epoch: int | None = None
        """Epoch of the leader that wrote the latest record; None: unknown."""
        self.epochs: deque[tuple[int, int | None]] = deque()
        """First offsets of epochs, from that of the first record that is not known to be committed on."""
        self.checked = False
        """Whether it is known that the topic is still the one whose offset this lane began at."""
        self.kept: list[Delivery] = []
        """Deliveries read before that was known."""
        self.begins_anew = False
        """Whether the group's offset belongs to another lane: the first offset here is committed once it is known."""
        self.deletions: Final = Deletions()
        self.end = -1
        """The end of the partition, as its broker was asked for it; -1 if it was not."""

    @property
    def current(self) -> bool:
        """Whether the partition is still ours."""
        return self.assignment.lanes.get((self.topic, self.partition)) is self

    def begin_epoch(self, offset: int, epoch: int | None) -> None:
        """Note that the records from this offset on were written by the leader of this epoch."""
        self.epoch = epoch
        self.epochs.append((offset, epoch))

    def commit_at(self, offset: int) -> TopicPartition:
        """Return the commit of all messages before this offset.

        Epochs belong to the very topic: those of one that was made anew count from 0 again.
        """
        if not self.mark:
            return TopicPartition(self.topic, self.partition, offset)
        epochs = self.epochs
        while len(epochs) > 1 and epochs[1][0] < self.committed:
            epochs.popleft()
        epoch = next((epoch for first, epoch in reversed(epochs) if first < offset), epochs[0][1] if epochs else None)
        return TopicPartition(self.topic, self.partition, offset, self.mark, -1 if epoch is None else epoch)

    def equals(self, committed: TopicPartition) -> bool:
        """Return whether a commit is the one that this lane makes of its offset; else another lane has made it."""
        own = self.commit_at(committed.offset)
        return (own.metadata, own.leader_epoch) == (committed.metadata, committed.leader_epoch)


class PartitionAssignment:
    """The lanes of one consumer, from its making until it leaves its group."""

    consumer: Consumer
    """Set by the member: the consumer needs `on_commit` when it is made."""

    def __init__(self, name: str, window: int, *, transactional: bool) -> None:
        self.name = name
        self.transactional = transactional
        """Whether commits are left to the transactions of a target."""
        self.lanes: dict[tuple[str, int], PartitionLane] = {}
        """Topic and partition -> lane."""
        self.unread: deque[Delivery] = deque()
        """Deliveries that were read, and wait for the pump to take them."""
        self.uncommitted = 0
        """Number of deliveries of all lanes that are not committed."""
        self.closed = False
        self.paused = False
        """Whether nothing is fetched."""
        self.trouble: Disconnected | None = None
        """Why the connection must end, once there is a reason."""
        self._window = window
        self._fresh = 0
        """Number of deliveries settled since the last commit; more where offsets are missing."""
        self._settled = asyncio.Event()
        self._commit_now = asyncio.Event()
        self._answered = asyncio.Event()

    @property
    def room(self) -> int:
        """Number of deliveries that may be given to the pump now."""
        # Unread deliveries are among the uncommitted, though the pump does not have them.
        return self._window - self.uncommitted + len(self.unread)

    def fail(self, reason: str) -> None:
        """End the connection with this reason, unless it has one."""
        self.trouble = self.trouble or Disconnected(reason)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Make lanes of partitions."""
        for each in partitions:
            self.lanes[each.topic, each.partition] = PartitionLane(self, each.topic, each.partition)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the lanes of partitions that were taken away."""
        for each in partitions:
            lane = self.lanes.pop((each.topic, each.partition), None)
            if lane is not None:
                self.uncommitted -= len(lane.offsets)
        self._forget_stale()

    def replace(self, lane: PartitionLane, topic_id: str) -> PartitionLane:
        """Replace a lane whose offsets mean something else now, and return the new one.

        Lanes are settled as a prefix: in the old lane, settling what is read from now on would also settle what is
        still under way.
        """
        self.uncommitted -= len(lane.offsets)
        new = self.lanes[lane.topic, lane.partition] = PartitionLane(self, lane.topic, lane.partition, topic_id)
        new.begins_anew = True
        self._forget_stale()
        return new

    def _forget_stale(self) -> None:
        current = [delivery for delivery in self.unread if is_current(delivery)]
        self.unread.clear()
        self.unread += current

    def close(self) -> None:
        """Commit what is settled, and ignore everything from now on."""
        self.commit_last(self.lanes.values())
        self.closed = True
        self.lanes.clear()
        self.unread.clear()

    # Settling and committing.

    def settle(self, delivery: Delivery) -> None:
        """Settle this delivery and all before it in its lane."""
        lane: PartitionLane = delivery.lane  # type: ignore[assignment]  # which is of this assignment
        if self.closed or not lane.current:
            return
        offset = delivery.position + 1
        self._fresh += offset - max(lane.settled, lane.offsets[0] if lane.offsets else 0)
        lane.settled = offset
        if self.transactional:
            self.note_committed(lane, offset)
            return
        self._settled.set()
        if self._fresh * 4 >= self._window:
            self._commit_now.set()

    def begin_at(self, lane: PartitionLane, offset: int) -> None:
        """Commit the first offset of a lane that begins anew: the group's offset is of another topic."""
        lane.settled = offset
        self._settled.set()

    def note_committed(self, lane: PartitionLane, offset: int) -> None:
        """Count the deliveries of a lane before this offset as committed."""
        offsets, before = lane.offsets, len(lane.offsets)
        while offsets and offsets[0] < offset:
            offsets.popleft()
        self.uncommitted -= before - len(offsets)

    def commit_soon(self) -> None:
        """Commit at once, not at the next interval: the window is full."""
        self._commit_now.set()

    async def keep_committing(self) -> None:
        """Commit what is settled, and repeat each commit until it is confirmed; runs until cancelled.

        The answer to a commit may be a refusal, be late, or never come.
        """
        while True:
            await self._settled.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(COMMIT_EVERY):
                    await self._commit_now.wait()
            self._settled.clear()
            self._commit_now.clear()
            self._fresh = 0
            offsets = _commits_of(self.lanes.values())
            if not offsets:
                continue
            self._answered.clear()
            try:
                # Asynchronously, to avoid a deadlock: a commit that waits, on another thread, would block the other
                # calls of this client; it would wait for a rebalance, and the rebalance for us.
                self.consumer.commit(offsets=offsets, asynchronous=True)
            except KafkaException as error:
                self.on_commit(error.args[0], [])
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER):
                    await self._answered.wait()
            if any(lane.settled > lane.committed for lane in self.lanes.values()):
                self._settled.set()

    def commit_last(self, lanes: Iterable[PartitionLane]) -> None:
        """Commit what is settled in lanes that are given back; librdkafka waits for the answer before it does so."""
        if self.transactional or self.closed:
            return
        offsets = _commits_of(lanes)
        if offsets:
            with suppress(KafkaException):  # the next reader begins at what was committed before
                self.consumer.commit(offsets=offsets, asynchronous=True)

    def on_commit(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """Take the answer to a commit of ours, or of librdkafka's own."""
        if self.closed:
            return
        self._answered.set()
        for problem in (error, *[each.error for each in offsets]):
            if problem is not None and problem.code() not in AGAIN and not problem.retriable():
                self.fail(f"cannot commit: {describe_error(problem)}")
        if error is not None:
            return
        for each in offsets:
            lane = self.lanes.get((each.topic, each.partition))
            if lane is None or each.error is not None:
                continue
            if not lane.equals(each) or (lane.begins_anew and each.offset > lane.settled):  # of a lane before this one
                lane.committed = -1
            elif each.offset > lane.committed:
                lane.committed = each.offset
                self.note_committed(lane, each.offset)

    # Transactions.

    def rewind(self, reason: str) -> None:
        """End the connection: all that is not committed is read again, and what is under way of it settles nothing."""
        self.fail(reason)
        self.lanes.clear()

    def group_metadata(self) -> bytes | None:
        """Return the member's id and generation, with which a transaction commits offsets; None: it is no member now.

        A consumer that was put out of its group has metadata without a generation. Brokers take offsets with these
        unchecked, as from consumers that never were in a group; and the consumer may not know yet that its lanes were
        taken away.
        """
        if self.closed:
            return None
        metadata: bytes = self.consumer.consumer_group_metadata()  # opaque, and bytes
        if metadata.startswith(METADATA):
            start = len(METADATA)
            generation = int.from_bytes(metadata[start : start + 4], sys.byteorder, signed=True)
            return metadata if generation >= 0 and self.consumer.memberid() else None
        return metadata if self.consumer.memberid() else None


def is_current(delivery: Delivery) -> bool:
    """Return whether the partition of a delivery is still ours."""
    lane: Any = delivery.lane
    return bool(lane.current)


def _commits_of(lanes: Iterable[PartitionLane]) -> list[TopicPartition]:
    return [lane.commit_at(lane.settled) for lane in lanes if lane.settled > lane.committed]
