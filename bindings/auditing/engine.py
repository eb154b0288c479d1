"""Choose what counts an archive: processes of this machine, or Spark; the command and `bindings.audit` choose alike.

Without Spark is the default: a laptop counts a day's archive faster than Spark starts. Spark is for those who ask for
it, for topics of Kafka, which only it reads, and for archives that would keep one machine busy for long.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from bindings.archive.formats.detect import Archive
from bindings.auditing.local.planning import number_of_groups
from bindings.auditing.local.workers import count_cores

__all__ = ["LARGE_ARCHIVE_BYTES", "Engine", "find_active_session", "choose_engine"]

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
    number of processes, by default that of the cores.
    """
    size = 0 if archive is None else sum(_size_of(path) for path, _ in archive.all_files)
    processes = min(jobs or count_cores(), number_of_groups(size))
    if refused:
        return Engine(False, refused, processes)
    if asked:
        return Engine(True, asked)
    if archive is None:
        return Engine(True, "only Spark reads topics of Kafka")
    if find_active_session() is not None:
        return Engine(True, "there is a session")
    for variable in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        if os.environ.get(variable):
            return Engine(True, f"{variable} is set")
    if size < LARGE_ARCHIVE_BYTES:
        return Engine(
            False, f"{_in_units(size)}; Spark from {_in_units(LARGE_ARCHIVE_BYTES)} on, or with --master", processes
        )
    if find_spec("pyspark") is None:
        return Engine(False, f"{_in_units(size)}, and Spark is not installed, which would use more machines", processes)
    return Engine(True, f"{_in_units(size)}, from {_in_units(LARGE_ARCHIVE_BYTES)} on; --no-spark counts here")


def find_active_session() -> Any:
    """Return the session of Spark that this thread has; None without one. Spark is not imported for that."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _size_of(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:  # reported when the file is read
        return 0


def _in_units(size: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,} {unit}"
        size = -(-size // 1024)
    return f"{size:,} GiB"
