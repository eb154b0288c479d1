"""How Kafka's transactions ended: what the markers behind their records say.

The records of a transaction stand in the log as they came. What ends it is a marker of the same producer, a control
batch that says commit or abort; it stands behind them, be it in a later segment. Whoever reads what is committed gets
the records of committed transactions alone, and those outside of transactions.

Markers are looked for only as far as a split needs them: behind its first record of a transaction, until all of its
transactions have ended. Where the log is not there so far, an end is not known.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bindings.archive.kafka_batches import HEADER_BYTES, Header, header_at, is_whole, next_sound, records_of
from bindings.archive.mapped import Bytes, Mapped
from exchange.errors import InputError

__all__ = ["SEGMENT", "Ends"]

SEGMENT: Final = re.compile(r"\d{20}\.log(?:\.gz)?")
MARKER: Final = struct.Struct(">hh")
"""The key of a control record: its version, and 0 for an abort, 1 for a commit (`ControlRecordType`)."""
ABORT: Final = 0
COMMIT: Final = 1


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer: int
    offset: int
    is_commit: bool


class Ends:
    """The ends of the transactions of a split, whose batches are asked for in their order."""

    def __init__(self, path: str, data: Bytes) -> None:
        self._path = Path(path)
        self._data = data
        self._coming: Iterator[Marker] | None = None
        self._markers: dict[int, deque[Marker]] = defaultdict(deque)

    def is_committed(self, header: Header, place: int) -> bool | None:
        """Whether the transaction of a batch, which is at a byte, was committed; None if its end is not there."""
        if self._coming is None:
            self._coming = self._behind(place)
        markers = self._markers[header.producer_id]
        while markers and markers[0].offset < header.base_offset:
            markers.popleft()
        while not markers:
            marker = next(self._coming, None)
            if marker is None:
                return None
            if marker.producer != header.producer_id or marker.offset >= header.base_offset:
                self._markers[marker.producer].append(marker)
        return markers[0].is_commit

    def _behind(self, place: int) -> Iterator[Marker]:
        """The markers behind a byte, in this file and in those that follow."""
        yield from _markers(self._data, place)
        if SEGMENT.fullmatch(self._path.name) is None:
            return
        following = [
            path
            for path in self._path.parent.iterdir()
            if SEGMENT.fullmatch(path.name) and path.name[:20] > self._path.name[:20]
        ]
        for path in sorted(following):
            try:
                with Mapped(str(path)) as data:
                    yield from _markers(data, 0)
            except InputError:  # told where it is read
                return


def _markers(data: Bytes, place: int) -> Iterator[Marker]:
    while place + HEADER_BYTES <= len(data):
        header = header_at(data, place)
        if not header.seems_sound:
            place = next_sound(data, place + 1)
            continue
        behind = place + header.size
        if header.is_control and behind <= len(data):
            marker = _marker(data[place:behind], header)
            if marker is not None:
                yield marker
        place = behind


def _marker(data: bytes, header: Header) -> Marker | None:
    if not is_whole(data, header):
        return None
    try:
        records = records_of(data, header)
    except InputError:
        return None
    if not len(records.offsets) or records.keys.lengths[0] < MARKER.size:
        return None
    start = int(records.keys.starts[0])
    _, kind = MARKER.unpack(records.data[start : start + MARKER.size].tobytes())
    if kind not in (ABORT, COMMIT):  # of the controllers' own
        return None
    return Marker(header.producer_id, header.base_offset, kind == COMMIT)
