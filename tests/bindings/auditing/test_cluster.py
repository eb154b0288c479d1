"""A cluster whose Python does not have this package: the packaged job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from random import Random

import pytest

from bindings.archive.record import Record
from exchange import Message
from tests.support.archives.lines import write_lines
from tests.support.spark_clusters import make_python, require_spark, unavailable

ROOT = Path(__file__).parents[3]
SECONDS = 900
MASTER = "local-cluster[2,1,1024]"

JOB = """
import runpy
import sys

import bindings

print("driver", bindings.__file__, flush=True)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Prints where the package was imported from, then runs the script in its arguments."""

DEFINITIONS = {
    "vhost": "/",
    "queues": [{"name": "q", "durable": True, "auto_delete": False, "arguments": {}}],
    "exchanges": [],
    "bindings": [
        {"source": "amq.topic", "destination": "q", "destination_type": "queue", "routing_key": key, "arguments": {}}
        for key in ("order.*.created", "never.#")
    ],
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package as it is released."""
    require_spark()
    folder = tmp_path_factory.mktemp("wheel")
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    if made.returncode:
        unavailable(f"no wheel can be built here: {made.stderr.strip()[-300:]}")
    (path,) = folder.glob("hashstar-*.whl")
    return path


def write_archive(folder: Path) -> None:
    """Write three files of messages, each with a line that is no record."""
    rng = Random(3)
    keys = [f"order.{n}.{rng.choice(('created', 'paid'))}" for n in range(3000)]
    folder.mkdir()
    for part in range(3):
        records = [Record(Message("amq.topic", key), 1_000_000 * n) for n, key in enumerate(keys[part::3])]
        write_lines(folder / f"{part}.jsonl", records, [b"no JSON"])


@pytest.mark.spark
@pytest.mark.live
def test_the_wheel_audits_on_a_cluster_of_two_workers(wheel: Path, tmp_path: Path) -> None:
    """Neither the driver's Python nor that of the workers has the package; the workers do not have lark either."""
    archive = tmp_path / "archive"
    write_archive(archive)
    (tmp_path / "definitions.json").write_text(json.dumps(DEFINITIONS))
    (tmp_path / "job.py").write_text(JOB)
    driver = make_python(tmp_path / "driver")
    executor = make_python(tmp_path / "executor", "import sys; sys.modules['lark'] = None")
    environment = {**os.environ, "PYSPARK_DRIVER_PYTHON": str(driver), "PYSPARK_PYTHON": str(executor)}
    environment.pop("PYTHONPATH", None)
    script = Path(sysconfig.get_path("purelib")) / "pyspark" / "bin" / "spark-submit"
    submitted = [
        str(script), "--master", MASTER, "--py-files", str(wheel),
        "--driver-memory", "512m", "--executor-memory", "512m", "--conf", "spark.ui.enabled=false",
        str(tmp_path / "job.py"), str(ROOT / "examples" / "audit_job.py"),
        "-t", str(tmp_path / "definitions.json"), "--json", str(tmp_path / "report.json"), str(archive),
    ]  # fmt: skip
    with (tmp_path / "log").open("w+") as log:
        done = subprocess.run(
            submitted, stdout=subprocess.PIPE, stderr=log, text=True, timeout=SECONDS, check=False, env=environment,
            cwd=tmp_path,
        )  # fmt: skip
        log.seek(0)
        said = log.read()
    assert done.returncode == 0, done.stdout + said[-3000:]
    (driver_line,) = [line for line in done.stdout.splitlines() if line.startswith("driver ")]
    assert ".whl/" in driver_line
    report = json.loads((tmp_path / "report.json").read_text())
    alone = tmp_path / "alone.json"
    subprocess.run(
        [sys.executable, "-m", "bridge.cli", "audit", "--no-spark", "-t", str(tmp_path / "definitions.json"),
         "--json", str(alone), str(archive)],
        check=True, capture_output=True, timeout=SECONDS, cwd=ROOT,
    )  # fmt: skip
    expected = json.loads(alone.read_text())
    for each in (report, expected):
        each.pop("made", None)
    assert report == expected
