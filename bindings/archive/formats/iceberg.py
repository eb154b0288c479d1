"""List the files of a table of Iceberg: pyiceberg reads its metadata and manifests, and this finds the files they name.

A table knows its files by addresses below its own location. They are looked for below the folder that the user named:
so a table that was copied is read, one in a store with what its address says, and no file elsewhere. The library bounds
nothing that it reads, and takes a file that ends too early for a shorter one: manifests are checked and unpacked here.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePath
from threading import Lock
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema, index_by_id, index_name_by_id
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.name_mapping import MappedField

from bindings.archive.avro.container import MAGIC, encode_container, read_header, unpack_block, walk_blocks
from bindings.archive.places import MAX_REMOTE_FILES, AnyPath, Place, open_file, open_table, read_file_size, to_place
from bindings.archive.unpacking import read_unpacked
from exchange.errors import InputError, name_os_errors
from exchange.limits import DOCUMENT_BYTES

FIELD_ID: Final = b"PARQUET:field_id"
"""Metadata of a column of Parquet: the number that it has in the table, whatever its name."""
NO_NUMBER: Final = -1
"""Number of a column that has none."""
MAX_ROWS: Final = MAX_REMOTE_FILES
"""Maximum number of rows of all manifests of a table: each is a file that was added or removed."""
REWRITE: Final = "rewrite its data files (rewrite_data_files), and read it then"


def list_iceberg_files(
    root: AnyPath, metadata: AnyPath, known: TableMetadata | None = None, snapshot: int | None = None
) -> list[str]:
    """Return the files whose rows are in a table with this metadata, as paths below its folder.

    Of a catalog's table the metadata is ``known``. Without ``snapshot``, its newest is read.

    Raises InputError for a table that cannot be read, and for one whose files alone do not say which rows are in it.
    """
    try:
        found = known or _read_metadata(metadata)
        files = _Files(root, found.location.rstrip("/"))
        table = Table(("table",), found, "", files, NoopCatalog(""))
        scan = table.scan(snapshot_id=snapshot)
        tasks, schema = [*scan.plan_files()], scan.projection()
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  the library raises what damaged JSON and Avro make of it
        reason = str(error).partition("\n")[0]
        if "equality deletes" in reason:
            _refuse(root, "files of equality deletes remove rows of it, which are not read: write its rows to Parquet")
        raise InputError(f"{metadata}: this metadata of Iceberg cannot be read: {reason}") from None
    if any(task.delete_files for task in tasks):
        _refuse(root, f"files of deletes remove rows of it, which are not read: {REWRITE}")
    paths = sorted(files.locate(task.file.file_path) for task in tasks)
    if any(getattr(field, "initial_default", None) is not None for field in index_by_id(schema).values()):
        _refuse(root, f"columns have defaults for older files, which are not read: {REWRITE}")
    schemas = table.metadata.schemas
    pairs = {*chain.from_iterable(index_name_by_id(schema).items() for schema in schemas)}
    are_lost = max(schema.schema_id for schema in schemas) >= len(schemas)
    if are_lost or len(pairs) > len(dict(pairs)) or len(pairs) > len({name for _, name in pairs}):
        if other := next((task.file for task in tasks if task.file.file_format != FileFormat.PARQUET), None):
            _refuse(root, f"columns were renamed since there were files of {other.file_format.value}: {REWRITE}")
        _check_names(root, paths, schema, table.name_mapping() or ())
    return paths


def _read_metadata(path: AnyPath) -> TableMetadata:
    """Return metadata, gzipped or not, whatever its name. Raises InputError if it is too large."""
    text = bytearray()
    for piece in read_unpacked(to_place(path)):
        text += piece
        if len(text) > DOCUMENT_BYTES:
            raise InputError(f"{path}: too large: metadata of Iceberg has {DOCUMENT_BYTES >> 20} MiB at most")
    return TableMetadataUtil.parse_raw(text.decode())


def _check_names(root: AnyPath, paths: Sequence[str], schema: Schema, mapping: Iterable[MappedField]) -> None:
    """Raise InputError for a file whose columns have other names than those of the table, or its names for others."""
    names = index_name_by_id(schema)
    mapped = tuple(mapping)
    there = {*names.values()}
    for path in paths:
        try:
            with pq.ParquetFile(open_table(to_place(root / path))) as file:
                columns = [*_list_columns(pa.struct([*file.schema_arrow]), "", mapped)]
        except (pa.ArrowException, OSError, ValueError):
            continue  # damaged: its reader counts it
        for number, name in columns:
            if names.get(number, name) != name:
                _refuse(root, f"its column {names[number]} is still {name} in {path}: {REWRITE}")
            if number not in names and name in there:
                _refuse(root, f"{path} has a column {name} that was removed since: {REWRITE}")


def _list_columns(kind: pa.DataType, above: str, mapped: Sequence[MappedField]) -> Iterator[tuple[int, str]]:
    """Yield number and path of each column in a type; of files older than the table ``mapped`` has the numbers."""
    if pa.types.is_struct(kind):
        inner = [(field.name, field) for field in kind]
    elif pa.types.is_map(kind):
        inner = [("key", kind.key_field), ("value", kind.item_field)]
    else:
        inner = [("element", kind.value_field)] if hasattr(kind, "value_field") else []
    for name, field in inner:
        known = next((each for each in mapped if name in each.names), MappedField(names=[name]))
        yield int((field.metadata or {}).get(FIELD_ID) or known.field_id or NO_NUMBER), above + name
        yield from _list_columns(field.type, f"{above}{name}.", known.fields)


def _refuse(root: object, why: str) -> NoReturn:
    raise InputError(f"{root}: it is a table of Iceberg, and {why}")


class _Files(FileIO):  # type: ignore[misc,unused-ignore]
    """The files of a table, by their addresses in it."""

    def __init__(self, root: AnyPath, location: str) -> None:
        super().__init__()
        self._root: Final = root
        self._location: Final = location
        self.lock: Final = Lock()
        """Held while a manifest is unpacked, so that several threads do not unpack as much as they like."""
        self._bytes = 0
        self._rows = 0

    def locate(self, address: str) -> str:
        """Return the path of a file below the table's folder. Raises InputError if it is not below it."""
        below = address.removeprefix(f"{self._location}/")
        path = PurePath(below)
        if below == address or path.anchor or ".." in path.parts:
            raise InputError(f"{self._root}: a table of Iceberg at {self._location}, with a file elsewhere: {address}")
        return below

    def new_input(self, location: str) -> InputFile:
        return _Manifest(location, to_place(self._root / self.locate(location)), self)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError

    def count(self, size: int, rows: int) -> None:
        """Add what was read of manifests; with the lock. Raises InputError if they have too much altogether."""
        self._bytes += size
        self._rows += rows
        if self._bytes > DOCUMENT_BYTES:
            _refuse(self._root, f"its manifests are too large: they have {DOCUMENT_BYTES >> 20} MiB at most, unpacked")
        if self._rows > MAX_ROWS:
            _refuse(self._root, f"its manifests have too many rows: {MAX_ROWS:,} at most")


