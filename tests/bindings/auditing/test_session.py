"""What Spark needs is checked before it starts, with clear errors; a session that was there before stays as it was."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from bindings.auditing.spark import session as session_module
from bindings.auditing.spark.session import find_java_version, find_spark_version, open_session, watch_progress
from exchange import LATEST_PROFILE, InputError
from exchange.text.site import build_install_command
from tests.support.archives.lines import records_for, topology_for, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
SECONDS = 900


def a_java(folder: Path, said: str) -> Path:
    """Make a program called java that prints this."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("said", "release"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "21" 2023-09-19', 21), ('version "25-ea"', 25)],
)
def test_java_is_found_in_its_home_and_in_the_path(tmp_path: Path, said: str, release: int) -> None:
    java = a_java(tmp_path, said)
    assert find_java_version({"JAVA_HOME": str(tmp_path), "PATH": ""}) == release
    assert find_java_version({"PATH": str(java.parent)}) == release


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    a_java(tmp_path, 'openjdk version "1.8.0_302"')
    with pytest.raises(InputError, match=r"needs Java 17 or later, and .*/bin/java is Java 8; install .* --no-spark"):
        find_java_version({"JAVA_HOME": str(tmp_path)})


def test_a_missing_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="JAVA_HOME is not set, and there is none in PATH; install Java 17"):
        find_java_version({"PATH": str(tmp_path)})
    a_java(tmp_path / "other", 'openjdk version "17.0.1"')
    with pytest.raises(InputError, match=f"none in JAVA_HOME, which is {re.escape(str(tmp_path))}; install"):
        find_java_version({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path / "other" / "bin")})


def test_a_program_called_java_that_is_none_is_named(tmp_path: Path) -> None:
    a_java(tmp_path, "No Java runtime present")
    with pytest.raises(InputError, match=r"is none that works \(it said: No Java runtime present\)"):
        find_java_version({"JAVA_HOME": str(tmp_path)})


def test_a_spark_that_is_too_old_or_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    assert find_spark_version() == pyspark.__version__
    monkeypatch.setattr(pyspark, "__version__", "3.5.6")
    with pytest.raises(InputError, match=r"needs pyspark 4\.0 or later, found 3\.5\.6: pip install"):
        find_spark_version()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(InputError, match=f"needs Spark: {re.escape(build_install_command('spark'))}"), open_session():
        pass


def test_an_active_session_is_used_and_stays_active(spark: SparkSession) -> None:
    with open_session() as found:
        assert found is spark
    assert spark.range(3).count() == 3
    with pytest.raises(InputError, match="there is a Spark session already"), open_session("local[1]"):
        pass


def test_progress_is_reported_until_the_end(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "POLL_SECONDS", 0.01)
    seen: list[tuple[int, int]] = []
    with watch_progress(spark, lambda done, of: seen.append((done, of))):
        spark.range(0, 8, 1, 8).mapInArrow(lambda batches: batches, "id long").collect()
    assert seen
    assert all(0 <= done <= of for done, of in seen)
    assert seen == sorted(seen, key=lambda each: each[1])


def python(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False,
        cwd=ROOT, env={**inherited, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


EMBEDDED = """
import os, sys
from bindings.auditing.spark.session import open_session
with open_session("local[1]", conf={"spark.driver.memory": "512m"}) as spark:
    print(spark.range(3).mapInArrow(lambda batches: batches, "id long").count(), spark.conf.get("spark.ui.enabled"))
print(os.environ.get("PYSPARK_PYTHON"), os.listdir())
"""


def test_an_embedded_spark_prints_nothing_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    script = f"import os; os.chdir({str(tmp_path)!r}){EMBEDDED}"
    done = python(script, TMPDIR=str(tmp_path / ".."))
    assert done.stderr == ""
    assert done.stdout == "3 false\nNone []\n"


def test_a_spark_that_does_not_start_is_an_error_with_the_reason(spark: SparkSession) -> None:
    script = "from bindings.auditing.spark.session import open_session\nwith open_session('nowhere'): pass"
    done = python(script)
    assert "InputError: Spark does not start with master nowhere: " in done.stderr
    assert "Master must" in done.stderr.partition("Spark does not start with master nowhere: ")[2]


CONNECTED = """
import sys
from random import Random
from bindings.archive.formats.detect import detect
from bindings.auditing.local.run import run_here
from bindings.auditing.spark.frames import run_on
from bindings.auditing.spark.job import run
from bindings.auditing.spark.session import is_connect, open_session, watch_progress
from bindings.auditing.local.studies import CoverageStudy
from exchange import LATEST_PROFILE
from tests.support.archives.lines import topology_for
from tests.bindings.auditing.test_job import in_parts
from tests.support.bindings.exact import exact

archive = detect(sys.argv[1])
studies = [CoverageStudy(topology_for(Random(5), LATEST_PROFILE, by_key=True))]
alone = exact(run_here(archive, studies))
steps = []
with open_session(remote="local[2]") as spark, watch_progress(spark, lambda done, of: steps.append((done, of))):
    assert is_connect(spark)
    with in_parts(20_000):
        assert exact(run(spark, archive, studies)) == alone
    rows = spark.read.parquet(sys.argv[1])
    for first in (True, False):
        assert exact(run_on(rows, studies, count_first=first)) == alone
print("equal", bool(steps))
"""


@pytest.mark.live
def test_spark_connect_gives_the_same_counts(spark: SparkSession, tmp_path: Path) -> None:
    """In another process, since a process has one kind of session."""
    for name in ("grpc", "grpc_status", "zstandard"):
        try:
            __import__(name)
        except ImportError:
            if os.environ.get("HASHSTAR_REQUIRE_LIVE") == "1":
                pytest.fail(f"HASHSTAR_REQUIRE_LIVE=1 promises Spark Connect, but there is no {name}")
            pytest.skip(f"Spark Connect needs {name}: pip install 'pyspark[connect]'")
    rng = Random(5)
    topology = topology_for(rng, LATEST_PROFILE, by_key=True)
    write_parquet(tmp_path / "archive", records_for(rng, topology, 60))
    done = python(CONNECTED, str(tmp_path / "archive"))
    assert done.stdout.endswith("equal True\n"), done.stderr[-3000:]
