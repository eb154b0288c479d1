"""Logs that brokers of Kafka 0.8 and 0.10 write now: each record as the consumer of the release reads it.

By default few records are compared. ``HASHSTAR_OLD_KAFKA_RECORDS`` is the number of records of each topic in which some
are compared, such as 125000, with which a million records are of each release.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator

import pytest

from bindings.archive.formats.detect import detect
from bindings.archive.mapping import FieldMapping
from bindings.archive.record import to_records
from tests.recorders.jvm import PROGRAMS, find_classpath
from tests.recorders.kafka_old_log import CODECS, VERSIONS, OldBroker, OldRecord, run_broker
from tests.support.archives.kafka_files import strip_marks
from tests.support.servers import missing

COUNT = int(os.environ.get("HASHSTAR_OLD_KAFKA_RECORDS", "400"))
KINDS = {"0.8.2.2": ("0",), "0.10.2.2": ("0", "1")}
"""Message formats that a release writes."""


def text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def read_topic(broker: OldBroker, topic: str) -> Iterator[OldRecord]:
    archive = detect(str(broker.data / f"{topic}-0"), FieldMapping(routing_key="=k"))
    assert not archive.others
    for form, split in archive.plan(1 << 20):
        for item in form.read(split):
            assert not isinstance(item, tuple), item  # neither bad nor skipped
            for record in to_records(item):
                key, value, _ = strip_marks(record)
                moment = -1 if record.time is None else record.time // 1000
                yield OldRecord(topic, record.offset or 0, moment, "", text(key), text(value))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", VERSIONS)
def test_each_record_is_read_as_the_consumer_of_the_release_reads_it(version: str) -> None:
    for program in PROGRAMS:
        if shutil.which(program) is None:
            missing(f"there is no {program} to run Kafka {version} with")
    try:
        find_classpath(f"org.apache.kafka:kafka_2.11:{version}")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as reason:
        missing(f"Maven cannot fetch Kafka {version} ({reason})")
    with run_broker(version) as broker:
        topics = [(f"format-{old}-{codec}", codec) for old in KINDS[version] for codec in CODECS]
        for topic, _ in topics:
            is_older = topic.startswith("format-0") and len(KINDS[version]) > 1
            broker.create(topic, **({"message_format_version": "0.9.0"} if is_older else {}))
        broker.send(COUNT, *topics)
        expected = broker.read(*[topic for topic, _ in topics])
        compared, spent = 0, 0.0
        for topic, _ in topics:
            begun = time.perf_counter()
            records = list(read_topic(broker, topic))
            spent += time.perf_counter() - begun
            assert len(records) == COUNT
            for record in records:
                assert record == next(expected)._replace(kind="")
            compared += len(records)
        assert next(expected, None) is None
        print(f"Kafka {version}: {compared:,} records are equal; read in {spent:.1f} s")
