"""Find paths that hold more than files: tables of Delta Lake, Iceberg and Hudi, and folders of object stores.

Which files of a table are in it, its log says: the others were removed, rewritten or compacted, and to read them as
plain Parquet would count their rows again. Of Delta Lake, the files of the newest version are read; other tables, and
those whose files alone do not say which rows are in them, are refused with a way to their rows.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bindings.archive.places import RemoteFile, list_remote
from exchange.errors import InputError
from exchange.text.site import build_page_address

__all__ = ["HIDDEN", "explain_address", "list_stored_files", "list_table_files"]

PACKAGE: Final = "deltalake>=1.1"
"""The requirement of the extra ``delta``."""
READ_FEATURES: Final = frozenset({"columnMapping", "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"})
"""Features of tables of Delta Lake that do not change which rows a file has; columns may be mapped, but are not."""
LOGS: Final = {"Delta Lake": "_delta_log", "Hudi": ".hoodie"}
"""Kind of a table -> the folder of its log."""
HIDDEN: Final = (".", "_")
"""First characters of files and folders that are no part of an archive."""
WAY_OUT: Final = "write the rows that are in it to Parquet, and read that"

BROKERS: Final = ("amqp", "amqps", "kafka", "rocketmq", "http", "https")
"""Schemes of addresses of brokers."""
ADDRESS: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):/")


def list_table_files(folder: str) -> list[str] | None:
    """Return the files of the newest version of a table; None if a folder is none.

    Raises InputError for a table that is not read, and for a partition (``day=2026-11-01``), whose table has the log.
    """
    root = Path(folder)
    if kind := _find_kind(root):
        return _list_delta_files(folder) if kind == "Delta Lake" else _refuse(folder, kind, WAY_OUT)
    while "=" in root.name:
        root = root.parent
        if kind := _find_kind(root):
            return _refuse(folder, kind, f"it is a part of {root}: name that")
    return None


def _find_kind(folder: Path) -> str:
    for kind, name in LOGS.items():
        if (folder / name).is_dir():
            return kind
    return "Iceberg" if any((folder / "metadata").glob("*.metadata.json")) else ""


def _refuse(folder: str, kind: str, way_out: str) -> list[str]:
    raise InputError(
        f"{folder}: it is a table of {kind}, in which files may be left over whose rows were removed; {way_out}"
    )


def _list_delta_files(folder: str) -> list[str]:
    if find_spec("deltalake") is None:
        _refuse(folder, "Delta Lake", f"which files are in it is read with: pip install '{PACKAGE}'")
    from deltalake import DeltaTable  # an extra

    try:
        table = DeltaTable(folder)
        protocol, settings = table.protocol(), table.metadata().configuration
        files = table.file_uris()
    except Exception as error:  # noqa: BLE001  the library raises its own, and plain ones for a damaged log
        raise InputError(
            f"{folder}: its log of Delta Lake cannot be read: {str(error).partition(chr(10))[0]}"
        ) from None
    needed = {*(protocol.reader_features or ())} - READ_FEATURES
    if settings.get("delta.columnMapping.mode", "none") != "none":
        needed.add("columnMapping")
    if needed:
        _refuse(folder, "Delta Lake", f"it uses {', '.join(sorted(needed))}, which is not read: {WAY_OUT}")
    root = Path(folder).resolve()
    return sorted(_name_as_given(path, folder, root) for path in files)


def _name_as_given(path: str, folder: str, root: Path) -> str:
    """Return the path of a file below the folder as the user wrote that."""
    file = Path(path)
    return os.path.join(folder, file.relative_to(root)) if file.is_relative_to(root) else path  # noqa: PTH118  as written


def explain_address(path: str) -> str:
    """Return what to do with an address of a broker, added to an error; empty for other paths."""
    found = ADDRESS.match(path)
    scheme = found["scheme"] if found else ""
    if scheme in BROKERS:
        topic = "; hashstar audit TOPOLOGY kafka://HOST:PORT/TOPIC reads a topic" if scheme == "kafka" else ""
        page = build_page_address("bridge-archives")
        return f": it is the address of a broker, of which hashstar bridge records an archive: {page}{topic}"
    return ""


def list_stored_files(folder: RemoteFile, *, is_folder: bool) -> list[RemoteFile]:
    """Return the files of an archive in a store, without hidden ones; of a RocketMQ broker's store the commit log.

    Raises InputError if there is nothing, and for tables.
    """
    listed = list_remote(folder, is_folder=is_folder)
    if len(listed) == 1 and listed[0].path == folder.path:
        return listed
    start = len(folder.path.split("/")) if folder.path else 0
    parts = [file.path.split("/")[start:] for file in listed]
    for names in parts:
        for kind, name in LOGS.items():
            if name in names[:-1]:
                _refuse(str(folder), kind, f"those in stores are not read: {WAY_OUT}")
        if names[-2:-1] == ["metadata"] and names[-1].endswith(".metadata.json"):
            _refuse(str(folder), "Iceberg", WAY_OUT)
    table = folder
    while "=" in table.name:
        table = table.parent
        for kind, name in LOGS.items():
            if (table / name).is_dir():
                _refuse(str(folder), kind, f"it is a part of {table}, and those in stores are not read: {WAY_OUT}")
    is_log = {names[0] for names in parts} >= {"commitlog", "consumequeue"}
    return [
        file
        for file, names in zip(listed, parts, strict=True)
        if not any(name[:1] in HIDDEN for name in names) and (names[0] == "commitlog" or not is_log)
    ]
