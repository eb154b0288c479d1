"""A pass over an archive on Spark, in which no record ever leaves the process that read it.

The driver plans tasks; a worker reads one with the archive's own readers and counts right there. `run_on` is the same
for records that only Spark can read, `here` the same without Spark; all of them find the same.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from bindings.archive.formats.detect import Archive
from bindings.archive.reading import Split
from bindings.audit.local import Pass, finished, here, must_be_new, must_have_records
from bindings.audit.planning import File, planned, splits_of
from bindings.audit.selection import EVERYTHING, Selection
from bindings.audit.spark.frames import run_on
from bindings.audit.spark.gathering import performed, telling, told
from bindings.audit.spark.session import cores_of
from bindings.audit.study import Study
from bindings.audit.tasks import order_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Pass", "here", "performed", "run", "run_on"]

PLAN_FILES: Final = 32
"""Files that one task plans."""


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

    ``keep_bad`` is a new folder, which workers see too, for bad records as JSON lines. ``cores`` is for how many of
    them to divide the work, by default what Spark has. Raises InputError for files that cannot be opened and archives
    without records, `bindings.audit.tasks.TooManyBad` if more than ``max_bad`` records are bad; as soon as one task
    met as many.
    """
    must_be_new(keep_bad)
    tasks = planned(archive, cores or cores_of(spark), partial(_planned_by_workers, spark))
    results = performed(spark, tasks, studies, order_of(studies, selection, keep_bad, max_bad))
    must_have_records(archive, results.account, max_bad)
    return finished(results, studies)


def _planned_by_workers(spark: SparkSession, files: Sequence[File], split_bytes: int) -> list[list[Split]]:
    parts = [files[start : start + PLAN_FILES] for start in range(0, len(files), PLAN_FILES)]
    data = tuple([pickle.dumps(part, pickle.HIGHEST_PROTOCOL) for part in parts])
    numbers = spark.range(0, len(data), 1, len(data))
    try:
        rows = numbers.mapInArrow(partial(_plan, data, split_bytes), "part long, plan binary").collect()
    except Exception as error:
        raise told(error) from error
    found = {row["part"]: pickle.loads(row["plan"]) for row in rows}  # noqa: S301  made by a worker
    return [splits for part in range(len(data)) for splits in found[part]]


def _plan(parts: Sequence[bytes], split_bytes: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: the splits of the files of these parts."""
    for batch in batches:
        for part in batch.column(0).to_pylist():
            with telling():
                plan = list(splits_of(pickle.loads(parts[part]), split_bytes))  # noqa: S301  made by the driver
            data = pickle.dumps(plan, pickle.HIGHEST_PROTOCOL)
            yield pa.record_batch({"part": pa.array([part], pa.int64()), "plan": pa.array([data], pa.binary())})
