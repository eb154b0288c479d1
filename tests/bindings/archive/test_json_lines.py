"""JSON lines: ours come back, others are read, by Arrow as by Python, whole or in pieces, torn or damaged."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.detect import detect
from bindings.archive.formats.json_lines import JsonLines, _read_by_arrow, add_line, encode_line, read_lines
from bindings.archive.formats.mapped_lines import SEARCHED, read_first_lines
from bindings.archive.inspection import inspect_splits
from bindings.archive.reading import Bad, LineBlock, Split
from bindings.archive.record import Record, to_records
from exchange.values.message import Message
from tests.exchange.test_field_json import TEXT
from tests.support.archives.reads import FILES, RECORDS, facts, read

LINES = JsonLines()
SURE_TIMES = 9_000_000_000_000_000
"""Microseconds that survive a JSON number."""


def is_text(line: bytes) -> bool:
    """Whether a line has no half of a surrogate pair in it, as archives have none, but for bytes that are not UTF-8."""
    halves = re.findall(rb"\\u(d[89a-f][0-9a-f]{2})", line)
    return all(0xDC80 <= int(half, 16) < 0xDD00 for half in halves)


def write_lines(path: Path, lines: list[Any]) -> Path:
    path.write_bytes(
        b"".join([line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines])
    )
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines")


@FILES
@given(
    st.lists(
        RECORDS.filter(lambda r: (r.time is None or abs(r.time) < SURE_TIMES) and is_text(encode_line(r))), max_size=4
    )
)
def test_what_is_written_is_read_again(folder: Path, records: list[Record]) -> None:
    found = read(LINES, write_lines(folder / "own.jsonl", [encode_line(record) for record in records]))
    assert not found.bad
    assert [facts(record) for record in found.records] == [facts(record) for record in records]


@FILES
@given(
    st.lists(RECORDS.filter(lambda r: is_text(encode_line(r._replace(time=None)))), min_size=1, max_size=4), st.data()
)
def test_a_file_torn_anywhere_gives_the_whole_lines_before_and_reports_the_torn_one(
    folder: Path, records: list[Record], data: st.DataObject
) -> None:
    lines = [encode_line(record._replace(time=None)) for record in records]
    cut = data.draw(st.integers(0, sum(map(len, lines))))
    path = folder / "torn.jsonl"
    path.write_bytes(b"".join(lines)[:cut])
    found = read(LINES, path)
    ends = [sum(map(len, lines[: n + 1])) for n in range(len(lines))]
    whole = sum(end - 1 <= cut for end in ends)  # without its line feed a line is whole all the same
    assert len(found.records) == whole
    torn = cut not in {0, *ends, *[end - 1 for end in ends]}
    assert [bad.reason.startswith("the file ends in the middle") for bad in found.bad] == [True] * torn
    if torn:
        assert found.bad[0].offset == ([0, *ends][whole])


@FILES
@given(
    st.lists(
        st.fixed_dictionaries({"exchange": TEXT, "routing_key": TEXT, "body": TEXT}).filter(
            lambda line: is_text(json.dumps(line).encode())
        ),
        max_size=9,
    ),
    st.integers(1, 60),
)
def test_splits_give_each_line_once(folder: Path, lines: list[Any], size: int) -> None:
    path = write_lines(folder / "splits.jsonl", lines)
    found, whole = read(LINES, path, size), read(LINES, path)
    assert [facts(record) for record in found.records] == [facts(record) for record in whole.records]
    assert len(found.records) == len(lines)


PLAIN = st.fixed_dictionaries(
    {},
    optional={
        "exchange": TEXT | st.none() | st.just("amq.rabbitmq.trace") | st.integers(),
        "routing_key": TEXT | st.none(),
        "timestamp": st.none()
        | st.integers()
        | st.floats()
        | st.integers(0, 10**12)
        | st.sampled_from(["2020-01-01", "x"]),
        "headers": st.sampled_from([{}, None, {"a": 1}, {"a": None}, []]),
        "properties": st.sampled_from([{}, None, {"type": "b"}, {"a": "b"}]),
        "body": TEXT | st.none() | st.just({"!bytes": "AA=="}),
        "vhost": TEXT | st.none() | st.just(1),
        "source": st.none() | st.integers() | TEXT,
        "size": st.integers(-1, 3),
        "body_truncated": st.booleans(),
        "routed_queues": st.sampled_from([None, [], ["q"], ["q", 1], "none"]),
    },
)
SURE: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"exchange": TEXT, "routing_key": TEXT},
    optional={"timestamp": st.none() | st.integers(0, 2**33) | st.floats(0, 2**33), "body": st.none() | TEXT,
              "vhost": st.none() | TEXT, "headers": st.sampled_from([{}, None]), "source": TEXT},
)  # fmt: skip


@FILES
@given(st.lists(SURE, min_size=1, max_size=4) | st.lists(PLAIN, min_size=1, max_size=3), st.booleans(), st.data())
def test_arrow_reads_a_block_as_python_does_or_not_at_all(
    folder: Path, lines: list[Any], ascii_only: bool, data: st.DataObject
) -> None:
    raw = b"".join(
        [json.dumps(line, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") + b"\n" for line in lines]
    )
    if data.draw(st.booleans()):  # damage
        at = data.draw(st.integers(0, len(raw) - 1))
        raw = raw[:at] + data.draw(st.binary(min_size=1, max_size=2)) + raw[at + data.draw(st.integers(0, 2)) :]
    path = folder / "arrow.jsonl"
    path.write_bytes(raw)
    fast = _read_by_arrow(LineBlock(raw, 0), str(path), None)
    if fast is None:
        return
    slow = list(read_lines(Split(str(path)), None, add_line))
    assert not [item for item in slow if isinstance(item, Bad)]
    assert [facts(record) for record in to_records(fast)] == [
        facts(record) for batch in slow for record in to_records(batch)
    ]


def test_plain_lines_are_read_by_arrow() -> None:
    line = b'{"exchange":"x","routing_key":"a.b","timestamp":1.5,"headers":{},"other":[1]}\n'
    assert _read_by_arrow(LineBlock(line * 3, 10), "f", ["offset", "time"]) is not None
    assert _read_by_arrow(LineBlock(line.replace(b"{}", b'{"a":1}'), 0), "f", None) is None


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (1344350850.886738, 1344350850886738),
        (1767225600, 1767225600000000),
        (1767225600123, 1767225600123000),
        (1767225600123456, 1767225600123456),
        (1767225600123456789, 1767225600123457),
        ("2026-01-01T00:00:00Z", 1767225600000000),
        ("2026-01-01T01:00:00.1234567+01:00", 1767225600123456),
        ("2026-01-01 00:00:00", 1767225600000000),
    ],
)
def test_times_are_seconds_or_finer_or_texts(tmp_path: Path, value: Any, time: int) -> None:
    lines = [{"exchange": "", "routing_key": "", "timestamp": value, "headers": {"a": 1}}]
    assert [record.time for record in read(LINES, write_lines(tmp_path / "f", lines)).records] == [time]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"routing_key": "a"}, "no exchange"),
        ({"exchange": "a", "routing_key": None}, "no routing_key"),
        ([1], "not an object"),
        (b"{\xff}\n", "not UTF-8: invalid start byte"),
        (b"{\n", "not JSON: Expecting property name enclosed in double quotes"),
        (b"[" * 100_000 + b"\n", "JSON nested too deeply"),
        (b'{"exchange": "a", "routing_key": "b", "timestamp": NaN}\n', "not JSON: a number that it does not have"),
        (b'{"exchange": "a", "routing_key": "b", "x": 1e999}\n', "not JSON: a number that it does not have"),
        (b'{"exchange": "a", "routing_key": "b", "exchange": "c"}\n', "a name that is twice in one object"),
        (b'{"exchange": "a", "routing_key": "b", "headers": {"x": 1, "x": 1}}\n', "a name that is twice in one object"),
        (b'{"exchange": "a", "routing_key": "\\ud800"}\n', "half of a surrogate pair, which no text in UTF-8 has"),
        ({"exchange": "a", "routing_key": "\xe9" * 128}, "routing_key: "),
        ({"exchange": "a" * 256, "routing_key": "b"}, "exchange: "),
        ({"exchange": "a", "routing_key": "b", "headers": {"a" * 256: 1}}, "headers: "),
        ({"exchange": "a", "routing_key": "b", "headers": {"CC": 1}}, "invalid message: "),
        ({"exchange": "a", "routing_key": "b", "headers": {"x": 1 << 70}}, "headers.x: "),
        ({"exchange": "a", "routing_key": "b", "routed_queues": "q"}, "routed_queues is not a list of names"),
    ],
)
def test_a_bad_line_is_reported_with_its_place_and_the_next_one_is_read(tmp_path: Path, line: Any, reason: str) -> None:
    good = {"exchange": "a", "routing_key": "b"}
    path = write_lines(tmp_path / "f", [good, line, good])
    found = read(LINES, path)
    assert len(found.records) == 2
    ((source, offset, message, sample, lost),) = found.bad
    assert lost == 1
    assert (source, offset) == (str(path), len(json.dumps(good)) + 1)
    assert message.startswith(reason)
    assert path.read_bytes()[offset:].startswith(sample)


def test_what_was_copied_from_another_system_has_keys_of_any_length(tmp_path: Path) -> None:
    """Kafka's keys become routing keys; a line with the place that it was copied from is read as it is."""
    record = Record(Message("x", "k" * 300), source="orders-0/00000000000000000000.log", offset=7)
    found = read(LINES, write_lines(tmp_path / "f", [encode_line(record), encode_line(record._replace(offset=8))]))
    assert not found.bad
    assert [(each.message.routing_key, each.offset) for each in found.records] == [("k" * 300, 7), ("k" * 300, 8)]


