"""Read archives as a data source of Spark, to query them in SQL: ``spark.read.format("hashstar").load(path)``.

::

    spark.dataSource.register(HashstarSource)
    spark.read.format("hashstar").option("columns", "exchange,routing_key").load("archive/")

Options, beside the path of a file or folder:

=============================  ======================================================================================
``columns``                    those of `bindings.archive.record.SCHEMA` to read, with commas between them; by default
                               all. Spark does not pass on which columns a query needs, and bodies and headers
                               are most of the work, so name them
``exchange``, ``routing_key``  where these are in records of Kafka and RocketMQ: see `bindings.archive.mapping`
``mode``                       what becomes of a record that cannot be read, as in Spark's own readers: ``PERMISSIVE``,
                               the default, gives a row of nulls with its source, its offset, and the reason and the
                               beginning of it in ``_corrupt_record``; ``DROPMALFORMED`` leaves it out; ``FAILFAST``
                               ends the query
``columnNameOfCorruptRecord``  another name for that column; it is there if all columns are, or if ``columns`` has it
``filterPushdown``             ``true``: files and row groups that filters on exchange and time exclude are not read;
                               needs Spark 4.1 or later and ``spark.sql.python.filterPushdown.enabled``
``state``                      of ``spark.readStream``: a folder that keeps how far each file was read, which belongs to
                               the query like its checkpoint
=============================  ======================================================================================

Records that are no publishings are left out. Names are escaped as in `bindings.archive.names`. Audits do not use this
source: they count records in the process that reads them, so records need not become rows of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from bindings.archive.formats.connect import NAME, Connect
from bindings.archive.formats.detect import detect
from bindings.archive.formats.parquet import UNREADABLE, Parquet, read_footer
from bindings.archive.kafka.segment import KafkaSegment, parse_topic
from bindings.archive.names import escape, escape_bytes
from bindings.archive.places import Place, read_file_size, to_path
from bindings.archive.reading import SPLIT_BYTES, Bad, Format, Item, Skipped, Split, read_split
from bindings.archive.record import SCHEMA
from bindings.archive.times import to_microseconds
from bindings.auditing.local.planning import PlannedFile, group_into_tasks, plan_files, plan_splits
from bindings.auditing.spark.frames import TYPES
from bindings.auditing.spark.growth import Growth, MicroBatch
from bindings.auditing.spark.streaming import StepReader, decode_mapping
from exchange.errors import InputError

CORRUPT: Final = "_corrupt_record"
MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
TASK_BYTES: Final = 32 << 20
"""Approximate size of a partition, in bytes; a source does not learn from Spark how many cores there are."""


class RowOptions(NamedTuple):
    """The columns that a query wants, and how it treats records that cannot be read."""

    columns: tuple[str, ...]
    """Columns of the rows, including the one for corrupt records if it is wanted."""
    corrupt: str
    """Name of the column for corrupt records."""
    mode: str
    """One of `MODES`."""

    @classmethod
    def read(cls, options: Mapping[str, str], schema: StructType | None = None) -> RowOptions:
        """Read them of a source's options; a schema that a query gives has the columns. Raises InputError."""
        mode = options.get("mode", MODES[0]).upper()
        if mode not in MODES:
            raise InputError(f"mode is {mode!r}; it can be {', '.join(MODES)}")
        corrupt = options.get("columnNameOfCorruptRecord", CORRUPT)
        if schema is not None:
            columns = tuple(schema.names)
        elif "columns" in options:
            columns = tuple([name.strip() for name in options["columns"].split(",")])
        else:
            columns = (*SCHEMA.names, *((corrupt,) if mode == MODES[0] else ()))
        for name in columns:
            if name not in TYPES and name != corrupt:
                raise InputError(f"there is no column {name!r}; there are {', '.join(SCHEMA.names)} and {corrupt}")
        return cls(columns, corrupt, mode)

    @property
    def spark_schema(self) -> str:
        """The schema as Spark writes it."""
        return ", ".join(f"`{name}` {TYPES.get(name, 'string')}" for name in self.columns)

    @property
    def schema(self) -> pa.Schema:
        kinds = {name: pa.string() if name == self.corrupt else SCHEMA.field(name).type for name in self.columns}
        return pa.schema([(name, _nullable(kind)) for name, kind in kinds.items()])

    @property
    def of_records(self) -> list[str]:
        """Columns that readers of records build."""
        return [name for name in self.columns if name != self.corrupt]