class _Manifest(InputFile):  # type: ignore[misc,unused-ignore]
    """A manifest, or a list of them, where it is."""

    def __init__(self, location: str, place: Place, files: _Files) -> None:
        super().__init__(location)
        self._place: Final = place
        self._files: Final = files

    def __len__(self) -> int:
        return read_file_size(self._place)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> Any:
        """Return the manifest, checked and unpacked. Raises InputError if it is damaged or too large."""
        with name_os_errors(self._place), open_file(self._place) as file:
            data = file.read(DOCUMENT_BYTES + 1)
        try:
            with self._files.lock:
                return io.BytesIO(self._unpack(data))
        except InputError as error:
            raise InputError(f"{self._place}: {error}") from None

    def _unpack(self, data: bytes) -> bytes:
        self._files.count(len(data), 0)
        if not data.startswith(MAGIC):
            raise InputError("it is no Avro file")
        header = read_header(data)
        if _has_empty_items(header.schema):
            raise InputError("its schema has arrays of items without content, any number of which takes no bytes")
        rows, unpacked = 0, bytearray()
        for block in walk_blocks(data, header.end, len(data), header.marker):
            if block.problem:
                raise InputError(block.problem)
            piece = unpack_block(header.codec, data[slice(*block.data)])
            self._files.count(len(piece), block.rows)
            unpacked += piece
            rows += block.rows
        return encode_container(json.dumps(header.schema).encode(), rows, bytes(unpacked))


def _has_empty_items(schema: Any) -> bool:
    """Return whether a schema, of limited depth, has an array whose items take no bytes."""
    if isinstance(schema, dict):
        is_empty = schema.get("type") == "array" and _is_empty(schema.get("items"))
        return is_empty or any(map(_has_empty_items, schema.values()))
    return isinstance(schema, list) and any(map(_has_empty_items, schema))


def _is_empty(kind: Any) -> bool:
    """Return whether values of a type take no bytes."""
    if not isinstance(kind, dict):
        return isinstance(kind, str) and kind == "null"
    if kind.get("type") == "record":
        return all(_is_empty(field.get("type")) for field in kind.get("fields", ()) if isinstance(field, dict))
    return bool(kind.get("size") == 0 or _is_empty(kind.get("type")))
