"""Run a pass over records that Spark reads: tables of a catalogue, Delta, object stores, a topic of Kafka.

Each row is a message, with the columns of `bindings.archive.record.SCHEMA`. Only exchange and routing_key are required;
a missing column counts as unknown for all messages. If the studies read only exchange and keys, and keys repeat, Spark
first counts equal keys per slot of time, and only these counts are sent to Python. Otherwise all rows are.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.inspection import Account
from bindings.archive.names import escape
from bindings.archive.reading import Bad, Item
from bindings.archive.record import SCHEMA, make_empty_column
from bindings.archive.routing_keys import HEADERS, fill_keys, read_keys
from bindings.archive.sums import Span
from bindings.auditing.local.run import Pass, finish
from bindings.auditing.local.selection import EVERYTHING, OTHER_VHOST, OUTSIDE, UNTIMED, Selection
from bindings.auditing.local.study import Counting, Study
from bindings.auditing.local.tasks import (
    PassSettings,
    Results,
    borrow_counters,
    check_bad,
    count_batch,
    count_item,
    encode_results,
    find_needed_columns,
    order_for,
)
from bindings.auditing.spark.gathering import FAN_IN, MAX_DRIVER_RESULTS, ROWS, collect_results, reraise_for_spark
from bindings.auditing.spark.session import count_cores
from bindings.counts.slots import WIDTHS, choose_width
from exchange.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

Read: TypeAlias = Callable[[pa.RecordBatch, Sequence[str]], Iterable[Item]]
"""Turns a batch of rows into items: records with these columns, bad and skipped records. Must be picklable."""

CountBatch: TypeAlias = Callable[[Sequence[Counting[Any]], Account, pa.RecordBatch], None]
"""Counts a batch of rows with these counters, and adds it to this account."""

SAMPLE: Final = 20_000
"""Number of rows in the sample that decides whether keys repeat."""

REPEATED: Final = 0.01
"""Minimum share of repeated keys in the sample, from which counting in Spark first is faster.

There are then about a million distinct keys or fewer, or equal keys are close to each other."""

INCOMPLETE: Final = "no exchange or no routing key"


def find_spark_type(kind: pa.DataType) -> str:
    """Return Spark's name for the Arrow type of a column."""
    if pa.types.is_list(kind):
        return f"array<{find_spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{find_spark_type(kind.key_type)},{find_spark_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{find_spark_type(field.type)}' for field in kind)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return "bigint" if pa.types.is_int64(kind) else str(kind)


TYPES: Final = {field.name: find_spark_type(field.type) for field in SCHEMA}
"""Column of a record -> Spark's name for its type."""

IN_HEADERS: Final = {name: f"{name} in headers" for name in HEADERS}
"""Column of a record -> column of Spark's rows that has its header where a row has no keys in that column."""

KEYS: Final = ("exchange", "routing_key", *HEADERS, *IN_HEADERS.values())
"""Columns of Spark's rows by which equal messages are counted first."""


def run_on(
    records: DataFrame,
    studies: Sequence[Study[Any]],
    selection: Selection = EVERYTHING,
    *,
    read: Read | None = None,
    max_bad: int | None = None,
    count_first: bool | None = None,
) -> Pass:
    """Read records once, for all studies, on the workers of their session; there may be no records.

    ``read`` converts rows that are not records yet, and gets all their columns. ``count_first`` is whether Spark first
    counts equal keys; by default, a sample of the rows decides. It applies only if the studies read nothing but
    exchange and keys, and then the source and offset of single messages are lost. Raises InputError if columns are
    missing or of another type; `bindings.auditing.local.tasks.TooManyBad` if more than ``max_bad`` rows are bad.
    """
    order = order_for(studies, selection, None, max_bad)
    if read is not None:
        return _run_counts(records, partial(_count_read, order, read), studies, order)
    with borrow_counters(order) as counters:
        columns = find_needed_columns(counters, selection)
        by_key = all(counter.by_key for counter in counters)
    rows = _select_columns(records, columns)
    if by_key and (count_first or (count_first is None and _repeats(rows))):
        return _run_counts(_group(rows, selection), partial(_count_groups, order), studies, order)
    return _run_counts(rows, partial(_count_rows, order), studies, order)


def _run_counts(rows: DataFrame, count: CountBatch, studies: Sequence[Study[Any]], order: PassSettings) -> Pass:
    results = rows.mapInArrow(partial(_count_partition, order, count), ROWS)
    width = max(count_cores(rows.sparkSession), MAX_DRIVER_RESULTS)  # the number of partitions is not known
    return finish(collect_results(results, width * FAN_IN, studies, order), studies)


