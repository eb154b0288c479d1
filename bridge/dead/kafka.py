"""Read a topic of Kafka from its first offset to its end, without a consumer group: nothing is committed."""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridge.dead.reading import Bounds, Read, RowWriter, Take
from bridge.endpoints.kafka.cluster.addresses import read_settings
from bridge.endpoints.kafka.cluster.asking import ASKING, fetch_metadata
from bridge.endpoints.kafka.cluster.errors import CONNECTING, Reasons
from bridge.endpoints.kafka.consumer.reader import LaneReader
from bridge.table import Table
from exchange.errors import InputError

ANSWER: Final = 5.0
"""Seconds that a broker may take to answer where a partition begins and ends."""
POLL: Final = 0.2
"""Seconds of one wait for records."""
RECORDS: Final = 2_000
"""Maximum number of records of one poll."""


def read_topic(url: str, topic: str, bounds: Bounds, take: Take) -> Read:
    """Read all partitions. Raises InputError."""
    settings: dict[str, Any] = {
        **CONNECTING, **ASKING, **read_settings(url, Table({"url": url}, "the address"))(), "group.id": "hashstar-dead",
        "enable.auto.commit": False, "enable.auto.offset.store": False, "isolation.level": "read_committed",
        "enable.partition.eof": True, "allow.auto.create.topics": False,
    }  # fmt: skip
    reasons = Reasons(settings)
    consumer = Consumer({**settings, "error_cb": reasons.note_error}, logger=reasons)
    try:
        known = fetch_metadata(consumer, reasons).topics.get(topic)
        if known is None or known.error is not None:
            raise InputError(
                f"there is no topic {topic!r}" if known is None else f"topic {topic!r}: {known.error.str()}"
            )
        ends = {
            each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=ANSWER)
            for each in known.partitions
        }
        return _read(consumer, topic, ends, bounds, take)
    except KafkaException as error:
        raise InputError(f"topic {topic!r}: {reasons.trouble or error.args[0].str()}") from None
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str, ends: dict[int, tuple[int, int]], bounds: Bounds, take: Take) -> Read:
    read = Read()
    writers = {each: RowWriter(f"{topic}-{each}", take, read) for each in ends}
    lanes = {each: LaneReader("dead", topic, each) for each in ends}
    at = {each: low for each, (low, high) in ends.items() if low < high}
    going = {*at}
    consumer.assign([TopicPartition(topic, each, offset) for each, offset in at.items()])
    deadline, count = monotonic() + bounds.seconds, 0
    while going and monotonic() < deadline and (bounds.messages is None or count < bounds.messages):
        room = RECORDS if bounds.messages is None else min(RECORDS, bounds.messages - count)
        for record in consumer.consume(room, POLL):
            partition, offset, error = record.partition() or 0, record.offset() or 0, record.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                going.discard(partition)
                at[partition] = ends[partition][1]
            elif offset < ends[partition][1]:
                delivery = lanes[partition].make_delivery(record, None)
                writers[partition].add(delivery.message, delivery.time, offset)
                count += 1
                at[partition] = offset + 1
            if at[partition] >= ends[partition][1]:
                going.discard(partition)
    for writer in writers.values():
        writer.flush()
    read.left = sum([max(high - at.get(each, high), 0) for each, (_, high) in ends.items()])
    read.notes.append("no consumer group was joined, and no offset committed")
    return read
