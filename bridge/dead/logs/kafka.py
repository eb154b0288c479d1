"""A topic of Kafka as a log of dead letters, without a consumer group: only committed records are read.

One consumer reads all partitions at the same time. One that has run ahead of the others, in the order of letters, is
read on when they have caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridge.dead.logs.log import Letter, Log, LogLane, to_disconnected
from bridge.endpoints.kafka.cluster.addresses import read_settings
from bridge.endpoints.kafka.cluster.asking import ASKING, fetch_metadata
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.errors import CONNECTING, Reasons
from bridge.endpoints.kafka.cluster.tokens import prepare_login
from bridge.endpoints.kafka.consumer.reader import LaneReader
from bridge.endpoints.kafka.consumer.topic_ids import Asker
from bridge.endpoints.kafka.keys import CLUSTER
from bridge.interop import Record
from exchange.errors import InputError

__all__ = ["CLUSTER", "TopicLog", "read_settings"]

ANSWER: Final = 5.0
"""Seconds that a broker may take to answer where a partition begins and ends."""
POLL: Final = 0.1
"""Seconds of one wait for records."""
POLLED: Final = 64
"""Maximum number of records of one poll."""
SILENCE: Final = 10.0
"""Seconds without a record, where there is one, after which the connection is given up."""
OURS: Final[dict[str, Any]] = {
    **CONNECTING, **ASKING, "group.id": "hashstar-dead", "enable.auto.commit": False, "enable.auto.offset.store": False,
    "isolation.level": "read_committed", "enable.partition.eof": True, "allow.auto.create.topics": False,
    "auto.offset.reset": "earliest", "fetch.wait.max.ms": 10, "fetch.message.max.bytes": 262_144,
    "queued.max.messages.kbytes": 16_384,
}  # fmt: skip
"""Settings of the consumer. Where retention removes what is to be read next, it goes on at the first record there."""


class TopicLog(Log):
    """A topic of Kafka."""

    def __init__(self, url: str, topic: str, settings: Callable[[], Mapping[str, Any]]) -> None:
        super().__init__(url, topic)
        self._settings: Final = settings
        self._topic_id: str | None = None
        self._consumer: Consumer | None = None
        self._calls: Calls | None = None
        self._readers: dict[int, LaneReader] = {}
        """Partitions that the consumer reads."""

    async def connect(self) -> list[LogLane]:
        self._readers.clear()
        self._calls = Calls()
        return await self._calls.call(self._connect)

    def _connect(self) -> list[LogLane]:
        settings = {**OURS, **prepare_login(self._settings())}
        reasons = Reasons(settings)
        consumer = self._consumer = Consumer({**settings, "error_cb": reasons.note_error}, logger=reasons)
        asker = Asker(settings)
        try:
            known = fetch_metadata(consumer, reasons).topics.get(self.topic)
            if known is None or known.error is not None:
                raise InputError(
                    f"there is no topic {self.topic!r}" if known is None else f"{self.name}: {known.error.str()}"
                )
            asked = asker.ask([self.topic], (), [(self.topic, each) for each in known.partitions])
            topic_id = asked.now.get(self.topic, "")
            if self._topic_id not in (None, "", topic_id) and topic_id:
                raise InputError(f"{self.name} was made anew while it was read; run it again for the new one")
            self._topic_id = self._topic_id or topic_id
            lanes = []
            withheld = 0
            for each in sorted(known.partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(self.topic, each), timeout=ANSWER)
                lanes.append(LogLane(each, f"{self.topic}-{each}", low, high))
                withheld += max(asked.ends.get((self.topic, each), high) - high, 0)
        except KafkaException as error:
            raise to_disconnected(self.topic, reasons.explain(error)) from None
        except TimeoutError:
            raise to_disconnected(self.topic, reasons.latest or "its brokers do not answer") from None
        finally:
            asker.end()
        if not self.lanes:
            self.withheld = withheld
        return lanes

    async def fetch(self, lane: LogLane) -> None:
        if self._calls is None or self._consumer is None:
            raise to_disconnected(self.topic, "it is closed")
        await self._calls.call(partial(self._fetch, self._consumer, lane))

    def _fetch(self, consumer: Consumer, wanted: LogLane) -> None:
        lanes = {int(str(lane.key)): lane for lane in self.lanes}
        heard = monotonic()
        try:
            for partition, lane in lanes.items():
                if partition not in self._readers and lane.next < lane.end and (lane is wanted or not lane.is_full):
                    consumer.incremental_assign([TopicPartition(self.topic, partition, lane.next)])
                    self._readers[partition] = LaneReader("dead", self.topic, partition)
            while wanted.next < wanted.end and not wanted.letters:
                records = consumer.consume(1, POLL)
                if records:
                    heard = monotonic()
                    records += consumer.consume(POLLED, 0)
                elif monotonic() - heard > SILENCE:
                    raise to_disconnected(self.topic, f"{wanted.name}: no record in {SILENCE:.0f} s")
                for record in records:
                    error, partition = record.error(), record.partition() or 0
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise to_disconnected(self.topic, error.str())
                    if partition in self._readers:  # else it is read again later, or not at all
                        lane = lanes[partition]
                        self._take(record, lane, self._readers[partition])
                        if lane.is_full or lane.next >= lane.end:
                            consumer.incremental_unassign([TopicPartition(self.topic, partition)])
                            del self._readers[partition]
        except KafkaException as error:
            raise to_disconnected(self.topic, error.args[0].str()) from None

    def _take(self, record: Any, lane: LogLane, reader: LaneReader) -> None:
        """Have a lane take a record, or pass what has none: at the end, the consumer says at which offset it is."""
        offset = record.offset() or 0
        if record.error() is None and offset < lane.next:
            raise InputError(f"{self.name} was made anew while it was read; run it again for the new one")
        if record.error() is None:
            lane.add(self._make_letter(reader, record, lane))
        elif offset >= lane.end:
            lane.pass_to(lane.end)
        else:
            raise to_disconnected(self.topic, lane.describe_end(offset))

    def _make_letter(self, reader: LaneReader, consumed: Any, lane: LogLane) -> Letter:
        try:
            headers, problem = consumed.headers() or (), None
        except UnicodeDecodeError as error:
            headers, problem = (), error
        delivery = reader.make_delivery(consumed, None, problem)
        record = Record(self.topic, consumed.key(), consumed.value(), headers, None, False, int(str(lane.key)))
        topic_id = self._topic_id or ""
        return Letter(
            delivery.message, record, delivery.time, lane.name, delivery.position, topic_id, delivery.refusal
        )  # fmt: skip

    async def disconnect(self) -> None:
        calls, self._calls = self._calls, None
        consumer, self._consumer = self._consumer, None
        if calls is not None:
            if consumer is not None:
                await calls.call(consumer.close)
            calls.end()
