"""Topics as a source: a member of a share group (KIP-932), whose members share partitions record by record.

Each record is locked for the member that got it, and acknowledged by itself, once it is settled: as accepted, be it
that it was written, has become a dead letter or was dropped by the policy. What is not settled when the source is
closed is released, and comes again at once. Nothing is rejected: what cannot be delivered is the pump's to decide.

librdkafka gives the next records only when all of the last poll are acknowledged. So the records of a poll are a batch:
the pump gets it in parts, and nothing more is polled before all of it is settled. Nor can librdkafka renew locks. A
batch that takes longer than its locks last is finished all the same: its records come again, here or elsewhere, and
brokers refuse the late acknowledgements. To give such a batch up would cost each record one of the few deliveries that
it has: behind a target that takes nothing for minutes, brokers would drop it.

librdkafka reports errors, statistics and the fate of acknowledgements only within calls of the consumer, which are made
on the event loop's thread, except the last, its closing. What comes then is ignored.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final

from confluent_kafka import AcknowledgeType, IllegalStateException, KafkaError, KafkaException, ShareConsumer

from bridge.aside import call_aside
from bridge.client_errors import describe_unexpected
from bridge.endpoint import BridgeLayout, Delivery, Disconnected, EndOfStream, Finding
from bridge.endpoints.kafka.cluster.addresses import (
    Settings,
    read_current_settings,
)
from bridge.endpoints.kafka.cluster.asking import (
    SHARE_GROUPS,
    find_missing_request,
    look_at_topics,
    make_admin,
)
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.checking import check_share_source, run_check
from bridge.endpoints.kafka.cluster.errors import LOG, PASSING, PERMISSIONS, Reasons, describe_error, to_disconnected
from bridge.endpoints.kafka.cluster.health import ClientHealth
from bridge.endpoints.kafka.cluster.tokens import prepare_login
from bridge.endpoints.kafka.cluster.topics import check_rights, count_partitions
from bridge.endpoints.kafka.consumer.reader import LaneReader
from bridge.endpoints.kafka.consumer.share_group import (
    ShareGroup,
    check_share_group,
    describe_other_type,
    fetch_share_group,
)
from bridge.endpoints.kafka.consumer.topic_source import CLIENT, TopicSource
from exchange.text.display import count_noun

MOST_RECORDS: Final = 500
"""Maximum number of records that a poll asks for. A batch of a producer comes as a whole, however large it is."""

RATED_SECONDS: Final = 5.0
"""Seconds that a batch takes at most by the rate of the policy: it must be settled while its locks last."""

FIRST_WAIT: Final = 0.001
LONGEST_WAIT: Final = 0.02
"""Seconds between polls while there are no records."""

COMMIT_EVERY: Final = 0.1
"""Seconds between the sending of acknowledgements."""

FETCHING: Final = 1.0
"""Seconds that a fetch may be under way: librdkafka's ``fetch.wait.max.ms`` is half of that."""

LOOK_EVERY: Final = 10.0
"""Seconds between looks whether the topics are there: nothing else shows that one was deleted."""

CLOSING: Final = 10.0
"""Seconds that leaving the group may take."""


