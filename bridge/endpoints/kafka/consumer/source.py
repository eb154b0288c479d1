"""Topics as a source: a member of a consumer group.

librdkafka reconnects by itself, so a source is disconnected only by what does not pass: a missing permission, a topic
that is gone, a group that put the member out. A pump may not read for long, as it is paused or waits for its targets;
the member stays in its group meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException

from bridge.aside import call_aside
from bridge.endpoint import BridgeLayout, Delivery, Disconnected, EndOfStream, Finding, Misfit
from bridge.endpoints.kafka.cluster.addresses import (
    Settings,
    is_new_protocol,
    read_current_settings,
)
from bridge.endpoints.kafka.cluster.asking import NEW_PROTOCOL, find_missing_request, look_at_topics, make_admin
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.checking import check_source, run_check
from bridge.endpoints.kafka.cluster.errors import Reasons
from bridge.endpoints.kafka.cluster.tokens import prepare_login
from bridge.endpoints.kafka.cluster.topics import check_rights, count_partitions, find_topics
from bridge.endpoints.kafka.consumer.assignment import PartitionLane
from bridge.endpoints.kafka.consumer.backlog import Backlog
from bridge.endpoints.kafka.consumer.member import GroupMember
from bridge.endpoints.kafka.consumer.positions import check_positions
from bridge.endpoints.kafka.consumer.topic_source import CLIENT, TopicSource

FIRST_WAIT: Final = 0.001
LONGEST_WAIT: Final = 0.02
"""Seconds between polls while there are no messages."""

CLOSING: Final = 10.0
"""Seconds that leaving the group may take."""

CLASSIC: Final[Mapping[str, Any]] = {
    "partition.assignment.strategy": "cooperative-sticky",
    # A member that died is noticed sooner than by the default of 45 s: its partitions are not read until then.
    "session.timeout.ms": 10_000,
    # A member learns of joins and leaves at its heartbeats, by default every 3 s, and all wait for the last to learn.
    "heartbeat.interval.ms": 1_000,
}
"""Settings that the brokers have, and members may not have, where ``group.protocol`` is ``consumer`` (KIP-848)."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "auto.offset.reset": "earliest",
    **CLIENT,
}

QUEUE_MOST: Final = 64 << 20
"""Maximum number of bytes that librdkafka fetches ahead, unless the window is smaller."""

TRANSACTIONAL: Final[Mapping[str, Any]] = {"isolation.level": "read_committed"}
"""Settings of a source whose offsets are in transactions. The level also keeps it from beginning at an offset while a
transaction that may move it is open."""


