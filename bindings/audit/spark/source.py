"""Archives as a data source of Spark: ``spark.read.format("hashstar").load(path)``, for whoever asks them in SQL.

::

    spark.dataSource.register(HashstarSource)
    spark.read.format("hashstar").option("columns", "exchange,routing_key").load("archive/")

Options, beside the path of a file or folder:

=============================  ======================================================================================
``columns``                    those of `bindings.archive.record.SCHEMA` that are wanted, with commas between them; by
                               default all. Spark has no way to say which it needs, so say so: bodies and headers are
                               most of the work
``exchange``, ``routing_key``  of records of Kafka and RocketMQ, where these are: see `bindings.archive.mapping`
``mode``                       what becomes of a record that cannot be read, as in Spark's own readers: ``PERMISSIVE``,
                               the default, gives a row of nulls with its source, its offset, and the reason and the
                               beginning of it in ``_corrupt_record``; ``DROPMALFORMED`` leaves it out; ``FAILFAST``
                               ends the query
``columnNameOfCorruptRecord``  another name for that column; it is there if all columns are, or if ``columns`` has it
``filterPushdown``             ``true``: filters on exchange and time spare files and row groups that cannot match;
                               needs Spark 4.1 or later and ``spark.sql.python.filterPushdown.enabled``
``state``                      of ``spark.readStream``: a folder that keeps how far each file was read, which belongs to
                               the query like its checkpoint
=============================  ======================================================================================

Records that are no publishings are left out. Names are as `bindings.archive.names` writes them. Audits do not go this
way: they count where they read, so that no row needs to become one of Spark's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from bindings.archive.formats.detect import detect
from bindings.archive.names import escape, escape_bytes
from bindings.archive.reading import SPLIT_BYTES, Bad, Format, Skipped, Split
from bindings.archive.record import SCHEMA
from bindings.archive.times import EPOCH, MICROSECOND
from bindings.audit.planning import File, tasks_of
from bindings.audit.spark.frames import TYPES
from bindings.audit.spark.growth import Growth, Step
from bindings.audit.spark.pruning import Wanted, pruned
from bindings.audit.spark.streaming import StepReader, mapping_of
from exchange.errors import InputError

__all__ = ["HashstarSource"]

CORRUPT: Final = "_corrupt_record"
MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
TASK_BYTES: Final = 32 << 20
"""Of a partition, about; Spark does not say how many cores it has."""

FIELD: Final = pa.struct([("type", pa.string()), ("value", pa.string())])
ARROW_TYPES: Final = {"headers": pa.map_(pa.string(), FIELD), "properties": pa.map_(pa.string(), FIELD)}
"""The columns whose types Spark has with nulls, where ours have none."""


class _Wish(NamedTuple):
    """What is to be made of the records."""

    columns: tuple[str, ...]
    """Of the rows, with that for corrupt records if it is wanted."""
    corrupt: str
    mode: str

    @property
    def schema(self) -> pa.Schema:
        fields = []
        for name in self.columns:
            known = name != self.corrupt
            fields.append(pa.field(name, ARROW_TYPES.get(name, SCHEMA.field(name).type) if known else pa.string()))
        return pa.schema(fields)


class HashstarSource(DataSource):
    """The data source ``hashstar``. What is wrong with the options or the path raises InputError, within Spark's."""

    @classmethod
    def name(cls) -> str:
        return "hashstar"

    def schema(self) -> str:
        wish = self._wish()
        return ", ".join(f"`{name}` {TYPES.get(name, 'string')}" for name in wish.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = _PruningReader if self.options.get("filterPushdown", "false").lower() == "true" else _Reader
        return kind(self._path(), self.options, self._wish(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        state = self.options.get("state")
        if state is None:
            raise InputError('say where to keep how far files were read: .option("state", FOLDER)')
        return _StreamReader(Growth(self._path(), Path(state), mapping_of(self.options)), self._wish(schema))

    def _path(self) -> str:
        path = self.options.get("path")
        if path is None:
            raise InputError("say which archive to read: .load(PATH)")
        return path.removeprefix("file://")

    def _wish(self, schema: StructType | None = None) -> _Wish:
        mode = self.options.get("mode", MODES[0]).upper()
        if mode not in MODES:
            raise InputError(f"mode is {mode!r}; it can be {', '.join(MODES)}")
        corrupt = self.options.get("columnNameOfCorruptRecord", CORRUPT)
        if schema is not None:
            columns = tuple(schema.names)
        elif "columns" in self.options:
            columns = tuple([name.strip() for name in self.options["columns"].split(",")])
        else:
            columns = (*SCHEMA.names, *((corrupt,) if mode == MODES[0] else ()))
        for name in columns:
            if name not in TYPES and name != corrupt:
                raise InputError(f"there is no column {name!r}; there are {', '.join(SCHEMA.names)} and {corrupt}")
        return _Wish(columns, corrupt, mode)


class _Reader(DataSourceReader):
    """An archive that is there."""

    def __init__(self, path: str, options: Mapping[str, str], wish: _Wish) -> None:
        self._archive = detect(path, mapping_of(options))
        self._wish = wish
        self.wanted = Wanted()

    def partitions(self) -> Sequence[InputPartition]:
        planned = []
        for path, form in self._archive.all_files:
            splits = form.plan(path, min(SPLIT_BYTES, TASK_BYTES))
            if self.wanted != Wanted():
                splits = pruned(form, path, splits, self.wanted)
            if splits:
                planned.append((File(path, form, Path(path).stat().st_size), splits))
        tasks = tasks_of(planned, TASK_BYTES)
        return [InputPartition(task.splits) for task in tasks] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(partition.value, self._wish)


class _PruningReader(_Reader):
    """One that is told which records are wanted. Spark refuses such a reader unless it is told to push filters."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        for each in filters:
            self.wanted = _narrowed(self.wanted, each)
        return filters  # Spark still looks at every row


def _narrowed(wanted: Wanted, each: Any) -> Wanted:
    """What is wanted, if a filter says something of it."""
    kind, column, value = type(each).__name__, getattr(each, "attribute", None), getattr(each, "value", None)
    if column == ("exchange",):
        if kind in ("EqualTo", "EqualNullSafe") and isinstance(value, str):
            return wanted.exchange([value])
        if kind == "In" and value is not None:
            return wanted.exchange([name for name in value if name is not None])
    if column == ("time",) and isinstance(value, datetime) and value.tzinfo is not None:
        time = (value - EPOCH) // MICROSECOND
        if kind in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
            wanted = wanted.since(time)
        if kind in ("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual"):
            wanted = wanted.until(time)
    return wanted


class _StreamReader(StepReader):
    """An archive that grows."""

    def __init__(self, growth: Growth, wish: _Wish) -> None:
        super().__init__(growth)
        self._wish = wish

    def parts_of(self, steps: list[Step]) -> Sequence[InputPartition]:
        planned: dict[str, tuple[File, list[Split]]] = {}
        for step in steps:
            for form, split in step.splits:
                if Path(split.path).exists():
                    file = File(split.path, form, Path(split.path).stat().st_size)
                    planned.setdefault(split.path, (file, []))[1].append(split)
        return [InputPartition(task.splits) for task in tasks_of(list(planned.values()), TASK_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(partition.value, self._wish)


def _rows(splits: Sequence[tuple[Format, Split]], wish: _Wish) -> Iterator[pa.RecordBatch]:
    """The rows of some splits. Raises InputError in the mode that does."""
    columns = [name for name in wish.columns if name != wish.corrupt]
    schema = wish.schema
    for form, split in splits:
        for item in form.read(split, columns):
            if isinstance(item, Skipped):
                continue
            if not isinstance(item, Bad):
                yield _row_batch(item, schema)
            elif wish.mode == "FAILFAST":
                raise InputError(f"{item.source}: at {item.offset}: {item.reason}")
            elif wish.mode == "PERMISSIVE":
                told = f"{item.reason}: {escape_bytes(item.sample)}" if item.sample else item.reason
                row = {"source": escape(item.source), "offset": item.offset, wish.corrupt: escape(told)}
                yield pa.RecordBatch.from_pylist([{name: row.get(name) for name in schema.names}], schema)


def _row_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Records with the types that Spark has, and no corrupt record."""
    names = set(batch.schema.names)
    arrays = [
        batch.column(field.name).cast(field.type) if field.name in names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
