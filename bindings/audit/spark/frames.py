"""A pass over records that Spark reads: tables of a catalogue, Delta, object stores, a topic of Kafka.

The rows are messages, with the columns of `bindings.archive.record.SCHEMA`, of which exchange and routing_key must be
there; what others are not is not known of the messages. Where the studies ask for nothing but keys, and keys repeat,
Spark counts equal ones of a slot of time first, and only the counts come to Python. Otherwise rows are counted where
they lie.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import escape
from bindings.archive.reading import Bad, Item, Skipped
from bindings.archive.record import SCHEMA, make_empty_column
from bindings.audit.account import Accounting
from bindings.audit.local import Pass, finished
from bindings.audit.selection import EVERYTHING, OTHER_VHOST, OUTSIDE, UNTIMED, Selection
from bindings.audit.spark.gathering import FAN_IN, LAST, ROWS, collected, telling
from bindings.audit.spark.session import cores_of
from bindings.audit.study import Counting, Study
from bindings.audit.tasks import (
    Order,
    Results,
    TooManyBad,
    columns_of,
    count,
    counting,
    order_of,
    rows_of,
    too_many,
)  # fmt: skip
from bindings.counts.slots import WIDTHS, width_for
from exchange.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Read", "run_on"]

Read: TypeAlias = Callable[[pa.RecordBatch, Sequence[str]], Iterable[Item]]
"""Makes of a batch of rows records with the columns asked for, and what is bad or no publishing; can be pickled."""

SAMPLE: Final = 20_000
"""So many rows are looked at to learn whether keys repeat."""

REPEATED: Final = 0.01
"""If this share of them has a key that another one has, counting by Spark first is less work: then there are about a
million different keys or fewer, or equal ones are near to each other."""

INCOMPLETE: Final = "no exchange or no routing key"

TYPES: Final = {
    "time": "timestamp", "vhost": "string", "exchange": "string", "routing_key": "string", "cc": "array<string>",
    "bcc": "array<string>", "headers": "map<string,struct<type:string,value:string>>",
    "properties": "map<string,struct<type:string,value:string>>", "body": "binary", "body_size": "bigint",
    "routed_queues": "array<string>", "source": "string", "offset": "bigint",
}  # fmt: skip
"""The columns of a record, as Spark calls their types."""


def run_on(
    records: DataFrame,
    studies: Sequence[Study[Any]],
    selection: Selection = EVERYTHING,
    *,
    read: Read | None = None,
    max_bad: int | None = None,
    count_first: bool | None = None,
) -> Pass:
    """Read records once, for all studies, on the workers of their session. There may be none.

    ``read`` is for rows that are no records yet: all their columns go to it. ``count_first`` says whether to count
    equal keys before anything else, which by default is found out; it is done only where nothing but keys counts, and
    then nobody knows the places of single messages. Raises InputError if columns are missing or of another type,
    `bindings.audit.tasks.TooManyBad` if more than ``max_bad`` rows are bad.
    """
    order = order_of(studies, selection, None, max_bad)
    if read is not None:
        return _counted(records, partial(_count_read, order, read), studies, order)
    with counting(order) as counters:
        columns = columns_of(counters, selection)
        by_key = all(counter.by_key for counter in counters)
    rows = _rows(records, columns)
    if by_key and (count_first or (count_first is None and _repeats(rows))):
        return _counted(_groups(rows, selection), partial(_count_groups, order), studies, order)
    return _counted(rows, partial(_count_rows, order), studies, order)


def _counted(rows: DataFrame, counted: Any, studies: Sequence[Study[Any]], order: Order) -> Pass:
    found = rows.mapInArrow(partial(_numbered, order, counted), ROWS)
    wide = cores_of(rows.sparkSession)
    if wide > LAST:
        return finished(collected(found, wide * FAN_IN, studies, order), studies)
    return finished(collected(found, LAST * FAN_IN, studies, order), studies)


def _rows(records: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The columns that are needed, of the types of a record."""
    from pyspark.sql import functions
    from pyspark.sql.types import MapType, StringType

    there = {field.name: field for field in records.schema.fields}
    for name in ("exchange", "routing_key"):
        if name not in there:
            raise InputError(f"these records have no column {name}; their columns are {', '.join(there) or 'none'}")
    chosen: list[Column] = []
    for name in dict.fromkeys(("exchange", "routing_key", *columns)):
        if name not in there:
            continue
        found, wanted = there[name].dataType, TYPES[name]
        column = functions.col(f"`{name}`")
        if found.simpleString() != wanted:
            if isinstance(found, MapType) and isinstance(found.valueType, StringType) and wanted.startswith("map"):
                column = functions.transform_values(column, _longstr)
            elif not _castable(found.simpleString(), wanted):
                raise InputError(f"column {name} is of type {found.simpleString()}; a record has {wanted}")
            column = column.cast(wanted)
        if not SCHEMA.field(name).nullable and name not in ("exchange", "routing_key"):
            column = functions.coalesce(column, _nothing(wanted))
        chosen.append(column.alias(name))
    return records.select(*chosen)


