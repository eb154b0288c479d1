"""Read the timer of a store, which holds messages with a delivery time of their own, since RocketMQ 5.0.

``timerwheel``       a slot for each second: how many messages are due in it, and where their units begin and end
``timerlog/``        a unit for each message: when it is due, and where it is in the commit log; units of a slot lead
                     back from one to the one before
``config/timercheck`` up to which time messages were delivered, and up to where wheel and log are certain
``rocksdbstore/``    the same in RocksDB, if the broker is set so (``timerRocksDBEnable``)

Brokers write the wheel to the disk from time to time, or not at all while they run, and fill it again from the log when
they start. So the log shows what waits: units that are due after the time up to which messages were delivered. A
message that waits longer than the wheel is large has a unit for each round; the last one counts. A unit may also stand
for the order to forget a message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np

from bindings.archive.figures import Milliseconds
from bindings.archive.mapped import Bytes, Mapped, is_zero
from bindings.archive.reading import Bad
from bindings.archive.rocketmq.commit import list_numbered
from bindings.sources.files import open_file
from exchange.errors import InputError
from exchange.limits import SIDE_FILE_BYTES
from exchange.text.numbers import is_digits
from exchange.values.documents import document

UNIT: Final = np.dtype([
    ("size", ">i4"), ("before", ">i8"), ("magic", ">i4"), ("written", ">i8"), ("delay", ">i4"), ("place", ">i8"),
    ("message_size", ">i4"), ("topic_hash", ">i4"), ("reserved", ">i8"),
])  # fmt: skip
"""52 bytes (`TimerLog.UNIT_SIZE`); times in milliseconds since 1970."""
SLOT: Final = np.dtype([("time", ">i8"), ("first", ">i8"), ("last", ">i8"), ("count", ">i4"), ("magic", ">i4")])
"""32 bytes (`Slot.SIZE`)."""
DELETE: Final = 4
"""Flag in the magic of a unit: the message of this id is to be forgotten (`TimerMessageStore.MAGIC_DELETE`)."""
PLACE: Final = struct.Struct(">iq")
"""Size of a message, and its place in the commit log."""
TIME_BYTES: Final = 8
SIZE_BYTES: Final = 4
"""Size of the field with which a unit or a blank begins: its own size (`TimerLog.append`)."""


@document("TimerJson", "kind, entries, waiting, first_due or null, last_due or null, slots, in_slots")
class Timer(NamedTuple):
    """The timer of a store, its wheel and its log or its database, and what waits in it."""

    kind: Literal["files", "database"]
    entries: int
    """Number of units in the timer log, or of entries in the database."""
    waiting: int
    """Number of messages that are due after the time up to which messages were delivered."""
    first_due: Milliseconds | None
    last_due: Milliseconds | None
    slots: int
    """Number of slots of the wheel that are in use; 0 in a database."""
    in_slots: int
    """Number of messages that these slots count, delivered or not."""


def read_timer_files(root: Path, delivered_to: int | None, problems: list[Bad]) -> Timer | None:
    """Return what waits in the wheel and log of the store in a folder; None if it has no timer log.

    ``delivered_to`` is the time up to which messages were delivered, in milliseconds since 1970. Raises InputError for
    a file that cannot be opened.
    """
    files = list_numbered(root / "timerlog")
    if not files and not (root / "timerwheel").exists():
        return None
    due: dict[int, int] = {}
    entries = 0
    for file in files:
        with Mapped(file.path) as data:
            units = np.frombuffer(data, UNIT, len(data) // UNIT.itemsize).copy()
            is_unit = (units["size"] == UNIT.itemsize) & (units["place"] >= 0) & (units["message_size"] > 0)
            rest = int(np.flatnonzero(is_unit).max(initial=-1) + 1) * UNIT.itemsize
            if _is_torn(data, rest):
                problems.append(Bad(file.path, rest, "a unit of the timer log that is not whole"))
        count = int(np.argmin(is_unit)) if not is_unit.all() else len(units)
        if is_unit[count:].any():
            problems.append(Bad(file.path, count * UNIT.itemsize, "no unit of the timer log, with units behind it"))
        units = units[is_unit]
        entries += len(units)
        times = units["written"].astype(np.int64) + units["delay"]
        is_message = units["magic"] & DELETE == 0
        due.update(zip(units["place"][is_message].tolist(), times[is_message].tolist(), strict=True))
    slots, in_slots = _read_wheel(root, problems)
    return _build_timer("files", entries, due.values(), delivered_to, slots, in_slots)


def _is_torn(data: Bytes, place: int) -> bool:
    """Return whether a file ends in a part of a unit: its end is neither zeros nor the blank of a file that is full."""
    left = len(data) - place
    if is_zero(data, place):
        return 0 < left < SIZE_BYTES
    return int.from_bytes(data[place : place + SIZE_BYTES], "big") != left


def _read_wheel(root: Path, problems: list[Bad]) -> tuple[int, int]:
    """Return how many slots of the newest wheel are in use, and how many messages they count."""
    snapshots = [path for path in root.glob("timerwheel.*") if is_digits(path.suffix[1:])]
    path = max(snapshots, key=lambda each: int(each.suffix[1:]), default=root / "timerwheel")
    try:
        if path.stat().st_size > SIDE_FILE_BYTES:
            problems.append(
                Bad(str(path), 0, f"a timer wheel of more than {SIDE_FILE_BYTES >> 20} MiB, which is not read")
            )
            return 0, 0
        with open_file(path) as file:
            data = file.read()
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) % SLOT.itemsize:
        problems.append(Bad(str(path), len(data), "a slot of the timer wheel that is not whole"))
    slots = np.frombuffer(data, SLOT, len(data) // SLOT.itemsize)
    used = slots[(slots["time"] > 0) & (slots["count"] > 0)]
    return len(used), int(used["count"].sum(dtype=np.int64))


def read_timer_database(entries: Iterable[tuple[bytes, bytes]], delivered_to: int | None) -> Timer:
    """Return what waits in the entries of the database's column family ``timer``."""
    due = [
        int.from_bytes(key[:TIME_BYTES], "big", signed=True)
        for key, value in entries
        if len(key) > TIME_BYTES and len(value) == PLACE.size  # another entry is the broker's own checkpoint
    ]
    return _build_timer("database", len(due), due, delivered_to, 0, 0)


def _build_timer(
    kind: Literal["files", "database"],
    entries: int,
    due: Iterable[int],
    delivered_to: int | None,
    slots: int,
    counted: int,
) -> Timer:
    waiting = sorted(time for time in due if delivered_to is None or time > delivered_to)
    first, last = (waiting[0], waiting[-1]) if waiting else (None, None)
    return Timer(kind, entries, len(waiting), first, last, slots, counted)