@pytest.mark.parametrize("name", ["exchange", "routing_key"])
def test_arrow_leaves_keys_that_are_too_long_to_python(tmp_path: Path, name: str) -> None:
    """The line is bad, and the others of its block are read."""
    lines = [{"exchange": "e", "routing_key": "k", name: "n" * size} for size in (255, 256, 1)]
    found = read(LINES, write_lines(tmp_path / "f", lines))
    assert [len(getattr(each.message, name)) for each in found.records] == [255, 1]
    assert [bad.reason.endswith("' has 256 bytes; AMQP allows 255") for bad in found.bad] == [True]


@FILES
@given(st.data())
def test_a_gzipped_file_torn_or_damaged_anywhere_gives_lines_of_its_beginning(
    folder: Path, data: st.DataObject
) -> None:
    keys = [str(n) * 50 for n in range(300)]
    raw = b"".join([json.dumps({"exchange": "x", "routing_key": key}).encode() + b"\n" for key in keys])
    packed = bytearray(gzip.compress(raw, 1))
    cut = data.draw(st.integers(2, len(packed)))
    if data.draw(st.booleans()):
        packed = packed[:cut]
    elif cut < len(packed):
        packed[cut] ^= data.draw(st.integers(1, 255))
    path = folder / "f.gz"
    path.write_bytes(packed)
    found = read(LINES, path)
    if bytes(packed) == gzip.compress(raw, 1):
        assert (len(found.records), found.bad) == (300, [])
    elif len(packed) < cut + 1:
        assert [record.message.routing_key for record in found.records] == keys[: len(found.records)]
        assert found.bad


