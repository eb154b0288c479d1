"""Open the store of a RocketMQ broker: its log, queues and index, its topics and the offsets of consumers.

=====================  ==========================================================================================
``commitlog/``         all messages (`bindings.archive.rocketmq.commit`)
``consumequeue/``      a folder for each topic and in it for each queue (`bindings.archive.rocketmq.queue`);
                       ``batchconsumequeue/`` of topics of batches, ``consumequeue_ext/`` what extends the units
``index/``             messages by key (`bindings.archive.rocketmq.index`)
``config/``            topics, the offsets of consumer groups, how far delayed messages have been delivered
``timerwheel`` ...     messages with a delivery time of their own (`bindings.archive.rocketmq.timer`)
``checkpoint``         times up to which all this is certainly on the disk
``abort``              exists while the broker runs, and after it was killed
=====================  ==========================================================================================

Queues, topics, offsets and timer may be in RocksDB instead (`bindings.archive.rocketmq.database`). Opening a store
lists its large files and reads only the small ones and the databases. `bindings.archive.rocketmq.inspection` compares
log and queues.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from bindings.archive.figures import Milliseconds
from bindings.archive.reading import Bad
from bindings.archive.rocketmq.commit import CommitLog, list_numbered
from bindings.archive.rocketmq.database import DatabaseQueue, is_database, list_queues, read_column
from bindings.archive.rocketmq.index import IndexFile, open_index
from bindings.archive.rocketmq.queue import ConsumeQueue
from bindings.archive.rocketmq.timer import Timer, read_timer_database, read_timer_files
from bindings.sources.files import open_file
from exchange.errors import InputError, name_os_errors
from exchange.text.numbers import is_digits
from exchange.values.documents import document
from exchange.values.field_values import RANGES
from exchange.values.json_text import parse_fastjson

LOWEST, HIGHEST = RANGES["long"]
CHECKPOINT: Final = struct.Struct(">qqqqq")
TIMER: Final = struct.Struct(">qqqq")
MISSING: Final = "missing"
NEEDED: Final = ("commitlog", "consumequeue", "checkpoint")
"""Files and folders that every store has; brokers create the others when they need them."""
QUEUES_IN_DATABASE: Final = "consume queues"
CONFIG_IN_DATABASE: Final = "config"
TIMER_IN_DATABASE: Final = "timer"
ONE_DATABASE: Final = "metadata"
"""Folder in ``config/`` of the database of a broker that keeps all of its configuration in one."""


@document("CheckpointJson", "log or null, queues or null, index = keys or null")
class Checkpoint(NamedTuple):
    """Times up to which log, queues and index are certainly on the disk (`StoreCheckpoint`)."""

    log: Milliseconds
    queues: Milliseconds
    keys: Milliseconds
    master_flushed: int = 0
    """A byte of the log; 0 in 4.x and without a master."""
    confirmed: int = 0


READ: Final = 4
WRITE: Final = 2
"""Bits of a topic's permission (`PermName`)."""


class StoredTopic(NamedTuple):
    """A topic as the broker configures it (`TopicConfig`)."""

    name: str
    read_queues: int
    write_queues: int
    permission: int
    attributes: Mapping[str, str]

    @property
    def unread_queues(self) -> int:
        """Number of queues that producers write and no consumer reads."""
        may_both = self.permission & READ and self.permission & WRITE
        return max(self.write_queues - max(self.read_queues, 0), 0) if may_both else 0


@dataclass(frozen=True)
class Store:
    """An open store; its large files are not read yet."""

    path: str
    log: CommitLog
    queues: tuple[ConsumeQueue | DatabaseQueue, ...]
    index: tuple[IndexFile, ...]
    """In the order in which they were written."""
    topics: Mapping[str, StoredTopic]
    """Name -> topic; empty if the broker keeps topics elsewhere."""
    offsets: Mapping[tuple[str, str], Mapping[int, int]]
    """Consumer group and topic -> queue -> the offset that the group consumes next."""
    delay_offsets: Mapping[int, int]
    """Level of delay -> the offset in its queue that is delivered next."""
    timer_read: int | None
    """Time up to which the timer wheel has delivered, in milliseconds since 1970 (`TimerCheckpoint`)."""
    timer: Timer | None
    """None if the store has no timer, or it cannot be read."""
    checkpoint: Checkpoint | None
    has_abort: bool
    """Whether the file of that name is there: the broker runs, or did not end cleanly."""
    in_database: tuple[str, ...]
    """What is in RocksDB and cannot be read: consume queues, config, timer."""
    lacks_library: bool
    """Whether the reason is that the library is missing."""
    has_database_queues: bool
    """Whether queues were read from RocksDB: brokers keep their newest units in memory."""
    problems: tuple[Bad, ...]
    """Files that are missing or cannot be read."""


