"""Archives: what `bindings.archive` reads is a source, a folder of our own Parquet a target.

A target confirms when a message is synced to its spool; the spool becomes parts of the archive, which others see, when
it is large or old enough, and when the bridge ends (`bridge.archive.writing`). A source reads an archive from its
beginning to its end, and goes on where it was left (`bridge.archive.reading`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bridge.archive.columns import folder_name
from bridge.archive.reading import ArchiveSource
from bridge.archive.replay import Window
from bridge.archive.writing import ArchiveTarget
from bridge.policy import Policy
from bridge.table import Table

__all__ = ["ArchiveSource", "ArchiveTarget", "dead_letter_target", "source", "target"]


def source(name: str, url: str, table: Table, policy: Policy) -> ArchiveSource:
    """The source of a configuration; see `bridge.endpoints`."""
    path = _path(url, table)
    kept = table.maybe("state")
    beside = path.parent / f".{path.name}.{name}.replay.json"
    speed = table.number_or("speed", "max", "max")
    return ArchiveSource(
        name,
        str(path),
        None if kept == "off" else beside if kept is None else table.path_of(kept),
        speed=speed,
        window=Window(table.moment("since"), table.moment("until")),
        follow=table.flag("follow", default=False),
        without_bodies=table.flag("without_bodies", default=False),
    )


def target(name: str, url: str, table: Table) -> tuple[ArchiveTarget, list[str]]:
    """The target of a configuration, and its queues; see `bridge.endpoints`."""
    listed = table.is_list("queues")
    told = table.mapping("queues", _folder, f"a folder below the archive, {HERE!r} for the archive itself")
    folders = {queue: f"queue={folder_name(queue)}" for queue in told} if listed else told
    return _target(name, url, table, folders), list(folders)


def dead_letter_target(name: str, url: str, table: Table) -> ArchiveTarget:
    """The target of dead letters of a configuration; see `bridge.endpoints`."""
    return _target(name, url, table, {"": ""})


def _target(name: str, url: str, table: Table, folders: Mapping[str, str]) -> ArchiveTarget:
    return ArchiveTarget(
        name,
        _path(url, table),
        folders,
        rotate_bytes=table.size("rotate_bytes", 128 << 20),
        rotate_seconds=table.seconds("rotate", 300.0),
        gather_seconds=table.seconds("gather", 0.01),
    )


HERE: Final = "."


def _path(url: str, table: Table) -> Path:
    path = url.partition(":")[2]
    if not path:
        raise table.error("url", 'names no file or folder; write url = "archive:/var/lib/archive"')
    return table.path_of(path)


def _folder(value: Any) -> str:
    """A folder below the archive as a configuration has it. Raises ValueError."""
    if value == HERE:
        return ""
    if not isinstance(value, str) or not value or value.startswith("/"):
        raise ValueError
    if any(part[:1] in ("", ".", "_") for part in value.split("/")):  # those are hidden from readers of archives
        raise ValueError
    return value
