"""Detects topics that were deleted and created again, and reads their partitions from the beginning.

Deliveries of a partition are kept back until it is known that the offset at which it began belongs to this very topic;
see `topic_ids`. And to this very log: a leader that was elected without having all records has others at the offsets
that were read. Unless the record at the group's offset is of the epoch that was committed with it, the consumer seeks
to that offset and epoch: librdkafka then asks the leader where the log differs, and goes on there. It does not ask when
it begins at an offset of its group by itself, up to 2.16.

A client that has read the topic before cannot read it. The epochs of its partitions' leaders count from 0 again, and
librdkafka takes lower ones for old news: it asks brokers for the epochs of before, which they do not know, for ever. So
another client takes its place; what was read of the old topic stays with the pump.

And it detects topics that the group has forgotten. A member that leads its group asks for the topics that exist, and
shares out their partitions. librdkafka does not compare this answer with what it knew before: if a topic was missing in
it, and is back when librdkafka looks for changes the next time, nothing has changed, and no member ever gets the topic.
So it was where a broker had lost its disk, and the topic was made anew there a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.errors import LOG
from bridge.endpoints.kafka.cluster.health import PATIENCE
from bridge.endpoints.kafka.consumer.assignment import PartitionAssignment, PartitionLane
from bridge.endpoints.kafka.consumer.topic_ids import Asker, Ids, mark_of

LOOK_EVERY: Final = 3.0
"""Seconds between looks at the ids of topics."""

LOOK_AGAIN: Final = 0.2
"""Seconds until the next look after one that failed."""

UNANSWERED: Final = "the brokers do not say which topics the group's offsets are of, and nothing is read before"

UNANSWERED_FOR: Final = 30.0
"""Seconds without that answer from healthy brokers, after which the connection ends: other clients may get one."""

FORGOTTEN: Final = 15.0
"""Seconds for which a topic exists that no member of a group has, after which it is forgotten. librdkafka looks for new
topics every 10 s."""


class RemadeTopics:
    """Looks at the ids of the topics of an assignment, with clients of its own that have the consumer's settings.

    ``known`` are the ids of the topics whose partitions the source has read, over all its connections.
    """

    def __init__(
        self, assignment: PartitionAssignment, settings: Mapping[str, Any], known: MutableMapping[tuple[str, int], str]
    ) -> None:
        self._assignment = assignment
        self._settings = settings
        self._known = known
        self._calls, self._asker = Calls(), Asker(settings)
        self._wanted: Collection[str] = ()
        """Topics that the group is to read."""
        self._without: dict[str, float] = {}
        """Wanted topic that exists -> since when none of its partitions is ours, by the monotonic clock, in seconds."""
        self._first: dict[str, str] = {}
        """Topic -> its id before this client came to know it, or when it was looked at first."""
        self.is_outdated = False
        """Whether another client must take this one's place."""
        self._look = asyncio.Event()
        self._asking_since: float | None = None
        """Since when the ids of some partitions' topics are unknown, by the monotonic clock, in seconds."""
        self._unanswered_since = monotonic()
        """Since when the brokers have been healthy, without an answer."""

    async def expect(self, topics: Collection[str]) -> None:
        """Set the topics that the group is to read, and ask for their ids.

        To be called before the consumer knows any topic: of one that is made anew then, and before the first look, it
        would know the old id and stand still, and the new id would count as the one that it knows. Raises
        KafkaException, and Disconnected where the brokers do not answer.
        """
        self._wanted = topics
        try:
            ids = await self._calls.call(partial(self._asker.fetch_ids, topics))
        except TimeoutError:
            raise Disconnected(UNANSWERED) from None
        self._first = {topic: known for topic, known in ids.items() if known}

    def end(self) -> None:
        """Drop the clients, after what they are asked."""
        self._calls.call(self._asker.end)
        self._calls.end()

    def look_now(self) -> None:
        """Look at once: there is a new lane."""
        self._look.set()

    @property
    def trouble(self) -> str | None:
        """Why partitions are not read, if the ids of their topics have been unknown for long."""
        since = self._asking_since
        return UNANSWERED if since is not None and monotonic() - since >= PATIENCE else None

    def end_if_unanswered(self, now: float, *, healthy: bool) -> None:
        """End the connection when healthy brokers have not answered with the ids for long."""
        if not healthy or self._asking_since is None:
            self._unanswered_since = now
        elif now - max(self._asking_since, self._unanswered_since) >= UNANSWERED_FOR:
            self._assignment.fail(UNANSWERED)

    async def keep_looking(self) -> None:
        """Look at new partitions at once, and at all from time to time, until cancelled."""
        asker, lanes = self._asker, self._assignment.lanes
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._look.wait()
            self._look.clear()
            unchecked = {key: lane for key, lane in lanes.items() if not lane.checked}
            topics = {*self._wanted, *[lane.topic for lane in lanes.values()]}
            if not topics:
                continue
            overdue = [topic for topic, since in self._without.items() if monotonic() - since >= FORGOTTEN]
            if unchecked and self._asking_since is None:
                self._asking_since = monotonic()
            try:
                paused = list(lanes) if self._assignment.paused else ()
                ids = await self._calls.call(partial(asker.ask, topics, unchecked, paused, with_given=bool(overdue)))
            except (KafkaException, TimeoutError):
                self._look_again()
            else:
                for key, lane in lanes.items():
                    lane.end = ids.ends.get(key, -1)
                self._compare(ids, frozenset(unchecked.values()))
                self._find_forgotten(ids, overdue)

    def _look_again(self) -> None:
        if any(not lane.checked for lane in self._assignment.lanes.values()):
            asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look.set)
        else:
            self._asking_since = None

    def _compare(self, ids: Ids, asked: Collection[PartitionLane]) -> None:
        """Begin lanes anew whose topic has another id than before; release what the others have kept."""
        assignment = self._assignment
        for topic, found in ids.now.items():
            if found and self._first.setdefault(topic, found) != found and not self.is_outdated:
                LOG.warning(
                    "%s: topic %r was deleted and made anew (its id is %s, and was %s): another client joins the group",
                    assignment.name, topic, found, self._first[topic],
                )  # fmt: skip
                self.is_outdated = True
        if self.is_outdated:
            return
        for key, lane in list(assignment.lanes.items()):
            now = ids.now.get(lane.topic)
            before = lane.topic_id or ids.committed.get(key, "")
            if not before and key not in ids.offsets:  # else another reader knows better where to begin
                before = self._known.get(key, "")
            # A lane that is newer than the question has no answer about its committed offset yet.
            if now is None or not (lane.checked or lane in asked):
                continue
            if now and before and now != before:
                self._begin_anew(lane, before, now)
            elif not lane.checked:
                if now == ids.committed.get(key) and key in ids.epochs and not lane.begins_anew:
                    validated = self._validate(lane, ids.offsets[key], ids.epochs[key])
                    if validated is None:
                        continue
                    lane = validated  # noqa: PLW2901
                lane.topic_id, lane.mark, lane.checked = now or before, mark_of(now or before), True
                self._known[key] = lane.topic_id
                lane.deletions.begun = ids.offsets.get(key, -1)
                if lane.begins_anew and lane.offsets:
                    assignment.begin_at(lane, lane.offsets[0])
                assignment.unread += lane.kept
                lane.kept = []
        self._look_again()

    def _validate(self, lane: PartitionLane, offset: int, epoch: int) -> PartitionLane | None:
        """Have the lane go on where its log differs from the one that was read up to this offset, if it does.

        Returns the lane, or that which replaces it; None: it cannot be done yet.
        """
        if lane.epochs and lane.epochs[0][0] >= offset and lane.epochs[0][1] == epoch:
            return lane  # no log has records of an epoch without all that were written in it before
        try:
            self._assignment.consumer.seek(TopicPartition(lane.topic, lane.partition, offset, leader_epoch=epoch))
        except KafkaException:  # it has not begun to fetch: once more, soon
            return None
        new = self._assignment.replace(lane, lane.topic_id)
        new.begins_anew, new.next = False, offset
        return new

    def _begin_anew(self, lane: PartitionLane, before: str, now: str) -> None:
        """Read a partition of a topic that was made anew from its beginning."""
        if lane.checked or not lane.begins_anew:  # else it has begun anew already, and the seek is tried again
            reason = f"the topic was deleted and made anew: its id is {now}, and was {before}"
            LOG.warning("%s: %s-%d is read anew: %s", self._assignment.name, lane.topic, lane.partition, reason)
            lane = self._assignment.replace(lane, before)
        if self._settings.get("auto.offset.reset") == "error":
            self._assignment.fail(
                f"topic {lane.topic!r} was deleted and made anew, and auto.offset.reset is error: reset the offsets of "
                f"group {self._settings['group.id']!r}"
            )
            return
        try:
            self._assignment.consumer.seek(TopicPartition(lane.topic, lane.partition, OFFSET_BEGINNING))
        except KafkaException:  # it has not begun to fetch: once more, soon
            return
        # Only messages read after the seek are from the begin of the new topic: a new lane leaves all others behind.
        new = self._assignment.replace(lane, now)
        new.checked = True
        new.mark = mark_of(now)
        self._known[new.topic, new.partition] = now

    def _find_forgotten(self, ids: Ids, overdue: Collection[str]) -> None:
        """End the connection if the group has forgotten one of these topics, so that it shares out all anew."""
        ours, now = {lane.topic for lane in self._assignment.lanes.values()}, monotonic()
        without = [topic for topic in self._wanted if topic in ids.now and topic not in ours]
        self._without = {topic: self._without.get(topic, now) for topic in without}
        if ids.given is None:
            return
        self._without.update([(topic, now) for topic in without if topic in ids.given])
        forgotten = [topic for topic in overdue if topic in self._without and topic not in ids.given]
        if forgotten:
            self._assignment.fail(
                f"topic {forgotten[0]!r} is there, and no member of group {self._settings['group.id']!r} was given its "
                "partitions: it joins anew"
            )
