"""Read and write hashstar's archive: Parquet files of `bindings.archive.record.SCHEMA`, by day; read other Parquet.

Files are named ``day=2026-11-21/part-00000.parquet`` and so on, with the day in UTC, or ``day=unknown`` for messages
without a time. They are compressed with zstd and have page checksums. The metadata of a file has the version of the
schema and the bias. A file gets its name when it is complete, so files of an interrupted writer are not part of the
archive. Parquet files of other programs are read if they have columns with such names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bindings.archive.columns import explain_missing, find_schema_places, list_schema, resolve_folders
from bindings.archive.formats.foreign import (
    WrongColumn,
    describe_columns,
    read_foreign,
    select_columns,
    shorten_error,
)
from bindings.archive.formats.row_lines import has_marks
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.places import SETTLED_SECONDS, AnyPath, Place, RemoteFile, open_file, open_table
from bindings.archive.reading import (
    BATCH_BYTES,
    BATCH_ROWS,
    COPIES,
    SPLIT_BYTES,
    Bad,
    Bias,
    CompletePart,
    Format,
    Item,
    Split,
)
from bindings.archive.record import SCHEMA, sift_rows
from bindings.sources.files import make_folders
from exchange.errors import InputError
from exchange.files.replacing import create_exclusively

MAGIC: Final = b"PAR1"
FORMAT_KEY: Final = b"hashstar.archive"
BIAS_KEY: Final = b"hashstar.bias"
COPIES_KEY: Final = b"hashstar.copies"
VERSION: Final = b"1"
ROW_GROUP: Final = 1 << 17
"""Number of rows of a full row group."""
GROUP_BYTES: Final = 256 << 20
"""Unpacked size in bytes from which a row group is full with fewer rows, since readers may load all of it."""
MAX_GROUP_ROWS: Final = 1 << 31
"""Maximum number of rows that are believed to be lost in a row group."""
OPEN_DAYS: Final = 8
"""Maximum number of days whose files are open at a time."""
CODED: Final = 10
"""Maximum mean size of a column's values, in bytes, up to which the column is read as a dictionary."""
DAY_US: Final = 86_400_000_000
UNREADABLE: Final = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
"""Exceptions of pyarrow for damaged files."""


@dataclass(frozen=True)
class Parquet(Format):
    """The format of Parquet files, written by hashstar or by other programs."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "Parquet"

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether a file is Parquet with columns of exchange and routing key, or with a damaged schema.

        Raises InputError if the mapping names a column that a file of Parquet does not have.
        """
        if not head.startswith(MAGIC):
            return False
        try:
            schema = _read_schema(path)
        except UNREADABLE:
            return True
        if (schema.metadata or {}).get(FORMAT_KEY) == VERSION:  # ours, in a folder with others, needs no mapping
            return "exchange" in schema.names and "routing_key" in schema.names
        places = find_schema_places(schema, self.mapping, path)
        return "exchange" in places and "routing_key" in places

    def list_columns(self, path: Place) -> Sequence[str]:
        try:
            return list_schema(_read_schema(path))
        except UNREADABLE:
            return ()

    def expects(self, path: AnyPath) -> bool:
        if not path.name.endswith(".parquet"):
            return False
        try:
            _read_schema(path)
        except UNREADABLE:
            return True
        return self.recognises(MAGIC, path)

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the file ends as Parquet does, with a schema of an archive."""
        try:
            with open_file(path) as file:
                file.seek(max(file.seek(0, 2) - len(MAGIC), 0))
                return file.read() == MAGIC and self.recognises(MAGIC, path)
        except OSError:
            return False

    def plan(self, path: Place, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        try:
            metadata = read_footer(path)
        except UNREADABLE:
            return [Split(path)]
        splits: list[Split] = []
        start = size = 0
        for group in range(metadata.num_row_groups):
            size += metadata.row_group(group).total_byte_size
            if size >= split_bytes or group + 1 == metadata.num_row_groups:
                splits.append(Split(path, start, group + 1))
                start, size = group + 1, 0
        return splits

    def plan_complete(self, path: Place, start: int = 0, split_bytes: int = SPLIT_BYTES) -> CompletePart:
        """Return all row groups once the footer is written; ``end`` of a file without row groups is 1."""
        try:
            groups = max(read_footer(path).num_row_groups, 1)
        except UNREADABLE:
            return CompletePart([], start, is_open=True)
        if start >= groups:
            return super().plan_complete(path, start)
        return CompletePart(
            [split for split in self.plan(path, split_bytes) if split.start >= start], groups, is_open=False
        )

    def bias_of(self, path: Place) -> Bias:
        name = _read_metadata(path).get(BIAS_KEY, b"")
        return next((bias for bias in Bias if bias.name.encode() == name), Bias.UNKNOWN)

    def note_of(self, path: Place) -> str:
        metadata = _read_metadata(path)
        if COPIES_KEY in metadata or metadata.get(FORMAT_KEY) == VERSION:
            return COPIES if COPIES_KEY in metadata else self.note
        try:
            schema = _read_schema(path)
        except UNREADABLE:
            return self.note
        return describe_columns(schema, find_schema_places(schema, self.mapping, path))

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        return _read(split, columns, self, coded=False)

    def read_coded(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        return _read(split, columns, self, coded=True)


class _Footer:
    """The footer of a file, parsed once, and its schema once when it is asked for."""

    def __init__(self, path: Place | AnyPath) -> None:
        if isinstance(path, RemoteFile):
            with open_table(path) as file:
                self.metadata: Final = pq.read_metadata(file)
        else:
            self.metadata = pq.read_metadata(path)  # type: ignore[misc]

    @cached_property
    def schema(self) -> pa.Schema:
        return self.metadata.schema.to_arrow_schema()


_find_stored: Final = lru_cache(maxsize=256)(_Footer)


@lru_cache(maxsize=2)
def _find_settled(path: str, version: tuple[int, ...]) -> _Footer:
    return _Footer(path)


def _find_footer(path: Place | AnyPath) -> _Footer:
    """Return the footer of a file as it is now: detection, plan, reader and report ask for it in turn."""
    if isinstance(path, RemoteFile):
        return _find_stored(path)
    stat = os.stat(path)  # noqa: PTH116  of many
    if max(stat.st_ctime, stat.st_mtime) > time.time() - SETTLED_SECONDS:
        return _Footer(path)
    return _find_settled(str(path), (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))


def read_footer(path: Place | AnyPath) -> pq.FileMetaData:
    """Return the footer of a file, which is parsed once while it does not change. Raises `UNREADABLE`, InputError."""
    return _find_footer(path).metadata


def _read_schema(path: Place | AnyPath) -> pa.Schema:
    return _find_footer(path).schema


def _read_metadata(path: Place) -> Mapping[bytes, bytes]:
    """Return the metadata of a file's schema, empty if it is damaged."""
    try:
        return _read_schema(path).metadata or {}
    except UNREADABLE:
        return {}


