"""Clusters that run Spark's jobs for tests, each as small as it can be: a standalone one, Spark Connect, and YARN.

Their workers have a Python with the packages of this one, but without the product, which they must be sent.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import create_connection
from typing import Any, Final, NamedTuple, NoReturn

import pytest

from bindings.auditing.spark.session import find_java_version, find_spark_version
from exchange.errors import InputError
from tests.recorders.jvm import QUICK, find_classpath, make_command
from tests.support.unique import free_port
from tests.support.waiting import find_limit, wait_until

SPARK: Final = Path(sysconfig.get_path("purelib")) / "pyspark"
YARN: Final = Path(__file__).with_name("java") / "YarnCluster.java"
HADOOP: Final = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    # What it needs, and says of none of them.
    "org.junit.jupiter:junit-jupiter-api:5.13.4",
    "ch.qos.reload4j:reload4j:1.2.22",
    "org.bouncycastle:bcprov-jdk18on:1.82",
    "org.bouncycastle:bcpkix-jdk18on:1.82",
    "org.slf4j:slf4j-simple:1.7.36",
)
OF_STORES: Final = "AWS_"
"""Begins the names in the environment that clients of stores read."""


class Cluster(NamedTuple):
    """A cluster, as a user of the command names it."""

    options: tuple[str, ...]
    environment: Mapping[str, str]

    def ask(self, *arguments: str) -> str:
        """Run the command in a process of its own, as a driver has one master, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "bridge.cli", *arguments, *self.options], capture_output=True, text=True,
            timeout=find_limit(), check=False, env=self.environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


def unavailable(reason: str) -> NoReturn:
    """Skip the test, as there is no cluster; fail where clusters are promised."""
    if os.environ.get("HASHSTAR_REQUIRE_LIVE") == "1":
        pytest.fail(f"HASHSTAR_REQUIRE_LIVE=1 promises a cluster, but: {reason}")
    pytest.skip(reason)


def require_spark() -> None:
    """Skip the test if there is no Spark or no Java."""
    try:
        find_spark_version()
        find_java_version(os.environ)
    except InputError as reason:
        unavailable(str(reason))


def make_python(folder: Path, *lines: str) -> Path:
    """Return a Python with the packages of this one, without editable installs."""
    made = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(made, check=True, timeout=find_limit())
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "others.pth").write_text("\n".join([sysconfig.get_path("purelib"), *lines]))
    return folder / "bin" / "python"


@contextmanager
def serve_standalone(folder: Path) -> Iterator[Cluster]:
    """Run a master and a worker of Spark's own."""
    environment, port = make_environment(folder), free_port()
    master, host = f"spark://127.0.0.1:{port}", ("--host", "127.0.0.1", "--webui-port", "0")
    deploy, there = "org.apache.spark.deploy", ("--work-dir", str(folder / "work"))
    starting = ["bash", str(SPARK / "bin" / "spark-class")]
    ports = ("--port", str(port))
    with (
        _run([*starting, f"{deploy}.master.Master", *host, *ports], folder / "master.log", environment, _answers(port)),
        _run(
            [*starting, f"{deploy}.worker.Worker", *host, "--cores", "2", "--memory", "1g", *there, master],
            folder / "worker.log", environment,
        ),
    ):  # fmt: skip
        yield Cluster(("--master", master, "--conf", "spark.executor.memory=512m"), environment)


@contextmanager
def serve_connect(folder: Path, cluster: Cluster) -> Iterator[Cluster]:
    """Run a server of Spark Connect that has its jobs run by a cluster."""
    port = free_port()
    starting = [
        "bash", str(SPARK / "bin" / "spark-submit"), "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer", *cluster.options, "--conf",
        f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false", "spark-internal",
    ]  # fmt: skip
    with _run(starting, folder / "connect.log", cluster.environment, _answers(port)):
        yield Cluster(("--remote", f"sc://127.0.0.1:{port}"), cluster.environment)


@contextmanager
def serve_yarn(folder: Path) -> Iterator[Cluster]:
    """Run a YARN with one node; the test is skipped if it cannot be had.

    A job is an application master and one executor; both take Spark's jars from where they are, as a copy is 400 MB.
    """
    conf = folder / "conf"
    try:
        jars = find_classpath(*HADOOP)
    except (OSError, subprocess.SubprocessError) as reason:
        unavailable(f"Maven does not get the jars of Hadoop's mini cluster: {reason}")
    command = [*make_command(YARN, jars, *QUICK), str(conf)]
    conf.mkdir(parents=True)
    home = Path(shutil.which("java") or "java").resolve().parents[1]
    environment = make_environment(folder) | {"HADOOP_CONF_DIR": str(conf), "JAVA_HOME": str(home)}
    settings = {
        "spark.executor.instances": "1", "spark.executor.memory": "512m", "spark.yarn.am.memory": "512m",
        "spark.executor.extraJavaOptions": " ".join(QUICK), "spark.yarn.am.extraJavaOptions": " ".join(QUICK),
        "spark.yarn.jars": f"local:{SPARK}/jars/*", "spark.yarn.stagingDir": f"file://{folder}/staging",
        # A container does not inherit the environment.
        **{f"spark.executorEnv.{name}": value for name, value in environment.items() if name.startswith(OF_STORES)},
    }  # fmt: skip
    with _run(command, folder / "yarn.log", environment, (conf / "yarn-site.xml").exists):
        options = [option for name, value in settings.items() for option in ("--conf", f"{name}={value}")]
        yield Cluster(("--master", "yarn", *options), environment)


def make_environment(folder: Path) -> dict[str, str]:
    """Return the environment of those who ask a cluster, and of its programs."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    inherited.pop("PYTHONPATH", None)
    python = make_python(folder / "python")
    options = {"JDK_JAVA_OPTIONS": " ".join(QUICK)}
    return inherited | options | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def _run(
    command: list[str], log: Path, environment: Mapping[str, str], ready: Callable[[], Any] = lambda: True
) -> Iterator[None]:
    """Run a program while the context is open, once it is ready; it is ended, with what it has started."""

    def is_ready() -> Any:
        assert process.poll() is None, log.read_text()[-3000:]
        return ready()

    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment, cwd=log.parent
        )
        stack.callback(_end, process)
        wait_until(is_ready, lambda: log.read_text()[-3000:])
        yield


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a program to end, and wait until it has; it is killed if it does not."""
    process.terminate()
    try:
        process.communicate(timeout=find_limit(30))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _answers(port: int) -> Callable[[], bool]:
    def answers() -> bool:
        try:
            create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    return answers