STORE_FOLDERS: Final = frozenset({"commitlog", "consumequeue"})
"""Folders of which a broker's store has one."""


def is_store(path: str) -> bool:
    """Return whether a path is a folder with a broker's store: its log or its queues, and another file of a store."""
    root = Path(path)
    large = [(root / name).is_dir() for name in STORE_FOLDERS]
    rest = (root / "checkpoint").is_file() or (root / "config" / "topics.json").is_file() or (root / "abort").is_file()
    return all(large) or (any(large) and rest)


def find_log_folder(path: str) -> str:
    """Return the folder of a store's commit log."""
    return str(Path(path) / "commitlog")


def open_store(path: str) -> Store:
    """Open the store in a folder. Raises InputError if it is none, or cannot be read."""
    if not is_store(path):
        raise InputError(f"{path}: not the store of a RocketMQ broker: there is no commitlog and consumequeue in it")
    root = Path(path)
    problems = [Bad(str(root / name), 0, MISSING) for name in NEEDED if not (root / name).exists()]
    config = root / "config"
    databases = _Databases(root, problems)
    queues: list[ConsumeQueue | DatabaseQueue] = [*_list_queues(root, problems)]
    in_files = {(queue.topic, queue.queue) for queue in queues}
    in_database = [each for each in databases.list_queues() if (each.topic, each.queue) not in in_files]
    kept_topics, kept_offsets = databases.read_config("topics", "topic"), databases.read_config(*OFFSETS)
    if queues and kept_topics is None and not (config / "topics.json").exists():
        problems.append(Bad(str(config / "topics.json"), 0, MISSING))
    topics = (
        _read_json(config / "topics.json", problems).get("topicConfigTable", {}) if kept_topics is None else kept_topics
    )
    offsets = _read_json(config / "consumerOffset.json", problems).get("offsetTable", {})
    if kept_offsets is not None:
        offsets = {name: each.get("offsetTable", {}) for name, each in kept_offsets.items() if isinstance(each, dict)}
    delivered_to = next(iter(_read_longs(config / "timercheck", TIMER, problems) or ()), None)
    delays = _read_json(config / "delayOffset.json", problems).get("offsetTable", {})
    return Store(
        path=path,
        log=CommitLog(list_numbered(root / "commitlog")),
        queues=(*queues, *in_database),
        index=tuple(_open_indexes(root / "index", problems)),
        topics=_build_or_report(
            config / "topics.json", problems, lambda: {n: _build_topic(n, fields) for n, fields in topics.items()}
        ),
        offsets=_build_or_report(
            config / "consumerOffset.json",
            problems,
            lambda: {_split_name(name): _to_numbers(queues) for name, queues in offsets.items()},
        ),
        delay_offsets=_build_or_report(config / "delayOffset.json", problems, lambda: _to_numbers(delays)),
        timer_read=delivered_to,
        timer=_choose_timer(databases.read_timer(delivered_to), read_timer_files(root, delivered_to, problems)),
        checkpoint=_read_checkpoint(root / "checkpoint", problems),
        has_abort=(root / "abort").exists(),
        in_database=tuple(dict.fromkeys(databases.unread)),
        lacks_library=databases.lacks_library,
        has_database_queues=bool(databases.folders_of_queues) and QUEUES_IN_DATABASE not in databases.unread,
        problems=tuple(problems),
    )


def _list_queues(root: Path, problems: list[Bad]) -> Iterator[ConsumeQueue]:
    for kind, batches in (("consumequeue", False), ("batchconsumequeue", True)):
        for topic in _list_folders(root / kind):
            for queue in sorted(_list_folders(topic), key=lambda folder: (len(folder.name), folder.name)):
                if not (is_digits(queue.name)):
                    problems.append(Bad(str(queue), 0, "no queue of a topic"))
                    continue
                extension = list_numbered(root / "consumequeue_ext" / topic.name / queue.name)
                yield ConsumeQueue(topic.name, int(queue.name), list_numbered(queue), extension, batches)


def _list_folders(path: Path) -> list[Path]:
    with name_os_errors(path):
        return sorted(each for each in path.iterdir() if each.is_dir()) if path.is_dir() else []


def _open_indexes(folder: Path, problems: list[Bad]) -> Iterator[IndexFile]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not (path.is_file() and is_digits(path.name)):
            continue
        try:
            yield open_index(str(path))
        except InputError as error:
            problems.append(Bad(str(path), 0, str(error).partition(": ")[2]))


OFFSETS: Final = ("consumerOffsets", "consumerOffset")
"""Folder of the database of offsets, and its column family in the database of all configuration."""


