"""Run a pass over an archive on Spark; no record leaves the process that reads it.

The driver plans tasks; a worker reads a task with the archive's own readers and counts its records at once. `run_on`
does the same for records that only Spark can read, and `bindings.auditing.local.run.run_here` without Spark; the
results are the same.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from bindings.archive.formats.detect import Archive
from bindings.archive.reading import Split
from bindings.auditing.local.planning import PlannedFile, plan_splits, plan_tasks
from bindings.auditing.local.run import Pass, finish, require_new, require_records
from bindings.auditing.local.selection import EVERYTHING, Selection
from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import order_for
from bindings.auditing.spark.gathering import decode_spark_error, reraise_for_spark, run_tasks
from bindings.auditing.spark.session import count_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAN_FILES: Final = 32
"""Number of files that one Spark task plans."""


def run(
    spark: SparkSession,
    archive: Archive,
    studies: Sequence[Study[Any]],
    selection: Selection = EVERYTHING,
    *,
    keep_bad: str | None = None,
    max_bad: int | None = None,
    cores: int | None = None,
) -> Pass:
    """Read an archive once, for all studies, on the workers of a session; they must see its files at the same paths.

    ``keep_bad`` is a new folder for bad records, as JSON lines; workers must see it, too. ``cores`` is the number of
    cores to plan for, by default that of the session. Raises InputError for files that cannot be opened and archives
    without records; `bindings.auditing.local.tasks.TooManyBad` if more than ``max_bad`` records are bad: at once if a
    single task reads that many, else at the end.
    """
    require_new(keep_bad)
    tasks = plan_tasks(archive, cores or count_cores(spark), partial(_plan_on_workers, spark))
    results = run_tasks(spark, tasks, studies, order_for(studies, selection, keep_bad, max_bad))
    require_records(archive, results.account, max_bad)
    return finish(results, studies)


def _plan_on_workers(spark: SparkSession, files: Sequence[PlannedFile], split_bytes: int) -> list[list[Split]]:
    parts = [files[start : start + PLAN_FILES] for start in range(0, len(files), PLAN_FILES)]
    data = tuple([pickle.dumps(part, pickle.HIGHEST_PROTOCOL) for part in parts])
    numbers = spark.range(0, len(data), 1, len(data))
    try:
        rows = numbers.mapInArrow(partial(_plan, data, split_bytes), "part long, plan binary").collect()
    except Exception as error:
        raise decode_spark_error(error) from error
    plans = {row["part"]: pickle.loads(row["plan"]) for row in rows}  # noqa: S301  made by a worker
    return [splits for part in range(len(data)) for splits in plans[part]]


def _plan(parts: Sequence[bytes], split_bytes: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Plan the files of the parts with these numbers, on a worker."""
    for batch in batches:
        for part in batch.column(0).to_pylist():
            with reraise_for_spark():
                plan = list(plan_splits(pickle.loads(parts[part]), split_bytes))  # noqa: S301  made by the driver
            data = pickle.dumps(plan, pickle.HIGHEST_PROTOCOL)
            yield pa.record_batch({"part": pa.array([part], pa.int64()), "plan": pa.array([data], pa.binary())})
