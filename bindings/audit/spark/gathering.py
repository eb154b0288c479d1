"""Tasks on Spark: counted where they are read, their results added up on the workers, until the driver adds the last.

The JVM sees only a few rows for each task: what was found. What the driver holds is `LAST` results at most, each
bounded by the topologies and never by keys or records, however large the archive is.

Nothing asks for more than Spark Connect has: no context, no broadcast variables, no accumulators.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from bindings.audit.study import Study
from bindings.audit.tasks import Order, Results, Task, TooManyBad, added, perform, rows_of, too_many
from exchange.errors import HashstarError, InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LAST", "ROWS", "collected", "performed", "told", "telling"]

ROWS: Final = "task long, study int, value binary"
"""What tasks give back, as Spark names it: `bindings.audit.tasks.ROW`."""

LAST: Final = 16
"""So many tasks' results the driver adds at most."""

FAN_IN: Final = 8
"""So many results are added at a time, by the workers."""

TOLD: Final = re.compile(r'<<hashstar:(\w+):("(?:[^"\\]|\\.)*")>>')
"""An error of ours in what Spark says of one."""


def performed(spark: SparkSession, tasks: Sequence[Task], studies: Sequence[Study[Any]], order: Order) -> Results:
    """What the tasks found, numbered from 0, each of which Spark does as one of its own.

    Raises InputError for files that workers cannot open; `bindings.audit.tasks.TooManyBad` if there are more bad
    records than the order allows, as soon as one task met as many.
    """
    if not tasks:
        return added((), studies)[1]
    data = tuple([pickle.dumps(task, pickle.HIGHEST_PROTOCOL) for task in tasks])
    rows = spark.range(0, len(data), 1, len(data)).mapInArrow(partial(_count, order, data), ROWS)
    return collected(rows, len(data), studies, order)


def collected(rows: DataFrame, tasks: int, studies: Sequence[Study[Any]], order: Order) -> Results:
    """The sum of what so many tasks found. Raises as `performed`.

    A task's rows go where its number says, whatever is in them: so a task that Spark runs again, because a machine was
    lost, replaces exactly what it gave before.
    """
    while tasks > LAST:
        tasks = -(-tasks // FAN_IN)
        rows = rows.repartition(tasks, "task").mapInArrow(partial(_add, order), ROWS)
    try:
        found = rows.toArrow()
    except Exception as error:
        raise told(error) from error
    results = added(found.to_batches(), studies)[1]
    if order.max_bad is not None and results.account.bad_records > order.max_bad:
        raise TooManyBad(too_many(results.account, order.max_bad))
    return results


class telling:  # noqa: N801  a context manager
    """On a worker: has errors of ours tell themselves in a form that survives the way through Spark."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, HashstarError):
            text = f"<<hashstar:{type(error).__name__}:{json.dumps(str(error))}>>"
            raise RuntimeError(text) from None  # noqa: TRY004  no type of an argument is wrong


def told(error: Exception) -> Exception:
    """What to raise for an error of Spark's: our own if it was one that came from a worker."""
    found = TOLD.search(str(error))
    if found is None:
        return error
    return {"TooManyBad": TooManyBad}.get(found[1], InputError)(json.loads(found[2]))


def _count(order: Order, tasks: Sequence[bytes], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: read and count the tasks with these numbers."""
    studies = pickle.loads(order.studies)  # noqa: S301  made by the driver
    for batch in batches:
        for number in batch.column(0).to_pylist():
            with telling():
                yield rows_of(number, perform([pickle.loads(tasks[number])], order), studies)  # noqa: S301


def _add(order: Order, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: the sum of some results."""
    studies = pickle.loads(order.studies)  # noqa: S301  made by the driver
    number, results = added(batches, studies)
    if number is not None:
        yield rows_of(number, results, studies)