def _nullable(kind: pa.DataType) -> pa.DataType:
    """Return the type with all fields of structs nullable, as they are in Spark."""
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    return pa.struct([(field.name, field.type) for field in kind]) if pa.types.is_struct(kind) else kind


class HashstarSource(DataSource):
    """The data source ``hashstar``. Wrong options or a wrong path raise InputError, inside an error of Spark."""

    @classmethod
    def name(cls) -> str:
        return "hashstar"

    def schema(self) -> str:
        return RowOptions.read(self.options).spark_schema

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = _PruningReader if self.options.get("filterPushdown", "false").lower() == "true" else _ArchiveReader
        return kind(self._path(), self.options, RowOptions.read(self.options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        state = self.options.get("state")
        if state is None:
            raise InputError('name a folder that keeps how far files were read: .option("state", FOLDER)')
        return _ArchiveStreamReader(
            Growth(self._path(), Path(state), decode_mapping(self.options)), RowOptions.read(self.options, schema)
        )

    def _path(self) -> str:
        path = self.options.get("path")
        if path is None:
            raise InputError("name the archive to read: .load(PATH)")
        return path.removeprefix("file://")


class _ArchiveReader(DataSourceReader):
    """Reads an archive that does not grow."""

    may_prune: ClassVar[bool] = False
    """Whether it must know the format of each file before it is read."""

    def __init__(self, path: str, options: Mapping[str, str], row_options: RowOptions) -> None:
        self._archive = detect(path, decode_mapping(options), late=not self.may_prune)
        self._row_options = row_options
        self.wanted = Wanted()

    def partitions(self) -> Sequence[InputPartition]:
        files = [PlannedFile(path, form, read_file_size(path)) for path, form in self._archive.all_files]
        split_bytes = min(SPLIT_BYTES, TASK_BYTES)
        planned = plan_files(files, split_bytes)
        if self.wanted != Wanted():
            whole = zip(files, plan_splits(files, split_bytes), strict=True)
            pruned = ((file, prune(file.form, file.path, splits, self.wanted)) for file, splits in whole)
            planned = ((file, splits) for file, splits in pruned if splits)
        tasks = group_into_tasks(planned, TASK_BYTES)
        return [InputPartition(task.splits) for task in tasks] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(partition.value, self._row_options)


class _PruningReader(_ArchiveReader):
    """A reader with filter pushdown. Spark refuses such a reader unless its setting allows pushdown."""

    may_prune = True

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        for each in filters:
            self.wanted = _narrow(self.wanted, each)
        return filters  # Spark must still apply all filters to every row: pruning only skips whole files and row groups


def _narrow(wanted: Wanted, filter_: Any) -> Wanted:
    """Narrow what is wanted by a Spark filter; only filters on exchange and time have an effect."""
    kind, column, value = type(filter_).__name__, getattr(filter_, "attribute", None), getattr(filter_, "value", None)
    if column == ("exchange",):
        if kind in ("EqualTo", "EqualNullSafe") and isinstance(value, str):
            return wanted.with_exchanges([value])
        if kind == "In" and value is not None:
            return wanted.with_exchanges([name for name in value if name is not None])
    if column == ("time",) and isinstance(value, datetime) and value.tzinfo is not None:
        time = to_microseconds(value)
        if kind in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
            wanted = wanted.since(time)
        if kind in ("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual"):
            wanted = wanted.until(time)
    return wanted


class _ArchiveStreamReader(StepReader):
    """Reads an archive that grows, as a stream."""

    def __init__(self, growth: Growth, row_options: RowOptions) -> None:
        super().__init__(growth)
        self._row_options = row_options

    def parts_of(self, steps: list[MicroBatch]) -> Sequence[InputPartition]:
        planned: dict[Place, tuple[PlannedFile, list[Split]]] = {}
        for step in steps:
            for form, split in step.splits:
                if to_path(split.path).is_file():
                    file = PlannedFile(split.path, form, read_file_size(split.path))
                    planned.setdefault(split.path, (file, []))[1].append(split)
        return [InputPartition(task.splits) for task in group_into_tasks(list(planned.values()), TASK_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(partition.value, self._row_options)


def _rows(splits: Sequence[tuple[Format, Split]], row_options: RowOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of splits. In the mode FAILFAST, raises InputError for a bad record."""
    for form, split in splits:
        yield from to_rows(read_split(form, split, row_options.of_records), row_options)


def to_rows(items: Iterable[Item], row_options: RowOptions) -> Iterator[pa.RecordBatch]:
    """Yield what was read as rows. In the mode FAILFAST, raises InputError for a bad record."""
    schema = row_options.schema
    for item in items:
        if isinstance(item, Skipped):
            continue
        if not isinstance(item, Bad):
            yield _row_batch(item, schema)
        elif row_options.mode == "FAILFAST":
            raise InputError(f"{item.source}: at {item.offset}: {item.reason}")
        elif row_options.mode == "PERMISSIVE":
            text = f"{item.reason}: {escape_bytes(item.sample)}" if item.sample else item.reason
            row = {"source": escape(item.source), "offset": item.offset, row_options.corrupt: escape(text)}
            yield pa.RecordBatch.from_pylist([{name: row.get(name) for name in schema.names}], schema)


def _row_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return records as rows of the schema; a column that they lack, such as that for corrupt records, is null."""
    names = set(batch.schema.names)
    arrays = [
        batch.column(field.name).cast(field.type) if field.name in names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Wanted(NamedTuple):
    """The condition for wanted records; names are escaped as in columns (`bindings.archive.names.escape`)."""

    exchanges: frozenset[str] | None = None
    """Exchanges of wanted records; None for all."""
    first: int | None = None
    """Earliest wanted time, in microseconds since 1970, UTC; if set, records without a time are not wanted."""
    last: int | None = None
    """Latest wanted time, in microseconds since 1970, UTC."""

    def with_exchanges(self, names: Iterable[str]) -> Wanted:
        """Return the condition narrowed to these exchanges."""
        wanted = frozenset(names)
        return self._replace(exchanges=wanted if self.exchanges is None else self.exchanges & wanted)

    def since(self, time: int) -> Wanted:
        """Return the condition narrowed to this time or later."""
        return self._replace(first=time if self.first is None else max(self.first, time))

    def until(self, time: int) -> Wanted:
        """Return the condition narrowed to this time or earlier."""
        return self._replace(last=time if self.last is None else min(self.last, time))


def prune(form: Format, path: Place, splits: list[Split], wanted: Wanted) -> list[Split]:
    """Return the splits of a file that may hold a wanted record."""
    if isinstance(form, Connect | KafkaSegment):
        return splits if wanted.exchanges is None or _topic_may_hold(form, str(path), wanted.exchanges) else []
    if isinstance(form, Parquet) and not form.mapping.columns:
        return _prune_parquet(path, splits, wanted)
    return splits


def _topic_may_hold(form: Connect | KafkaSegment, path: str, exchanges: frozenset[str]) -> bool:
    origin = form.mapping.exchange
    if origin.startswith("="):
        return escape(origin[1:]) in exchanges
    if origin != "topic":
        return True
    if isinstance(form, KafkaSegment):
        return escape(parse_topic(path)) in exchanges
    match = NAME.fullmatch(path.rpartition("/")[2])
    return match is None or escape(match["topic"]) in exchanges


def _prune_parquet(path: Place, splits: list[Split], wanted: Wanted) -> list[Split]:
    try:
        metadata = read_footer(path)
    except UNREADABLE:
        return splits
    kept: list[Split] = []
    for split in splits:
        groups = range(split.start, metadata.num_row_groups if split.end is None else split.end)
        if any(_group_may_hold(metadata.row_group(group), wanted) for group in groups):
            kept.append(split)
    return kept


def _group_may_hold(group: Any, wanted: Wanted) -> bool:
    for number in range(group.num_columns):
        column = group.column(number)
        statistics = column.statistics if column.path_in_schema in ("exchange", "time") else None
        if statistics is None or not statistics.has_min_max:
            continue
        if column.path_in_schema == "exchange":
            if not isinstance(statistics.min, str):  # bytes or numbers of other programs, in another order than texts
                continue
            if wanted.exchanges is not None and not any(
                statistics.min.encode() <= name.encode() <= statistics.max.encode() for name in wanted.exchanges
            ):
                return False
            continue
        least, greatest = _microseconds(statistics.min), _microseconds(statistics.max)
        if least is None or greatest is None:
            continue
        if wanted.first is not None and greatest < wanted.first:
            return False
        if wanted.last is not None and least > wanted.last:
            return False
    return True


def _microseconds(value: Any) -> int | None:
    """Return a time in Parquet statistics as microseconds since 1970; None for a value without a time zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return to_microseconds(value)