class _Databases:
    """Reads what a store has in RocksDB, as far as that can be read."""

    def __init__(self, root: Path, problems: list[Bad]) -> None:
        self._root, self._problems = root, problems
        self.unread: list[str] = []
        """What is in a database that cannot be read."""
        self.lacks_library = False
        self.folders_of_queues = [each for name in QUEUE_FOLDERS if is_database(each := root / name)]

    def list_queues(self) -> list[DatabaseQueue]:
        """Return the queues in databases."""
        read = [self._try(each, QUEUES_IN_DATABASE, self._list_queues_in) for each in self.folders_of_queues]
        return [queue for queues in read for queue in queues or ()]

    def _list_queues_in(self, folder: Path) -> list[DatabaseQueue]:
        return list_queues(folder, self._problems)

    def read_config(self, name: str, family: str) -> dict[str, Any] | None:
        """Return a table of the configuration, from a database of its own or of all; None if it is in none."""
        own, one = self._root / "config" / name, self._root / "config" / ONE_DATABASE
        if is_database(own):
            entries = self._try(own, CONFIG_IN_DATABASE, read_column)
        elif is_database(one):
            entries = self._try(one, CONFIG_IN_DATABASE, partial(read_column, name=family))
        else:
            if not (self._root / "config" / "topics.json").exists() and any(self._root.glob(f"config/*/{DATABASE}")):
                self.unread.append(CONFIG_IN_DATABASE)  # in a layout that is not known
            return None
        if entries is None:
            return None
        found = {}
        for key, value in entries:
            try:
                found[key.decode("utf-8", "surrogateescape")] = parse_fastjson(value.decode("utf-8"))
            except (ValueError, InputError):
                self._problems.append(Bad(str(own), 0, "not what a broker writes", key[:80]))
        return found

    def read_timer(self, delivered_to: int | None) -> Timer | None:
        """Return what waits in the database of the timer; None if there is no database, or it cannot be read."""
        folder = self._root / "rocksdbstore"
        if not is_database(folder):
            return None
        entries = self._try(folder, TIMER_IN_DATABASE, partial(read_column, name="timer"))
        return None if entries is None else read_timer_database(entries, delivered_to)

    def _try(self, folder: Path, what: str, read: Callable[[Path], list[Any]]) -> list[Any] | None:
        try:
            return read(folder)
        except ImportError:
            self.lacks_library = True
        except InputError as error:
            self._problems.append(Bad(str(folder), 0, str(error).partition(": ")[2]))
        self.unread.append(what)
        return None


def _choose_timer(database: Timer | None, files: Timer | None) -> Timer | None:
    """Return the timer that the broker uses: it makes the database and the wheel in any case, and fills one of them."""
    if database is None or (files is not None and not database.entries and files.entries):
        return files
    return database


QUEUE_FOLDERS: Final = ("consumequeue", "consumequeue_r")
DATABASE: Final = "CURRENT"
"""A file in each folder of RocksDB."""


def _read_json(path: Path, problems: list[Bad]) -> Mapping[str, Any]:
    """Return an object that fastjson wrote, which may have numbers as names; from the backup if the file is damaged."""
    for each in (path, path.with_name(f"{path.name}.bak")):
        if not each.exists():
            continue
        try:
            with open_file(each) as file:
                value = parse_fastjson(file.read().decode())
        except (OSError, ValueError, InputError) as error:
            problems.append(Bad(str(each), 0, f"cannot be read: {error}"))
            continue
        if isinstance(value, dict):
            return value
        problems.append(Bad(str(each), 0, "not what a broker writes"))
    return {}


def _build_or_report(path: Path, problems: list[Bad], make: Callable[[], Any]) -> Any:
    """Return what ``make`` builds from a file's JSON; report JSON that no broker writes, and return {}."""
    try:
        return make()
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError):
        problems.append(Bad(str(path), 0, "not what a broker writes"))
        return {}


def _build_topic(name: str, config: Mapping[str, Any]) -> StoredTopic:
    return StoredTopic(
        name, int(config["readQueueNums"]), int(config["writeQueueNums"]), int(config["perm"]),
        {str(key): str(value) for key, value in (config.get("attributes") or {}).items()},
    )  # fmt: skip


def _split_name(name: str) -> tuple[str, str]:
    topic, _, group = name.partition("@")
    return group, topic


def _to_numbers(table: Mapping[str, Any]) -> dict[int, int]:
    numbers = {int(name): int(value) for name, value in table.items()}
    if not all(LOWEST <= number <= HIGHEST for pair in numbers.items() for number in pair):
        raise ValueError
    return numbers


def _read_checkpoint(path: Path, problems: list[Bad]) -> Checkpoint | None:
    values = _read_longs(path, CHECKPOINT, problems)
    return Checkpoint(*values) if values else None


def _read_longs(path: Path, layout: struct.Struct, problems: list[Bad]) -> tuple[int, ...] | None:
    if not path.exists():
        return None
    with name_os_errors(path), open_file(path) as file:
        data = file.read(layout.size)
    if len(data) < layout.size:
        problems.append(Bad(str(path), 0, "too short"))
        return None
    return layout.unpack_from(data)
