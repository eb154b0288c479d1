"""Our own Parquet archive: by day, rotated, complete or not there; damage is reported and invents no record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats import parquet
from bindings.archive.formats.conversion import convert
from bindings.archive.formats.detect import detect
from bindings.archive.formats.parquet import BIAS_KEY, FORMAT_KEY, OPEN_DAYS, VERSION, Parquet, ParquetWriter
from bindings.archive.reading import Bad, Bias, Split
from bindings.archive.record import SCHEMA, Record, build_batch, to_records
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.support.archives.reads import FILES, RECORDS, facts, read

DAY = 86_400_000_000


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def record(n: int, day: int | None = 0) -> Record:
    message = Message("x", f"key.{n}", {"n": n, "t": Typed("short", 1)}, {}, b"body" * n)
    return Record(message, None if day is None else day * DAY + n, "/", 4 * n, True, ("q",), "f", n)


@FILES
@given(st.lists(RECORDS, max_size=6), st.integers(1, 3))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record], rows: int
) -> None:
    folder = tmp_path_factory.mktemp("own")
    with ParquetWriter(folder, Bias.EVERYTHING, rows) as writer:
        for start in range(0, len(records), 2):
            writer.write(build_batch(records[start : start + 2]))
    found = [read(Parquet(), path, 1) for path in files(folder)]
    assert not any(each.bad for each in found)
    assert sorted(repr(facts(r)) for each in found for r in each.records) == sorted(repr(facts(r)) for r in records)


def test_days_have_folders_and_files_a_size(tmp_path: Path) -> None:
    batches = [[record(n, day) for n in range(3)] for day in (0, 1, None, 0)]
    with ParquetWriter(tmp_path, Bias.SURVIVORS, 3) as writer:
        for batch in batches:
            writer.write(build_batch(batch))
        assert writer.rows == 12
        assert not [path for path in files(tmp_path) if path.name[0] != "." and "1970-01-02" in str(path)]
    assert [str(path.relative_to(tmp_path)) for path in files(tmp_path)] == [
        "day=1970-01-01/part-00000.parquet",
        "day=1970-01-01/part-00001.parquet",
        "day=1970-01-02/part-00000.parquet",
        "day=unknown/part-00000.parquet",
    ]
    assert {Parquet().bias_of(str(path)) for path in files(tmp_path)} == {Bias.SURVIVORS}


def test_more_days_than_files_are_open_are_written_all_the_same(tmp_path: Path) -> None:
    days = OPEN_DAYS + 4
    records = [record(n, n % days) for n in range(10 * days)]
    with ParquetWriter(tmp_path, Bias.UNKNOWN) as writer:
        for start in range(0, len(records), 3 * days):
            writer.write(build_batch(records[start : start + 3 * days]))
    found = [r for path in files(tmp_path) for r in read(Parquet(), path).records]
    assert sorted(r.offset or 0 for r in found) == list(range(len(records)))


def test_an_interrupted_writer_leaves_no_half_file(tmp_path: Path) -> None:
    def interrupted() -> None:
        with ParquetWriter(tmp_path, Bias.UNKNOWN) as writer:
            writer.write(build_batch([record(1)]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of several row groups."""
    path = tmp_path_factory.mktemp("sound") / "sound.parquet"
    schema = SCHEMA.with_metadata({parquet.FORMAT_KEY: parquet.VERSION})
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as writer:
        for start in range(0, 40, 10):
            writer.write_batch(build_batch([record(n) for n in range(start, start + 10)]))
    return path


def test_splits_are_row_groups(sound: Path) -> None:
    assert [split[1:3] for split in Parquet().plan(str(sound), 1)] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert [r.offset for r in read(Parquet(), sound, 1).records] == list(range(40))
    metadata = pq.read_metadata(sound)
    first, second, third, _ = (metadata.row_group(n).total_byte_size for n in range(4))
    pairs = min(first + second, third + 1)
    assert [split[1:3] for split in Parquet().plan(str(sound), pairs)] == [(0, 2), (2, 4)]
    assert [split[1:3] for split in Parquet().plan(str(sound))] == [(0, 4)]
    (batch, *_) = Parquet().read(Split(str(sound)), ["routing_key", "exchange"])
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema.names == ["routing_key", "exchange"]


def test_columns_with_dictionaries_have_the_same_values(tmp_path: Path) -> None:
    """Texts that repeat stand in dictionaries, those that do not are as they are."""
    records = [
        record(n)._replace(message=Message("x", f"key.{n % 7}.{'y' * 40}", {"n": str(n) * 30}), size=0)
        for n in range(300)
    ]
    with ParquetWriter(tmp_path, Bias.UNKNOWN) as writer:
        writer.write(build_batch(records))
    (path,) = files(tmp_path)
    (batch,) = Parquet().read_coded(Split(str(path)))
    assert isinstance(batch, pa.RecordBatch)
    assert pa.types.is_dictionary(batch.column("routing_key").type)
    assert not pa.types.is_dictionary(batch.column("headers").type.item_type.field("value").type)
    assert to_records(batch) == to_records(batch.cast(SCHEMA)) == records


