"""One consumer in its group, from its making to its end: what partitions are its own, and what of them is committed.

A partition is a lane for as long as it is assigned. What is settled is committed soon, and no more is given away than
the window allows beyond what was *committed*: so whenever the process is killed, at most a window of messages comes
again. What is settled is also committed when the partition is taken away, and at the end. librdkafka commits nothing by
itself: it would commit offsets of a topic that was deleted into the one that was made anew.

What librdkafka has to say (partitions given and taken, commits answered, errors) it says only while somebody looks for
messages, on the thread that does. That is the event loop's, but for the last words while the consumer is closed, which
nobody hears any more. Somebody must look even if nothing may be given: what is found then is kept for later, and when
that is more than a little the partitions are paused.

A partition whose offsets go back, or whose topic has another id than before, is a new lane: deliveries of the old one
settle nothing any more, and nothing of its offsets is committed from then on. What is read of a partition is kept back
until it is known that the offset which it began at is of this very topic; see `bridge.endpoints.kafka.topic_ids`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from bridge.endpoint import Delivery, Disconnected
from bridge.endpoints.kafka.calls import Calls
from bridge.endpoints.kafka.errors import LOG, PASSING, Reasons, told, trouble_of
from bridge.endpoints.kafka.fetching import Fetching, Joining, lag_of, why_not
from bridge.endpoints.kafka.health import NO_BROKER, PATIENCE, Health
from bridge.endpoints.kafka.records import Reader
from bridge.endpoints.kafka.topic_ids import Asker, Ids, mark_of

__all__ = ["Lane", "Member"]

COMMIT_EVERY: Final = 0.1
"""Seconds between commits; sooner when a quarter of the window is settled."""

ANSWER: Final = 1.0
"""Seconds that the answer to a commit is waited for before the same is committed again."""

UNREAD: Final = 5.0
"""After so many seconds without a read the group is served."""

KEPT: Final = 16
"""Messages kept for later before partitions are paused; paused too soon they would be fetched again and again."""

LOOK_EVERY: Final = 3.0
"""Seconds between looks at the ids of topics."""

LOOK_AGAIN: Final = 0.2
"""Seconds until another look, where one failed."""

UNANSWERED: Final = "the brokers do not say which topics the group's offsets are of, and nothing is read before"

UNANSWERED_FOR: Final = 30.0
"""Seconds after which the connection is ended for that, if the brokers are well: other clients may get an answer."""

FIRST_READ: Final = 64
"""Maximum number of messages taken at once before their size is known."""

AGAIN: Final = frozenset({
    KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT, KafkaError._STATE, KafkaError._NO_OFFSET, KafkaError._ASSIGNMENT_LOST,
    KafkaError.STALE_MEMBER_EPOCH, *PASSING,
})  # fmt: skip
"""Why a commit may fail that goes well another time, or that is no longer ours to make."""

METADATA: Final = b"CGMDv2:"
"""What librdkafka begins a member's place in its group with; the generation follows, four bytes as the machine has
them (`rd_kafka_consumer_group_metadata_write`)."""


class Lane:
    """A partition, from its assignment until it is taken away, or until its offsets mean something else."""

    __slots__ = (
        "at_end", "begins_anew", "checked", "committed", "kept", "mark", "member", "next", "offsets", "partition",
        "reader", "settled", "topic", "topic_id",
    )  # fmt: skip

    def __init__(self, member: Member, topic: str, partition: int, topic_id: str = "") -> None:
        self.member = member
        self.topic = topic
        self.partition = partition
        self.reader = Reader(member.name, topic, partition)
        self.offsets: deque[int] = deque()
        """Of the deliveries that are not committed."""
        self.next = 0
        """The least offset that may come now."""
        self.settled = self.committed = -1
        """The offsets from which on it is not, as far as was settled here and committed by us."""
        self.at_end = False
        self.topic_id = topic_id
        """Of the topic that was read before; "" where that is not known."""
        self.mark = ""
        """What is committed beside offsets; see `topic_ids`."""
        self.checked = False
        """Whether it is known that this is still the topic whose offset it began at."""
        self.kept: list[Delivery] = []
        """What was read before that was known."""
        self.begins_anew = False
        """Whether the group's offset is not one of this lane: the first one is committed as soon as it is known."""

    @property
    def current(self) -> bool:
        """Whether the partition is still ours."""
        return self.member.lanes.get((self.topic, self.partition)) is self

    def up_to(self, offset: int) -> TopicPartition:
        """All before this offset, as committed."""
        if not self.mark:
            return TopicPartition(self.topic, self.partition, offset)
        return TopicPartition(self.topic, self.partition, offset, self.mark)


