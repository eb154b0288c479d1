"""Find paths that hold more than files: tables of Delta Lake, Iceberg and Hudi, what Spark streams to, object stores.

Which files of a table are in it, its log says: the others were removed, rewritten or compacted, and to read them as
plain Parquet would count their rows again. So it is with folders that streaming queries of Spark write to. Of Delta
Lake and Iceberg, the files of the newest version are read; tables of Hudi, and those whose files do not show which rows
are theirs, are refused with a way to their rows. Of a table in a store of objects the log of Delta Lake is copied, and
what Iceberg's library asks for is read there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NoReturn

from bindings.archive.formats.spark_sink import LOG, SINK, list_committed_files
from bindings.archive.places import AnyPath, Place, RemoteFile, list_remote, open_file
from exchange.errors import InputError, name_os_errors
from exchange.files.names import BROKERS, SCHEME
from exchange.text.site import build_page_address

PACKAGES: Final = {"Delta Lake": ("deltalake", "deltalake>=1.1"), "Iceberg": ("pyiceberg", "pyiceberg>=0.11")}
"""Kind of a table -> the package that reads its log, and the requirement of the extra."""
READ_FEATURES: Final = frozenset({"columnMapping", "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"})
"""Features of tables of Delta Lake that do not change which rows a file has; columns may be mapped, but are not."""
LOGS: Final = {"Delta Lake": "_delta_log", "Hudi": ".hoodie", SINK: LOG}
"""Kind of a table -> the folder of its log."""
METADATA: Final = "metadata"
"""Folder of the metadata of a table of Iceberg."""
VERSION: Final = re.compile(r"(?:v([0-9]+)|([0-9]+)-.*?)(?:\.gz)?\.metadata\.json(?:\.gz)?")
"""Name of a file of metadata of Iceberg: a number that each commit raises."""
TABLE_FOLDERS: Final = frozenset({*LOGS.values(), METADATA})
"""Names of which a folder of a table has one."""
INNER: Final = ("data", METADATA)
"""Folders of a table of Iceberg."""
HIDDEN: Final = (".", "_")
"""First characters of files and folders that are no part of an archive."""
WAY_OUT: Final = "write the rows that are in it to Parquet, and read that"


def list_table_files(path: str) -> list[str] | None:
    """Return the files of the newest version of a table, or of that of a file of metadata of Iceberg; None for others.

    Raises InputError for a table that is not read, and for a partition (``day=2026-11-01``), whose table has the log.
    """
    root = Path(path)
    if _is_metadata(root):
        return _join(root.parent.parent, _list_iceberg_files(root.parent.parent, root))
    if kind := find_table_kind(root):
        return _join(path, _list_files(kind, root, root))
    if root.is_dir():
        refuse_part(root)
    return None


def _join(folder: str | Path, files: Sequence[str]) -> list[str]:
    return [os.path.join(folder, file) for file in files]  # noqa: PTH118  as the user wrote the folder


def _is_metadata(path: AnyPath) -> bool:
    return bool(VERSION.fullmatch(path.name)) and path.parent.name == METADATA


def find_table_kind(folder: AnyPath) -> str:
    """Return the kind of table whose folder this is; "" for none. Raises OSError."""
    for kind, name in LOGS.items():
        if (folder / name).is_dir():
            return kind
    metadata = folder / METADATA
    return "Iceberg" if metadata.is_dir() and any(map(_is_metadata, metadata.iterdir())) else ""


def refuse_matched(files: Iterable[str]) -> None:
    """Raise InputError for files that a pattern names one by one, and of which some may not be in their table."""
    for folder in dict.fromkeys(path.parent for path in map(Path, files) if not _is_metadata(path)):
        if kind := find_table_kind(folder):
            _refuse(folder, kind, "name it, and no pattern of its files")
        refuse_part(folder)


def refuse_part(folder: AnyPath) -> None:
    """Raise InputError for a folder within a table: its partitions, and what is below ``data`` of Iceberg."""
    root = folder.absolute() if isinstance(folder, Path) else folder
    while root.name:
        root, name = root.parent, root.name
        kind = ""
        with suppress(OSError):  # rights for this folder alone
            kind = find_table_kind(root) if "=" in name or name in INNER else ""
        if kind:
            _refuse(folder, kind, f"it is a part of {root}: name that")


def _refuse(folder: object, kind: str, way_out: str) -> NoReturn:
    raise InputError(
        f"{folder}: it is a table of {kind}, in which files may be left over whose rows are not in it; {way_out}"
    )


def _list_files(kind: str, root: AnyPath, log: Path) -> list[str]:
    """Return the files of a table, as paths below its folder; ``log`` has the log of Delta Lake, or a copy."""
    if kind == "Hudi":
        _refuse(root, kind, WAY_OUT)
    if kind == SINK:
        return list_committed_files(root)
    _require_package(root, kind)
    if kind == "Delta Lake":
        return _list_delta_files(root, log)
    return _list_iceberg_files(root, root / METADATA / _choose_metadata(root))


def _require_package(root: object, kind: str) -> None:
    package, requirement = PACKAGES[kind]
    if find_spec(package) is None:
        _refuse(root, kind, f"which files are in it is read with: pip install '{requirement}'")


def _choose_metadata(root: AnyPath) -> str:
    """Return the newest metadata of a table of Iceberg. Raises InputError if two are as new."""
    names = [each.name for each in (root / METADATA).iterdir()]
    numbered = [(int(found[1] or found[2]), found[0]) for found in map(VERSION.fullmatch, names) if found]
    *_, newest = sorted(numbered)
    if [number for number, _ in numbered].count(newest[0]) > 1:
        way_out = "name the one that its catalog has"
        _refuse(root, "Iceberg", f"two files of metadata are its newest ({newest[1]} is one): {way_out}")
    return newest[1]


def _list_iceberg_files(root: AnyPath, metadata: AnyPath) -> list[str]:
    from bindings.archive.formats.iceberg import list_iceberg_files  # an extra

    return list_iceberg_files(root, metadata)


def _list_delta_files(root: AnyPath, log: Path) -> list[str]:
    from deltalake import DeltaTable  # an extra

    try:
        table = DeltaTable(log)
        protocol, settings = table.protocol(), table.metadata().configuration
        files = table.file_uris()
    except Exception as error:  # noqa: BLE001  the library raises its own, and plain ones for a damaged log
        raise InputError(f"{root}: its log of Delta Lake cannot be read: {str(error).partition(chr(10))[0]}") from None
    needed = {*(protocol.reader_features or ())} - READ_FEATURES
    if settings.get("delta.columnMapping.mode", "none") != "none":
        needed.add("columnMapping")
    if needed:
        _refuse(root, "Delta Lake", f"it uses {', '.join(sorted(needed))}, which is not read: {WAY_OUT}")
    there = log.resolve()
    return sorted(
        str(file.relative_to(there)) if file.is_relative_to(there) else str(file) for file in map(Path, files)
    )


def explain_address(path: str) -> str:
    """Return what to do with an address of a broker, added to an error; empty for other paths."""
    found = SCHEME.match(path)
    scheme = found[1] if found else ""
    if scheme in BROKERS:
        topic = "; hashstar audit TOPOLOGY kafka://HOST:PORT/TOPIC reads a topic" if scheme == "kafka" else ""
        page = build_page_address("bridge-archives")
        return f": it is the address of a broker, of which hashstar bridge records an archive: {page}{topic}"
    return ""


def list_stored_files(folder: RemoteFile, *, is_folder: bool) -> list[RemoteFile]:
    """Return the files of an archive in a store, without hidden ones; of a RocketMQ broker's store the commit log.

    Of tables those of the newest version. Raises InputError if there is nothing, and for tables that are not read.
    """
    listed = list_remote(folder, is_folder=is_folder)
    if len(listed) == 1 and listed[0].path == folder.path:
        if not _is_metadata(folder):
            return listed
        root = folder.parent.parent
        return _find_listed(root, _list_iceberg_files(root, folder), list_remote(root, is_folder=True))
    refuse_part(folder)
    start = len(folder.path.split("/")) if folder.path else 0
    tables: dict[str, str] = {}
    for file in listed:
        names = file.path.split("/")
        for kind, name in LOGS.items():
            if name in names[start:-1]:
                tables.setdefault("/".join(names[: names.index(name, start)]), kind)
        if _is_metadata(file) and len(names) - 2 >= start:
            tables.setdefault("/".join(names[:-2]), "Iceberg")
    found: list[RemoteFile] = []
    for path, kind in tables.items():
        root = RemoteFile(folder.store, path)
        inside = [file for file in listed if _is_below(file, path)]
        found += _find_listed(root, _list_stored_table(kind, root, inside), inside)
    listed = [file for file in listed if not any(_is_below(file, path) for path in tables)]
    parts = [file.path.split("/")[start:] for file in listed]
    is_log = {names[0] for names in parts} >= {"commitlog", "consumequeue"}
    return found + [
        file
        for file, names in zip(listed, parts, strict=True)
        if not any(name[:1] in HIDDEN for name in names) and (names[0] == "commitlog" or not is_log)
    ]


def list_catalog_files(address: str) -> tuple[str, Sequence[Place]]:
    """Return the files of a table in a catalog of Iceberg, and the address of the snapshot that they are."""
    _require_package(address, "Iceberg")
    from bindings.archive.formats.catalog import find_catalog_table  # an extra

    table = find_catalog_table(address)
    if isinstance(table.root, Path):
        return table.address, _join(table.root, table.files)
    listed = list_remote(table.root, is_folder=True) if table.files else ()
    return table.address, _find_listed(table.root, table.files, listed)


def _is_below(file: RemoteFile, path: str) -> bool:
    return not path or file.path.startswith(f"{path}/")


def _list_stored_table(kind: str, root: RemoteFile, files: Sequence[RemoteFile]) -> list[str]:
    """Return the files of a table in a store, as `_list_files`."""
    with TemporaryDirectory(prefix="hashstar-") as copy:
        for file in files if kind == "Delta Lake" else ():
            below = file.path.removeprefix(f"{root.path}/")
            if below.startswith(LOGS[kind]):
                path = Path(copy, below)
                path.parent.mkdir(parents=True, exist_ok=True)
                with name_os_errors(file), open_file(file) as stored:
                    path.write_bytes(stored.read())
        return _list_files(kind, root, Path(copy))


def _find_listed(root: RemoteFile, names: Sequence[str], listed: Sequence[RemoteFile]) -> list[RemoteFile]:
    """Return these files of a table as they were listed. Raises InputError for one that is not there."""
    known = {file.path: file for file in listed}
    paths = [(root / name).path for name in names]
    for path in paths:
        if path not in known:
            raise InputError(f"{root}: a file of this table is not there: {path}")
    return [known[path] for path in paths]
