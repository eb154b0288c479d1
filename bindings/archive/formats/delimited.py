"""Read CSV and its kin of any program: a first row of names, then a row a message; fields as in other foreign tables.

Fields are separated by commas, semicolons, tabs or bars, whichever the first row has most of, and quoted as RFC 4180
says, with line feeds inside of quotes. Headers and properties are JSON. An empty field is an empty text for exchange,
routing key and body, and nothing for all others.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from bindings.archive.columns import (
    NEEDED,
    TAKEN,
    describe_places,
    explain_absent,
    find_places,
    is_there,
    resolve_folders,
)  # fmt: skip
from bindings.archive.formats.foreign import WrongColumn, read_foreign, select_columns, shorten_error
from bindings.archive.formats.row_lines import has_marks
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.places import AnyPath, Place, to_path
from bindings.archive.reading import Bad, Format, Item, LineBlock, Split, read_blocks, take_sample
from bindings.archive.record import SCHEMA
from bindings.archive.unpacking import read_head
from exchange.errors import InputError
from exchange.files.names import CSV
from exchange.text.display import count_noun

DELIMITERS: Final = ",;\t|"
BATCH_ROWS: Final = 8_192
"""Maximum number of rows of a batch."""
BATCH_CHARACTERS: Final = 16 << 20
"""Number of characters after which a batch ends."""
FIELD_CHARACTERS: Final = 16 << 20
"""Maximum number of characters of a field; a quote that is never closed costs no more than these."""


class _Header:
    """The first row of a file: its names, and what separates them."""

    def __init__(self, head: bytes) -> None:
        line = head.split(b"\n", 1)[0].decode("utf-8", "surrogateescape").removeprefix("\ufeff").strip("\r")
        self.delimiter: Final = max(DELIMITERS, key=line.count)
        try:
            self.names = next(csv.reader([line], delimiter=self.delimiter, strict=True), [])
        except csv.Error:
            self.names = []


@dataclass(frozen=True)
class Delimited(Format):
    """The format of CSV with a first row of names."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "CSV"

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the first row names an exchange and a routing key.

        Raises InputError, with the names that are there, for a file that is CSV by its name and lacks what is asked.
        """
        names = _Header(head).names
        is_named = _has_csv_name(path)
        if not is_named and len(names) < 2:
            return False
        asked = [place for field, place in self.mapping.columns if field in NEEDED and not place.startswith("=")]
        absent = [place for place in asked if not is_there(place, names)]
        if absent and is_named and len(absent) < len(NEEDED):
            raise InputError(explain_absent(str(path), absent[0], names))
        if absent:
            return False
        places = self._places(names, path)
        return {*NEEDED} <= places.keys() and any(not places[field].startswith("=") for field in NEEDED)

    def note_of(self, path: Place) -> str:
        places = self._places(_list_header(path), path)
        return "" if all(field == place for field, place in places.items()) else TAKEN + describe_places(places)

    def list_columns(self, path: Place) -> Sequence[str]:
        names = _list_header(path)
        return names if _has_csv_name(to_path(path)) or {*NEEDED} <= self._places(names, path).keys() else ()

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        wanted = list(SCHEMA.names if columns is None else columns)
        header = _Header(read_head(split.path))
        places = resolve_folders(self._places(header.names, split.path), header.names, split.source)
        kept = {places[field] for field in (*NEEDED, "body") if field in places}  # "" is a text there
        selected = select_columns(header.names, places, wanted)
        taken = [(at, name) for at, name in enumerate(header.names) if name in selected]
        for start, rows in _read_batches(split, header):
            if isinstance(rows, Bad):
                yield rows
                continue
            arrays = [_to_column([row[at] for row in rows], is_kept=name in kept) for at, name in taken]
            # Where names of folders are exchange and routing key, there may be no column; there are rows all the same.
            batch = pa.RecordBatch.from_arrays([*arrays, pa.nulls(len(rows))], [*(name for _, name in taken), ""])
            try:
                yield from read_foreign(batch, split.source, start, wanted, places, own=has_marks(header.names))
            except WrongColumn as error:
                yield Bad(split.source, start, shorten_error(error), records=None)
                return

    def _places(self, names: Sequence[str], path: object) -> dict[str, str]:
        return find_places(names, dict(self.mapping.columns), str(path))


def _has_csv_name(path: AnyPath) -> bool:
    """Return whether a file is CSV by its name."""
    return path.name.lower().removesuffix(".gz").endswith(CSV)


def _list_header(path: Place) -> list[str]:
    """Return the names in the first row of a file."""
    return _Header(read_head(path)).names


def _read_batches(split: Split, header: _Header) -> Iterator[tuple[int, list[list[str]] | Bad]]:
    """Yield rows, with the number of the first one; the first row after that of names is number 0."""
    problems: list[LineBlock] = []
    csv.field_size_limit(max(FIELD_CHARACTERS, csv.field_size_limit()))
    reader = csv.reader(_read_lines(split, problems), delimiter=header.delimiter, strict=True)
    rows: list[list[str]] = []
    start = row = -1
    size = 0
    while True:
        problem = ""
        try:
            fields = next(reader, None)
        except csv.Error as error:
            fields, problem = [], f"no row of CSV: {error}"
        if fields is not None and not fields and not problem:  # an empty line
            continue
        if fields is not None and row < 0:
            row = start = 0
            continue
        if fields and len(fields) != len(header.names):
            names = count_noun(len(header.names), "name")
            problem = f"a row of {count_noun(len(fields), 'field')}, where the first row has {names}"
        if rows and (problem or fields is None or len(rows) == BATCH_ROWS or size > BATCH_CHARACTERS):
            yield start, rows
            rows, start, size = [], row, 0
        if fields is None:
            break
        if problem:
            sample = take_sample(header.delimiter.join(fields).encode("utf-8", "surrogateescape"))
            yield row, Bad(split.source, row, problem, sample)
            start = row + 1
        else:
            rows.append(fields)
            size += sum(map(len, fields))
        row += 1
    for block in problems:
        yield row, Bad(split.source, max(row, 0), block.problem or "", records=block.records)


def _read_lines(split: Split, problems: list[LineBlock]) -> Iterator[str]:
    """Yield the lines of a file; add to ``problems`` the blocks that are not, or not wholly, read."""
    for block in read_blocks(split):
        if block.problem is not None:
            problems.append(block)
        *lines, last = block.data.split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "surrogateescape") + "\n"
        if last:
            yield last.decode("utf-8", "surrogateescape")


def _to_column(texts: list[str], *, is_kept: bool) -> pa.Array:
    encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
    return pa.array(encoded if is_kept else [text or None for text in encoded], pa.binary())
