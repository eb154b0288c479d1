"""Find paths that hold more than files: tables of Delta Lake, Iceberg and Hudi, and addresses of object stores.

Which files of a table are in it, its log says: the others were removed, rewritten or compacted, and to read them as
plain Parquet would count their rows again. Of Delta Lake, the files of the newest version are read; other tables, and
those whose files alone do not say which rows are in them, are refused with a way to their rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from exchange.errors import InputError
from exchange.text.site import build_page_address

__all__ = ["explain_address", "list_table_files"]

PACKAGE: Final = "deltalake>=1.1"
"""The requirement of the extra ``delta``."""
READ_FEATURES: Final = frozenset({"columnMapping", "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"})
"""Features of tables of Delta Lake that do not change which rows a file has; columns may be mapped, but are not."""
WAY_OUT: Final = "write the rows that are in it to Parquet, and read that"

STORES: Final[Mapping[str, str]] = {
    "s3": "aws s3 sync", "s3a": "aws s3 sync", "gs": "gcloud storage rsync -r", "abfs": "azcopy copy --recursive",
    "abfss": "azcopy copy --recursive", "az": "azcopy copy --recursive", "hdfs": "hdfs dfs -get",
}  # fmt: skip
"""Scheme of an address -> the program that copies what is there to a folder."""
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
    if (folder / "_delta_log").is_dir():
        return "Delta Lake"
    if (folder / ".hoodie").is_dir():
        return "Hudi"
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
    """Return what to do with an address of a broker or an object store, added to an error; empty for other paths."""
    found = ADDRESS.match(path)
    scheme = found["scheme"] if found else ""
    if scheme in BROKERS:
        topic = "; hashstar audit TOPOLOGY kafka://HOST:PORT/TOPIC reads a topic" if scheme == "kafka" else ""
        page = build_page_address("bridge-archives")
        return f": it is the address of a broker, of which hashstar bridge records an archive: {page}{topic}"
    program = STORES.get(scheme)
    if program is None:
        return ""
    return f": archives are read from folders; copy it to one first, such as with: {program} {path} FOLDER"