def _longstr(key: Column, value: Column) -> Column:
    from pyspark.sql import functions

    return functions.struct(functions.lit("longstr").alias("type"), value.alias("value"))


def _castable(found: str, wanted: str) -> bool:
    """Whether Spark's cast means what we mean."""
    kinds = {
        "timestamp": ("timestamp_ntz", "date"),
        "bigint": ("tinyint", "smallint", "int"),
        "string": ("char", "varchar"),
        "array<string>": ("array<void>",),
    }
    return found == "void" or found.startswith(kinds.get(wanted, ("map<void",) if wanted.startswith("map") else ()))


def _nothing(wanted: str) -> Column:
    from pyspark.sql import functions

    empty = functions.create_map() if wanted.startswith("map") else functions.array()
    return functions.lit("" if wanted == "string" else 0) if wanted in ("string", "bigint") else empty.cast(wanted)


def _repeats(rows: DataFrame) -> bool:
    found = rows.select("exchange", "routing_key").limit(SAMPLE).collect()
    return len(found) - len(set(found)) > REPEATED * len(found)


def _groups(rows: DataFrame, selection: Selection) -> DataFrame:
    """Equal messages of a slot of time as one row: how many, and the times of the first and the last.

    Slots are as wide as those of the timeline of all these messages will be: wider ones would make it coarser than it
    is without Spark, narrower ones only make more rows. A row with a reason is of messages that are left out.
    """
    from pyspark.sql import functions

    names = [name for name in ("exchange", "routing_key", "cc", "bcc") if name in rows.columns]
    micros = functions.unix_micros("time") if "time" in rows.columns else functions.lit(None).cast("bigint")
    timed = rows.withColumn("micros", micros)
    reason = _left_out(timed, selection)
    kept = reason.isNull()
    width = _width(timed.where(kept)) if "time" in rows.columns else WIDTHS[0]
    slot = functions.expr(f"(micros - pmod(micros, {width})) div {width}")
    keys = [functions.when(kept, functions.col(name)).alias(name) for name in names]
    counted = timed.select(reason.alias("reason"), *keys, "micros", functions.when(kept, slot).alias("slot"))
    return (
        counted.groupBy("reason", *names, "slot")
        .agg(
            functions.count("*").alias("count"),
            functions.min("micros").alias("time"),
            functions.max("micros").alias("last"),
        )
        .drop("slot")
    )


def _width(timed: DataFrame) -> int:
    """Return the width that slots of these messages have, of which only the times are read."""
    from pyspark.sql import functions

    found = timed.agg(functions.min("micros"), functions.max("micros")).first()
    first, last = (None, None) if found is None else found
    return WIDTHS[0] if first is None or last is None else width_for(first, last)


