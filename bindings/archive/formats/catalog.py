"""Find a table of Iceberg by the name that a catalog has for it: ``iceberg://CATALOG.NAMESPACE.TABLE``.

Where the catalog is, and with which credentials it and its store are asked, pyiceberg's own configuration says: the
file ``.pyiceberg.yaml`` and variables ``PYICEBERG_CATALOG__NAME__...``. What the catalog lends for the table alone is
used, too. Which snapshot is read is decided once, and is in the address that reports show: as they name it, a table is
read again with the same rows.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog import list_catalogs, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.config import Config

from bindings.archive.formats.iceberg import list_iceberg_files
from bindings.archive.places import AnyPath, RemoteFile, Store
from bindings.archive.times import parse_time_text
from exchange.errors import InputError
from exchange.text.display import escape_line, list_some
from exchange.text.numbers import is_digits

EXAMPLE: Final = "iceberg://CATALOG.NAMESPACE.TABLE, with ?snapshot=ID, ?at=TIME or ?ref=NAME behind it"
ADDRESS: Final = re.compile(
    r"iceberg://(?P<catalog>[^.?/]+)\.(?P<table>[^?/]*[^.?/]\.[^.?/]+)(?:\?(?P<option>snapshot|at|ref)=(?P<value>.+))?"
)
SHOWN: Final = frozenset({"type", "warehouse", "prefix", "s3.endpoint", "s3.region", "client.region"})
"""Properties of a catalog whose values errors may show."""
MAX_NAMES: Final = 10
"""Maximum number of names in an error."""


class CatalogTable(NamedTuple):
    """A snapshot of a table as its catalog has it."""

    address: str
    """Address of this snapshot."""
    root: AnyPath
    """Folder of the table."""
    files: list[str]
    """Files of the snapshot, as paths below the folder."""


def find_catalog_table(address: str) -> CatalogTable:
    """Return the snapshot that an address names, by default the newest.

    Raises InputError, without credentials, if there is none, or if its files do not say which rows are in it.
    """
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise InputError(f"{escape_line(address)}: it names no table of a catalog: {EXAMPLE}")
    catalog, name = found["catalog"], f"iceberg://{found['catalog']}.{found['table']}"
    if catalog.lower() not in (known := list_catalogs()):
        names = f"it knows {list_some(sorted(known), MAX_NAMES)}" if known else "it knows none"
        raise InputError(f"{name}: pyiceberg's configuration has no catalog {catalog}; {names}")
    table = _load_table(name, catalog, found["table"])
    snapshot = table.current_snapshot()
    if found["option"]:
        snapshot = _find_snapshot(name, table, found["option"], unquote(found["value"]))
    if snapshot is None:
        raise InputError(f"{name}: the table has no snapshot, as nothing was written to it")
    root = _find_root(table)
    files = list_iceberg_files(root, root, table.metadata, snapshot.snapshot_id)
    return CatalogTable(f"{name}?snapshot={snapshot.snapshot_id}", root, files)


def _load_table(name: str, catalog: str, table: str) -> Table:
    secrets = _list_secrets(Config().get_catalog_config(catalog) or {})
    try:
        with closing(load_catalog(catalog)) as there:
            return there.load_table(table)
    except (NoSuchTableError, NoSuchNamespaceError):
        raise InputError(f"{name}: the catalog has no such table") from None
    except Exception as error:  # noqa: BLE001  each kind of catalog raises the errors of its own clients
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        raise InputError(f"{name}: the catalog cannot be read: {escape_line(text)}") from None


def _list_secrets(properties: Mapping[str, Any]) -> Iterable[str]:
    """Yield what errors do not show: all that a catalog is configured with, but for `SHOWN` and hosts."""
    for key, value in properties.items():
        if key == "uri":
            parts = urlsplit(str(value))
            yield from filter(None, (parts.netloc.rpartition("@")[0], parts.password, parts.query))
        elif key not in SHOWN and value:
            yield str(value)


def _find_snapshot(name: str, table: Table, option: str, value: str) -> Snapshot:
    """Return the snapshot by its number, by the name of a branch or tag, or the one that was current at a time."""
    found: Snapshot | None = None
    if option == "ref":
        found = table.snapshot_by_name(value)
        known = list_some(sorted(table.metadata.refs), MAX_NAMES)
        missing = f"no branch or tag {escape_line(value)}; there are {known}"
    elif option == "snapshot":
        found = table.snapshot_by_id(int(value)) if is_digits(value) else None
        missing = f"no snapshot {escape_line(value)}; the newest is {table.metadata.current_snapshot_id}"
    else:
        try:
            found = table.snapshot_as_of_timestamp(parse_time_text(value) // 1000)
        except InputError:
            raise InputError(f"{name}?at={escape_line(value)}: it is no time of ISO 8601, in UTC by default") from None
        missing = f"no snapshot that is as old as {escape_line(value)}"
    if found is None:
        raise InputError(f"{name}: the table has {missing}")
    return found


def _find_root(table: Table) -> AnyPath:
    """Return the folder of a table, with a file system made of what the catalog and the user say of its store."""
    location = table.location()
    scheme, host, path = PyArrowFileIO.parse_location(location, table.io.properties)
    if scheme == "file":
        return Path(path)
    below = urlsplit(location).path
    system = PyArrowFileIO(table.io.properties).fs_by_scheme(scheme, host)
    made = pickle.dumps((system, path.removesuffix(below)))
    return RemoteFile(Store(f"{scheme}://{host}/", f"{scheme}://{host}", made), below.strip("/"))