def _read(split: Split, columns: Sequence[str] | None, form: Parquet, *, coded: bool) -> Iterator[Item]:
    wanted = list(SCHEMA.names if columns is None else columns)
    try:
        metadata = read_footer(split.path)
        texts = _find_coded_columns(metadata, split) if coded else None
        file = pq.ParquetFile(
            open_table(split.path), metadata=metadata, read_dictionary=texts, page_checksum_verification=True
        )
        groups = range(split.start, file.num_row_groups if split.end is None else split.end)
    except FileNotFoundError as error:
        raise InputError(f"{split.source}: cannot be read: {error.strerror}") from None
    except UNREADABLE as error:
        yield Bad(split.source, 0, f"damaged Parquet file: {shorten_error(error)}", records=None)
        return
    with file:
        for group in groups:
            yield from _read_group(file, split.source, group, wanted, form, coded=coded)


def _read_group(
    file: pq.ParquetFile, path: str, group: int, wanted: list[str], form: Parquet, *, coded: bool
) -> Iterator[Item]:
    own = (file.schema_arrow.metadata or {}).get(FORMAT_KEY) == VERSION
    names = file.schema_arrow.names
    places = {} if own else resolve_folders(find_schema_places(file.schema_arrow, form.mapping, path), names, path)
    if not own and not {"exchange", "routing_key"} <= places.keys():
        raise InputError(f"{path}: {explain_missing(list_schema(file.schema_arrow), dict(form.mapping.columns), path)}")
    stored = [name for name in wanted if name in names] if own else select_columns(names, places, wanted)
    needed = dict.fromkeys([*stored, *(("exchange", "routing_key") if own else ())])
    rows = ROW_GROUP if coded and "body" not in wanted else _rows_at_once(file.metadata.row_group(group))
    row, end = (sum(file.metadata.row_group(n).num_rows for n in range(number)) for number in (group, group + 1))
    try:
        for batch in file.iter_batches(rows, row_groups=[group], columns=list(needed)):
            if own:
                batch.validate(full=True)
                yield from sift_rows(_cast_columns(batch.select(wanted)), path, row)
            else:
                yield from read_foreign(batch, path, row, wanted, places, own=has_marks(names))
            row += batch.num_rows
    except WrongColumn as error:
        problem = shorten_error(error)
    except UNREADABLE as error:
        problem = f"damaged Parquet row group: {shorten_error(error)}"
    except RecursionError:
        problem = "damaged Parquet row group: its columns are nested too deeply"
    else:  # a page header may be damaged; it has no checksum
        problem = "" if row == end else "damaged Parquet row group: it has fewer rows than its footer states"
    if problem:
        yield Bad(path, row, problem, records=end - row if 0 < end - row <= MAX_GROUP_ROWS else None)


