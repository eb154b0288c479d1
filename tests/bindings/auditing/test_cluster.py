"""Clusters whose Python does not have this package: the packaged job, the command with --master and with --remote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from socket import create_connection
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import bindings
from bindings.archive.record import Record
from bindings.auditing.spark.session import find_java_version, find_spark_version
from bindings.report.forms import FORMS
from bridge.cli import hashstar
from exchange import InputError, Message
from tests.support.archives.lines import write_lines
from tests.support.unique import free_port
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def unavailable(reason: str) -> None:
    if os.environ.get("HASHSTAR_REQUIRE_LIVE") == "1":
        pytest.fail(f"HASHSTAR_REQUIRE_LIVE=1 promises a cluster, but: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package as it is released."""
    try:
        find_spark_version()
        find_java_version(os.environ)
    except InputError as reason:
        unavailable(str(reason))
    folder = tmp_path_factory.mktemp("wheel")
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    if made.returncode:
        unavailable(f"no wheel can be built here: {made.stderr.strip()[-300:]}")
    (path,) = folder.glob("hashstar-*.whl")
    return path


def python(folder: Path, *lines: str) -> Path:
    """Return a Python with the packages of this one, without editable installs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=SECONDS)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "others.pth").write_text("\n".join([sysconfig.get_path("purelib"), *lines]))
    return folder / "bin" / "python"


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
    driver = python(tmp_path / "driver")
    executor = python(tmp_path / "executor", "import sys; sys.modules['lark'] = None")
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


@contextmanager
def program(log: Path, environment: dict[str, str], name: str, *arguments: str) -> Iterator[None]:
    """Run a program of pyspark's wheel while the context is open."""
    path = Path(sysconfig.get_path("purelib")) / "pyspark" / "bin" / name
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", str(path), *arguments], stdout=output, stderr=output, env=environment, cwd=log.parent
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def wait_for_port(port: int, log: Path) -> None:
    def answers() -> bool:
        try:
            create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    wait_until(answers, log.read_text)


def without_times(report: Any) -> Any:
    """Return the JSON of a report without what differs from run to run."""
    value = json.loads(report)
    value.pop("made", None)
    return value


@pytest.mark.live
def test_the_report_is_the_same_wherever_it_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    """In processes, Spark of this machine, a standalone cluster without the product, and Spark Connect to that."""
    archive, topology = tmp_path / "archive", tmp_path / "definitions.json"
    write_archive(archive)
    topology.write_text(json.dumps(DEFINITIONS))
    asked = ["audit", "-t", str(topology), str(archive), "--json"]
    reports = {}
    for jobs in ("1", "2", "4"):
        reports[f"{jobs} processes"] = CliRunner().invoke(hashstar, [*asked, "--no-spark", "--jobs", jobs]).stdout
    reports["local[2]"] = FORMS["json"].encode(bindings.audit(str(topology), str(archive), spark=spark)).decode()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environment.pop("PYTHONPATH", None)
    environment |= {"PYSPARK_PYTHON": str(python(tmp_path / "worker")), "SPARK_LOCAL_IP": "127.0.0.1"}
    port, connect, host = free_port(), free_port(), ("--host", "127.0.0.1", "--webui-port", "0")
    master, conf = f"spark://127.0.0.1:{port}", ("--conf", "spark.executor.memory=512m")
    deploy, there = "org.apache.spark.deploy", ("--work-dir", str(tmp_path / "work"))
    with ExitStack() as stack:
        for name, arguments in (
            ("master", (f"{deploy}.master.Master", *host, "--port", str(port))),
            ("worker-process", (f"{deploy}.worker.Worker", *host, "--cores", "2", "--memory", "1g", *there, master)),
        ):
            stack.enter_context(program(tmp_path / f"{name}.log", environment, "spark-class", *arguments))
        wait_for_port(port, tmp_path / "master.log")

        def ask(*options: str) -> str:
            """Run the command as a user does, in a process of its own: a driver has one master."""
            done = subprocess.run(
                [sys.executable, "-m", "bridge.cli", *asked, *options], capture_output=True, text=True, timeout=SECONDS,
                check=False, cwd=ROOT, env=environment,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-3000:]
            return done.stdout

        reports["standalone"] = ask("--master", master, *conf)
        log = tmp_path / "connect.log"
        stack.enter_context(program(
            log, environment, "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
            "--master", master, *conf, "--conf", f"spark.connect.grpc.binding.port={connect}",
            "--conf", "spark.ui.enabled=false", "spark-internal",
        ))  # fmt: skip
        wait_for_port(connect, log)
        reports["Spark Connect"] = ask("--remote", f"sc://127.0.0.1:{connect}")
    expected = without_times(reports["1 processes"])
    records = expected["audited"]["records"]
    assert (records["read"], records["counted"]) == (3003, 3000)
    for where, report in reports.items():
        assert without_times(report) == expected, where