@pytest.mark.parametrize("time", [9_100_000_000_000_000, 127_297_204_117_431_001, -30_294_875_306_477_111])
def test_a_time_far_from_now_comes_back_to_the_microsecond(time: int, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(encode_line(Record(Message("e", "k"), time)))
    assert [record.time for record in read(JsonLines(), path).records] == [time]


@pytest.mark.parametrize("names", [("exchange", "routing_key"), ("exch", "rkey")])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("excess", [-200, 20_000])
def test_a_first_line_of_any_length_below_the_limit_is_of_the_archive(
    names: tuple[str, str], is_packed: bool, is_first: bool, excess: int, tmp_path: Path
) -> None:
    fields = dict.fromkeys(names, "x")
    long = {"headers": {"big": "y" * (SEARCHED + excess)}}
    lines = [fields | long if is_first else long | fields, fields]
    data = "".join(json.dumps(each) + "\n" for each in lines).encode()
    path = tmp_path / "messages.jsonl"
    path.write_bytes(gzip.compress(data, 1) if is_packed else data)
    archive = detect(str(path))
    found = inspect_splits(archive.plan())
    assert (found.records, found.unread.bad_records) == (2, 0)


def test_what_is_no_object_is_not_read_beyond_the_first_bytes(tmp_path: Path) -> None:
    for start in (b"[" + b"1," * 2 * SEARCHED, b"{\n" + b"x" * 2 * SEARCHED, b'{"a": 1}' * (SEARCHED // 4)):
        (tmp_path / "f").write_bytes(start)
        assert len(read_first_lines(str(tmp_path / "f"))) == SEARCHED
