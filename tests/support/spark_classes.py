"""The classes of Spark as a JVM has them in memory: one that maps them starts in half of the processor time.

``python -m tests.support.spark_classes`` makes them, unless they are there for this Java and this Spark; CI does so.
Java takes them for its class path only: its other programs load their classes as ever.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tests.recorders.jvm import QUICK, digest_of, find_cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SILENT: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Without the warning that the archive is of another class path."""


def find_archive() -> Path | None:
    """Return where the classes of this Java and this Spark are, once they were made; None if one of both is missing."""
    java, pyspark = shutil.which("java"), find_spec("pyspark")
    if java is None or pyspark is None or pyspark.origin is None:
        return None
    # In the order of the folder, as in the class path.
    files = [Path(java).resolve(), *Path(pyspark.origin).with_name("jars").iterdir()]
    made_from = [f"{each} {each.stat().st_size} {each.stat().st_mtime_ns}" for each in files]
    return find_cache_folder() / f"spark-{digest_of(made_from)}.jsa"


@cache
def find_options() -> tuple[str, ...]:
    """Return the options for a JVM that is soon done, with those that map the classes, if they were made."""
    archive = find_archive()
    return (*QUICK, f"-XX:SharedArchiveFile={archive}", *SILENT) if archive is not None and archive.exists() else QUICK


def _work(spark: SparkSession, folder: Path) -> None:
    """Have Spark load what most tests need of it."""
    rows = spark.range(1000).selectExpr("concat('a.', id % 7) AS routing_key")
    rows.write.parquet(str(folder / "rows"))
    keys = spark.read.parquet(str(folder / "rows")).groupBy("routing_key").count()
    keys.mapInArrow(lambda batches: batches, keys.schema).collect()


def main() -> None:
    """Make the classes."""
    from pyspark import SparkContext

    from bindings.auditing.spark.session import open_session

    archive = find_archive()
    if archive is None or archive.exists():
        return
    with tempfile.TemporaryDirectory(dir=archive.parent) as name:
        made = Path(name) / archive.name
        options = " ".join([*QUICK, f"-XX:ArchiveClassesAtExit={made}", *SILENT])
        conf = {"spark.driver.extraJavaOptions": options, "spark.sql.shuffle.partitions": "2"}
        with open_session("local[2]", conf={"spark.driver.memory": "1g", **conf}) as spark:
            _work(spark, Path(name))
        # It ends with its standard input, and then writes them.
        running = cast("Any", SparkContext._gateway).proc
        running.stdin.close()
        running.wait()
        for old in archive.parent.glob("spark-*.jsa"):
            old.unlink()
        made.rename(archive)


if __name__ == "__main__":
    main()
