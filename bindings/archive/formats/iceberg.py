"""List the files of a table of Iceberg: pyiceberg reads its metadata and manifests, and this finds the files they name.

A table knows its files by addresses below its own location. They are looked for below the folder that the user named:
so a table that was copied is read, one in a store with what its address says, and no file elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import pyarrow.parquet as pq
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table

from bindings.archive.places import AnyPath, open_file, open_table, read_file_size, to_place
from exchange.errors import InputError

__all__ = ["list_iceberg_files"]

FIELD_ID: Final = b"PARQUET:field_id"
"""Metadata of a column of Parquet: the number that it has in the table, whatever its name."""
REWRITE: Final = "rewrite its data files (rewrite_data_files), and read it then"


def list_iceberg_files(root: AnyPath, metadata: AnyPath) -> list[str]:
    """Return the files whose rows are in a table with this metadata, as paths below its folder.

    Raises InputError for a table that cannot be read, and for one whose files alone do not say which rows are in it.
    """
    files = _Files(root)
    try:
        files.location = FromInputFile.table_metadata(_TableFile(str(metadata), metadata)).location.rstrip("/")
        table = Table(
            ("table",), FromInputFile.table_metadata(_TableFile(str(metadata), metadata)), "", files, NoopCatalog("")
        )
        tasks = [*table.scan().plan_files()]
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  the library raises what damaged JSON and Avro make of it
        reason = str(error).partition("\n")[0]
        raise InputError(f"{metadata}: this metadata of Iceberg cannot be read: {reason}") from None
    if any(task.delete_files for task in tasks):
        _refuse(root, f"files of deletes remove rows of it, which are not read: {REWRITE}")
    paths = sorted(files.locate(task.file.file_path) for task in tasks)
    fields = [field for schema in table.metadata.schemas for field in schema.fields]
    if any(getattr(field, "initial_default", None) is not None for field in fields):
        _refuse(root, f"columns have defaults for older files, which are not read: {REWRITE}")
    pairs = {(field.field_id, field.name) for field in fields}
    if len(pairs) > len(dict(pairs)) or len(pairs) > len({name for _, name in pairs}):
        _check_names(root, paths, {field.field_id: field.name for field in table.schema().fields})
    return paths


def _check_names(root: AnyPath, paths: Sequence[str], names: Mapping[int, str]) -> None:
    """Raise InputError for a file whose columns have other names than those of the table, or its names for others."""
    for path in paths:
        with pq.ParquetFile(open_table(to_place(root / path))) as file:
            for field in file.schema_arrow:
                number = int((field.metadata or {}).get(FIELD_ID, -1))
                if names.get(number, field.name) != field.name:
                    _refuse(root, f"its column {names[number]} is still {field.name} in {path}: {REWRITE}")
                if number not in names and field.name in names.values():
                    _refuse(root, f"{path} has a column {field.name} that was removed since: {REWRITE}")


def _refuse(root: object, why: str) -> NoReturn:
    raise InputError(f"{root}: it is a table of Iceberg, and {why}")


class _Files(FileIO):  # type: ignore[misc,unused-ignore]
    """The files of a table, by their addresses in it."""

    def __init__(self, root: AnyPath) -> None:
        super().__init__()
        self._root: Final = root
        self.location = ""

    def locate(self, address: str) -> str:
        """Return the path of a file below the table's folder. Raises InputError if it is not below it."""
        below = address.removeprefix(f"{self.location}/")
        if below == address or ".." in below.split("/"):
            raise InputError(f"{self._root}: a table of Iceberg at {self.location}, with a file elsewhere: {address}")
        return below

    def new_input(self, location: str) -> InputFile:
        return _TableFile(location, self._root / self.locate(location))

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError


class _TableFile(InputFile):  # type: ignore[misc,unused-ignore]
    """A file of metadata, where it is."""

    def __init__(self, location: str, path: AnyPath) -> None:
        super().__init__(location)
        self._place: Final = to_place(path)

    def __len__(self) -> int:
        return read_file_size(self._place)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> Any:
        return open_file(self._place)
