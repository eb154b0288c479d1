"""Segments that real Kafka brokers wrote: read as Kafka's own consumers read what is committed."""

from __future__ import annotations

import gzip
from base64 import b64decode
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bindings.archive.formats.detect import detect
from bindings.archive.inspection import inspect_splits
from bindings.archive.kafka.segment import ABORTED, MARKER, NOT_ENDED, KafkaSegment
from bindings.archive.mapping import FieldMapping
from bindings.archive.record import Record
from tests.recorders import golden
from tests.recorders.kafka_log import CODECS, TOPICS
from tests.support.archives.kafka_files import strip_marks
from tests.support.archives.reads import Read, read
from tests.support.tiers import some

LITERAL = KafkaSegment(FieldMapping(routing_key="=k"))
RECORDINGS = golden.names("kafka-log-")
BEHIND_AN_OPEN_ONE = {"transactions": 2}
"""Records outside of transactions that consumers of what is committed get only once those before have ended."""


@pytest.fixture(scope="module", params=RECORDINGS)
def recording(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"name": request.param, **golden.read(request.param)}


@pytest.fixture
def logs(recording: dict[str, Any], tmp_path: Path) -> Path:
    """Return the folder with the logs of the topics, as the broker left them."""
    golden.unpack(recording["name"], tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def kept(recording: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return that folder for the tests that change nothing in it."""
    folder = tmp_path_factory.mktemp("logs")
    golden.unpack(recording["name"], folder)
    return folder


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def expected_facts(recorded: dict[str, Any]) -> tuple[Any, ...]:
    headers = {name: bytes_of(value) for name, value in recorded["headers"]}  # of equal names the last
    key, value = bytes_of(recorded["key"]), bytes_of(recorded["value"])
    return recorded["offset"], recorded["time"] * 1000, key, value, sorted(headers.items(), key=repr)


def read_facts(record: Record) -> tuple[Any, ...]:
    key, value, headers = strip_marks(record)
    return record.offset, record.time, key, value, sorted(headers.items(), key=repr)


def read_all(folder: Path, split_bytes: int, mapping: FieldMapping = LITERAL.mapping) -> Read:
    archive = detect(str(folder), mapping)
    assert (archive.formats, archive.others) == (("Kafka segment",), ())
    parts = [read(form, path, split_bytes) for path, form in archive.files]
    skipped: Counter[str] = Counter()
    for part in parts:
        skipped.update(part.skipped)
    return Read([r for part in parts for r in part.records], [b for part in parts for b in part.bad], dict(skipped))


def test_there_is_a_recording_of_each_era() -> None:
    assert RECORDINGS == ["kafka-log-3.9.2", "kafka-log-4.3.1"]


@pytest.mark.scaled
@pytest.mark.parametrize(("topic", "split_bytes"), some([*product(TOPICS, (1 << 20, 1000, 100))], 2))
def test_a_topics_log_is_read_as_what_is_committed(
    recording: dict[str, Any], kept: Path, topic: str, split_bytes: int
) -> None:
    log = recording[topic]
    result = read_all(kept / f"{topic}-0", split_bytes)
    assert not result.bad
    behind = BEHIND_AN_OPEN_ONE.get(topic, 0)
    committed = {*log["committed"], *[each["offset"] for each in log["records"][len(log["records"]) - behind :]]}
    assert [read_facts(record) for record in result.records] == [
        expected_facts(each) for each in log["records"] if each["offset"] in committed
    ]
    assert {record.message.exchange for record in result.records} == {topic}
    assert len(log["records"]) - len(committed) == result.skipped.get(ABORTED, 0) + result.skipped.get(NOT_ENDED, 0)


@pytest.mark.parametrize("topic", [f"codec-{codec}" for codec in CODECS])
def test_records_without_a_key_are_messages_without_one(recording: dict[str, Any], kept: Path, topic: str) -> None:
    log = recording[topic]["records"]
    result = read_all(kept / f"{topic}-0", 1000, FieldMapping())
    keys = [(each["offset"], bytes_of(each["key"])) for each in log]
    assert [(r.offset, r.message.routing_key.encode("utf-8", "surrogateescape")) for r in result.records] == [
        (offset, key or b"") for offset, key in keys
    ]
    without = [r.offset for r in result.records if r.message.headers.get("x-kafka-key", "") is None]
    assert without == [offset for offset, key in keys if key is None]
    assert not result.bad


def test_records_of_aborted_and_open_transactions_are_skipped_with_a_reason(logs: Path) -> None:
    """Two transactions aborted, of 4 + 5 and of 6 records; one of 3 is open, behind which no consumer reads yet."""
    skipped = read_all(logs / "transactions-0", 1 << 20).skipped
    assert (skipped[ABORTED], skipped[NOT_ENDED], skipped[MARKER]) == (15, 3, 4)


def test_the_end_of_a_transaction_is_found_in_a_later_segment_and_unknown_without_it(
    recording: dict[str, Any], logs: Path
) -> None:
    folder = logs / "rolled-transactions-0"
    first, second, *_ = sorted(folder.glob("*.log"))
    assert read(LITERAL, first).skipped == {ABORTED: 4}
    assert len(read(LITERAL, first).records) == 3
    for path in (second, *sorted(folder.glob("*.log"))[2:]):
        path.unlink()
    assert read(LITERAL, first).skipped == {NOT_ENDED: 7}
    assert not read(LITERAL, first).records


def test_what_a_compacted_topic_keeps_has_gaps(recording: dict[str, Any]) -> None:
    offsets = recording["compacted"]["committed"]
    assert len(offsets) < offsets[-1] // 2


def test_a_segment_has_its_size_beforehand_and_zeros_at_the_end(logs: Path) -> None:
    (path,) = (logs / "preallocated-0").glob("*.log")
    data = path.read_bytes()
    assert len(data) == 1 << 20
    assert not any(data[-1000:])


def test_segments_that_were_replaced_and_folders_that_are_no_more_are_no_archive(logs: Path) -> None:
    assert list((logs / "compacted-0").glob("*.log.deleted"))
    before = inspect_splits(detect(str(logs), LITERAL.mapping).plan()).records
    (logs / "codec-none-0").rename(logs / f"codec-none-0.{'0a' * 16}-delete")
    assert inspect_splits(detect(str(logs), LITERAL.mapping).plan()).records == before - 42


def test_splits_begin_where_the_index_says_or_where_batches_do(logs: Path) -> None:
    (path,) = (logs / "codec-none-0").glob("*.log")
    by_index = LITERAL.plan(str(path), 200)
    index = path.with_suffix(".index")
    assert len(by_index) > 3
    whole = [read_facts(record) for record in read(LITERAL, path).records]
    for content in (b"", b"\0" * 800, bytes(range(256)) * 3, index.read_bytes()[:-5], None):
        index.unlink() if content is None else index.write_bytes(content)
        assert [read_facts(record) for record in read(LITERAL, path, 200).records] == whole
        assert not read(LITERAL, path, 200).bad
    assert [split[:3] for split in LITERAL.plan(str(path), 200)] == [split[:3] for split in by_index]


def test_a_gzipped_segment_is_read_as_one_that_is_not(logs: Path) -> None:
    for topic in ("codec-lz4", "rolled-transactions"):
        folder = logs / f"{topic}-0"
        whole = read_all(folder, 1 << 20)
        for path in folder.glob("*.log"):
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        packed = read_all(folder, 100)
        assert (packed.bad, packed.skipped) == (whole.bad, whole.skipped)
        assert [read_facts(record) for record in packed.records] == [read_facts(record) for record in whole.records]
