"""Read a broker's whole commit log: its messages with all fields, in order or by position."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from bindings.archive.figures import Milliseconds
from bindings.archive.mapped import Bytes, Mapped
from bindings.archive.reading import Bad, Split, take_sample
from bindings.archive.rocketmq.log import NAME, LogRecord, read_log, read_record
from exchange.errors import name_os_errors
from exchange.rocketmq.offset_id import format_host, format_id
from exchange.rocketmq.stored_record import (
    BATCH,
    START,
    BatchMessage,
    count_host_bytes,
    parse_properties,
    split_batch,
    unpack_body,
)

DECIMAL: Final = re.compile("[0-9]{1,18}")
KEY_SEPARATOR: Final = " "
"""The separator of the keys of a message (`MessageConst.KEY_SEPARATOR`)."""


class CommitRecord(NamedTuple):
    """A record of the commit log: a message as the broker stored it, or a batch in one record."""

    topic: str
    queue: int
    offset: int
    """Offset in the queue, as stated by the record."""
    place: int
    """Position in the commit log, in bytes."""
    size: int
    """Size of the record, in bytes."""
    flag: int
    """The flag of the user."""
    system_flag: int
    born: Milliseconds
    """By the producer's clock."""
    born_address: bytes
    """The address, 4 or 16 bytes, and the port, 4 bytes."""
    stored: Milliseconds
    """By the broker's clock."""
    stored_address: bytes
    reconsumed: int
    """Number of times that a consumer sent it back."""
    packed_body: bytes
    property_bytes: bytes
    properties: dict[str, str]
    """All properties, including those that brokers and clients set."""

    @property
    def message_id(self) -> str:
        """Offset id (`MessageDecoder.createMessageId`)."""
        return format_id(self.stored_address, self.place)

    @property
    def born_host(self) -> str:
        """``ADDRESS:PORT`` of the producer."""
        return format_host(self.born_address)

    @property
    def stored_host(self) -> str:
        """``ADDRESS:PORT`` of the broker."""
        return format_host(self.stored_address)

    @property
    def tag(self) -> str | None:
        """Property TAGS."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the property KEYS."""
        return tuple([key for key in self.properties.get("KEYS", "").split(KEY_SEPARATOR) if key])

    @property
    def unique_id(self) -> str | None:
        """The id that the producer gave it; for a batch in one record, all ids with commas between."""
        return self.properties.get("UNIQ_KEY")

    @property
    def messages(self) -> int:
        """Number of messages: more than one in a batch."""
        if self.system_flag & BATCH != BATCH:
            return 1
        return parse_number(self.properties.get("INNER_NUM", ""), 1)

    def parts(self) -> list[BatchMessage]:
        """Return the messages of the record: one, or all of a batch. Raises InputError if it cannot be unpacked."""
        body = unpack_body(self.packed_body, self.system_flag)
        if self.system_flag & BATCH == BATCH:
            return split_batch(body)
        return [BatchMessage(body, self.property_bytes, self.flag)]


class NumberedFile(NamedTuple):
    """A file whose name is its position in the whole log or queue, in bytes."""

    base: int
    path: str
    size: int

    @property
    def end(self) -> int:
        """The byte at which it ends."""
        return self.base + self.size


def list_numbered(folder: Path) -> tuple[NumberedFile, ...]:
    """Return the files of a folder whose names are numbers of 20 digits (`MappedFileQueue`), in order.

    There are none if the folder is missing. Raises InputError if it cannot be read.
    """
    with name_os_errors(folder):
        return tuple(
            sorted(
                NumberedFile(int(path.name), str(path), path.stat().st_size)
                for path in (folder.iterdir() if folder.is_dir() else ())
                if NAME.fullmatch(path.name) and path.suffix != ".gz"
            )
        )


@dataclass(frozen=True)
class CommitLog:
    """The files of a commit log, in order."""

    files: tuple[NumberedFile, ...]

    @property
    def begin(self) -> int:
        """Position at which the log begins; older records were deleted."""
        return self.files[0].base if self.files else 0

    @property
    def end(self) -> int:
        """Position at which the last file ends; the last message may end earlier."""
        return self.files[-1].end if self.files else 0

    def records(self) -> Iterator[CommitRecord | Bad]:
        """Yield all records in order, and `Bad` for records that cannot be read.

        Raises InputError if a file cannot be opened.
        """
        expected = self.begin
        for base, path, size in self.files:
            if base != expected:
                yield Bad(path, base, "a file of the log is missing before it", records=None)
            with Mapped(path) as data:
                for at, record in read_log(data, base, Split(path)):
                    if isinstance(record, LogRecord):
                        yield _build_record(data, at, base + at, record)
                    else:
                        yield Bad(path, base + at, record, take_sample(data[at : at + 100]))
            expected = base + size

    def at(self, place: int) -> CommitRecord | str:
        """Return the record at a position of the log, or the reason why there is none."""
        which = bisect_right(self.files, place, key=lambda file: file.base) - 1
        if which < 0:
            return "the log begins behind it"
        base, path, size = self.files[which]
        if place >= base + size:
            return "the log ends before it"
        with Mapped(path) as data:
            record = read_record(data, base, place - base)
            return _build_record(data, place - base, place, record) if isinstance(record, LogRecord) else record


def parse_number(text: str, otherwise: int) -> int:
    """Return the number in a property's text, or ``otherwise`` if it is none, since producers can write any text."""
    return int(text) if DECIMAL.fullmatch(text) else otherwise


def _build_record(data: Bytes, at: int, place: int, record: LogRecord) -> CommitRecord:
    _, _, _, queue, flag, offset, _, system_flag, born = START.unpack_from(data, at)
    born_bytes, stored_bytes = count_host_bytes(system_flag)
    time_at = at + START.size + born_bytes
    host_at = time_at + 8
    return CommitRecord(
        topic=record.topic.decode("utf-8", "surrogateescape"),
        queue=queue,
        offset=offset,
        place=place,
        size=record.size,
        flag=flag,
        system_flag=system_flag,
        born=born,
        born_address=data[time_at - born_bytes : time_at],
        stored=int.from_bytes(data[time_at:host_at], "big", signed=True),
        stored_address=data[host_at : host_at + stored_bytes],
        reconsumed=int.from_bytes(data[host_at + stored_bytes : host_at + stored_bytes + 4], "big", signed=True),
        packed_body=record.body,
        property_bytes=record.properties,
        properties=parse_properties(record.properties),
    )
