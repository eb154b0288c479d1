"""Keys of archives as sources and targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bindings.archive.mapping import COLUMNS as FIELDS
from bindings.archive.mapping import FieldMapping
from bridge.keys import (
    FLAG,
    MAYBE_TEXT,
    MOMENT,
    SECONDS,
    SIZE,
    TEXT,
    Key,
    KeyForm,
    Keys,
    accept_number_or,
    accept_queues,
)
from bridge.pump.keys import URL
from bridge.table import Table
from exchange.errors import InputError

HERE: Final = "."
"""The archive itself, as a folder below it."""

SPEED: Final = Key("speed", accept_number_or("max"), "1.0: in the time that it took; 10.0: ten times as fast", "max")
SINCE: Final = Key(
    "since", MOMENT, "a date of TOML: records from then on; those without a time are left out", otherwise="none"
)
UNTIL: Final = Key("until", MOMENT, "a date of TOML, after `since`: records before then", otherwise="none")
FOLLOW: Final = Key("follow", FLAG, "whether to wait for more instead of ending", False)
STATE: Final = Key(
    "state",
    MAYBE_TEXT,
    'the file that keeps how far the replay is; `"off"`: each run begins at the beginning',
    otherwise="beside the archive",
)
WITHOUT_BODIES: Final = Key(
    "without_bodies", FLAG, "whether to read records whose body the archive does not have, with an empty one", False
)


def _read_columns(table: Table, key: str, _: object) -> Mapping[str, str]:
    if table.is_list(key):
        raise table.error(key, f'must be a table, and is a list: {key} = {{ headers = "meta" }}')
    columns = table.mapping(key, _parse_column, "a column or a path in one, '=TEXT' for all records, or '=' for none")
    try:
        FieldMapping(columns=tuple(columns.items()))
    except InputError as error:
        raise table.error(key, str(error)) from None
    return columns


def _parse_column(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


COLUMNS: Final = Key(
    "columns",
    KeyForm(
        _read_columns, {"type": "object", "propertyNames": {"enum": [*FIELDS]}, "additionalProperties": TEXT.schema}
    ),
    "of other programs' files: field = column, as `--column` [has it](archives.md#columns-of-other-programs)",
    otherwise="found by their names",
)

QUEUES: Final = Key(
    "queues",
    accept_queues(
        f"a folder below the archive, {HERE!r} for itself",
        # No part of the path is empty or hidden from readers of archives, and it holds no NUL.
        {"type": "string", "pattern": r"^(\.|[^/._\u0000][^/\u0000]*(/[^/._\u0000][^/\u0000]*)*)$|\$\{"},
    ),
    "a list, or queue of the topology = folder",
)
ROTATE: Final = Key("rotate", SECONDS, "time after which a spool becomes Parquet", "5 m")
ROTATE_BYTES: Final = Key("rotate_bytes", SIZE, "size at which a spool becomes Parquet", "128 MiB")
GATHER: Final = Key("gather", SECONDS, "time that a few messages wait for others to be synced with them", "10 ms")

SPOOL: Final = Keys((ROTATE, ROTATE_BYTES, GATHER))
SOURCE: Final = Keys((SPEED, SINCE, UNTIL, FOLLOW, STATE, WITHOUT_BODIES, COLUMNS))
TARGET: Final = Keys((URL, QUEUES)) | SPOOL
DEAD_LETTERS: Final = Keys((URL,)) | SPOOL
