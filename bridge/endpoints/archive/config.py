"""Archives: any format that `bindings.archive` reads as a source, a folder of Parquet files of our own as a target.

A target confirms a message when it is synced to the spool. A spool becomes parts of the archive, which others see, when
it is large or old enough, and when the bridge ends (`writing`). A source reads an archive from its beginning to its
end, and continues where the run before stopped (`reading`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bindings.archive.formats.detect import refuse_within
from bindings.archive.mapping import USUAL, FieldMapping
from bridge.endpoints.archive import keys
from bridge.endpoints.archive.columns import to_folder_name
from bridge.endpoints.archive.reading import ArchiveSource
from bridge.endpoints.archive.replay import CHUNK_BYTES, ReplaySelection, ReplayWindow
from bridge.endpoints.archive.writing import ArchiveTarget
from bridge.pump.keys import EXCHANGE, ROUTING_KEY
from bridge.pump.policy import Policy
from bridge.table import Table
from exchange.errors import InputError
from exchange.text.numbers import explain_empty_range

__all__ = ["ArchiveSource", "ArchiveTarget", "dead_letter_target", "source", "target"]

MAX_NAME_BYTES: Final = 255
"""Maximum length of a file's name in common file systems, in bytes."""
MAX_PATH_BYTES: Final = 4_095
"""Maximum length of a path, in bytes."""
LONGEST_PART: Final = len(
    "/partition=2147483647/day=2026-11-21/.part-20261121T000000.000000Z-0123ab-00000.parquet.part"
)
"""Length of the longest path below the folder of a queue, in bytes."""
LONGEST_HIDDEN: Final = len("/.making-20261121T000000.000000Z-0123ab/")
"""Length of the path of the hidden folder in which parts are made, in bytes."""


def source(name: str, url: str, table: Table, policy: Policy) -> ArchiveSource:
    """Build the source of a configuration; see `bridge.endpoints`."""
    path = _path(url, table)
    kept = keys.STATE.read(table)
    beside = path.parent / f".{path.name}.{name}.replay.json"
    settled = None if kept == "off" else beside if kept is None else table.resolve_path(kept)
    if settled is not None:
        try:
            refuse_within(settled, [str(path)], "the state of the replay")
        except InputError as error:
            raise table.error(keys.STATE.name, str(error)) from None
    return ArchiveSource(
        name,
        str(path),
        settled,
        speed=keys.SPEED.read(table),
        selection=ReplaySelection(_read_window(table), keys.WITHOUT_BODIES.read(table), _mapping(table)),
        follow=keys.FOLLOW.read(table),
        chunk_bytes=min(CHUNK_BYTES, policy.window_bytes),
    )


def _read_window(table: Table) -> ReplayWindow:
    window = ReplayWindow(keys.SINCE.read(table), keys.UNTIL.read(table))
    if (problem := explain_empty_range(*window, keys.SINCE.name)) is not None:
        table.keep(table.error(keys.UNTIL.name, problem))
    return window


def _mapping(table: Table) -> FieldMapping:
    """Return how records become messages. Where the source sets their exchange or key, they need none of their own."""
    places = {key.name: f"={text}" for key in (EXCHANGE, ROUTING_KEY) if (text := table.reread_text(key.name))}
    columns = keys.COLUMNS.read(table)
    return FieldMapping(
        places.get(EXCHANGE.name, USUAL.exchange),
        places.get(ROUTING_KEY.name, USUAL.routing_key),
        tuple(sorted({**places, **columns}.items())) if columns else (),
    )


def target(name: str, url: str, table: Table) -> tuple[ArchiveTarget, list[str]]:
    """Build the target of a configuration, and return it with its queues; see `bridge.endpoints`."""
    queues = keys.QUEUES.read(table)
    is_list = queues.is_list
    folders = queues.convert(str if is_list else _parse_folder)
    if is_list:
        folders = {queue: f"queue={to_folder_name(queue)}" for queue in folders}
    root = _path(url, table)
    for queue, folder in folders.items():
        _check_length(table, queue, folder, root)
    return _target(name, url, table, folders), list(folders)


def dead_letter_target(name: str, url: str, table: Table) -> ArchiveTarget:
    """Build the target of dead letters of a configuration; see `bridge.endpoints`."""
    return _target(name, url, table, {"": ""})


def _target(name: str, url: str, table: Table, folders: Mapping[str, str]) -> ArchiveTarget:
    return ArchiveTarget(
        name,
        _path(url, table),
        folders,
        rotate_bytes=keys.ROTATE_BYTES.read(table),
        rotate_seconds=keys.ROTATE.read(table),
        gather_seconds=keys.GATHER.read(table),
    )


def _check_length(table: Table, queue: str, folder: str, root: Path) -> None:
    """Raise InputError for a folder whose name or path is too long for any file system."""
    longest = max([len(os.fsencode(part)) for part in folder.split("/")], default=0)
    if longest > MAX_NAME_BYTES:
        raise table.error(
            "queues",
            f"the folder of queue {_shorten(queue)} has a name of {longest} bytes, and file systems take "
            f'{MAX_NAME_BYTES}; name a folder for it: queues = {{ "QUEUE" = "FOLDER" }}',
        )
    path = len(os.fsencode(root.absolute())) + LONGEST_HIDDEN + len(os.fsencode(folder)) + LONGEST_PART
    if path > MAX_PATH_BYTES:
        raise table.error(
            "queues",
            f"the files of queue {_shorten(queue)} have paths of {path} bytes, and systems take {MAX_PATH_BYTES}; "
            "choose a shorter folder or url",
        )


def _shorten(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:40]}...")


def _path(url: str, table: Table) -> Path:
    path = url.partition(":")[2]
    if not path:
        raise table.error("url", 'names no file or folder; write url = "archive:/var/lib/archive"')
    if "\0" in path or any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in path.split("/")):
        raise table.error("url", f"names no path: a name in it has more than {MAX_NAME_BYTES} bytes, or a NUL")
    return table.resolve_path(path)


def _parse_folder(value: Any) -> str:
    """Return a folder below the archive from its form in a configuration. Raises ValueError."""
    if value == keys.HERE:
        return ""
    if not isinstance(value, str) or not value or value.startswith("/") or "\0" in value:
        raise ValueError
    if any(part[:1] in ("", ".", "_") for part in value.split("/")):  # those are hidden from readers of archives
        raise ValueError
    return value
