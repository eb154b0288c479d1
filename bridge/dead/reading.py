"""What every reader of dead letters gets and returns; archives, and messages as rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

from bindings.archive.formats.detect import NOTHING_THERE, EmptyArchive, detect
from bindings.archive.mapping import FieldMapping
from bindings.archive.reading import Bad, Skipped, read_split
from bindings.archive.record import Rows
from bridge.dead.columns import COLUMNS
from exchange.amqp import MalformedHeader
from exchange.errors import InputError
from exchange.values.message import Message

Take = Callable[[pa.RecordBatch], None]
BATCH: Final = 4_096
"""Number of messages of a broker that are grouped at once."""


class Bounds(NamedTuple):
    """How much is read at most."""

    messages: int | None
    """Maximum number of messages; None for no limit."""
    seconds: float
    """Maximum duration of the reading of a broker."""


@dataclass(slots=True)
class Read:
    """What a reader has read besides messages."""

    left: int | None = 0
    """Number of messages that were not read; None if unknown."""
    bad: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)


def read_archive(
    path: str, mapping: FieldMapping, bounds: Bounds, take: Take, step: Callable[[int, int], None]
) -> Read:
    """Read an archive. Raises InputError if there is none; one that is empty has no messages."""
    try:
        archive = detect(path, mapping)
    except EmptyArchive:
        return Read(notes=[NOTHING_THERE])
    read, looked_at = Read(notes=list(archive.list_contents().notes)), 0
    splits = archive.plan()
    for number, (form, split) in enumerate(splits):
        step(number, len(splits))
        for item in read_split(form, split, COLUMNS):
            if isinstance(item, Bad):
                read.bad += 1
            elif isinstance(item, Skipped):
                read.skipped += item.records
            else:
                room = item.num_rows if bounds.messages is None else bounds.messages - looked_at
                looked_at += min(room, item.num_rows)
                take(item.slice(0, room))
                if room < item.num_rows or (room == item.num_rows and looked_at == bounds.messages):
                    read.left = None
                    return read
    return read


class RowWriter:
    """Passes on messages of a broker as rows."""

    def __init__(self, source: str, take: Take, read: Read) -> None:
        self.count = 0
        """Number of messages that were added."""
        self._rows = Rows(source, COLUMNS, is_received=True)
        self._take = take
        self._read = read

    def add(self, message: Message, time: int | None, offset: int | None) -> None:
        """Add a message; one with headers that cannot be read counts as bad."""
        self.count += 1
        try:
            self._rows.add(message, time, size=0, has_body=False, offset=offset)
        except (InputError, MalformedHeader):
            self._read.bad += 1
        if len(self._rows) >= BATCH:
            self.flush()

    def flush(self) -> None:
        """Pass on what was added."""
        if len(self._rows):
            self._take(self._rows.batch())