def _select_columns(records: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the needed columns, cast to the types of a record.

    Where ``cc`` or ``bcc`` has no keys in a row, a column of `IN_HEADERS` has the header that may have them: type and
    value, not the list, which is JSON that Spark would read otherwise.
    """
    from pyspark.sql import functions

    fields = {field.name: field for field in records.schema.fields}
    for name in ("exchange", "routing_key"):
        if name not in fields:
            raise InputError(f"these records have no column {name}; their columns are {', '.join(fields) or 'none'}")
    chosen: list[Column] = []
    for name in dict.fromkeys(("exchange", "routing_key", *columns)):
        in_headers = "headers" in fields and IN_HEADERS.get(name)
        if in_headers:
            header = functions.try_element_at(_cast(fields["headers"]), functions.lit(HEADERS[name]))
            keys = _cast(fields[name]) if name in fields else functions.lit(None)
            has_keys = functions.coalesce(functions.size(keys.cast(TYPES[name])) > 0, functions.lit(False))
            chosen.append(functions.when(~has_keys, header).alias(in_headers))
        if name not in fields and not in_headers:
            continue
        column = _cast(fields[name]) if name in fields else functions.lit(None).cast(TYPES[name])
        if not SCHEMA.field(name).nullable and name not in ("exchange", "routing_key"):
            column = functions.coalesce(column, _empty_value(TYPES[name]))
        chosen.append(column.alias(name))
    return records.select(*chosen)


def _cast(field: StructField) -> Column:
    """Return a column of records as it is in a record. Raises InputError for one of another type."""
    from pyspark.sql import functions
    from pyspark.sql.types import MapType, StringType

    given, wanted = field.dataType, TYPES[field.name]
    column = functions.col(f"`{field.name}`")
    if given.simpleString() == wanted:
        return column
    if isinstance(given, MapType) and isinstance(given.valueType, StringType) and wanted.startswith("map"):
        column = functions.transform_values(column, _longstr)
    elif not _can_cast(given.simpleString(), wanted):
        raise InputError(f"column {field.name} is of type {given.simpleString()}; a record has {wanted}")
    return column.cast(wanted)


def _longstr(key: Column, value: Column) -> Column:
    from pyspark.sql import functions

    return functions.struct(functions.lit("longstr").alias("type"), value.alias("value"))


def _can_cast(given: str, wanted: str) -> bool:
    """Return whether Spark's cast keeps the meaning of the values."""
    kinds = {
        "timestamp": ("timestamp_ntz", "date"),
        "bigint": ("tinyint", "smallint", "int"),
        "string": ("char", "varchar"),
        "array<string>": ("array<void>",),
    }
    if given == "void" or (wanted.startswith("map") and given.startswith("map<void")):
        return True
    return given.partition("(")[0] in kinds.get(wanted, ())


def _empty_value(wanted: str) -> Column:
    from pyspark.sql import functions

    empty = functions.create_map() if wanted.startswith("map") else functions.array()
    return functions.lit("" if wanted == "string" else 0) if wanted in ("string", "bigint") else empty.cast(wanted)


def _repeats(rows: DataFrame) -> bool:
    sample = rows.select("exchange", "routing_key").limit(SAMPLE).collect()
    return len(sample) - len(set(sample)) > REPEATED * len(sample)


def _group(rows: DataFrame, selection: Selection) -> DataFrame:
    """Group equal messages of a slot of time into one row: their number, and the times of the first and the last.

    Slots have the width that the timeline of all these messages has: wider slots would make the timeline coarser than
    without Spark, narrower slots would only make more rows. Rows with a ``reason`` stand for messages left out.
    """
    from pyspark.sql import functions

    names = [name for name in KEYS if name in rows.columns]
    micros = functions.unix_micros("time") if "time" in rows.columns else functions.lit(None).cast("bigint")
    timed = rows.withColumn("micros", micros)
    reason = _reason_to_leave_out(timed, selection)
    kept = reason.isNull()
    width = _slot_width(timed.where(kept & ~_is_refused(timed))) if "time" in rows.columns else WIDTHS[0]
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


def _slot_width(timed: DataFrame) -> int:
    """Return the width of slots for these messages, in microseconds; reads only their times."""
    from pyspark.sql import functions

    ends = timed.agg(functions.min("micros"), functions.max("micros")).first()
    first, last = (None, None) if ends is None else ends
    return WIDTHS[0] if first is None or last is None else choose_width(first, last)


def _is_refused(rows: DataFrame) -> Column:
    """Return a Spark expression for whether a broker refuses the message of a row: CC or BCC is no array."""
    from pyspark.sql import functions

    refused = functions.lit(False)
    for name in set(IN_HEADERS.values()).intersection(rows.columns):
        kind = functions.col(name).getField("type")
        refused |= functions.coalesce(kind != "array", functions.col(name).isNotNull())
    return refused


def _reason_to_leave_out(rows: DataFrame, selection: Selection) -> Column:
    """Return a Spark expression for the reason to leave a row out, null to keep it; mirrors `Selection.apply`."""
    from pyspark.sql import functions

    lit, micros = functions.lit, functions.col("micros")
    reason = functions.when(functions.col("exchange").isNull() | functions.col("routing_key").isNull(), lit(INCOMPLETE))
    reason = reason.when(_is_refused(rows), lit(None))  # a bad record, whatever is selected
    if selection.vhost is not None and "vhost" in rows.columns:
        reason = reason.when(functions.col("vhost") != escape(selection.vhost), lit(OTHER_VHOST))
    if selection.timed:
        reason = reason.when(micros.isNull(), lit(UNTIMED))
    if selection.since is not None:
        reason = reason.when(micros < selection.since, lit(OUTSIDE))
    if selection.until is not None:
        reason = reason.when(micros >= selection.until, lit(OUTSIDE))
    return reason


def _count_partition(
    order: PassSettings, count: CountBatch, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Count a partition on a worker, and yield its results; yield nothing if it has no rows."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    batches = iter(batches)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    with reraise_for_spark(), borrow_counters(order) as counters:
        account = Account()
        count(counters, account, first)
        for batch in batches:
            count(counters, account, batch)
            check_bad(account, order.max_bad)
        results = Results(tuple([counter.result() for counter in counters]), account)
    studies = pickle.loads(order.studies)  # noqa: S301  made by the driver
    yield encode_results(number, results, studies)


def _count_read(
    order: PassSettings, read: Read, counters: Sequence[Counting[Any]], account: Account, batch: pa.RecordBatch
) -> None:
    for item in read(batch, find_needed_columns(counters, order.selection)):
        count_item(item, counters, order.selection, account)


def _count_rows(
    order: PassSettings, counters: Sequence[Counting[Any]], account: Account, batch: pa.RecordBatch
) -> None:
    complete = pc.and_(batch.column("exchange").is_valid(), batch.column("routing_key").is_valid())
    if not pc.all(complete).as_py():
        lost = batch.filter(pc.invert(complete))
        _add_bad(account, lost, [INCOMPLETE] * lost.num_rows)
        batch = batch.filter(complete)
    batch = _fill_keys(batch, account)
    count_batch(
        _record_batch(batch, find_needed_columns(counters, order.selection)), counters, order.selection, account
    )


def _fill_keys(batch: pa.RecordBatch, account: Account) -> pa.RecordBatch:
    """Return rows with the keys of columns of `IN_HEADERS` in ``cc`` and ``bcc``; what a broker refuses is bad."""
    names = batch.schema.names
    keys = read_keys({name: batch.column(column) for name, column in IN_HEADERS.items() if column in names})
    for name, others in keys.columns.items():
        batch = batch.set_column(names.index(name), name, fill_keys(batch.column(name), others))
    if keys.wrong:
        rows = np.array([*keys.wrong])
        _add_bad(account, batch.take(pa.array(rows)), [*keys.wrong.values()])
        batch = batch.take(pa.array(np.delete(np.arange(batch.num_rows), rows)))
    return batch


def _add_bad(account: Account, rows: pa.RecordBatch, reasons: Sequence[str]) -> None:
    names = rows.schema.names
    of_row = {"source": "", "offset": None, "count": 1}
    columns = [
        rows.column(name).to_pylist() if name in names else [usual] * rows.num_rows for name, usual in of_row.items()
    ]
    for source, offset, records, reason in zip(*columns, reasons, strict=True):
        account.unread.add_bad(Bad(source, offset, reason), records)


def _record_batch(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Return a batch of Spark rows with the schema of an archive; missing columns are empty."""
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
    order: PassSettings, counters: Sequence[Counting[Any]], account: Account, batch: pa.RecordBatch
) -> None:
    reasons = batch.column("reason")
    if reasons.null_count < batch.num_rows:
        lost = batch.filter(reasons.is_valid())
        for reason, records in zip(lost.column("reason").to_pylist(), lost.column("count").to_pylist(), strict=True):
            if reason == INCOMPLETE:
                account.unread.add_bad(Bad("", None, reason), records)
            else:
                account.unread.skipped[reason] += records
        batch = batch.filter(reasons.is_null())
    batch = _fill_keys(batch, account)
    if not batch.num_rows:
        return
    counts, times = batch.column("count"), batch.column("time")
    account.untimed += pc.sum(counts.filter(times.is_null())).as_py() or 0
    account.span += Span(pc.sum(counts).as_py(), pc.min(times).as_py(), pc.max(batch.column("last")).as_py())
    moment = SCHEMA.field("time").type
    names = [name for name in SCHEMA.names if name in KEYS and name in batch.schema.names]
    arrays = [batch.column(name).cast(SCHEMA.field(name).type) for name in names]
    arrays += [counts, times.cast(moment), batch.column("last").cast(moment)]
    plain = pa.RecordBatch.from_arrays(arrays, [*names, "count", "time", "last"])
    for counter in counters:
        counter.add(plain)
