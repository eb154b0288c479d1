"""Tasks on Spark: counted where they are read, their results added up on the workers, until the driver adds the last.

The JVM sees only the results, a few rows for each task. The driver holds at most `LAST` results, whose size depends on
the topologies and never on keys or records, however large the archive is.

Only what Spark Connect has is used: no context, no broadcast variables, no accumulators.
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

from bindings.audit.local.study import Study
from bindings.audit.local.tasks import (
    Order,
    Results,
    Task,
    TooManyBad,
    add_results,
    check_bad,
    count_tasks,
    encode_results,
)
from exchange.errors import HashstarError, InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FAN_IN", "LAST", "ROWS", "collect_results", "from_spark_error", "reraise_for_spark", "run_tasks"]

ROWS: Final = "task long, study int, value binary"
"""The schema `bindings.audit.local.tasks.ROW`, as Spark writes it."""

LAST: Final = 16
"""Maximum number of results that the driver adds."""

FAN_IN: Final = 8
"""Number of results that a worker adds in one go."""

ENCODED_ERROR: Final = re.compile(r'<<hashstar:(\w+):("(?:[^"\\]|\\.)*")>>')
"""An error of ours within the message of an error of Spark's: its class, and its text as JSON."""


def run_tasks(spark: SparkSession, tasks: Sequence[Task], studies: Sequence[Study[Any]], order: Order) -> Results:
    """Run tasks, which are numbered from 0, as tasks of Spark, and return the sum of their results.

    Raises InputError for files that workers cannot open; `bindings.audit.local.tasks.TooManyBad` for more bad records
    than the order allows: at once if one task met them, else at the end.
    """
    if not tasks:
        return add_results((), studies)[1]
    data = tuple([pickle.dumps(task, pickle.HIGHEST_PROTOCOL) for task in tasks])
    rows = spark.range(0, len(data), 1, len(data)).mapInArrow(partial(_count, order, data), ROWS)
    return collect_results(rows, len(data), studies, order)


def collect_results(rows: DataFrame, tasks: int, studies: Sequence[Study[Any]], order: Order) -> Results:
    """Return the sum of the results of a number of tasks, which are the rows. Raises as `run_tasks`."""
    while tasks > LAST:
        tasks = -(-tasks // FAN_IN)
        # By the number of the task and not by content: when Spark runs a task again, because a machine was lost, the
        # new rows go to the partition of the old ones and replace exactly them.
        rows = rows.repartition(tasks, "task").mapInArrow(partial(_add, order), ROWS)
    try:
        table = rows.toArrow()
    except Exception as error:
        raise from_spark_error(error) from error
    results = add_results(table.to_batches(), studies)[1]
    check_bad(results.account, order.max_bad)
    return results


@contextmanager
def reraise_for_spark() -> Iterator[None]:
    """On a worker: raise errors of ours as one whose text survives the way through Spark; see `from_spark_error`."""
    try:
        yield
    except HashstarError as error:
        raise RuntimeError(f"<<hashstar:{type(error).__name__}:{json.dumps(str(error))}>>") from None


def from_spark_error(error: Exception) -> Exception:
    """Return the error of ours that `reraise_for_spark` put into an error of Spark's, else that error itself."""
    match = ENCODED_ERROR.search(str(error))
    if match is None:
        return error
    return {"TooManyBad": TooManyBad}.get(match[1], InputError)(json.loads(match[2]))


def _count(order: Order, tasks: Sequence[bytes], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: read and count the tasks with these numbers."""
    studies = pickle.loads(order.studies)  # noqa: S301  made by the driver
    for batch in batches:
        for number in batch.column(0).to_pylist():
            with reraise_for_spark():
                results = count_tasks([pickle.loads(tasks[number])], order)  # noqa: S301
            yield encode_results(number, results, studies)


def _add(order: Order, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: add up the results in these rows."""
    studies = pickle.loads(order.studies)  # noqa: S301  made by the driver
    number, results = add_results(batches, studies)
    if number is not None:
        yield encode_results(number, results, studies)