def _rows_at_once(group: pq.RowGroupMetaData) -> int:
    """Return the number of rows to read at once; few if rows are large."""
    mean = max(int(group.total_byte_size) // max(int(group.num_rows), 1), 1)
    return min(BATCH_ROWS, max(BATCH_BYTES // mean, 1))


def _cast_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Cast the columns of a batch to the types of `SCHEMA`; dictionary-encoded texts stay encoded.

    Files of releases in which a column allowed no null are cast to the present one, so that batches of both are alike.
    """
    fields = []
    for field in batch.schema:
        ours = SCHEMA.field(field.name)
        is_ours = _decode_type(field.type) == ours.type
        fields.append(field.with_nullable(field.nullable or ours.nullable) if is_ours else ours)
    return batch.cast(pa.schema(fields))


def _decode_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_map(kind):
        return pa.map_(_decode_type(kind.key_type), kind.item_field.with_type(_decode_type(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_decode_type(field.type)) for field in kind])
    return pa.list_(kind.value_field.with_type(_decode_type(kind.value_type))) if pa.types.is_list(kind) else kind


def _find_coded_columns(metadata: pq.FileMetaData, split: Split) -> list[str]:
    """Return the columns of texts to read as dictionaries, decided by the row groups of a split.

    These are stored as dictionaries and their texts repeat: so each distinct text is decoded and checked only once.
    """
    groups = [metadata.row_group(n) for n in range(split.start, split.end or metadata.num_row_groups)]
    paths = []
    for number in range(metadata.num_columns if groups else 0):
        column = metadata.schema.column(number)
        if column.physical_type != "BYTE_ARRAY" or column.path == "body":
            continue
        chunks = [group.column(number) for group in groups]
        size = sum(chunk.total_uncompressed_size for chunk in chunks)
        if all(chunk.has_dictionary_page for chunk in chunks) and size <= CODED * sum(c.num_values for c in chunks):
            paths.append(column.path)
    return paths


class ParquetWriter:
    """Writes batches to the files of a folder; a context manager.

    A new file begins after ``file_rows`` rows. Days may come in any order; files of at most `OPEN_DAYS` days are open
    at a time. After an exception only complete files remain. Raises InputError if a file cannot be written. With
    ``copies``, files have the note that a message may be in them several times, once per queue (`COPIES`).
    """

    def __init__(self, folder: Path, bias: Bias, file_rows: int = 4_000_000, *, copies: bool = False) -> None:
        self._folder = folder
        self._file_rows = file_rows
        metadata = {FORMAT_KEY: VERSION, BIAS_KEY: bias.name.encode()}
        self._schema = SCHEMA.with_metadata(metadata | {COPIES_KEY: b"1"} if copies else metadata)
        self._open: dict[str, _Part] = {}
        self._numbers: dict[str, int] = {}
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for part in self._open.values():
            part.close(complete=kind is None)
        self._open.clear()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, which must have all columns of `SCHEMA`."""
        times = batch.column("time")
        days = np.asarray(pc.fill_null(times.cast(pa.int64()), np.iinfo(np.int64).max)) // DAY_US
        try:
            for day in np.unique(days).tolist():
                rows = batch if (days == day).all() else batch.filter(pa.array(days == day))
                self._part(_day_name(day)).write(rows)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self._folder}: cannot be written: {error}") from None
        self.rows += batch.num_rows

    def _part(self, day: str) -> _Part:
        part = self._open.pop(day, None)
        if part is not None and part.rows >= self._file_rows:
            part.close(complete=True)
            part = None
        if part is None:
            number = self._numbers.get(day, 0)
            self._numbers[day] = number + 1
            part = _Part(self._folder / f"day={day}" / f"part-{number:05}.parquet", self._schema)
        self._open[day] = part  # inserted last, so the first part is the least recently used
        if len(self._open) > OPEN_DAYS:
            self._open.pop(next(iter(self._open))).close(complete=True)
        return part


class _Part:
    """A file that is being written; small batches are collected into row groups."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        make_folders(path.parent)
        self._path = path
        self._partial = path.with_name(f".{path.name}.part")
        os.close(create_exclusively(self._partial))
        self._writer: Any = pq.ParquetWriter(
            self._partial, schema, compression="zstd", write_page_checksum=True, use_dictionary=DICTIONARIES
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._waiting_rows >= ROW_GROUP or self._waiting_bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, SCHEMA), ROW_GROUP)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def close(self, *, complete: bool) -> None:
        try:
            if complete:
                self._flush()
            self._writer.close()
            if complete:
                self._partial.replace(self._path)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self._path}: cannot be written: {error}") from None
        finally:
            self._partial.unlink(missing_ok=True)


DICTIONARIES: Final = [
    "vhost", "exchange", "routing_key", "cc.list.element", "bcc.list.element", "headers.key_value.key",
    "headers.key_value.value.type", "headers.key_value.value.value", "properties.key_value.key",
    "properties.key_value.value.type", "properties.key_value.value.value", "routed_queues.list.element", "source",
]  # fmt: skip
"""Columns whose values repeat, so that they are stored as dictionaries."""


def _day_name(day: int) -> str:
    if day == np.iinfo(np.int64).max // DAY_US:
        return "unknown"
    return str(np.datetime64(day, "D"))
