"""A broker's commit log as a whole: its messages with all that is kept of each, in order or by their place."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from bindings.archive.mapped import Bytes, Mapped
from bindings.archive.reading import Bad, Split, take_sample
from bindings.archive.rocketmq.id import format_host, format_id
from bindings.archive.rocketmq.log import NAME, LogRecord, read_log, read_record
from bindings.archive.rocketmq.record import (
    BATCH,
    START,
    BatchMessage,
    count_host_bytes,
    parse_properties,
    split_batch,
    unpack_body,
)
from exchange.errors import InputError

__all__ = ["CommitLog", "NumberedFile", "Stored", "parse_number", "list_numbered"]

DECIMAL: Final = re.compile("[0-9]{1,18}")
KEYS: Final = " "
"""Between the keys of a message (`MessageConst.KEY_SEPARATOR`)."""


class Stored(NamedTuple):
    """A message as a broker stored it; a batch that is kept in one record is one."""

    topic: str
    queue: int
    offset: int
    """In the queue, as the record says it."""
    place: int
    """In the commit log, in bytes."""
    size: int
    """Of the record, in bytes."""
    flag: int
    """The user's own."""
    system_flag: int
    born: int
    """Milliseconds since 1970, by the producer's clock."""
    born_address: bytes
    """4 or 16 bytes, and 4 of the port."""
    stored: int
    """Milliseconds since 1970, by the broker's clock."""
    stored_address: bytes
    reconsumed: int
    """How often a consumer of the topic's group sent it back."""
    packed_body: bytes
    property_bytes: bytes
    properties: dict[str, str]
    """All of them, the brokers' and clients' too."""

    @property
    def message_id(self) -> str:
        """The offset id (`MessageDecoder.createMessageId`)."""
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
        """TAGS."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        """KEYS, one by one."""
        return tuple([key for key in self.properties.get("KEYS", "").split(KEYS) if key])

    @property
    def unique_id(self) -> str | None:
        """The id that the producer gave it; of a batch in one record, all of them with commas between."""
        return self.properties.get("UNIQ_KEY")

    @property
    def messages(self) -> int:
        """How many messages it is: more than one of a batch in one record."""
        if self.system_flag & BATCH != BATCH:
            return 1
        told = self.properties.get("INNER_NUM", "")
        return parse_number(told, 1)

    def parts(self) -> list[BatchMessage]:
        """Body and properties of each message in it, one but for a batch. Raises InputError."""
        body = unpack_body(self.packed_body, self.system_flag)
        if self.system_flag & BATCH == BATCH:
            return split_batch(body)
        return [BatchMessage(body, self.property_bytes, self.flag)]


class NumberedFile(NamedTuple):
    """A file whose name is where in the whole it begins, in bytes."""

    base: int
    path: str
    size: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.base + self.size


def list_numbered(folder: Path) -> tuple[NumberedFile, ...]:
    """The files of a folder whose names are numbers of 20 digits (`MappedFileQueue`), in order; none if there is none.

    Raises InputError if the folder cannot be read.
    """
    try:
        return tuple(
            sorted(
                NumberedFile(int(path.name), str(path), path.stat().st_size)
                for path in (folder.iterdir() if folder.is_dir() else ())
                if NAME.fullmatch(path.name) and path.suffix != ".gz"
            )
        )
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None


@dataclass(frozen=True)
class CommitLog:
    """The files of a commit log, in order."""

    files: tuple[NumberedFile, ...]

    @property
    def begin(self) -> int:
        """Where the log begins: what stood before has been deleted."""
        return self.files[0].base if self.files else 0

    @property
    def end(self) -> int:
        """Where the last file ends; messages may end before."""
        return self.files[-1].end if self.files else 0

    def records(self) -> Iterator[Stored | Bad]:
        """All messages in order, and what cannot be read. Raises InputError if a file cannot be opened."""
        expected = self.begin
        for base, path, size in self.files:
            if base != expected:
                yield Bad(path, base, "a file of the log is missing before it")
            with Mapped(path) as data:
                for at, found in read_log(data, base, Split(path)):
                    if isinstance(found, LogRecord):
                        yield _build_stored(data, at, base + at, found)
                    else:
                        yield Bad(path, base + at, found, take_sample(data[at : at + 100]))
            expected = base + size

    def at(self, place: int) -> Stored | str:
        """The message that stands at a byte of the log, or why there is none."""
        which = bisect_right(self.files, place, key=lambda file: file.base) - 1
        if which < 0:
            return "the log begins behind it"
        base, path, size = self.files[which]
        if place >= base + size:
            return "the log ends before it"
        with Mapped(path) as data:
            found = read_record(data, base, place - base)
            return _build_stored(data, place - base, place, found) if isinstance(found, LogRecord) else found


def parse_number(text: str, otherwise: int) -> int:
    """Return the number that a property says, if it is one of a queue: a producer can write anything there."""
    return int(text) if DECIMAL.fullmatch(text) else otherwise


def _build_stored(data: Bytes, at: int, place: int, found: LogRecord) -> Stored:
    _, _, _, queue, flag, offset, _, system_flag, born = START.unpack_from(data, at)
    born_bytes, stored_bytes = count_host_bytes(system_flag)
    time_at = at + START.size + born_bytes
    host_at = time_at + 8
    return Stored(
        topic=found.topic.decode("utf-8", "surrogateescape"),
        queue=queue,
        offset=offset,
        place=place,
        size=found.size,
        flag=flag,
        system_flag=system_flag,
        born=born,
        born_address=data[time_at - born_bytes : time_at],
        stored=int.from_bytes(data[time_at:host_at], "big", signed=True),
        stored_address=data[host_at : host_at + stored_bytes],
        reconsumed=int.from_bytes(data[host_at + stored_bytes : host_at + stored_bytes + 4], "big", signed=True),
        packed_body=found.body,
        property_bytes=found.properties,
        properties=parse_properties(found.properties),
    )