class AcquiredRecord:
    """A record that is locked for this member: the lane of its delivery, in which nothing else is."""

    __slots__ = ("deliveries", "offset", "partition", "topic")

    def __init__(self, topic: str, partition: int, offset: int, deliveries: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.deliveries = deliveries
        """How often it was delivered, this time included."""


class ShareSource(TopicSource):
    """Topics, read with a share group.

    ``window`` and ``window_bytes`` bound what is asked for at once, and so does the ``rate``, in messages per second.
    ``one_at_a_time`` and ``give_up_after`` are the policy's, which `check` compares with what a share group can keep.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        topics: Sequence[str],
        *,
        window: int = 2_000,
        window_bytes: int = 256 << 20,
        rate: float | None = None,
        one_at_a_time: bool = False,
        give_up_after: float | None = None,
    ) -> None:
        super().__init__(name, settings, topics, window_bytes)
        rated = MOST_RECORDS if rate is None else max(1, int(rate * RATED_SECONDS))
        self._most_records: Final = min(window, MOST_RECORDS, rated)
        self._one_at_a_time = one_at_a_time
        self._give_up_after = give_up_after
        self._ordered: Sequence[str] = ()
        """Queues of the topology that are partitioned, so that the messages of a key stay in order."""
        self._consumer: Any = None
        self._group: ShareGroup | None = None
        self._health: ClientHealth | None = None
        self._reasons = Reasons()
        self._lost: Disconnected | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._unread: deque[Delivery] = deque()
        """Deliveries of the batch that the pump was not given yet."""
        self._unsettled: set[AcquiredRecord] = set()
        """Records of the batch that are not acknowledged."""
        self._readers: dict[tuple[str, int], LaneReader] = {}
        self._emptied: Final = asyncio.Event()
        """Set when the last record of a batch is settled."""
        self._polled_at = 0.0
        """Time of the latest poll, monotonic; the records of the next one were locked then, or later."""
        self._locked_at = 0.0
        """Time since which the records of the batch may be locked, monotonic."""
        self._is_stopped = False
        """Whether nothing more is polled."""

    @property
    def settings(self) -> dict[str, Any]:
        return {
            **CLIENT,
            "fetch.max.bytes": self._fetch_bytes,
            "max.poll.records": self._most_records,
            **read_current_settings(self._settings),
            "share.acknowledgement.mode": "explicit",
        }

    def make_offline(self, settings: Mapping[str, Any], logger: logging.Logger) -> None:
        """Make a consumer and end it, without an address. Raises KafkaException or ValueError for wrong settings."""
        ShareConsumer(dict(settings), logger=logger).close()

    def meet(self, layout: BridgeLayout) -> None:
        queues = layout.topology.queues
        self._ordered = [name for name in layout.targets if name in queues and queues[name].partitioning is not None]

    async def check(self) -> Sequence[Finding]:
        own = {name: value for name, value in self.settings.items() if name != "statistics.interval.ms"}
        check = partial(
            check_share_group, settings=own, ordered=self._ordered, one_at_a_time=self._one_at_a_time,
            give_up_after=self._give_up_after,
        )  # fmt: skip
        return await run_check(lambda: check_share_source(prepare_login(own), self._topics, check))

    @property
    def trouble(self) -> str | None:
        if self._health is not None and self._health.trouble is not None:
            return self._health.trouble
        group, lasts = self._group, monotonic() - self._locked_at
        if group is None or not self._unsettled or lasts < group.lock_seconds:
            return None
        return (
            f"{count_noun(len(self._unsettled), 'record')} of a batch, which nothing else is read before, "
            f"{'is' if len(self._unsettled) == 1 else 'are'} not settled after {lasts:.0f} s: the locks lasted for "
            f"{group.lock_seconds:g} s, so they come twice"
        )

    @property
    def lost(self) -> Disconnected | None:
        return self._lost or self._reasons.trouble

    @property
    def most_deliveries(self) -> int:
        limit = None if self._group is None else self._group.limit
        counts = [each.deliveries for each in self._unsettled if limit is not None and each.deliveries >= limit - 1]
        return max(counts, default=1) - 1

    async def open(self) -> None:
        self._lost, self._is_stopped = None, False
        calls = self._calls = Calls()
        settings = await calls.call(lambda: prepare_login(self.settings))
        reasons = self._reasons = Reasons(settings)
        try:
            metadata = await look_at_topics(settings, reasons)
            missing = [topic for topic in self._topics if topic not in metadata.topics]
            group = await calls.call(lambda: _ask_for_group(settings, missing))
            count_partitions(metadata, self._topics)
            if problem := await calls.call(lambda: find_missing_request(settings, SHARE_GROUPS)):
                raise Disconnected(problem)
            if group != self._group:
                for warning in group.warnings:
                    LOG.warning("%s: %s", self.name, warning)
            self._group = group
            self._health = ClientHealth(
                lambda: reasons.latest, reasons.may_be_tls, reasons.connects_within, reasons.note_connected
            )
            own = {**settings, "error_cb": reasons.note_error, "stats_cb": self._on_statistics}
            consumer = self._consumer = await calls.call(lambda: ShareConsumer(own, logger=reasons))
            consumer.set_acknowledgement_commit_callback(self._on_acknowledged)
            consumer.subscribe(self._topics)
        except KafkaException as error:
            raise await call_aside(reasons.explain, error) from None
        except ValueError as error:  # of a file of certificates, too
            raise Disconnected(str(error)) from None
        self._polled_at = monotonic()
        self._tasks = [asyncio.create_task(each) for each in (self._keep_sending(), self._keep_looking(settings))]
        for task in self._tasks:
            task.add_done_callback(self._on_task_end)

    async def read(self, limit: int) -> Sequence[Delivery]:
        wait = FIRST_WAIT
        while True:
            if (lost := self.lost) is not None:
                raise lost
            if self._consumer is None:
                raise Disconnected("closed")
            if unread := self._unread:
                return [unread.popleft() for _ in range(min(limit, len(unread)))]
            if self._is_stopped:
                raise EndOfStream
            if not self._unsettled:
                self._poll()
            if self._unread or self.lost is not None:
                continue
            self._emptied.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._emptied.wait()
            wait = min(wait * 2, LONGEST_WAIT)

    async def stop_taking(self) -> bool:
        self._is_stopped = True
        return True

    def _poll(self) -> None:
        """Take the records that have arrived, as the next batch, and have others fetched."""
        assert self._group is not None  # noqa: S101  `open` has asked for it
        before, self._polled_at = self._polled_at, monotonic()
        try:
            messages = self._consumer.poll(0)
        except KafkaException as error:
            self._fail(error.args[0])
            return
        limit = self._group.limit
        # After a pause, what was fetched before it is not ours any more: it is given back, unless brokers drop it.
        is_stale = self._polled_at - before > self._group.lock_seconds + FETCHING
        last = 0
        for message in messages:
            if (problem := message.error()) is not None:
                self._note_error(problem)
                with suppress(IllegalStateException, ValueError, TypeError):
                    self._consumer.acknowledge(message, AcknowledgeType.RELEASE)
                continue
            deliveries = message.delivery_count()
            if is_stale and limit is not None and deliveries < limit:
                self._consumer.acknowledge(message, AcknowledgeType.RELEASE)
                continue
            last += limit is not None and deliveries >= limit
            self._take(message, deliveries)
        self._locked_at = before
        if last:
            LOG.warning(
                "%s: %s delivered for the last time: if this process ends before they are settled, Kafka drops them",
                self.name, count_noun(last, "record is", "records are"),
            )  # fmt: skip

    def _take(self, message: Any, deliveries: int) -> None:
        """Add a record to the batch."""
        topic, partition = message.topic(), message.partition()
        reader = self._readers.get((topic, partition))
        if reader is None:
            reader = self._readers[topic, partition] = LaneReader(self.name, topic, partition)
        record = AcquiredRecord(topic, partition, message.offset(), deliveries)
        try:
            delivery = reader.make_delivery(message, record)
        except Exception as error:  # noqa: BLE001  whatever is wrong is wrong with this message only
            delivery = reader.make_delivery(message, record, error)
        delivery.redelivered = deliveries > 1
        self._unsettled.add(record)
        self._unread.append(delivery)

    def settle(self, delivery: Delivery) -> None:
        record: AcquiredRecord = delivery.lane  # type: ignore[assignment]  # which is of this source
        if record not in self._unsettled:  # of an earlier connection
            return
        self._unsettled.discard(record)
        self._acknowledge(record, AcknowledgeType.ACCEPT)
        if not self._unsettled:
            self._send()
            self._emptied.set()

    def _acknowledge(self, record: AcquiredRecord, how: AcknowledgeType) -> None:
        with suppress(IllegalStateException):  # the partition is another member's now: the record comes again
            self._consumer.acknowledge_offset(record.topic, record.partition, record.offset, how)

    def _send(self) -> None:
        """Send what is acknowledged, and take what librdkafka reports."""
        try:
            self._consumer.commit_async()
        except KafkaException as error:
            self._fail(error.args[0])

    def _on_acknowledged(self, offsets: Mapping[Any, set[int]], problem: KafkaException | None) -> None:
        """Take note of the answer to acknowledgements; those that were refused come again."""
        if problem is None or self._consumer is None:
            return
        error = problem.args[0]
        LOG.warning(
            "%s: %s refused: %s; what was settled comes again", self.name,
            count_noun(sum(map(len, offsets.values())), "acknowledgement is", "acknowledgements are"),
            describe_error(error),
        )  # fmt: skip
        if error.fatal() or error.code() in PERMISSIONS:
            self._fail(error)

    def _on_statistics(self, text: str) -> None:
        if self._consumer is None or self._health is None:
            return
        try:
            self._health.look(text, monotonic())
        except Disconnected as error:
            self._lost = error
        if self._health.abandoned is not None:
            self._lost = Disconnected(self._health.abandoned)

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal() or not (error.code() in PASSING or error.retriable()):
            self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        """Note why the connection must end."""
        is_other = error.code() == KafkaError.GROUP_ID_NOT_FOUND
        self._lost = Disconnected(describe_other_type(self.settled_in)) if is_other else to_disconnected(error)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(problem := task.exception(), Exception):
            self._lost = Disconnected(describe_unexpected(problem))

    async def _keep_sending(self) -> None:
        """Send acknowledgements of parts of a batch, also while nothing is read."""
        while True:
            await asyncio.sleep(COMMIT_EVERY)
            self._send()

    async def _keep_looking(self, settings: Mapping[str, Any]) -> None:
        """Look whether the topics are there."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                count_partitions(await look_at_topics(settings, Reasons(settings)), self._topics)
            except KafkaException:  # the statistics show what is wrong
                continue
            except Disconnected as error:
                self._lost = error

    async def close(self) -> None:
        consumer, calls = self._consumer, self._calls
        for task in self._tasks:
            task.cancel()
        if consumer is not None:
            for record in self._unsettled:
                self._acknowledge(record, AcknowledgeType.RELEASE)
        self._consumer = self._calls = self._health = None
        self._tasks = []
        self._unread.clear()
        self._unsettled = set()
        if calls is None:
            return
        try:
            if consumer is not None:
                closing = calls.call(consumer.close)
                await asyncio.wait([closing], timeout=CLOSING)
                if closing.done():
                    closing.exception()
        finally:
            calls.end()


def _ask_for_group(settings: Mapping[str, Any], missing: Sequence[str]) -> ShareGroup:
    """Return the group, unless a ``missing`` topic is hidden from this user; wait for answers. Raises Disconnected."""
    admin = make_admin(settings, Reasons(settings))  # it ends here, and not on the loop's thread
    check_rights(admin, missing)
    return fetch_share_group(admin, str(settings["group.id"]))