def _left_out(rows: DataFrame, selection: Selection) -> Column:
    """Why a row is left out, null if it is not: what `Selection.apply` does, for Spark."""
    from pyspark.sql import functions

    lit, micros = functions.lit, functions.col("micros")
    reason = functions.when(functions.col("exchange").isNull() | functions.col("routing_key").isNull(), lit(INCOMPLETE))
    if selection.vhost is not None and "vhost" in rows.columns:
        reason = reason.when(functions.col("vhost") != escape(selection.vhost), lit(OTHER_VHOST))
    if selection.timed:
        reason = reason.when(micros.isNull(), lit(UNTIMED))
    if selection.since is not None:
        reason = reason.when(micros < selection.since, lit(OUTSIDE))
    if selection.until is not None:
        reason = reason.when(micros >= selection.until, lit(OUTSIDE))
    return reason


def _numbered(order: Order, counted: Any, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: the results of a partition, none if it is empty."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    batches = iter(batches)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    with telling(), counting(order) as counters:
        accounting = Accounting()
        counted(counters, accounting, first)
        for batch in batches:
            counted(counters, accounting, batch)
            if order.max_bad is not None and accounting.bad_records > order.max_bad:
                raise TooManyBad(too_many(accounting.account(), order.max_bad))
        results = Results(tuple([counter.result() for counter in counters]), accounting.account())
    studies = pickle.loads(order.studies)  # noqa: S301  made by the driver
    yield rows_of(number, results, studies)


def _count_read(
    order: Order, read: Read, counters: Sequence[Counting[Any]], accounting: Accounting, batch: pa.RecordBatch
) -> None:
    for item in read(batch, columns_of(counters, order.selection)):
        if isinstance(item, Bad):
            accounting.add_bad(item)
        elif isinstance(item, Skipped):
            accounting.skip(item.reason, item.records)
        else:
            count(item, counters, order.selection, accounting)


def _count_rows(order: Order, counters: Sequence[Counting[Any]], accounting: Accounting, batch: pa.RecordBatch) -> None:
    there = pc.and_(batch.column("exchange").is_valid(), batch.column("routing_key").is_valid())
    if not pc.all(there).as_py():
        lost = batch.filter(pc.invert(there))
        names = batch.schema.names
        sources = lost.column("source").to_pylist() if "source" in names else [""] * lost.num_rows
        offsets = lost.column("offset").to_pylist() if "offset" in names else [0] * lost.num_rows
        for source, offset in zip(sources, offsets, strict=True):
            accounting.add_bad(Bad(source, offset, INCOMPLETE))
        batch = batch.filter(there)
    count(_record_batch(batch, columns_of(counters, order.selection)), counters, order.selection, accounting)


def _record_batch(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """A batch of Spark as one of an archive."""
    names = batch.schema.names
    fields = [SCHEMA.field(name) for name in columns]
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in names
        else make_empty_column(field.name, batch.num_rows)
        for field in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _count_groups(
    order: Order, counters: Sequence[Counting[Any]], accounting: Accounting, batch: pa.RecordBatch
) -> None:
    reasons = batch.column("reason")
    if reasons.null_count < batch.num_rows:
        lost = batch.filter(reasons.is_valid())
        for reason, records in zip(lost.column("reason").to_pylist(), lost.column("count").to_pylist(), strict=True):
            if reason == INCOMPLETE:
                accounting.add_bad(Bad("", 0, reason), records)
            else:
                accounting.skip(reason, records)
        batch = batch.filter(reasons.is_null())
    if not batch.num_rows:
        return
    counts, times = batch.column("count"), batch.column("time")
    untimed = pc.sum(counts.filter(times.is_null())).as_py() or 0
    first, last = pc.min(times).as_py(), pc.max(batch.column("last")).as_py()
    accounting.add_counted(pc.sum(counts).as_py(), untimed, first, last)
    moment = SCHEMA.field("time").type
    names = [name for name in ("exchange", "routing_key", "cc", "bcc") if name in batch.schema.names]
    arrays = [batch.column(name).cast(SCHEMA.field(name).type) for name in names]
    arrays += [counts, times.cast(moment), batch.column("last").cast(moment)]
    plain = pa.RecordBatch.from_arrays(arrays, [*names, "count", "time", "last"])
    for counter in counters:
        counter.add(plain)
