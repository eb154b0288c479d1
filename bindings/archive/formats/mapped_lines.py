"""Read JSON lines of other programs: fields by the names that the user gives, or by plain ones; records of Kafka.

Dumps of Kafka's topics have an object for each record: ``kcat -J``, ``kaf consume --output json`` and others differ in
the names of their fields only. A `bindings.archive.mapping.FieldMapping` names the fields of a record that are exchange
and routing key, as for the files of a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, Final

from bindings.archive.columns import (
    NEEDED,
    TAKEN,
    describe_places,
    find_places,
    find_value,
    is_there,
    list_paths,
    resolve_folders,
    to_line,
    to_table,
)  # fmt: skip
from bindings.archive.formats.json_lines import LINES, JsonLines, add_line, note_doubt, parse_objects, read_lines
from bindings.archive.formats.row_lines import is_row, restore_row
from bindings.archive.kafka.rows import ESCAPED
from bindings.archive.mapping import RECORDS_NOTE, USUAL, FieldMapping
from bindings.archive.places import AnyPath, Place, to_place
from bindings.archive.reading import Bias, Item, Skipped, Split
from bindings.archive.record import Rows
from bindings.archive.routing_keys import rename
from bindings.archive.unpacking import read_head
from exchange.errors import InputError
from exchange.limits import RECORD_BYTES

SEARCHED: Final = 4 << 20
"""Number of bytes that are searched for the first lines, and for a column that the user names; a first line may have
more."""
VALUES: Final = ("payload", "value")
TIMES: Final = ("ts", "timestamp", "time")


@dataclass(frozen=True)
class MappedLines(JsonLines):
    """The format of JSON lines with other names than ours, or with names that the user gives."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "JSON lines of other programs"

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the first lines have an exchange and a routing key; raises InputError as `find_places`.

        Objects without the columns that the user names for these are none of the archive.
        """
        names = _names(head)
        if not names or (not self.mapping.columns and {*NEEDED} <= names.keys()):
            return False
        asked = [place for field, place in self.mapping.columns if field in NEEDED and not place.startswith("=")]
        if len(asked) == len(NEEDED) and not any(is_there(place, names) for place in asked):
            return False
        return {*NEEDED} <= self._places(names, to_place(path)).keys()

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        return self.recognises(head, path)

    def note_of(self, path: Place) -> str:
        doubt = note_doubt(read_head(path))
        return TAKEN + describe_places(self._places(_names_of(path), path)) + (f"; {doubt}" if doubt else "")

    def list_columns(self, path: Place) -> Sequence[str]:
        objects = _parse_lines(read_first_lines(path), None)  # of all lines: some columns may begin late
        paths = (list_paths(each.items(), lambda part: part.items() if type(part) is dict else ()) for each in objects)
        return [*dict.fromkeys(path for each in paths for path in each)]

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        names = _names_of(split.path)
        places = resolve_folders(self._places(names, split.path), names, split.source)
        given = dict(self.mapping.columns) | places

        @lru_cache(1 << 10)
        def places_in(later: tuple[str, ...]) -> dict[str, str]:
            """Return the places for an object with these names: those of the first lines, and what they lack."""
            fields = {field: name for field, name in find_places(later, {}).items() if field not in given}
            return fields | {field: place for field, place in given.items() if place != "=" or field in NEEDED}

        def add(rows: Rows, value: Any, place: int) -> Skipped | None:
            if type(value) is not dict:
                raise InputError("not an object")
            places = places_in((*value,))
            if not is_row(value):
                return add_line(rows, to_line(value, places), place)
            row = restore_row(value)
            line = to_line(row, places)
            if "body" in line and places["body"] == "body":
                line["body"] = row["body"]
            return add_line(rows, line, place)

        return read_lines(split, columns, add)

    def _places(self, names: Mapping[str, None], path: Place) -> dict[str, str]:
        return find_places(names, dict(self.mapping.columns), str(path), paths=partial(self.list_columns, path))


@dataclass(frozen=True)
class KafkaLines(JsonLines):
    """The format of JSON lines of records of Kafka: topic, partition, offset, key, headers, and payload or value."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "JSON lines of Kafka's records"
    bias: ClassVar[Bias] = Bias.SURVIVORS
    note: ClassVar[str] = RECORDS_NOTE

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the first line is a record of Kafka; columns that the user names are not of one."""
        names = _names(head)
        is_record = "topic" in names and "partition" in names and not {"exchange", "routing_key"} & names.keys()
        return is_record and any(name in names for name in VALUES) and not self.mapping.columns

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        return self.recognises(head, path)

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        return read_lines(split, columns, self._add)

    def _add(self, rows: Rows, value: Any, place: int) -> Skipped | None:
        if type(value) is not dict:
            raise InputError("not an object")
        headers = to_table(value.get("headers"), "headers")
        row: dict[str, Any] = {"headers": rename(headers, ESCAPED)}
        for field, where in (("exchange", self.mapping.exchange), ("routing_key", self.mapping.routing_key)):
            text = headers.get(where[7:]) if where.startswith("header:") else find_value(value, where)
            if text is None and field == "routing_key" and self.mapping.allows_no_key:
                text = ""
            if text is None:
                raise InputError(f"a record without {where}, which is to be its {field.replace('_', ' ')}")
            row[field] = text
        row["timestamp"] = next((value[name] for name in TIMES if name in value), None)
        row["body"] = next((value[name] for name in VALUES if name in value), None)
        return add_line(rows, to_line(row, {field: field for field in row}), place)


def read_first_lines(path: Place) -> bytes:
    """Return the beginning of a file. An object that begins it is whole, if it is no longer than a record may be."""
    size = SEARCHED
    while True:
        head = read_head(path, size)
        begun = head.lstrip()
        is_torn = begun.startswith(b"{") and b"\n" not in begun and next(parse_objects((begun,)), None) is None
        if not is_torn or len(head) < size or size > RECORD_BYTES:
            return head
        size = min(4 * size, RECORD_BYTES + 1)


def _names_of(path: Place) -> dict[str, None]:
    return _names(read_head(path)) or _names(read_first_lines(path))


def _names(head: bytes, lines: int | None = LINES) -> dict[str, None]:
    """Return the names of the fields of the objects in the first lines, or in all, in their order."""
    return dict.fromkeys(name for each in _parse_lines(head, lines) for name in each)


def _parse_lines(head: bytes, lines: int | None) -> Iterator[dict[str, Any]]:
    yield from parse_objects(head.split(b"\n", lines or -1)[:lines])
