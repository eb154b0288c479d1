"""Read JSON lines of other programs: fields by the names that the user gives, or by plain ones; records of Kafka.

Dumps of Kafka's topics have an object for each record: ``kcat -J``, ``kaf consume --output json`` and others differ in
the names of their fields only. A `bindings.archive.mapping.FieldMapping` names the fields of a record that are exchange
and routing key, as for the files of a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow.parquet as pq

from bindings.archive.columns import TAKEN, as_line, as_table, describe_places, find_places, value_at
from bindings.archive.formats.json_lines import JsonLines, add_line, parse_objects, read_lines
from bindings.archive.formats.parquet import MAGIC, UNREADABLE
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.reading import Bias, Item, Skipped, Split
from bindings.archive.record import Rows
from bindings.archive.unpacking import read_head
from exchange.errors import InputError

__all__ = ["KafkaLines", "MappedLines", "names_in"]

LINES: Final = 20
"""Number of lines whose fields are looked at."""

VALUES: Final = ("payload", "value")
TIMES: Final = ("ts", "timestamp", "time")


@dataclass(frozen=True)
class MappedLines(JsonLines):
    """The format of JSON lines with other names than ours, or with names that the user gives."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "JSON lines of other programs"

    def recognises(self, head: bytes, path: Path) -> bool:
        """Return whether the first lines have an exchange and a routing key; raises InputError as `find_places`."""
        names = _names(head)
        needed = {"exchange", "routing_key"}
        if not names or (not self.mapping.columns and needed <= names.keys()):
            return False
        return needed <= self._places(names, str(path)).keys()

    def resembles(self, head: bytes, path: Path) -> bool:
        return False

    def note_of(self, path: str) -> str:
        return TAKEN + describe_places(self._places(_names(read_head(path)), path))

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        places = self._places(_names(read_head(split.path)), split.path)

        def add(rows: Rows, value: Any, place: int) -> Skipped | None:
            if type(value) is not dict:
                raise InputError("not an object")
            return add_line(rows, as_line(value, places), place)

        return read_lines(split, columns, add)

    def _places(self, names: Mapping[str, None], path: str) -> dict[str, str]:
        return find_places(names, dict(self.mapping.columns), path)


@dataclass(frozen=True)
class KafkaLines(JsonLines):
    """The format of JSON lines of records of Kafka: topic, partition, offset, key, headers, and payload or value."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "JSON lines of Kafka's records"
    bias: ClassVar[Bias] = Bias.SURVIVORS
    note: ClassVar[str] = "exchange and routing key of records are where --exchange and --routing-key say"

    def recognises(self, head: bytes, path: Path) -> bool:
        """Return whether the first line is a record of Kafka; columns that the user names are not of one."""
        names = _names(head)
        is_record = "topic" in names and "partition" in names and not {"exchange", "routing_key"} & names.keys()
        return is_record and any(name in names for name in VALUES) and not self.mapping.columns

    def resembles(self, head: bytes, path: Path) -> bool:
        return False

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        return read_lines(split, columns, self._add)

    def _add(self, rows: Rows, value: Any, place: int) -> Skipped | None:
        if type(value) is not dict:
            raise InputError("not an object")
        headers = as_table(value.get("headers"), "headers")
        row: dict[str, Any] = {"headers": headers}
        for field, where in (("exchange", self.mapping.exchange), ("routing_key", self.mapping.routing_key)):
            text = headers.get(where[7:]) if where.startswith("header:") else value_at(value, where)
            if text is None and field == "routing_key" and self.mapping.allows_no_key:
                text = ""
            if not isinstance(text, str):
                raise InputError(f"a record without {where}, which is to be its {field.replace('_', ' ')}")
            row[field] = text
        row["timestamp"] = next((value[name] for name in TIMES if name in value), None)
        row["body"] = next((value[name] for name in VALUES if name in value), None)
        return add_line(rows, as_line(row, {field: field for field in row}), place)


def names_in(path: str) -> list[str]:
    """Return the columns of a Parquet file, or the fields of the first JSON objects of a file; empty if neither."""
    head = read_head(path)
    if not head.startswith(MAGIC):
        return list(_names(head))
    try:
        return list(pq.read_schema(path).names)
    except UNREADABLE:
        return []


def _names(head: bytes) -> dict[str, None]:
    """Return the names of the fields of the first objects, in their order."""
    objects = parse_objects(head.split(b"\n", LINES)[:LINES])
    return dict.fromkeys(name for each in objects for name in each)
