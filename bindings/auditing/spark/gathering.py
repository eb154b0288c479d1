"""Run tasks on Spark: workers read, count and add up results in several rounds; the driver adds the last few.

The JVM sees only results: a few rows per task. The driver holds at most `MAX_DRIVER_RESULTS`. Their size depends on the
topologies only, not on the number of keys or records.

Only features of Spark Connect are used: no context, no broadcast variables, no accumulators.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import (
    PassSettings,
    Results,
    Task,
    TooManyBad,
    add_results,
    check_bad,
    count_tasks,
    encode_results,
)
from exchange.errors import HashstarError, InputError
from exchange.values.json_text import parse_leniently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = "task long, study int, value binary"
"""The schema `bindings.auditing.local.tasks.ROW` in Spark's notation."""

MAX_DRIVER_RESULTS: Final = 16
"""Maximum number of results that the driver adds up itself."""

FAN_IN: Final = 8
"""Number of results that a worker adds up, on average, in one round."""

ENCODED_ERROR: Final = re.compile(r'<<hashstar:(\w+):("(?:[^"\\]|\\.)*")>>')
"""A hashstar error inside the text of a Spark error: its class, and its text as JSON."""


def run_tasks(
    spark: SparkSession, tasks: Sequence[Task], studies: Sequence[Study[Any]], order: PassSettings
) -> Results:
    """Run tasks, numbered from 0, as tasks of Spark, and return the sum of their results.

    Raises InputError for files that workers cannot open; `bindings.auditing.local.tasks.TooManyBad` if more records are
    bad than the order allows: at once if a single task reads that many, else at the end.
    """
    if not tasks:
        return add_results((), studies)[1]
    data = tuple([pickle.dumps(task, pickle.HIGHEST_PROTOCOL) for task in tasks])
    rows = spark.range(0, len(data), 1, len(data)).mapInArrow(partial(_count, order, data), ROWS)
    return collect_results(rows, len(data), studies, order)


def collect_results(rows: DataFrame, tasks: int, studies: Sequence[Study[Any]], order: PassSettings) -> Results:
    """Return the sum of the results in ``rows``, of this number of tasks. Raises as `run_tasks`."""
    while tasks > MAX_DRIVER_RESULTS:
        tasks = -(-tasks // FAN_IN)
        # Partition by task number, not by content: if Spark runs a task again, because a machine was lost, its new rows
        # go to the same partition as the old ones and replace exactly those.
        rows = rows.repartition(tasks, "task").mapInArrow(partial(_add, order), ROWS)
    try:
        table = rows.toArrow()
    except Exception as error:
        raise decode_spark_error(error) from error
    results = add_results(table.to_batches(), studies)[1]
    check_bad(results.account, order.max_bad)
    return results


@contextmanager
def reraise_for_spark() -> Iterator[None]:
    """Encode errors of hashstar in the text of a RuntimeError, which survives Spark; see `decode_spark_error`."""
    try:
        yield
    except HashstarError as error:
        raise RuntimeError(f"<<hashstar:{type(error).__name__}:{json.dumps(str(error))}>>") from None


def decode_spark_error(error: Exception) -> Exception:
    """Decode the hashstar error that `reraise_for_spark` encoded in a Spark error; return other errors unchanged."""
    match = ENCODED_ERROR.search(str(error))
    if match is None:
        return error
    try:
        return {"TooManyBad": TooManyBad}.get(match[1], InputError)(parse_leniently(match[2]))
    except ValueError:  # a text that Spark has cut
        return error


def _count(order: PassSettings, tasks: Sequence[bytes], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read and count the tasks with these numbers, on a worker."""
    studies = pickle.loads(order.studies)  # noqa: S301  made by the driver
    for batch in batches:
        for number in batch.column(0).to_pylist():
            with reraise_for_spark():
                results = count_tasks([pickle.loads(tasks[number])], order)  # noqa: S301
            yield encode_results(number, results, studies)


def _add(order: PassSettings, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the results in these rows, on a worker."""
    studies = pickle.loads(order.studies)  # noqa: S301  made by the driver
    number, results = add_results(batches, studies)
    if number is not None:
        yield encode_results(number, results, studies)
