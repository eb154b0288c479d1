"""Archives: what `bindings.archive` reads is a source, a folder of our own Parquet a target.

A target confirms when a message is synced to its spool; the spool becomes parts of the archive, which others see, when
it is large or old enough, and when the bridge ends (`bridge.endpoints.archive.writing`). A source reads an archive from
its beginning to its end, and goes on where it was left (`bridge.endpoints.archive.reading`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingOf
from pathlib import Path
from typing import Any, Final

from bindings.archive.mapping import USUAL, FieldMapping
from bridge.endpoints.archive.columns import folder_name
from bridge.endpoints.archive.reading import ArchiveSource
from bridge.endpoints.archive.replay import CHUNK_BYTES, Window
from bridge.endpoints.archive.writing import ArchiveTarget
from bridge.pump.policy import Policy
from bridge.table import Table

__all__ = ["ArchiveSource", "ArchiveTarget", "dead_letter_target", "source", "target"]


def source(name: str, url: str, table: Table, policy: Policy) -> ArchiveSource:
    """The source of a configuration; see `bridge.endpoints`."""
    path = _path(url, table)
    kept = table.maybe_text("state")
    beside = path.parent / f".{path.name}.{name}.replay.json"
    speed = table.number_or("speed", "max", "max")
    return ArchiveSource(
        name,
        str(path),
        None if kept == "off" else beside if kept is None else table.resolve_path(kept),
        speed=speed,
        window=Window(table.moment("since"), table.moment("until")),
        follow=table.flag("follow", default=False),
        without_bodies=table.flag("without_bodies", default=False),
        mapping=_mapping(table),
        chunk_bytes=min(CHUNK_BYTES, policy.window_bytes),
    )


def _mapping(table: Table) -> FieldMapping:
    """What records of Kafka and RocketMQ are in AMQP: what the source gives all of its messages need not be in them."""
    exchange, routing_key = table.reread_text("exchange"), table.reread_text("routing_key")
    return FieldMapping(
        USUAL.exchange if exchange is None else f"={exchange}",
        USUAL.routing_key if routing_key is None else f"={routing_key}",
    )


def target(name: str, url: str, table: Table) -> tuple[ArchiveTarget, list[str]]:
    """The target of a configuration, and its queues; see `bridge.endpoints`."""
    listed = table.is_list("queues")
    told = table.mapping("queues", str if listed else _folder, f"a folder below the archive, {HERE!r} for itself")
    folders = {queue: f"queue={folder_name(queue)}" for queue in told} if listed else told
    for queue, folder in folders.items():
        _check_length(table, queue, folder, _path(url, table))
    return _target(name, url, table, folders), list(folders)


def dead_letter_target(name: str, url: str, table: Table) -> ArchiveTarget:
    """The target of dead letters of a configuration; see `bridge.endpoints`."""
    return _target(name, url, table, {"": ""})


def _target(name: str, url: str, table: Table, folders: MappingOf[str, str]) -> ArchiveTarget:
    return ArchiveTarget(
        name,
        _path(url, table),
        folders,
        rotate_bytes=table.size("rotate_bytes", 128 << 20),
        rotate_seconds=table.seconds("rotate", 300.0),
        gather_seconds=table.seconds("gather", 0.01),
    )


HERE: Final = "."
MOST_NAME: Final = 255
"""Maximum number of bytes of a file's name, and below of a path, on the file systems that there are."""
MOST_PATH: Final = 4_095
BELOW: Final = len("/partition=2147483647/day=2026-11-21/.part-20261121T000000.000000Z-0123ab-00000.parquet.part")
"""What is below the folder of a queue, in bytes."""
MAKING: Final = len("/.making-20261121T000000.000000Z-0123ab/")


def _check_length(table: Table, queue: str, folder: str, root: Path) -> None:
    """Raise what refuses a configuration with a folder that no file system can make."""
    longest = max([len(os.fsencode(part)) for part in folder.split("/")], default=0)
    if longest > MOST_NAME:
        raise table.error(
            "queues",
            f"the folder of queue {_shortened(queue)} has a name of {longest} bytes, and file systems take "
            f'{MOST_NAME}; name a folder for it: queues = {{ "QUEUE" = "FOLDER" }}',
        )
    path = len(os.fsencode(root.absolute())) + MAKING + len(os.fsencode(folder)) + BELOW
    if path > MOST_PATH:
        raise table.error(
            "queues",
            f"the files of queue {_shortened(queue)} have paths of {path} bytes, and systems take {MOST_PATH}; choose "
            "a shorter folder or url",
        )


def _shortened(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:40]}...")


def _path(url: str, table: Table) -> Path:
    path = url.partition(":")[2]
    if not path:
        raise table.error("url", 'names no file or folder; write url = "archive:/var/lib/archive"')
    if "\0" in path or any(len(os.fsencode(part)) > MOST_NAME for part in path.split("/")):
        raise table.error("url", f"names no path: a name in it has more than {MOST_NAME} bytes, or a NUL")
    return table.resolve_path(path)


def _folder(value: Any) -> str:
    """A folder below the archive as a configuration has it. Raises ValueError."""
    if value == HERE:
        return ""
    if not isinstance(value, str) or not value or value.startswith("/") or "\0" in value:
        raise ValueError
    if any(part[:1] in ("", ".", "_") for part in value.split("/")):  # those are hidden from readers of archives
        raise ValueError
    return value