class Member:
    """A consumer. Raises KafkaException for settings that it does not know. `join` it, and `leave` it once."""

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        reasons: Reasons,
        *,
        window: int,
        transactional: bool,
        read_bytes: int = 64 << 20,
    ) -> None:
        self.name = name
        self.transactional = transactional
        """Whether commits are left to the transactions of a target."""
        self.lanes: dict[tuple[str, int], Lane] = {}
        """Topic and partition -> what is assigned."""
        self.closed = False
        self.lag: int | None = None
        """Number of messages of its partitions that were not read, at the last look."""
        self._window = window
        self._reasons = reasons
        self._trouble: Disconnected | None = None
        self._uncommitted = 0
        self._fresh = 0
        """How many were settled since the last commit, or more where offsets are missing."""
        self._settled = asyncio.Event()
        self._many_settled = asyncio.Event()
        self._answered = asyncio.Event()
        self._unread: deque[Delivery] = deque()
        self._paused: dict[tuple[str, int], TopicPartition] = {}
        """What is to be resumed. A partition that is taken away stays paused, and is when it comes back."""
        self._looked = asyncio.get_running_loop().time()
        self._tasks: list[asyncio.Task[None]] = []
        self._fetching = Fetching()
        self._joining = Joining()
        self.health = Health(lambda: reasons.latest)
        self._asking_since: float | None = None
        """Since when it is not known of partitions whether their topics are the same."""
        self._unanswered_since = monotonic()
        """Since when the brokers are well, though that is not known."""
        self._look = asyncio.Event()
        """Set when there is something to look at in the ids of topics."""
        self._read_bytes = read_bytes
        """What is taken from librdkafka at once, about."""
        self._at_once = FIRST_READ
        self._asks_why = False
        """Whether it is being asked why a partition is not fetched from; with the answer the connection ends."""
        self._settings = settings
        heard = {"error_cb": reasons.heard, "on_commit": self._heard, "stats_cb": self._measured}
        self.consumer = Consumer({**settings, **heard}, logger=reasons)

    def join(self, topics: Sequence[str]) -> None:
        """Become a member of the group. Raises KafkaException."""
        self.consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._taken)
        self._work(self._stay())
        self._work(self._keep_looking())
        if not self.transactional:
            self._work(self._commit())

    def leave(self) -> None:
        """Give everything back: nothing is heard or settled from now on. `Consumer.close` is still to be called."""
        self._commit_last(self.lanes.values())
        self.closed = True
        for task in self._tasks:
            task.cancel()
        self.lanes.clear()
        self._unread.clear()

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            LOG.error("%s: %r", self.name, problem, exc_info=problem)
            self._trouble = self._trouble or Disconnected(repr(problem))

    def _assigned(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self.closed:
            return
        for each in partitions:
            self.lanes[each.topic, each.partition] = Lane(self, each.topic, each.partition)
        self._look.set()

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if not self.closed:
            lanes = [self.lanes.get((each.topic, each.partition)) for each in partitions]
            self._commit_last([lane for lane in lanes if lane is not None])
            self._taken(consumer, partitions)

    def _taken(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self.closed:
            return
        for each in partitions:
            lane = self.lanes.pop((each.topic, each.partition), None)
            if lane is not None:
                self._uncommitted -= len(lane.offsets)
        self._unread = deque([delivery for delivery in self._unread if _is_current(delivery)])

    # Reading.

    @property
    def lost(self) -> Disconnected | None:
        """Why its place in the group is gone."""
        return self._trouble or self._reasons.trouble

    @property
    def trouble(self) -> str | None:
        """Why nothing is read, if a reason is known."""
        since = self._asking_since
        if self.health.trouble is None and since is not None and monotonic() - since >= PATIENCE:
            return UNANSWERED
        return self.health.trouble or self._joining.trouble

    @property
    def at_end(self) -> bool:
        """Whether all that was assigned was given away, to where the partitions end."""
        lanes = self.lanes.values()
        return bool(lanes) and not self._unread and all(lane.at_end and lane.checked for lane in lanes)

    def take(self, limit: int) -> list[Delivery]:
        """What there is and may be given, none perhaps. Raises Disconnected."""
        self._looked = asyncio.get_running_loop().time()
        room = min(limit, self._window - self._uncommitted + len(self._unread))
        found: list[Delivery] = []
        if room <= 0:
            self._many_settled.set()
            self._serve()
        elif self._unread:
            found = [self._unread.popleft() for _ in range(min(room, len(self._unread)))]
        else:
            self._go_on()
            found = self._consume(room)
        if self.lost is not None:
            raise self.lost
        return found

    def _consume(self, limit: int) -> list[Delivery]:
        try:
            messages: Sequence[Any] = self.consumer.consume(min(limit, self._at_once), 0)
        except KafkaException as error:
            self._trouble = trouble_of(error.args[0])
            return []
        lanes = self.lanes
        found: list[Delivery] = []
        size = 0
        for message in messages:
            problem = message.error()
            topic = message.topic()
            lane = lanes.get((topic, message.partition()))
            if problem is not None:
                self._heed(problem, topic, lane)
            elif lane is not None:  # else it was taken away after this one was fetched
                if message.offset() < lane.next:
                    lane = self._begin_anew(lane, f"its offsets are back at {message.offset()}, from {lane.next}")
                    found = [delivery for delivery in found if _is_current(delivery)]
                    self._look.set()
                lane.at_end = False
                try:
                    delivery = lane.reader.delivery(message, lane)
                except Exception as error:  # noqa: BLE001  whatever is wrong is wrong with this message only
                    delivery = lane.reader.refused(message, lane, error)
                size += delivery.size
                offset = delivery.position
                if lane.begins_anew and lane.settled < 0 and lane.checked:
                    self._begin_at(lane, offset)
                lane.next = offset + 1
                lane.offsets.append(offset)
                self._uncommitted += 1
                if lane.checked:
                    found.append(delivery)
                else:
                    lane.kept.append(delivery)
        if messages:
            self._at_once = max(1, min(self._read_bytes * len(messages) // max(size, 1), 4 * self._at_once, 10_000))
        return found

    def _begin_anew(self, lane: Lane, reason: str) -> Lane:
        """Replace a lane whose offsets mean something else now, and return the new one.

        Settled as a prefix, what is read now would settle what is still under way of the old one.
        """
        LOG.warning("%s: %s-%d is read anew: %s", self.name, lane.topic, lane.partition, reason)
        self._uncommitted -= len(lane.offsets)
        anew = Lane(self, lane.topic, lane.partition, lane.topic_id)
        anew.begins_anew = True
        self.lanes[lane.topic, lane.partition] = anew
        self._unread = deque([delivery for delivery in self._unread if _is_current(delivery)])
        return anew

    def _begin_at(self, lane: Lane, offset: int) -> None:
        """Have the group's offset be the first one of a new lane: what it is now is of another topic."""
        lane.settled = offset
        self._settled.set()

    def _heed(self, error: KafkaError, topic: str | None, lane: Lane | None) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            if lane is not None:
                lane.at_end = True
        elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and (topic or "").startswith("^"):
            return  # a pattern that no topic matches yet
        elif error.fatal() or not (error.code() in PASSING or error.retriable()):
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:  # nothing of it may be committed: it may come anew
                for place in [place for place in self.lanes if place[0] == topic]:
                    del self.lanes[place]
            self._trouble = trouble_of(error)

    def _measured(self, statistics: str) -> None:
        if self.closed:
            return
        now = monotonic()  # of no loop: before it joins the group, its client is polled on another thread
        found = self.health.look(statistics, now, self.lanes)
        if self.health.is_abandoned:
            self._trouble = self._trouble or Disconnected(NO_BROKER)
        self.lag = lag_of(found, self.lanes)
        self._joining.look(found, now)
        if self._joining.is_stuck:
            self._trouble = self._trouble or Disconnected("librdkafka does not come back from giving up its partitions")
        if self.health.trouble is not None or self._asking_since is None:
            self._unanswered_since = now
        elif now - max(self._asking_since, self._unanswered_since) >= UNANSWERED_FOR:
            self._trouble = self._trouble or Disconnected(UNANSWERED)
        idle = self._fetching.idle_for_long(found, self.lanes, now)
        if idle is not None and not self._asks_why:
            self._asks_why = True
            self._work(self._break_off(*idle))

    async def _break_off(self, topic: str, partition: int) -> None:
        """End the connection for a partition that nothing is fetched from."""
        calls = Calls()  # of its own: closing the consumer must not wait for the answer
        try:
            why = await calls.call(partial(why_not, self._settings, topic, partition))
        finally:
            calls.end()
        self._trouble = self._trouble or Disconnected(why)

    # Topics that are made anew.

    async def _keep_looking(self) -> None:
        """Look at the ids of topics: of partitions that are new here at once, and of all from time to time."""
        calls, asker = Calls(), Asker(self._settings)
        try:
            await calls.call(asker.connect)  # now, as it takes half a second until a new consumer has a coordinator
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY):
                        await self._look.wait()
                self._look.clear()
                if not self.lanes:
                    self._asking_since = None
                    continue
                unchecked = [place for place, lane in self.lanes.items() if not lane.checked]
                topics = {lane.topic for lane in self.lanes.values()}
                if unchecked and self._asking_since is None:
                    self._asking_since = monotonic()
                try:
                    ids = await calls.call(partial(asker.ask, topics, unchecked))
                except (KafkaException, TimeoutError):
                    self._look_again()
                else:
                    self._compare(ids, set(unchecked))
        finally:
            calls.call(asker.end)
            calls.end()

    def _look_again(self) -> None:
        if any(not lane.checked for lane in self.lanes.values()):
            asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look.set)
        else:
            self._asking_since = None

    def _compare(self, ids: Ids, asked: Collection[tuple[str, int]]) -> None:
        """Begin anew with what is of another topic than it was; the rest may be given."""
        for place, lane in list(self.lanes.items()):
            now = ids.now.get(lane.topic)
            before = lane.topic_id or ids.committed.get(place, "")
            if now is None or not (lane.checked or place in asked):
                continue
            if now and before and now != before:
                self._begin_again(lane, before, now)
            elif not lane.checked:
                lane.topic_id, lane.mark, lane.checked = now or before, mark_of(now or before), True
                if lane.begins_anew and lane.offsets:
                    self._begin_at(lane, lane.offsets[0])
                self._unread += lane.kept
                lane.kept = []
        self._look_again()

    def _begin_again(self, lane: Lane, before: str, now: str) -> None:
        """Read a partition of a topic that was made anew from its beginning."""
        if lane.checked or not lane.begins_anew:
            lane.topic_id = before
            lane = self._begin_anew(lane, f"the topic was deleted and made anew: its id is {now}, and was {before}")
        if self._settings.get("auto.offset.reset") == "error":
            self._trouble = Disconnected(
                f"topic {lane.topic!r} was deleted and made anew, and auto.offset.reset is error: reset the offsets of "
                f"group {self._settings['group.id']!r}"
            )
            return
        try:
            self.consumer.seek(TopicPartition(lane.topic, lane.partition, OFFSET_BEGINNING))
        except KafkaException:  # it has not begun to fetch: once more, soon
            return
        self._uncommitted -= len(lane.offsets)
        anew = self.lanes[lane.topic, lane.partition] = Lane(self, lane.topic, lane.partition, now)
        anew.begins_anew = anew.checked = True
        anew.mark = mark_of(now)

    def _serve(self) -> None:
        """Hear what librdkafka has to say, while nothing may be given."""
        found = self._consume(1)
        self._unread.extend(found)
        kept = sum([len(lane.kept) for lane in self.lanes.values()])
        if (found and len(self._unread) >= KEPT) or (kept >= KEPT and not self._paused):
            self._pause()

    def _pause(self) -> None:
        """Fetch nothing, of what is assigned now."""
        try:
            partitions = self.consumer.assignment()
            self._paused.update({(each.topic, each.partition): each for each in partitions})
            self.consumer.pause(partitions)
        except KafkaException as error:
            self._trouble = trouble_of(error.args[0])

    def _go_on(self) -> None:
        if self._paused:
            partitions = list(self._paused.values())
            self._paused.clear()
            with suppress(KafkaException):  # of topics that are gone
                self.consumer.resume(partitions)

    async def _stay(self) -> None:
        """Stay in the group while nobody reads."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(UNREAD / 5)
            if loop.time() - self._looked >= UNREAD and self._trouble is None:
                if not self._paused:
                    self._pause()
                self._serve()

    # Settling.

    def settle(self, delivery: Delivery) -> None:
        """This one and all before it in its lane are done with."""
        lane: Lane = delivery.lane  # type: ignore[assignment]  # which is of this member
        if self.closed or not lane.current:
            return
        offset = delivery.position + 1
        self._fresh += offset - max(lane.settled, lane.offsets[0] if lane.offsets else 0)
        lane.settled = offset
        if self.transactional:
            self._done_with(lane, offset)
            return
        self._settled.set()
        if self._fresh * 4 >= self._window:
            self._many_settled.set()

    def _done_with(self, lane: Lane, offset: int) -> None:
        offsets, before = lane.offsets, len(lane.offsets)
        while offsets and offsets[0] < offset:
            offsets.popleft()
        self._uncommitted -= before - len(offsets)

    async def _commit(self) -> None:
        """Commit what is settled, until it is: an answer may be a refusal, be late, or never come."""
        while True:
            await self._settled.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(COMMIT_EVERY):
                    await self._many_settled.wait()
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
                self.consumer.commit(offsets=offsets, asynchronous=True)
            except KafkaException as error:
                self._heard(error.args[0], [])
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER):
                    await self._answered.wait()
            if any(lane.settled > lane.committed for lane in self.lanes.values()):
                self._settled.set()

    def _commit_last(self, lanes: Iterable[Lane]) -> None:
        """Commit what is settled of lanes that are given back. librdkafka waits for the answer before it does that."""
        if self.transactional or self.closed:
            return
        offsets = [lane.up_to(lane.settled) for lane in lanes if lane.settled > lane.committed]
        if offsets:
            with suppress(KafkaException):  # whoever reads next reads from what was committed before
                self.consumer.commit(offsets=offsets, asynchronous=True)

    def _heard(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """The answer to a commit of ours or of librdkafka's own."""
        if self.closed:
            return
        self._answered.set()
        for problem in (error, *[each.error for each in offsets]):
            if problem is not None and problem.code() not in AGAIN and not problem.retriable():
                self._trouble = Disconnected(f"cannot commit: {told(problem)}")
        if error is not None:
            return
        for each in offsets:
            lane = self.lanes.get((each.topic, each.partition))
            if lane is None or each.error is not None:
                continue
            if lane.begins_anew and each.offset > lane.settled:  # this one was of the lane before
                lane.committed = -1
            elif each.offset > lane.committed:
                lane.committed = each.offset
                self._done_with(lane, each.offset)

    # Transactions.

    def rewind(self, reason: str) -> None:
        """Break the connection: all that is not committed is read again, and what is under way of it is nobody's."""
        self._trouble = Disconnected(reason)
        self.lanes.clear()

    def place(self) -> bytes | None:
        """The place in the group as of now, with which offsets are committed in a transaction; None: it has none.

        A consumer that was put out of its group has a place that says so, and brokers take offsets with it as they do
        from those that never were in a group: unchecked. That its lanes were taken away it may not have heard yet.
        """
        if self.closed:
            return None
        place: bytes = self.consumer.consumer_group_metadata()  # opaque, and bytes
        if place.startswith(METADATA):
            start = len(METADATA)
            generation = int.from_bytes(place[start : start + 4], sys.byteorder, signed=True)
            return place if generation >= 0 and self.consumer.memberid() else None
        return place if self.consumer.memberid() else None


def _is_current(delivery: Delivery) -> bool:
    lane: Any = delivery.lane
    return bool(lane.current)
