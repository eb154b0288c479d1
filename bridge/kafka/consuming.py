"""Topics as a source: a consumer group, and what of it is committed.

A partition is a lane for as long as it is assigned. What is settled is committed soon, and no more is given to the
pump than the window allows beyond what was *committed*: so whenever the process is killed, at most a window of messages
comes again. librdkafka has what is settled stored, too, and commits that when the partition is taken away and at the
end.

librdkafka reconnects by itself, so a source is disconnected only by what does not pass: a right that is missing, a
topic that is gone, an exile from the group. A pump that does not read for long, paused or waiting for its targets,
must not be exiled for it: then the partitions are paused and the group is served all the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridge.endpoint import Delivery, Disconnected, EndOfStream, Source
from bridge.kafka.calls import Calls
from bridge.kafka.errors import PASSING, Reasons, told, trouble_of
from bridge.kafka.records import Reader
from bridge.kafka.topics import SECONDS, checked

__all__ = ["KafkaSource", "Lane"]

IDLE_FIRST: Final = 0.001
IDLE_MOST: Final = 0.02
"""Seconds between looks for news while there are none."""

COMMIT_EVERY: Final = 0.1
"""Seconds between commits; sooner when a quarter of the window is settled."""

ANSWER: Final = 1.0
"""Seconds that a commit is waited for before the next; it is heard of while we read, and that may not be."""

UNREAD: Final = 5.0
"""After so many seconds without a read the group is served."""

CLOSING: Final = 10.0
"""Seconds that leaving the group may take."""

AGAIN: Final = frozenset({
    KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT, KafkaError._STATE, KafkaError._NO_OFFSET, KafkaError._ASSIGNMENT_LOST,
    KafkaError.STALE_MEMBER_EPOCH, *PASSING,
})  # fmt: skip
"""Why a commit may fail that goes well another time, or that is no longer ours to make."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "auto.offset.reset": "earliest",
    "partition.assignment.strategy": "cooperative-sticky",
    # A member that died is missed sooner than by the default of 45 s: its partitions stand still until then.
    "session.timeout.ms": 10_000,
    "topic.metadata.refresh.interval.ms": 30_000,
    "log_level": 2,
}


class Lane:
    """A partition, from its assignment until it is taken away."""

    __slots__ = ("at_end", "committed", "offsets", "partition", "reader", "settled", "source", "topic")

    def __init__(self, source: KafkaSource, topic: str, partition: int) -> None:
        self.source = source
        self.topic = topic
        self.partition = partition
        self.reader = Reader(source.name, topic, partition)
        self.offsets: deque[int] = deque()
        """Of the deliveries that are not committed."""
        self.settled = self.committed = -1
        """The offsets from which on it is not, as far as was settled here and committed by us."""
        self.at_end = False

    @property
    def current(self) -> bool:
        """Whether the partition is still ours."""
        return self.source.lanes.get((self.topic, self.partition)) is self

    def up_to(self, offset: int) -> TopicPartition:
        """All before this offset, as committed."""
        return TopicPartition(self.topic, self.partition, offset)


