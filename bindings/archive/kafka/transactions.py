"""Find how Kafka's transactions ended, by the markers after their records.

The records of a transaction are in the log in the order in which they were written. A marker of the same producer, a
control batch, ends the transaction with commit or abort; it comes later, perhaps in a later segment. A consumer with
the isolation level ``read_committed`` gets the records of committed transactions and those outside of transactions.

Markers are read only as far as a split needs them: from its first record of a transaction, until all of its
transactions have ended. If the archive ends before that, the end of a transaction is unknown.
"""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from bindings.archive.kafka.batches import read_records
from bindings.archive.kafka.header import Header, find_sound_header, has_header, is_whole, read_header
from bindings.archive.kafka.walk import SEGMENT, is_plausible_at
from bindings.archive.mapped import Bytes, Effort, Mapped
from bindings.archive.places import Place, to_path, to_place
from exchange.errors import InputError

MARKER: Final = struct.Struct(">hh")
"""The key of a control record: its version, and 0 for an abort, 1 for a commit (`ControlRecordType`)."""
ABORT: Final = 0
COMMIT: Final = 1


class TransactionEnd(Enum):
    """How a transaction ended."""

    COMMIT = "commit"
    ABORT = "abort"
    DAMAGED = "damaged"
    """The next marker of its producer is damaged."""


class Marker(NamedTuple):
    """A marker that ends a producer's transaction."""

    producer: int
    place: tuple[int, int]
    """Number of the file (0 is the split's own) and byte in it. Offsets have no checksum, and may be wrong."""
    end: TransactionEnd


class TransactionEnds:
    """Finds the ends of the transactions of a split; call `end_of` for its batches in order."""

    def __init__(self, path: Place, data: Bytes) -> None:
        self._path = to_path(path)
        self._data = data
        self._coming: Iterator[Marker] | None = None
        self._markers: dict[int, deque[Marker]] = defaultdict(deque)

    def end_of(self, header: Header, place: int) -> TransactionEnd | None:
        """Return how the transaction of the batch at ``place`` ended; None if the archive has no marker for it."""
        if self._coming is None:
            self._coming = self._behind(place)
        markers = self._markers[header.producer_id]
        while markers and markers[0].place < (0, place):
            markers.popleft()
        while not markers:
            marker = next(self._coming, None)
            if marker is None:
                return None
            if marker.producer != header.producer_id or marker.place >= (0, place):
                self._markers[marker.producer].append(marker)
        return markers[0].end

    def _behind(self, place: int) -> Iterator[Marker]:
        """Yield the markers from ``place`` on, in this file and in the segments that follow."""
        yield from _read_markers(self._data, 0, place)
        if SEGMENT.fullmatch(self._path.name) is None:
            return
        following = [
            path
            for path in self._path.parent.iterdir()
            if SEGMENT.fullmatch(path.name) and path.name[:20] > self._path.name[:20]
        ]
        for number, path in enumerate(sorted(following, key=str), 1):
            try:
                with Mapped(to_place(path)) as data:
                    yield from _read_markers(data, number, 0)
            except InputError:  # reported when that file itself is read
                return


def _read_markers(data: Bytes, file: int, place: int) -> Iterator[Marker]:
    effort = Effort(place)
    while has_header(data, place):
        header = read_header(data, place)
        behind = place + header.size
        # A damaged length could skip markers: trust the length of a batch only if another batch follows it.
        is_chained = header.seems_sound and (behind == len(data) or is_plausible_at(data, behind))
        if header.seems_sound and header.is_control and behind <= len(data) and effort.allows(behind, header.size):
            end = _read_end(data[place:behind], header)
            if end is not None and (end is not TransactionEnd.DAMAGED or is_chained):
                yield Marker(header.producer_id, (file, place), end)
                is_chained = True
        place = behind if is_chained else find_sound_header(data, place + 1)


def _read_end(data: bytes, header: Header) -> TransactionEnd | None:
    if not is_whole(data, header):
        return TransactionEnd.DAMAGED
    try:
        records = read_records(data, header)
    except InputError:
        return TransactionEnd.DAMAGED
    if not len(records.offsets) or records.keys.lengths[0] < MARKER.size:
        return None
    start = int(records.keys.starts[0])
    _, kind = MARKER.unpack(records.data[start : start + MARKER.size].tobytes())
    return {ABORT: TransactionEnd.ABORT, COMMIT: TransactionEnd.COMMIT}.get(kind)  # other markers are the controller's