class KafkaSource(TopicSource):
    """Topics, read with a consumer group; those that begin with ``^`` are regular expressions.

    ``settings`` are librdkafka's, or a function that gives them anew for each connection. ``until_end`` ends when all
    partitions were read to where they end. ``window`` bounds the messages that were read and are not committed;
    ``window_bytes``, in bytes, what is read at once and what librdkafka fetches ahead. A ``transactional`` source
    leaves commits to the transactions of its target.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        topics: Sequence[str],
        *,
        until_end: bool = False,
        window: int = 2_000,
        window_bytes: int = 256 << 20,
        transactional: bool = False,
    ) -> None:
        super().__init__(name, settings, topics, window_bytes)
        self.transactional = transactional
        self._until_end = until_end
        self._window = window
        self._backlog: Backlog | None = None
        """Set when it is opened first."""
        self._known: dict[tuple[str, int], str] = {}
        """Topic and partition that was read -> the topic's id."""
        self.member: GroupMember | None = None
        """Set while the source is open."""

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of librdkafka, as of now. Raises Disconnected where a secret cannot be read any more."""
        given = read_current_settings(self._settings)
        return {
            **DEFAULTS,
            **({} if is_new_protocol(given) else CLASSIC),
            # Half of the window is fetched ahead, in addition to what is under way.
            "queued.max.messages.kbytes": max(1, min(QUEUE_MOST, self._window_bytes // 2) >> 10),
            "fetch.max.bytes": self._fetch_bytes,
            **given,
            "enable.auto.offset.store": False,
            "enable.auto.commit": False,
            "enable.partition.eof": self._until_end,
            **(TRANSACTIONAL if self.transactional else {}),
        }

    def make_offline(self, settings: Mapping[str, Any], logger: logging.Logger) -> None:
        """Make a consumer and end it, without an address. Raises KafkaException for settings that are wrong."""
        Consumer(dict(settings), logger=logger).close()

    @property
    def trouble(self) -> str | None:
        return None if self.member is None else self.member.trouble

    @property
    def lost(self) -> Disconnected | None:
        return None if self.member is None else self.member.lost

    @property
    def lag(self) -> int | None:
        return None if self._backlog is None else self._backlog.lag

    @property
    def withheld(self) -> int:
        return 0 if self._backlog is None else self._backlog.withheld

    @property
    def vanished(self) -> int:
        return 0 if self._backlog is None else self._backlog.vanished

    async def check(self) -> Sequence[Finding]:
        return await run_check(lambda: check_source(prepare_login(self.settings), self._topics, check_positions))

    def meet(self, layout: BridgeLayout) -> None:
        if not self.transactional:
            return
        writers = {id(target): target.name for target in layout.targets.values() if target.transactional}
        if not writers:
            raise Misfit(
                "transactional",
                "no target is transactional, and offsets are committed by transactions alone; write transactional = "
                "true in the target of Kafka that its messages go to, or take it away here",
            )
        if len(writers) > 1:
            raise Misfit(
                "transactional",
                f"{' and '.join(sorted(writers.values()))} are transactional targets, and no transaction spans two; "
                "make one target of them, with the queues of both",
            )

    async def open(self) -> None:
        self._calls = Calls()
        settings = await self._calls.call(lambda: prepare_login(self.settings))
        reasons = Reasons(settings)
        try:
            if self._backlog is None:
                level = settings.get("isolation.level", "read_committed")
                self._backlog = Backlog(self.name, reads_committed=level == "read_committed")
            member = self.member = GroupMember(
                self.name, settings, reasons, window=self._window, transactional=self.transactional,
                backlog=self._backlog, read_bytes=self._window_bytes // 8, known=self._known,
            )  # fmt: skip
            await self._calls.call(member.connect)
            metadata = await look_at_topics(settings, reasons)
            named = [topic for topic in self._topics if not topic.startswith("^")]
            if missing := [topic for topic in named if topic not in metadata.topics]:
                await self._calls.call(lambda: check_rights(make_admin(settings, reasons), missing))
            count_partitions(metadata, named)
            await member.expect(find_topics(metadata, self._topics))
            if is_new_protocol(settings):
                problem = await self._calls.call(lambda: find_missing_request(settings, NEW_PROTOCOL))
                if problem:
                    raise Disconnected(problem)
            member.join(self._topics)
        except KafkaException as error:
            raise await call_aside(reasons.explain, error) from None

    async def read(self, limit: int) -> Sequence[Delivery]:
        wait = FIRST_WAIT
        while True:
            member = self.member
            if member is None:
                raise Disconnected("closed")
            if member.is_outdated:
                await self.close()
                await self.open()
                continue
            if deliveries := member.take(limit):
                return deliveries
            if self._until_end and member.at_end:
                raise EndOfStream
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    def settle(self, delivery: Delivery) -> None:
        lane: PartitionLane = delivery.lane  # type: ignore[assignment]  # which is of this source
        lane.assignment.settle(delivery)

    async def close(self) -> None:
        member, self.member = self.member, None
        calls, self._calls = self._calls, None
        if member is not None:
            member.leave()
        if self._backlog is not None:
            self._backlog.forget()
        if calls is None:
            return
        try:
            if member is not None:
                closing = calls.call(member.close)
                await asyncio.wait([closing], timeout=CLOSING)
                if closing.done():
                    closing.exception()
        finally:
            calls.end()