class KafkaSource(Source):
    """Topics, read with a consumer group; those that begin with ``^`` are regular expressions.

    ``until_end`` ends when all partitions were read to where they end. ``window`` bounds the messages that were read
    and are not committed. A ``transactional`` source leaves commits to the transactions of its target.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        topics: Sequence[str],
        *,
        until_end: bool = False,
        window: int = 1_000,
        transactional: bool = False,
    ) -> None:
        self.name = name
        self.transactional = transactional
        self._settings = {
            **DEFAULTS,
            **settings,
            "enable.auto.offset.store": False,
            "enable.auto.commit": not transactional,
            "enable.partition.eof": until_end,
        }
        self._topics = list(topics)
        self._until_end = until_end
        self._window = window
        self.lanes: dict[tuple[str, int], Lane] = {}
        """Topic and partition -> what is assigned."""
        self._consumer: Consumer | None = None
        self._calls: Calls | None = None
        self._reasons = Reasons()
        self._trouble: Disconnected | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._uncommitted = 0
        self._fresh = 0
        """How many were settled since the last commit, or more where offsets are missing."""
        self._settled = asyncio.Event()
        self._many_settled = asyncio.Event()
        self._answered = asyncio.Event()
        self._unread: deque[Delivery] = deque()
        self._paused = False
        self._looked = 0.0

    @property
    def bootstrap(self) -> str:
        """The brokers it was told of."""
        return str(self._settings["bootstrap.servers"])

    @property
    def group(self) -> str:
        """The group it is of."""
        return str(self._settings["group.id"])

    async def open(self) -> None:
        self._forget()
        self._calls = Calls()
        self._reasons = reasons = Reasons()
        try:
            own = {"error_cb": reasons.heard, "on_commit": self._heard}
            consumer = self._consumer = Consumer({**self._settings, **own})
            found = await self._calls.call(lambda: consumer.list_topics(timeout=SECONDS))
            checked(found, [topic for topic in self._topics if not topic.startswith("^")])
            consumer.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._taken, on_lost=self._taken)
        except KafkaException as error:
            if self._consumer is not None:
                with suppress(KafkaException):
                    self._consumer.poll(0)  # which lets it tell its reasons
            raise reasons.why(error) from None
        self._looked = asyncio.get_running_loop().time()
        self._tasks = [asyncio.create_task(self._stay(consumer))]
        if not self.transactional:
            self._tasks.append(asyncio.create_task(self._commit(consumer)))

    def _forget(self) -> None:
        self.lanes.clear()
        self._unread.clear()
        self._uncommitted = self._fresh = 0
        self._paused = False
        self._trouble = None

    def _assigned(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self.lanes[each.topic, each.partition] = Lane(self, each.topic, each.partition)

    def _taken(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            lane = self.lanes.pop((each.topic, each.partition), None)
            if lane is not None:
                self._uncommitted -= len(lane.offsets)

    # Reading.

    async def read(self, limit: int) -> Sequence[Delivery]:
        wait = IDLE_FIRST
        loop = asyncio.get_running_loop()
        while True:
            consumer = self._consumer
            if consumer is None:
                raise Disconnected(f"{self.name}: closed")
            self._looked = loop.time()
            self._go_on(consumer)
            room = min(limit, self._window - self._uncommitted + len(self._unread))
            if room <= 0:
                # Answers to commits are only heard by looking for messages; one that comes is kept for later.
                self._many_settled.set()
                self._unread += self._consume(consumer, 1)
                deliveries = []
            elif self._unread:
                deliveries = self._left_over(room)
            else:
                deliveries = self._consume(consumer, room)
            trouble = self._trouble or self._reasons.trouble
            if trouble is not None:
                raise trouble
            if deliveries:
                return deliveries
            if self._until_end and self.lanes and all(lane.at_end for lane in self.lanes.values()):
                raise EndOfStream
            await asyncio.sleep(wait)
            wait = min(wait * 2, IDLE_MOST)

    def _consume(self, consumer: Consumer, limit: int) -> list[Delivery]:
        try:
            messages: Sequence[Any] = consumer.consume(limit, 0)
        except KafkaException as error:
            self._trouble = trouble_of(error.args[0])
            return []
        lanes = self.lanes
        found = []
        for message in messages:
            problem = message.error()
            topic = message.topic()
            lane = lanes.get((topic, message.partition()))
            if problem is not None:
                self._heed(problem, topic, lane)
            elif lane is not None:  # else it was taken away after this one was fetched
                lane.at_end = False
                delivery = lane.reader.delivery(message, lane)
                lane.offsets.append(delivery.position)
                found.append(delivery)
        self._uncommitted += len(found)
        return found

    def _heed(self, error: KafkaError, topic: str | None, lane: Lane | None) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            if lane is not None:
                lane.at_end = True
        elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and (topic or "").startswith("^"):
            return  # a pattern that no topic matches yet
        elif error.fatal() or not (error.code() in PASSING or error.retriable()):
            self._trouble = trouble_of(error)

    def _left_over(self, limit: int) -> list[Delivery]:
        """Of what came while nobody read."""
        found = [self._unread.popleft() for _ in range(min(limit, len(self._unread)))]
        return [delivery for delivery in found if delivery.lane.current]  # type: ignore[attr-defined]  # a Lane

    async def _stay(self, consumer: Consumer) -> None:
        """Stay in the group while nobody reads."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(UNREAD / 5)
            if loop.time() - self._looked < UNREAD or self._trouble is not None:
                continue
            self._paused = True
            try:
                consumer.pause(consumer.assignment())
            except KafkaException as error:
                self._trouble = trouble_of(error.args[0])
            self._unread += self._consume(consumer, 100)

    def _go_on(self, consumer: Consumer) -> None:
        if self._paused:
            self._paused = False
            with suppress(KafkaException):  # of what was taken away meanwhile
                consumer.resume(consumer.assignment())

    # Settling.

    def settle(self, delivery: Delivery) -> None:
        lane: Lane = delivery.lane  # type: ignore[assignment]  # which is of this source
        if self._consumer is None or not lane.current:
            return
        offset = delivery.position + 1
        self._fresh += offset - max(lane.settled, lane.offsets[0] if lane.offsets else 0)
        lane.settled = offset
        if self.transactional:
            self._done_with(lane, offset)
            return
        with suppress(KafkaException):  # it was taken away just now: whoever has it reads from what was committed
            self._consumer.store_offsets(offsets=[lane.up_to(offset)])
        self._settled.set()
        if self._fresh * 4 >= self._window:
            self._many_settled.set()

    def _done_with(self, lane: Lane, offset: int) -> None:
        offsets, before = lane.offsets, len(lane.offsets)
        while offsets and offsets[0] < offset:
            offsets.popleft()
        if lane.current:
            self._uncommitted -= before - len(offsets)

    async def _commit(self, consumer: Consumer) -> None:
        """Commit what is settled, and hear of one commit before the next is made."""
        while True:
            await self._settled.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._many_settled.wait(), COMMIT_EVERY)
            self._settled.clear()
            self._many_settled.clear()
            self._fresh = 0
            offsets = [lane.up_to(lane.settled) for lane in self.lanes.values() if lane.settled > lane.committed]
            if not offsets:
                continue
            self._answered.clear()
            try:
                # Not by a call that waits, on another thread: meanwhile other calls of this client would wait for it,
                # and it for a rebalance, and that for us.
                consumer.commit(offsets=offsets, asynchronous=True)
            except KafkaException as error:
                self._heard(error.args[0], [])
                await asyncio.sleep(COMMIT_EVERY)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._answered.wait(), ANSWER)

    def _heard(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """The answer to a commit, heard while we read."""
        self._answered.set()
        if error is not None:
            self._settled.set()
            if error.code() not in AGAIN:
                self._trouble = Disconnected(f"cannot commit: {told(error)}")
            return
        for each in offsets:
            lane = self.lanes.get((each.topic, each.partition))
            if lane is not None and each.error is None and each.offset > lane.committed:
                lane.committed = each.offset
                self._done_with(lane, each.offset)

    def rewind(self, reason: str) -> None:
        """Break the connection: all that is not committed is read again, and what is under way of it is nobody's."""
        self._trouble = Disconnected(reason)
        self.lanes.clear()

    def commit_metadata(self) -> Any:
        """Who commits, for transactions: its place in the group, as of now."""
        if self._consumer is None:
            raise Disconnected(f"{self.name}: closed")
        return self._consumer.consumer_group_metadata()

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        calls, self._calls = self._calls, None
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        self._forget()
        if calls is None:
            return
        if consumer is not None:
            closing = calls.call(consumer.close)
            await asyncio.wait([closing], timeout=CLOSING)
            if closing.done():
                closing.exception()
        calls.end()