@FILES
@given(st.data())
def test_a_damaged_byte_of_a_page_is_reported_and_the_other_row_groups_are_read(
    sound: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(sound.read_bytes())
    footer = int.from_bytes(raw[-8:-4], "little") + 8
    raw[data.draw(st.integers(4, len(raw) - footer - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("damaged") / "damaged.parquet"
    path.write_bytes(raw)
    found = read(Parquet(), path)
    expected = {repr(facts(record(n))) for n in range(40)}
    assert {repr(facts(r)) for r in found.records} <= expected
    assert len(found.records) == 40 if not found.bad else len(found.records) >= 30
    assert len(found.records) + sum(bad.records or 0 for bad in found.bad) == 40  # the footer has their number


@FILES
@given(st.integers(0, 10_000_000))
def test_a_torn_file_is_reported(sound: Path, tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    raw = sound.read_bytes()
    path = tmp_path_factory.mktemp("torn") / "torn.parquet"
    path.write_bytes(raw[: cut % len(raw)])
    found = read(Parquet(), path)
    assert (found.records, [bad.records for bad in found.bad]) == ([], [None])


def test_parquet_of_others_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    columns = {
        "exchange": pa.array(["a", None]),
        "routing_key": pa.array(["b", "c"]),
        "ts": pa.array([5, 6], pa.timestamp("ms")),
        "size": pa.array([7, 8], pa.int32()),
        "headers": pa.array([[("h", "v")], []], pa.map_(pa.string(), pa.string())),
    }
    pq.write_table(pa.table(columns), path)
    assert Parquet().recognises(b"PAR1", path)
    found = read(Parquet(), path)
    assert [facts(r) for r in found.records] == [
        facts(Record(Message("a", "b", {"h": "v"}), 5000, None, 7, False, None, str(path), 0))
    ]
    assert found.bad == [Bad(str(path), 1, "no exchange or no routing key")]


def test_parquet_without_exchange_is_no_archive(tmp_path: Path) -> None:
    pq.write_table(pa.table({"routing_key": ["a"]}), tmp_path / "f")
    assert not Parquet().recognises(b"PAR1", tmp_path / "f")
    assert to_records(build_batch([])) == []


def test_texts_of_others_need_be_no_utf8_and_may_have_a_nul(tmp_path: Path) -> None:
    data = b"a.\xffa\0ff"
    keys = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 3, len(data)], np.int32)), pa.py_buffer(data))
    path = tmp_path / "part-0.parquet"
    pq.write_table(pa.table({"exchange": ["e", "e"], "routing_key": keys}), path)
    result = read(Parquet(), path)
    assert not result.bad
    assert [record.message.routing_key for record in result.records] == ["a.\udcff", "a\0ff"]


def test_a_footer_is_parsed_once_until_its_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Detection, plan, reader and report ask for it in turn; a file that was changed just now is not trusted."""
    parsed: list[object] = []
    read_metadata = pq.read_metadata

    def parse(path: object) -> pq.FileMetaData:
        parsed.append(path)
        return read_metadata(path)

    monkeypatch.setattr(pq, "read_metadata", parse)
    path = tmp_path / "a.parquet"
    for settled, counts in ((1_000, [6, 12]), (-1_000, [1, 2])):
        monkeypatch.setattr(parquet, "SETTLED_SECONDS", settled)
        parsed.clear()
        for rows, count in zip((3, 4), counts, strict=True):
            pq.write_table(pa.table({"exchange": ["x"] * rows, "rkey": ["k"] * rows}), path)
            assert Parquet().recognises(b"PAR1", path)
            assert len(Parquet().plan(str(path))) == 1
            assert len(read(Parquet(), str(path)).records) == rows
            assert Parquet().note_of(str(path)) == "columns taken: exchange = exchange, routing_key = rkey"
            assert len(parsed) == count


def test_files_of_releases_that_always_had_an_offset_are_read_and_converted_beside_others(tmp_path: Path) -> None:
    old, new = record(1, 0)._replace(offset=3), record(2, 0)._replace(offset=None)
    metadata = {FORMAT_KEY: VERSION, BIAS_KEY: b"EVERYTHING"}
    schema = SCHEMA.set(SCHEMA.get_field_index("offset"), pa.field("offset", pa.int64(), nullable=False))
    rows = pa.Table.from_arrays(build_batch([old]).columns, schema=schema.with_metadata(metadata))
    (tmp_path / "in").mkdir()
    pq.write_table(rows, tmp_path / "in" / "old.parquet")
    with ParquetWriter(tmp_path / "in" / "new", Bias.EVERYTHING) as writer:
        writer.write(build_batch([new]))
    convert(detect(str(tmp_path / "in")), tmp_path / "out")
    for folder in ("in", "out"):
        found = [each for path in files(tmp_path / folder) for each in read(Parquet(), path).records]
        assert {each.offset for each in found} == {3, None}, folder
