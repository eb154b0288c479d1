"""Segments of brokers before 0.11, in the message formats 0 and 1: read as their own consumers read them."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bindings.archive.formats.detect import detect
from bindings.archive.kafka.header import CODEC, has_header, read_header
from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.mapping import FieldMapping
from tests.recorders import golden
from tests.recorders.kafka_old_log import CODECS, COUNT, MIXED, VERSIONS, topics_of
from tests.support.archives.kafka_files import strip_marks
from tests.support.archives.reads import read
from tests.support.tiers import some

MAPPING = FieldMapping(routing_key="=k")
TOPICS = [
    (version, topic) for version in VERSIONS for topic in [name for name, _, _ in topics_of(version)]
]  # fmt: skip


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the folders of all recorded topics, by version."""
    folder = tmp_path_factory.mktemp("logs")
    for version in VERSIONS:
        golden.unpack(f"kafka-old-log-{version}", folder / version)
    return folder


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return {version: golden.read(f"kafka-old-log-{version}") for version in VERSIONS}


def expected_facts(row: list[Any]) -> tuple[Any, ...]:
    offset, time, _, key, value = row
    key, value = (None if text is None else b64decode(text) for text in (key, value))
    return offset, None if time < 0 else time * 1000, key, value


def formats_in(path: Path) -> Counter[tuple[int, int]]:
    """Count the outer messages of a segment by format and compression."""
    data, place = path.read_bytes(), 0
    found: Counter[tuple[int, int]] = Counter()
    while has_header(data, place):
        header = read_header(data, place)
        found[header.magic, header.attributes & CODEC] += 1
        place += header.size
    return found


@pytest.mark.scaled
@pytest.mark.parametrize(
    ("version", "topic", "split_bytes"),
    some([(version, topic, size) for version, topic in TOPICS for size in (1 << 20, 2000, 100)], 2),
)
def test_a_topics_log_is_read_as_the_consumer_of_the_release_reads_it(
    logs: Path, recorded: dict[str, Any], version: str, topic: str, split_bytes: int
) -> None:
    archive = detect(str(logs / version / f"{topic}-0"), MAPPING)
    assert (archive.formats, archive.others) == (("Kafka segment",), ())
    parts = [read(form, path, split_bytes) for path, form in archive.files]
    assert not [bad for part in parts for bad in part.bad]
    found = []
    for record in [each for part in parts for each in part.records]:
        key, value, headers = strip_marks(record)
        assert not headers
        found.append((record.offset, record.time, key, value))
    assert found == [expected_facts(row) for row in recorded[version][topic]]


def test_the_recordings_have_both_formats_all_compressions_and_both_types_of_time(
    logs: Path, recorded: dict[str, Any]
) -> None:
    found = {
        version: sum((formats_in(path) for path in (logs / version).rglob("*.log")), Counter()) for version in VERSIONS
    }
    codecs = range(len(CODECS))
    assert {*found["0.8.2.2"]} == {(0, codec) for codec in codecs}
    assert {*found["0.10.2.2"]} == {(old, codec) for old in (0, 1) for codec in codecs}
    kinds = Counter(row[2] for topic, _, _ in topics_of("0.10.2.2") for row in recorded["0.10.2.2"][topic])
    assert kinds.keys() == {"NoTimestampType", "CreateTime", "LogAppendTime"}
    both = formats_in(logs / "0.10.2.2" / f"{MIXED}-0" / "00000000000000000000.log")
    assert {old for old, _ in both} == {0, 1}


@pytest.mark.parametrize("version", VERSIONS)
def test_compaction_has_left_gaps(recorded: dict[str, Any], version: str) -> None:
    for codec in CODECS[:2]:
        offsets = [row[0] for row in recorded[version][f"compacted-{codec}"]]
        assert len(offsets) < COUNT
        assert offsets[-1] >= COUNT


def test_the_frames_of_lz4_in_format_0_have_the_wrong_checksum_of_their_header(logs: Path) -> None:
    """So that the case is not lost from the recordings (KAFKA-3160): Arrow refuses the frame as it is."""
    import pyarrow as pa

    data = (logs / "0.8.2.2" / "codec-lz4-0" / "00000000000000000000.log").read_bytes()
    frame = data[data.index(b"\x04\x22\x4d\x18") : read_header(data).size]
    with pytest.raises(OSError, match="LZ4"), pa.CompressedInputStream(pa.BufferReader(frame), "lz4") as stream:
        stream.read(1 << 16)


def test_the_complete_part_of_a_growing_file_ends_with_its_last_whole_message(logs: Path, version: str) -> None:
    path = logs / version / "codec-none-0" / "00000000000000000000.log"
    form, data = KafkaSegment(MAPPING), path.read_bytes()
    for cut in (len(data), len(data) - 1, 30, 10):
        torn = path.with_name("00000000000000000001.log")
        torn.write_bytes(data[:cut])
        found = form.plan_complete(str(torn), 0, 1 << 20)
        ends, place = [0], 0
        while place + 26 <= cut:
            place += read_header(data, place).size
            ends.append(place)
        assert found.end == max(end for end in ends if end <= cut)
        torn.unlink()
