"""One consumer in its group, from its making to its end: what it reads, and why it stops.

The pump is given at most a window of messages beyond what was *committed*: so whenever the process is killed, at most a
window of messages comes again; see `assignment`.

librdkafka reports everything (partitions assigned and revoked, commits answered, errors) only while it is polled for
messages, on the thread that polls. That is the event loop's thread, except for the last reports while the consumer is
closed, which are ignored. Since reports come no other way, it is polled even when the pump may be given nothing:
messages that come then are kept, and from `MAX_KEPT_MESSAGES` messages on the partitions are paused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridge.endpoint import Delivery, Disconnected
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.errors import LOG, PASSING, Reasons, to_disconnected
from bridge.endpoints.kafka.cluster.health import PATIENCE, ClientHealth
from bridge.endpoints.kafka.consumer.assignment import PartitionAssignment, PartitionLane, is_current
from bridge.endpoints.kafka.consumer.backlog import Backlog
from bridge.endpoints.kafka.consumer.fetching import FetchQueues, Joining, explain_idle
from bridge.endpoints.kafka.consumer.remade_topics import RemadeTopics

UNREAD_SECONDS: Final = 5.0
"""Seconds without a read, after which the member polls by itself to stay in its group."""

MAX_KEPT_MESSAGES: Final = 16
"""Number of kept messages at which partitions are paused. A pause drops what librdkafka has fetched and not given out:
if it came sooner, the same messages would be fetched again and again."""

FIRST_READ: Final = 64
"""Maximum number of messages taken at once before their size is known."""


class GroupMember:
    """A consumer. `connect` first, then `expect` topics, `join` its group, `leave` it once, and `close`."""

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        reasons: Reasons,
        *,
        window: int,
        transactional: bool,
        backlog: Backlog,
        read_bytes: int = 64 << 20,
        known: MutableMapping[tuple[str, int], str] | None = None,
    ) -> None:
        self.name = name
        self._backlog = backlog
        self._is_drained = False
        """Whether the last poll for everything that librdkafka has fetched returned nothing."""
        self.assignment = PartitionAssignment(name, window, transactional=transactional)
        self._reasons = reasons
        self._paused: dict[tuple[str, int], TopicPartition] = {}
        """Partitions to resume. One that was taken away meanwhile is still paused when it is assigned again."""
        self._polled_at = asyncio.get_running_loop().time()
        self._tasks: list[asyncio.Task[None]] = []
        self._fetching = FetchQueues()
        self._joining = Joining()
        self._remade = RemadeTopics(self.assignment, settings, {} if known is None else known)
        self.health = ClientHealth(
            lambda: reasons.latest, reasons.may_be_tls, reasons.connects_within, reasons.note_connected
        )
        self._read_bytes = read_bytes
        """Number of bytes taken from librdkafka at once, about."""
        self._take_limit = FIRST_READ
        """Maximum number of messages taken from librdkafka at once."""
        self._explains_idle = False
        """Whether it asks why a partition is not fetched from; the answer ends the connection."""
        self._position_since: tuple[int, float] = 0, monotonic()
        """Sum of the positions in all partitions, and since when it stands although there is room, in seconds."""
        self._throttled: str | None = None
        """Reason why nothing is read, if brokers have delayed this client for long because of a quota."""
        self._settings = settings
        self.consumer: Consumer
        """Set by `connect`."""

    def connect(self) -> None:
        """Make the consumer, which reads files of certificates. Called on a thread of calls. Raises KafkaException."""
        callbacks = {
            "error_cb": self._reasons.note_error, "on_commit": self.assignment.on_commit,
            "stats_cb": self._on_statistics,
        }  # fmt: skip
        self.consumer = self.assignment.consumer = Consumer({**self._settings, **callbacks}, logger=self._reasons)

    async def expect(self, topics: Sequence[str]) -> None:
        """Note which of the topics to read exist. Raises KafkaException, Disconnected."""
        await self._remade.expect(topics)

    def join(self, topics: Sequence[str]) -> None:
        """Become a member of the group, to read topics and patterns. Raises KafkaException."""
        self.consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        self._start(self._stay_in_group())
        self._start(self._remade.keep_looking())
        if not self.assignment.transactional:
            self._start(self.assignment.keep_committing())

    def leave(self) -> None:
        """Give everything back, and ignore all reports from now on. `close` is still to be called."""
        self.assignment.close()
        for task in self._tasks:
            task.cancel()
        self._remade.end()

    def close(self) -> None:
        """Close the consumer, if it was made. Called on the thread of calls, which waits for its brokers."""
        if hasattr(self, "consumer"):
            self.consumer.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._on_task_end)
        self._tasks.append(task)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            LOG.error("%s: %r", self.name, problem, exc_info=problem)
            self.assignment.fail(repr(problem))

    def _on_assign(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if not self.assignment.closed:
            self.assignment.add(partitions)
            self._remade.look_now()

    def _on_revoke(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        lanes = [self.assignment.lanes.get((each.topic, each.partition)) for each in partitions]
        self.assignment.commit_last([lane for lane in lanes if lane is not None])
        self._on_lost(consumer, partitions)

    def _on_lost(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.assignment.remove(partitions)

    # Reading.

    @property
    def lost(self) -> Disconnected | None:
        """Why the connection must end."""
        return self.assignment.trouble or self._reasons.trouble

    @property
    def trouble(self) -> str | None:
        """Why nothing is read, if a reason is known."""
        known = self.health.trouble or self._remade.trouble or self._joining.trouble
        return known or self._backlog.trouble or self._throttled

    @property
    def is_outdated(self) -> bool:
        """Whether it knows topics that are gone, so that another must take its place."""
        return self._remade.is_outdated

    @property
    def at_end(self) -> bool:
        """Whether everything was given away up to where the assigned partitions end."""
        lanes = self.assignment.lanes.values()
        return bool(lanes) and not self.assignment.unread and all(lane.at_end and lane.checked for lane in lanes)

    def take(self, limit: int) -> list[Delivery]:
        """Return the deliveries that are there and that the window allows: perhaps none. Raises Disconnected."""
        self._polled_at = asyncio.get_running_loop().time()
        unread = self.assignment.unread
        room = min(limit, self.assignment.room)
        taken: list[Delivery] = []
        if room <= 0:
            self.assignment.commit_soon()
            self._poll_only()
        elif unread:
            taken = [unread.popleft() for _ in range(min(room, len(unread)))]
        else:
            self._resume()
            taken = self._consume(room)
            self._is_drained = not taken
        if self.lost is not None:
            raise self.lost
        return taken

    def _consume(self, limit: int) -> list[Delivery]:
        """Poll librdkafka, and return the deliveries of checked lanes; those of unchecked lanes are kept in them."""
        try:
            messages: Sequence[Any] = self.consumer.consume(min(limit, self._take_limit), 0)
        except KafkaException as error:
            self.assignment.trouble = to_disconnected(error.args[0])
            return []
        assignment = self.assignment
        lanes = assignment.lanes
        taken: list[Delivery] = []
        size = 0
        for message in messages:
            problem = message.error()
            topic = message.topic()
            lane = lanes.get((topic, message.partition()))
            if problem is not None:
                self._note_error(problem, topic, lane)
            elif lane is not None:  # else it was taken away after this one was fetched
                if message.offset() < lane.next:
                    reason = (
                        f"{topic}-{lane.partition} is read anew: its offsets are back at {message.offset()}, from "
                        f"{lane.next}: its log has lost its end, or begun anew"
                    )
                    if lane.offsets and lane.offsets[0] < message.offset():  # these would never be settled
                        assignment.fail(reason)
                        return []
                    LOG.warning("%s: %s", self.name, reason)
                    lane = assignment.replace(lane, lane.topic_id)
                    taken = [delivery for delivery in taken if is_current(delivery)]
                    self._remade.look_now()
                lane.at_end = False
                try:
                    delivery = lane.reader.make_delivery(message, lane)
                except Exception as error:  # noqa: BLE001  whatever is wrong is wrong with this message only
                    delivery = lane.reader.make_delivery(message, lane, error)
                size += delivery.size
                offset = delivery.position
                if lane.begins_anew and lane.settled < 0 and lane.checked:
                    assignment.begin_at(lane, offset)
                if offset != lane.next:
                    lane.deletions.pass_over(lane.next, offset)
                if (epoch := message.leader_epoch()) != lane.epoch:
                    lane.begin_epoch(offset, epoch)
                lane.next = offset + 1
                lane.offsets.append(offset)
                assignment.uncommitted += 1
                if lane.checked:
                    taken.append(delivery)
                else:
                    lane.kept.append(delivery)
        if messages:
            self._take_limit = max(
                1, min(self._read_bytes * len(messages) // max(size, 1), 4 * self._take_limit, 10_000)
            )
        return taken

    def _note_error(self, error: KafkaError, topic: str | None, lane: PartitionLane | None) -> None:
        """Take note of what came in place of a message: the end of a partition, or why the connection must end."""
        if error.code() == KafkaError._PARTITION_EOF:
            if lane is not None:
                lane.at_end = True
        elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and (topic or "").startswith("^"):
            return  # a pattern that no topic matches yet
        elif error.fatal() or not (error.code() in PASSING or error.retriable()):
            lanes = self.assignment.lanes
            # A topic of this name may be made anew: no offset of the old one may be committed to it.
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                for key in [key for key in lanes if key[0] == topic]:
                    del lanes[key]
            self.assignment.trouble = to_disconnected(error)

    def _poll_only(self) -> None:
        """Poll while the pump may be given nothing; messages that come are kept."""
        taken = self._consume(1)
        unread = self.assignment.unread
        unread += taken
        self._is_drained = False
        if (taken and len(unread) >= MAX_KEPT_MESSAGES) or (
            self._count_kept() >= MAX_KEPT_MESSAGES and not self._paused
        ):
            self._pause()

    def _pause(self) -> None:
        """Stop fetching from all partitions that are assigned now."""
        try:
            partitions = self.consumer.assignment()
            self._paused.update({(each.topic, each.partition): each for each in partitions})
            self.consumer.pause(partitions)
            self.assignment.paused = True
        except KafkaException as error:
            self.assignment.trouble = to_disconnected(error.args[0])

    def _resume(self) -> None:
        if self._paused:
            partitions = list(self._paused.values())
            self._paused.clear()
            self.assignment.paused = self._is_drained = False
            with suppress(KafkaException):  # of topics that are gone
                self.consumer.resume(partitions)

    async def _stay_in_group(self) -> None:
        """Poll while the pump does not read: the group removes members that do not poll."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(UNREAD_SECONDS / 5)
            if loop.time() - self._polled_at >= UNREAD_SECONDS and self.assignment.trouble is None:
                if not self._paused:
                    self._pause()
                self._poll_only()

    # Statistics.

    def _on_statistics(self, text: str) -> None:
        assignment = self.assignment
        if assignment.closed:
            return
        now = monotonic()  # not the time of the loop: before it joins, its client is polled on a thread without one
        statistics = self.health.look(text, now, assignment.lanes)
        if self.health.abandoned is not None:
            assignment.fail(self.health.abandoned)
        unread = len(assignment.unread) + self._count_kept()
        self._backlog.look(statistics, assignment.lanes, now, unread=unread, is_drained=self._is_drained)
        self._look_for_quota(now)
        self._joining.look(statistics, now)
        if self._joining.is_stuck:
            assignment.fail("librdkafka does not come back from giving up its partitions")
        self._remade.end_if_unanswered(now, healthy=self.health.trouble is None)
        idle = self._fetching.find_idle(statistics, assignment.lanes, now)
        if idle is not None and not self._explains_idle:
            self._explains_idle = True
            self._start(self._end_idle(*idle))

    def _look_for_quota(self, now: float) -> None:
        """Find out whether brokers delay this client because of a quota: they then answer without messages and lag."""
        position = sum([lane.next for lane in self.assignment.lanes.values()])
        if position != self._position_since[0] or self.assignment.paused or self.assignment.room <= 0:
            self._position_since = position, now
        quota = self.health.find_quota(now) if now - self._position_since[1] >= PATIENCE else ""
        self._throttled = f"nothing is read: {quota}" if quota else None

    def _count_kept(self) -> int:
        return sum([len(lane.kept) for lane in self.assignment.lanes.values()])

    async def _end_idle(self, topic: str, partition: int) -> None:
        """End the connection for a partition that is not fetched from, with the reason."""
        calls = Calls()  # of its own: closing the consumer must not wait for the answer
        try:
            reason = await calls.call(partial(explain_idle, self._settings, topic, partition))
        finally:
            calls.end()
        self.assignment.fail(reason)
