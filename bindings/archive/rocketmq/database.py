"""Read what RocketMQ 5.x keeps in RocksDB: the consume queues, topics and offsets of groups, and the timer.

=========================  ==================  ===============================================================
folder                     column family       entries
=========================  ==================  ===============================================================
``consumequeue``,          default             the units of all queues (`RocksDBConsumeQueueTable`)
``consumequeue_r``
                           offset              first and last offset of queues (`RocksDBConsumeQueueOffsetTable`)
``config/topics``          default             name of a topic -> its configuration, as JSON
``config/consumerOffsets`` default             TOPIC@GROUP -> queue -> offset, as JSON
``config/metadata``        topic,              the same, if the broker keeps all in one database
                           consumerOffset
``rocksdbstore``           timer               time and id of a message -> where it is (`TimerRocksDBRecord`)
=========================  ==================  ===============================================================

RocksDB is opened to read only, through links in a temporary folder: the library writes a file beside those that it
opens, and a store may belong to a running broker. A broker keeps its newest units in memory, unseen here, until
it ends; when it starts, it makes those that are missing again from the commit log.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bindings.archive.reading import Bad
from bindings.archive.rocketmq.queue import Units
from exchange.errors import InputError

if TYPE_CHECKING:
    from bindings.archive.rocketmq.commit import NumberedFile

MARK: Final = "CURRENT"
"""A file in each folder of RocksDB."""
DEFAULT: Final = "default"
SEPARATOR: Final = 1
TAIL: Final = struct.Struct(">BiBq")
"""The end of a unit's key, after the topic: separator, queue, separator, offset in the queue."""
UNIT: Final = struct.Struct(">qiqq")
"""Place in the commit log, size, code, time of storing in milliseconds since 1970."""
NO_UNIT: Final = "no unit of a queue in RocksDB"


@dataclass(frozen=True)
class DatabaseQueue:
    """The units of one queue of a topic that is in RocksDB."""

    topic: str
    queue: int
    units: Units
    files: tuple[NumberedFile, ...] = ()
    """Always empty: no file of the database is that of one queue."""
    batches: bool = False

    def read(self) -> Iterator[Units | Bad]:
        """Yield the units in the order of offsets."""
        yield self.units


def is_database(folder: Path) -> bool:
    """Return whether a folder holds a database of RocksDB."""
    return (folder / MARK).is_file()


@contextmanager
def open_database(folder: Path) -> Iterator[Callable[[str], Iterator[tuple[bytes, bytes]]]]:
    """Open the database in a folder; yield a function from the name of a column family to its entries, by key.

    There are no entries in a family that does not exist. Raises ImportError without the library rocksdict, InputError
    if RocksDB cannot read the database.
    """
    from rocksdict import AccessType, Options, Rdict

    with tempfile.TemporaryDirectory() as linked:
        for path in folder.iterdir():
            if path.is_file() and path.name != "LOCK":
                _link(path, Path(linked) / path.name)
        try:
            names = Rdict.list_cf(linked, Options(raw_mode=True))
            families = {name: Options(raw_mode=True) for name in names}
            database = Rdict(linked, Options(raw_mode=True), families, AccessType.read_only())
        except Exception as error:  # noqa: BLE001  the library raises plain exceptions
            reason = str(error).replace(linked, str(folder))
            raise InputError(f"{folder}: RocksDB cannot read it: {reason}") from None
        try:
            yield lambda name: _list_entries(folder, database, name) if name in names else iter(())
        finally:
            database.close()


def _link(path: Path, at: Path) -> None:
    try:
        at.symlink_to(path.resolve())
    except OSError:  # links need a right on Windows
        shutil.copyfile(path, at)


def _list_entries(folder: Path, database: Any, name: str) -> Iterator[tuple[bytes, bytes]]:
    try:
        yield from database.get_column_family(name).items()
    except Exception as error:  # noqa: BLE001  as above
        raise InputError(f"{folder}: RocksDB cannot read it: {error}") from None


def read_column(folder: Path, name: str = DEFAULT) -> list[tuple[bytes, bytes]]:
    """Return all entries of a column family, by key. Raises as `open_database`."""
    with open_database(folder) as entries:
        return list(entries(name))


def list_queues(folder: Path, problems: list[Bad]) -> list[DatabaseQueue]:
    """Return the queues in the database of a folder, by topic and number. Raises as `open_database`."""
    columns: dict[tuple[str, int], list[array[int]]] = {}
    with open_database(folder) as entries:
        for key, value in entries(DEFAULT):
            where = _parse_key(key)
            if where is None or len(value) < UNIT.size:
                problems.append(Bad(str(folder), 0, NO_UNIT, key[:80]))
                continue
            topic, queue, offset = where
            place, size, code, _ = UNIT.unpack_from(value)
            rows = columns.setdefault((topic, queue), [array("q") for _ in range(4)])
            for column, number in zip(rows, (offset, place, size, code), strict=True):
                column.append(number)
    found = []
    for (topic, queue), rows in sorted(columns.items()):
        offsets, places, sizes, codes = [np.frombuffer(column, np.int64) for column in rows]
        units = Units(offsets, places, sizes, codes, np.ones(len(offsets), np.int64))
        found.append(DatabaseQueue(topic, queue, units))
    return found


def _parse_key(key: bytes) -> tuple[str, int, int] | None:
    """Return topic, queue and offset in the key of a unit; None if it is none."""
    size = int.from_bytes(key[:4], "big")
    if len(key) != 5 + size + TAIL.size:
        return None
    topic = key[5 : 5 + size].decode("utf-8", "surrogateescape")
    first, queue, second, offset = TAIL.unpack_from(key, 5 + size)
    if (key[4], first, second) != (SEPARATOR,) * 3 or queue < 0 or offset < 0:
        return None
    return topic, queue, offset
