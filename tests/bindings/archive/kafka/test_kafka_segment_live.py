"""Segment files that real Kafka brokers wrote, with each compression."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bindings.archive.formats.detect import detect
from bindings.archive.kafka.header import read_header
from exchange.values.field_values import resolve_type
from tests.support.archives.containers import copy_out, run_inside
from tests.support.archives.reads import read
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 500


def _messages(codec: str) -> list[dict[str, Any]]:
    random = Random(codec)
    return [
        {
            "key": f"order.{random.randrange(50)}.\xfc".encode("utf-8" if n % 3 else "latin-1"),
            "value": random.choice((None, b"", b"v" * random.randrange(2000))),
            "headers": [("h", str(n).encode()), ("h", None), ("b\xfc", random.randbytes(3))][: random.randrange(4)],
            "timestamp": 1_700_000_000_000 + n,
        }
        for n in range(COUNT)
    ]


@pytest.fixture(params=CODECS)
def topic(kafka: Server, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Yield a topic of one partition, and the codec of its messages."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    name = unique_name(f"archive-{request.param}")
    admin = AdminClient({"bootstrap.servers": kafka.url})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(find_limit())
    settings = {"bootstrap.servers": kafka.url, "compression.type": request.param, "linger.ms": 20}
    producer = Producer(settings)
    for message in _messages(request.param):
        producer.produce(name, **message)
    producer.flush(find_limit())
    try:
        yield name, str(request.param)
    finally:
        admin.delete_topics([name])[name].result(find_limit())


def codecs_in(segment: bytes) -> set[int]:
    """Of its batches: a producer that is kept waiting may send a first one so small that packing it gains nothing."""
    found, place = set[int](), 0
    while place + 61 <= len(segment) and (header := read_header(segment, place)).length > 0:
        found.add(header.attributes & 7)
        place += header.size
    return found


@pytest.mark.smoke
def test_all_that_a_broker_wrote_is_read(kafka: Server, topic: tuple[str, str], tmp_path: Path) -> None:
    name, codec = topic
    (folder,) = run_inside(
        kafka, "sh", "-c", f"ls -d /*/{name}-0 /*/*/{name}-0 /*/*/*/{name}-0 2>/dev/null || true"
    ).split()
    copy_out(kafka, folder, tmp_path)
    archive = detect(str(tmp_path))
    assert (archive.formats, archive.others) == (("Kafka segment",), ())
    ((path, form),) = archive.files
    assert CODECS.index(codec) in codecs_in(Path(str(path)).read_bytes())
    result = read(form, path, 10_000)
    assert not result.bad
    assert [record.offset for record in result.records] == list(range(COUNT))
    for record, message in zip(result.records, _messages(codec), strict=True):
        assert record.message.exchange == name
        assert record.message.routing_key.encode("utf-8", "surrogateescape") == message["key"]
        assert record.message.body == (message["value"] or b"")
        assert record.time == message["timestamp"] * 1000
        headers = {key: resolve_type(value)[1] for key, value in record.message.headers.items()}
        marks = {"x-kafka-topic": name.encode(), "x-kafka-key": message["key"], "x-kafka-tombstone": True}
        assert headers == dict(message["headers"]) | (marks if message["value"] is None else {})
