"""RocketMQ's consume queues: each unit at its offset, whatever the files' sizes; blanks, torn units, extensions."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.reading import Bad
from bindings.archive.rocketmq.commit import list_numbered
from bindings.archive.rocketmq.queue import ConsumeQueue, encode_tag
from tests.support.archives.reads import FILES
from tests.support.archives.rocketmq_files import batch_unit, unit

BLANK = unit(0, 0x7FFFFFFF)
UNITS = st.lists(
    st.tuples(st.integers(0, 2**40), st.integers(1, 2**31 - 2), st.integers(-(2**31), 2**63 - 1)), max_size=9
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("queue")


def write_queue(folder: Path, data: bytes, file_bytes: int, base: int = 0) -> None:
    for path in folder.iterdir():
        path.unlink()
    for at in range(0, len(data), file_bytes):
        (folder / f"{base + at:020}").write_bytes(data[at : at + file_bytes].ljust(file_bytes, b"\0"))


def read(folder: Path, *, batches: bool = False, extension: Path | None = None) -> tuple[list[Any], list[Bad]]:
    queue = ConsumeQueue("t", 0, list_numbered(folder), () if extension is None else list_numbered(extension), batches)
    units: list[Any] = []
    bad: list[Bad] = []
    for item in queue.read():
        if isinstance(item, Bad):
            bad.append(item)
        else:
            units += zip(*[column.tolist() for column in item], strict=True)
    return units, bad


@FILES
@given(UNITS, st.integers(1, 4), st.integers(0, 3))
def test_a_unit_has_the_offset_of_its_place_however_long_files_are(
    folder: Path, units: list[tuple[int, int, int]], units_a_file: int, blanks: int
) -> None:
    base = 5 * units_a_file
    write_queue(folder, BLANK * blanks + b"".join([unit(*each) for each in units]), 20 * units_a_file, 20 * base)
    assert read(folder) == ([(base + blanks + n, *each, 1) for n, each in enumerate(units)], [])


@FILES
@given(UNITS.filter(bool), st.integers(1, 19), st.booleans())
def test_a_queue_torn_anywhere_gives_the_whole_units_before_and_reports_the_torn_one(
    folder: Path, units: list[tuple[int, int, int]], cut: int, is_filled: bool
) -> None:
    """A torn unit is reported if its size was not written; size and code have no checksum."""
    data = b"".join([unit(*each) for each in units])[: cut - 20]
    for path in folder.iterdir():
        path.unlink()
    (folder / f"{0:020}").write_bytes(data.ljust(400, b"\0") if is_filled else data)
    found, bad = read(folder)
    whole = [(n, *each, 1) for n, each in enumerate(units[:-1])]
    torn = data[-cut:]
    if is_filled and any(torn[8:12]):
        assert found[:-1] == whole
    else:
        assert found == whole
        assert [each.offset for each in bad] == ([20 * len(whole)] if any(torn) or not is_filled else [])


def test_damaged_units_are_reported_and_those_behind_are_read(folder: Path) -> None:
    write_queue(folder, unit(1, 100) + unit(-1, 100) + unit(3, 0) + unit(4, 100), 100)
    assert [each[0] for each in read(folder)[0]] == [0, 3]
    assert [(each.offset, each.reason) for each in read(folder)[1]] == [(20, "no unit, with units behind it")]


def test_a_file_that_is_missing_is_reported(folder: Path) -> None:
    write_queue(folder, unit(1, 100) * 6, 40)
    (folder / f"{40:020}").unlink()
    assert [each[0] for each in read(folder)[0]] == [0, 1, 4, 5]
    assert [each.reason for each in read(folder)[1]] == ["a file of the queue is missing before it"]


@FILES
@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 9), st.integers(1, 99)), max_size=7), st.integers(1, 3))
def test_units_of_batches_state_their_offset(
    folder: Path, batches: list[tuple[int, int, int]], units_a_file: int
) -> None:
    offset, units = 0, []
    for place, size, count in batches:
        units.append((offset, place, size, 7, count))
        offset += count
    data = b"".join([batch_unit(place, size, at, count, 7) for at, place, size, _, count in units])
    write_queue(folder, data, 46 * units_a_file)
    assert read(folder, batches=True) == (units, [])


def test_codes_come_from_the_extension_where_the_unit_points_to_it(folder: Path, tmp_path: Path) -> None:
    first, second = -(1 << 63), -(1 << 63) + 64 + 20
    (tmp_path / f"{0:020}").write_bytes(struct.pack(">hqqh", 20, 98, 1000, 0).ljust(64, b"\0"))
    behind = struct.pack(">hqqh8s", 28, -5, 1000, 8, b"filtered")
    (tmp_path / f"{64:020}").write_bytes(struct.pack(">hqqh", 20, 1, 1000, 0) + behind)
    write_queue(folder, unit(0, 9, first) + unit(9, 9, second) + unit(18, 9, second + 100) + unit(27, 9, -3), 100)
    units, bad = read(folder, extension=tmp_path)
    assert [each[3] for each in units] == [98, -5, second + 100, -3]
    assert [(each.offset, each.reason) for each in bad] == [(40, "a unit whose extension is missing")]


@FILES
@given(st.binary(max_size=200), st.booleans())
def test_anything_at_all_is_read_without_an_exception(folder: Path, junk: bytes, batches: bool) -> None:
    write_queue(folder, junk, 60)
    read(folder, batches=batches)


def test_the_code_of_a_tag_is_javas_hash() -> None:
    assert [encode_tag(tag) for tag in (None, "", "a", "AaBB", "BBAa", "größe")] == [
        0,
        0,
        97,
        2031744,
        2031744,
        98762257,
    ]
