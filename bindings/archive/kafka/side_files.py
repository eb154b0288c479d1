"""Read the small files that a Kafka broker keeps beside its logs.

``*-checkpoint``            an offset for each partition, or for each epoch of a partition's leaders, as text
``meta.properties``         the ids of cluster, node and folder, as text
``partition.metadata``      the id of the topic, as text
``*.snapshot``              the state of a partition's producers up to the offset in the name (`ProducerSnapshot`)
``*.txnindex``              the aborted transactions of a segment (`AbortedTxn`)
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from bindings.archive.figures import Timestamp
from bindings.archive.reading import Bad
from bindings.archive.sums import Unread
from bindings.sources.files import open_file
from exchange.errors import InputError
from exchange.limits import SIDE_FILE_BYTES
from exchange.values.documents import As, document

T = TypeVar("T")

NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
PROPERTY: Final = re.compile(r"\s*([^=:\s#!]+)\s*[=:]\s*(.*?)\s*")
SNAPSHOT_HEAD: Final = struct.Struct(">hIi")
"""Version, CRC-32C of what follows, number of producers."""
SNAPSHOT_CRC_END: Final = 6
"""Position behind the checksum, where the bytes begin that it is of."""
PRODUCER: Final = struct.Struct(">qhiqiqiq")
ABORTED: Final = struct.Struct(">hqqqq")
SEQUENCES: Final = 1 << 31
"""Number of sequence numbers, after which they begin at 0 again."""


def format_id(number: UUID) -> str:
    """Return an id of a topic or folder as Kafka writes it: in base64, 22 characters."""
    return base64.urlsafe_b64encode(number.bytes).decode().rstrip("=")


TopicId: TypeAlias = Annotated[UUID, As(format_id, str)]


@document("KafkaEpochJson")
class EpochStart(NamedTuple):
    """The first offset that leaders of an epoch wrote."""

    epoch: int
    start_offset: int


@document("KafkaAbortedJson")
class AbortedTransaction(NamedTuple):
    """A transaction that was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of its marker."""
    last_stable_offset: int
    """Last stable offset of the partition when the marker was written."""


@document("KafkaProducerJson")
@dataclass(frozen=True, slots=True)
class ProducerState:
    """The state of an idempotent or transactional producer in a partition (`ProducerStateEntry`)."""

    producer_id: int
    epoch: int
    last_sequence: int = -1
    """Sequence number of its last record; -1 if it has written none in this epoch."""
    last_offset: int = -1
    last_time: Timestamp = -1
    coordinator_epoch: int = -1
    """Epoch of the transaction coordinator that wrote its last marker; -1 if there is none."""
    open_since: int | None = None
    """First offset of its transaction that has not ended; None if there is none."""


def read_or_report(path: Path, read: Callable[[Path], T], problems: Unread) -> T | None:
    """Return what a file holds; None if it is missing, or cannot be read, which is reported."""
    if not path.exists():
        return None
    try:
        return read(path)
    except InputError as error:
        problems.add_bad(Bad(str(path), 0, str(error)))
        return None


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file of lines ``name=value``. Raises InputError if it cannot be read."""
    text = _read(path).decode("utf-8", "replace")
    return {match[1]: match[2] for line in text.splitlines() if (match := PROPERTY.fullmatch(line))}


def read_offsets(path: Path) -> dict[tuple[str, int], int]:
    """Return topic and partition -> offset. Raises InputError for a file that no broker writes."""
    return {(topic, int(partition)): int(offset) for topic, partition, offset in _read_entries(path, 3)}


def read_epochs(path: Path) -> tuple[EpochStart, ...]:
    """Return the epochs of leaders with their first offsets. Raises InputError for a file that no broker writes."""
    return tuple([EpochStart(int(epoch), int(offset)) for epoch, offset in _read_entries(path, 2)])


def read_snapshot(path: Path) -> dict[int, ProducerState]:
    """Return producer id -> its state. Raises InputError if the checksum is wrong, or no broker writes such a file."""
    import google_crc32c  # imported here: only this function of the module needs it

    data = _read(path)
    if len(data) < SNAPSHOT_HEAD.size:
        raise InputError("too short")
    version, crc, count = SNAPSHOT_HEAD.unpack_from(data)
    if version != 1:
        raise InputError(f"its version {version} is not known")
    if google_crc32c.value(data[SNAPSHOT_CRC_END:]) != crc:
        raise InputError("its checksum is wrong")
    if len(data) != SNAPSHOT_HEAD.size + count * PRODUCER.size:
        raise InputError("it has another size than its number of producers")
    found = {}
    for fields in PRODUCER.iter_unpack(data[SNAPSHOT_HEAD.size :]):
        number, epoch, sequence, offset, _, time, coordinator, first = fields
        found[number] = ProducerState(number, epoch, sequence, offset, time, coordinator, None if first < 0 else first)
    return found


def read_aborted(path: Path) -> Iterator[AbortedTransaction]:
    """Yield the transactions in an index. Raises InputError for another file, and at the end of a cut one."""
    data = _read(path)
    whole = len(data) // ABORTED.size * ABORTED.size
    for version, *fields in ABORTED.iter_unpack(data[:whole]):
        if version:
            raise InputError(f"its version {version} is not known")
        yield AbortedTransaction(*fields)
    if whole < len(data):
        raise InputError("it ends in the middle of a transaction")


def parse_id(text: str) -> UUID | None:
    """Return the id that `format_id` has written; None for a text that is no id."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except ValueError:
        return None


def _read(path: Path) -> bytes:
    try:
        with open_file(path) as file:
            data = file.read(SIDE_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    if len(data) > SIDE_FILE_BYTES:
        raise InputError(f"has more than {SIDE_FILE_BYTES >> 20} MiB")
    return data


def _read_entries(path: Path, width: int) -> Iterator[list[str]]:
    """Yield the entries of a checkpoint (`CheckpointFile`): after the version 0 and their number, one a line."""
    lines = _read(path).decode("utf-8", "surrogateescape").splitlines()
    if not lines:  # a broker makes the file before it has anything to write
        return
    if len(lines) < 2 or lines[0].strip() != "0":
        raise InputError("no checkpoint of version 0")
    entries = [line.split() for line in lines[2:] if line.strip()]
    for entry in entries:
        if len(entry) != width or not all(part.isascii() and NUMBER.fullmatch(part) for part in entry[width - 2 :]):
            raise InputError(f"no entry of a checkpoint: {' '.join(entry)[:60]!r}")
    if lines[1].strip() != str(len(entries)):
        raise InputError("it has another number of entries than it states")
    yield from entries
