"""Choose what counts an archive: this process, or Spark; the command and `bindings.audit` choose alike.

In process is the default: a laptop counts a day's archive faster than Spark starts. Spark is for those who ask for it,
for topics of Kafka, which only it reads, and for archives that would keep one process busy for long.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from bindings.archive.formats.detect import Archive

__all__ = ["LARGE", "Engine", "active_session", "choose_engine"]

LARGE: Final = 32 << 30
"""Size from which an archive is read by Spark if it is installed, in bytes: a quarter of an hour for one process."""


class Engine(NamedTuple):
    """What counts, and why."""

    spark: bool
    reason: str

    def __str__(self) -> str:
        return f"counted {'by Spark' if self.spark else 'in this process'}: {self.reason}"


def choose_engine(archive: Archive | None, *, asked: str = "", refused: str = "") -> Engine:
    """Return the engine for the files of an audit; None if there are only topics of Kafka.

    ``asked`` is why Spark is asked for, ``refused`` why it must not be used; "" for neither.
    """
    if refused:
        return Engine(False, refused)
    if asked:
        return Engine(True, asked)
    if archive is None:
        return Engine(True, "only Spark reads topics of Kafka")
    if active_session() is not None:
        return Engine(True, "there is a session")
    for variable in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        if os.environ.get(variable):
            return Engine(True, f"{variable} is set")
    size = sum(_size_of(path) for path, _ in archive.all_files)
    if size < LARGE:
        return Engine(False, f"{_in_units(size)}; Spark from {_in_units(LARGE)} on, or with --master")
    if find_spec("pyspark") is None:
        return Engine(False, f"{_in_units(size)}, and Spark is not installed, which would use more cores")
    return Engine(True, f"{_in_units(size)}, from {_in_units(LARGE)} on; --no-spark counts here")


def active_session() -> Any:
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
