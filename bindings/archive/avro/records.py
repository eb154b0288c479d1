"""Read Avro's container files of any program: fields by the names that the user gives, or by plain ones, as in Parquet.

Records become columns of Arrow (`bindings.archive.avro.schema`), and are then read as any other table. Their
offsets are their numbers in the file. fastavro decodes them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Final

import pyarrow as pa

from bindings.archive.avro.container import (
    MAGIC,
    Block,
    Header,
    encode_container,
    read_header,
    unpack_block,
    walk_blocks,
)
from bindings.archive.avro.schema import Columns, convert_schema
from bindings.archive.columns import NEEDED, explain_missing, find_schema_places, list_schema, resolve_folders
from bindings.archive.formats.foreign import (
    WrongColumn,
    describe_columns,
    read_foreign,
    select_columns,
    shorten_error,
)
from bindings.archive.formats.row_lines import has_marks
from bindings.archive.mapped import Bytes, Mapped, is_copied
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.places import AnyPath, Place, to_place
from bindings.archive.reading import SPLIT_BYTES, Bad, Format, Item, Split, take_sample
from bindings.archive.record import SCHEMA
from bindings.archive.unpacking import read_head
from exchange.errors import InputError

BATCH_ROWS: Final = 8_192
"""Maximum number of rows of a batch."""
BATCH_BYTES: Final = 16 << 20
"""Number of unpacked bytes after which a batch ends."""
PACKAGE: Final = "fastavro>=1.9"
"""The requirement of the extra ``avro``."""


@dataclass(frozen=True)
class Avro(Format):
    """The format of Avro's container files."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "Avro"

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether a file is Avro with columns of exchange and routing key, or with a header that cannot be read.

        Raises InputError without fastavro, and if the mapping names a column that the file does not have.
        """
        if not head.startswith(MAGIC):
            return False
        if find_spec("fastavro") is None:
            raise InputError(f"{path}: this is Avro, which fastavro reads; install it with: pip install '{PACKAGE}'")
        try:
            schema = _read_columns(path).schema
        except InputError:
            return True
        return {*NEEDED} <= find_schema_places(schema, self.mapping, path).keys()

    def list_columns(self, path: Place) -> Sequence[str]:
        try:
            return list_schema(_read_columns(path).schema)
        except InputError:
            return ()

    def note_of(self, path: Place) -> str:
        try:
            schema = _read_columns(path).schema
        except InputError:
            return self.note
        return describe_columns(schema, find_schema_places(schema, self.mapping, path))

    def plan(self, path: Place, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        if is_copied(path):
            return [Split(path)]
        with Mapped(path) as data:
            try:
                header = read_header(data)
            except InputError:
                return [Split(path)]
            splits: list[Split] = []
            start, row, first = header.end, 0, 0
            for block in walk_blocks(data, header.end, len(data), header.marker):
                row += block.rows
                if block.end - start >= split_bytes or block.end >= len(data):
                    splits.append(Split(path, start, block.end, exact=True, floor=first))
                    start, first = block.end, row
        return splits or [Split(path)]

    def is_complete(self, path: Place) -> bool:
        with Mapped(path) as data:
            try:
                header = read_header(data)
            except InputError:
                return False
            return all(not block.problem for block in walk_blocks(data, header.end, len(data), header.marker))

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        wanted = list(SCHEMA.names if columns is None else columns)
        row = max(split.floor, 0)
        file = Mapped(split.path)
        with file as data:
            try:
                header = read_header(data)
                reader = self._open(header, split.source, wanted)
            except InputError as error:
                yield Bad(split.source, 0, str(error), take_sample(data[:]), None)
                return
            end = len(data) if split.end is None else min(split.end, len(data))
            for block in walk_blocks(data, max(split.start, header.end), end, header.marker):
                yield from reader.read(block, data, row)
                row += block.rows
            yield from reader.flush()
        if file.problem:
            yield Bad(split.source, row, file.problem, records=None)

    def _open(self, header: Header, path: str, wanted: list[str]) -> _BlockReader:
        columns = convert_schema(header.schema)
        names = columns.schema.names
        places = resolve_folders(find_schema_places(columns.schema, self.mapping, path), names, path)
        if not {*NEEDED} <= places.keys():
            raise InputError(explain_missing(names, dict(self.mapping.columns), path))
        return _BlockReader(path, header, columns, wanted, places)


def _read_columns(path: Place | AnyPath) -> Columns:
    place = path if isinstance(path, str) else to_place(path)
    try:
        header = read_header(read_head(place))
    except InputError:  # a schema may be long
        with Mapped(place) as data:
            header = read_header(data)
    return convert_schema(header.schema)


class _Overstated(InputError):
    """A block cannot hold as many records as its header states."""


class _BlockReader:
    """Collects the records of blocks, and reads them as batches of columns."""

    def __init__(self, path: str, header: Header, columns: Columns, wanted: list[str], places: dict[str, str]) -> None:
        self._path = path
        self._codec = header.codec
        self._columns = columns
        self._wanted = wanted
        self._places = places
        self._own = has_marks(columns.schema.names)
        self._selected = select_columns(columns.schema.names, places, wanted)
        self._records: list[dict[str, Any]] = []
        self._row = self._bytes = 0
        """Number of the first record of ``_records``, and the size of all of them in bytes."""

    def read(self, block: Block, data: Bytes, row: int) -> Iterator[Item]:
        """Yield items for a block whose first record has the number ``row``; the last may come with a later block."""
        problem, found = block.problem, row
        is_counted = not problem
        if not problem:
            try:
                for record in self._decode(block, data):
                    if len(self._records) >= BATCH_ROWS or self._bytes >= BATCH_BYTES:
                        yield from self.flush()
                    if not self._records:
                        self._row = found
                    self._records.append(record)
                    found += 1
            except _Overstated as error:
                problem, is_counted = str(error), False
            except InputError as error:
                problem = str(error)
            except Exception as error:  # noqa: BLE001  the library raises plain exceptions for damaged records
                problem = f"a damaged block of Avro: {shorten_error(error)}"
            self._bytes += block.end - block.start
        if problem:
            yield from self.flush()
            lost = max(row + block.rows - found, 1) if is_counted else None
            yield Bad(self._path, found, problem, take_sample(data[block.start : block.end]), lost)

    def _decode(self, block: Block, data: Bytes) -> Iterator[dict[str, Any]]:
        from fastavro import reader

        records = unpack_block(self._codec, bytes(data[slice(*block.data)]))
        if block.rows > len(records):  # each has a byte or more: it names an exchange and a key
            raise _Overstated("a block of Avro with more records than bytes")
        return iter(reader(io.BytesIO(encode_container(self._columns.stored, block.rows, records))))  # type: ignore[arg-type]

    def flush(self) -> Iterator[Item]:
        """Yield the records that were collected and not yet yielded."""
        records, self._records, self._bytes = self._records, [], 0
        if records:
            yield from self._to_rows(records, self._row)

    def _to_rows(self, records: list[dict[str, Any]], row: int) -> Iterator[Item]:
        try:
            arrays = [self._columns.build(records, name) for name in self._selected]
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            if len(records) == 1:
                yield Bad(self._path, row, f"a record of Avro that is no row: {shorten_error(error)}")
                return
            middle = len(records) // 2
            yield from self._to_rows(records[:middle], row)
            yield from self._to_rows(records[middle:], row + middle)
            return
        # Folders may give exchange and routing key; then no column may be read, and the nulls keep the number of rows.
        batch = pa.RecordBatch.from_arrays([*arrays, pa.nulls(len(records))], [*self._selected, ""])
        try:
            yield from read_foreign(batch, self._path, row, self._wanted, self._places, own=self._own)
        except WrongColumn as error:
            yield Bad(self._path, row, shorten_error(error), records=len(records))
