"""Choose what counts an archive: processes of this machine, or Spark; the command and `bindings.audit` choose alike.

Without Spark is the default: a laptop counts a day's archive faster than Spark starts. Spark is for those who ask for
it, for topics of Kafka, which only it reads, and for archives that would keep one machine busy for long.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from bindings.archive.formats.detect import Archive
from bindings.archive.places import read_file_size
from bindings.auditing.local.planning import MIN_BYTES_OF_GROUPS, count_groups
from bindings.auditing.local.workers import count_usable_cores

LARGE_ARCHIVE_BYTES: Final = 32 << 30
"""Size from which an archive is read by Spark if it is installed, in bytes: a quarter of an hour for one process."""


class Engine(NamedTuple):
    """What counts, and why."""

    spark: bool
    reason: str
    jobs: int = 1
    """Number of processes that count, without Spark; 1 for this one."""

    def __str__(self) -> str:
        here = "in this process" if self.jobs == 1 else f"by {self.jobs} processes"
        return f"counted {'by Spark' if self.spark else here}: {self.reason}"


def choose_engine(archive: Archive | None, *, asked: str = "", refused: str = "", jobs: int | None = None) -> Engine:
    """Return the engine for the files of an audit; None if there are only topics of Kafka.

    ``asked`` is why Spark is asked for, ``refused`` why it must not be used; "" for neither. ``jobs`` is the maximum
    number of processes, by default that of the cores. Sizes of files are looked at only where they decide.
    """
    if asked:
        return Engine(True, asked)
    if archive is None:
        return Engine(False, refused) if refused else Engine(True, "only Spark reads topics of Kafka")
    if refused:
        size = sum_sizes(archive)
        processes = _count_processes(size, jobs)
        if processes == 1 and jobs is not None and jobs > 1:
            refused += f", but the archive ({write_size(size)}) is under {write_size(MIN_BYTES_OF_GROUPS)}"
        return Engine(False, refused, processes)
    if find_active_session() is not None:
        return Engine(True, "there is a session")
    for variable in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        if os.environ.get(variable):
            return Engine(True, f"{variable} is set")
    size = sum_sizes(archive)
    processes = _count_processes(size, jobs)
    if size < LARGE_ARCHIVE_BYTES:
        return Engine(
            False, f"{write_size(size)}; Spark from {write_size(LARGE_ARCHIVE_BYTES)} on, or with --master", processes
        )
    if find_spec("pyspark") is None:
        return Engine(
            False, f"{write_size(size)}, and Spark is not installed, which would use more machines", processes
        )
    return Engine(True, f"{write_size(size)}, from {write_size(LARGE_ARCHIVE_BYTES)} on; --no-spark counts here")


def find_active_session() -> Any:
    """Return the session of Spark that this thread has; None without one. Spark is not imported for that."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _count_processes(size: int, jobs: int | None) -> int:
    return min(jobs or count_usable_cores(), count_groups(size))


def sum_sizes(archive: Archive) -> int:
    """Return the size of all files of an archive in bytes. Raises InputError."""
    return sum(read_file_size(path) for path, _ in archive.all_files)


def write_size(size: int) -> str:
    """Return a size in bytes as a text in the largest unit, rounded up."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,} {unit}"
        size = -(-size // 1024)
    return f"{size:,} GiB"
