"""``python -m tests.soak_spark_stream``: executors of Spark are killed while streams go to Parquet, once each.

A query of Spark reads the two partitions of a super stream of a real RabbitMQ, each on an executor, a process of its
own; it routes their messages, and writes them to Parquet. Executors are killed (SIGKILL), each at a random moment while
a task writes; if asked for, so are their Pythons, the Python that plans micro-batches, and the driver, which is started
again with the same checkpoint. In the end each message must be in Parquet once with its route, as Spark reads it, and
once in the audit of the folder, in which files of killed tasks are left over.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import click
import pika

import bindings
from bindings.archive.formats.spark_sink import list_committed_files
from tests.support.archives.parts import find_parts
from tests.support.pages import ROOT
from tests.support.servers import SERVERS, server_set
from tests.support.unique import unique_name
from tests.support.waiting import wait_until

PARTITIONS: Final = 2
MARKS: Final = {
    "executor": "CoarseGrainedExecutorBackend", "worker": "pyspark.daemon", "planner": "python_streaming_source_runner",
}  # fmt: skip
"""Kind of process -> part of its command line."""
KINDS: Final = (*MARKS, "driver")
SETTINGS: Final = {
    "spark.executor.memory": "512m", "spark.driver.memory": "1g", "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false", "spark.python.authenticate.socketTimeout": "10min",
    "spark.task.maxFailures": "100", "spark.deploy.maxExecutorRetries": "-1",
    "spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false",  # of the last count
}  # fmt: skip

DRIVER: Final = """
import sys
from pyspark.sql import SparkSession
import bindings.spark
from tests.soak_spark_stream import SETTINGS

master, url, stream, folder, most = sys.argv[1:]
spark = SparkSession.builder.master(master).config(map=SETTINGS).getOrCreate()
bindings.spark.register_streams(spark)
options = {"url": url, "superStream": stream, "maxOffsetsPerTrigger": most, "mode": "FAILFAST"}
rows = spark.readStream.format("rabbitmq-stream").options(columns="exchange,routing_key,body,source,offset", **options)
routed = bindings.spark.route(rows.load(), folder + "/soak.bindings")
writer = routed.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
writer.trigger(availableNow=True).start(folder + "/rows").awaitTermination()
rows = spark.read.parquet(folder + "/rows").selectExpr(
    "CAST(CAST(body AS STRING) AS INT) AS n", "struct(source, offset) AS at", "queues"
)
print("found", *rows.selectExpr(
    "count(*)", "count(DISTINCT n)", "min(n)", "max(n)", "count(DISTINCT at)",
    "count_if(queues != CASE n % 2 WHEN 0 THEN array('all', 'even') ELSE array('all') END)",
).first())
spark.stop()
"""
TOPOLOGY: Final = """\
exchange {name}: topic
queue all
queue even
{name} -> all: "#"
{name} -> even: "*.even"
"""


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    messages: int
    killed: dict[str, int]
    batches: int
    """Number of micro-batches."""
    lost_tasks: int
    left_over: int
    """Number of files in the folder that are not in the log of Spark's sink."""
    starts: int
    """Number of times that the driver was started."""
    seconds: float


def publish(url: str, name: str, messages: int) -> None:
    """Publish numbers to a new super stream, in turn to each of its partitions, by way of an exchange."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.exchange_declare(name, "topic", durable=True)
    for number in range(PARTITIONS):
        channel.queue_declare(f"{name}-{number}", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_bind(f"{name}-{number}", name, f"{number}.#")
    for number in range(messages):
        key = f"{number // 2 % PARTITIONS}.{'odd' if number % 2 else 'even'}"
        channel.basic_publish(name, key, b"%d" % number)
    channel.exchange_delete(name)  # answered behind all of them
    connection.close()


def remove_streams(url: str, name: str) -> None:
    """Delete the partitions of the super stream."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    for number in range(PARTITIONS):
        connection.channel().queue_delete(f"{name}-{number}")
    connection.close()


def list_processes(driver: int) -> dict[int, str]:
    """Return the processes that a driver has started, directly or not, each with its kind; "" for others."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            lines[int(folder.name)] = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:  # it has ended
            continue
    below = {driver}
    while more := {process for process, parent in parents.items() if parent in below} - below:
        below |= more
    found = {}
    for process in below - {driver}:
        kind = next((kind for kind, mark in MARKS.items() if mark in lines.get(process, "")), "")
        if kind == "worker" and MARKS["worker"] not in lines.get(parents[process], ""):
            kind = ""  # the daemon that forks workers, which have its command line
        found[process] = kind
    return found


class Run:
    """A query that is started again until it has read all there is."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder: Final = folder
        self._arguments: Final = arguments
        self._log: Final = folder / "driver.log"
        self.starts = 0
        self.killed: Counter[str] = Counter()
        self.start()

    def start(self) -> None:
        """Start the driver."""
        self.starts += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", DRIVER, *self._arguments], cwd=ROOT, stdout=log, stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
            )  # fmt: skip

    def is_done(self) -> bool:
        """Return whether all was read; a driver that has failed or was killed is started again."""
        code = self._process.poll()
        if code not in (None, 0):
            assert self.starts <= 2 + self.killed["driver"] + self.killed["planner"], self.read_log()[-5_000:]
            self.start()
        return code == 0

    def read_log(self) -> str:
        """Return what drivers have printed."""
        return self._log.read_text("utf-8", "replace")

    def list_rows(self) -> set[str]:
        """Return the names of the files of rows, committed or not."""
        return {path.name for path in find_parts(self._folder / "rows")}

    def wait_until_writing(self, moment: float) -> bool:
        """Wait until a task of a new micro-batch writes, and seconds longer; return whether there is one."""
        commits, known = self.count_batches(), self.list_rows()
        wait_until(lambda: self.is_done() or self.count_batches() > commits or self.list_rows() > known, self.read_log)
        end = time.monotonic() + moment
        wait_until(lambda: time.monotonic() > end)
        return not self.is_done()

    def count_batches(self) -> int:
        """Return the number of micro-batches that are committed."""
        return sum(path.name.isdigit() for path in (self._folder / "checkpoint" / "commits").glob("*"))

    def kill(self, kind: str, random: Random) -> bool:
        """Kill a process of a kind; return whether there is one."""
        there = list_processes(self._process.pid)
        if kind == "driver":
            chosen = [self._process.pid, *there]
        else:
            found = sorted(process for process, each in there.items() if each == kind)
            chosen = [random.choice(found)] if found else []
        killed = 0
        for process in chosen:
            try:
                os.kill(process, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                continue
        self.killed[kind] += killed > 0
        return killed > 0

    def end(self) -> None:
        """Kill what still runs."""
        if self._process.poll() is None:
            self.kill("driver", Random(0))
            self._process.wait()


def soak(url: str, messages: int, kills: int, seed: int, folder: Path, master: str, kinds: tuple[str, ...]) -> Outcome:
    """Kill processes while a super stream is read, and return what came of it. Raises AssertionError for a fault."""
    random, name = Random(seed), unique_name("soak")
    (folder / "soak.bindings").write_text(TOPOLOGY.format(name=name))
    publish(url, name, messages)
    began = time.monotonic()
    run = Run(folder, master, url, name, str(folder), str(max(1, messages * 3 // (kills * 4))))
    try:
        for number in range(kills):
            if not run.wait_until_writing(random.uniform(0, 1)):
                break
            kind = kinds[number % len(kinds)]
            wait_until(lambda kind=kind: run.is_done() or run.kill(kind, random))  # type: ignore[misc]
            print(f"{number + 1}: {kind} killed after {run.count_batches()} micro-batches", flush=True)
        while not run.is_done():
            run.wait_until_writing(0)
    finally:
        run.end()
    took, log = time.monotonic() - began, run.read_log()
    *_, found = [line.split()[1:] for line in log.splitlines() if line.startswith("found ")]
    assert [*map(int, found)] == [messages, messages, 0, messages - 1, messages, 0], found
    report = bindings.audit(str(folder / "soak.bindings"), str(folder / "rows"))
    assert report.audited.records.counted == messages, report.audited.records
    remove_streams(url, name)
    left_over = len(run.list_rows()) - len(list_committed_files(folder / "rows"))
    lost = len(re.findall(r"TaskSetManager: .*Lost task ", log))
    return Outcome(messages, {**run.killed}, run.count_batches(), lost, left_over, run.starts, took)


@click.command(help=__doc__)
@click.option("--messages", default=1_000_000, show_default=True, help="Number of messages in the streams.")
@click.option("--kills", default=50, show_default=True, help="Number of processes that are killed.")
@click.option("--seed", default=1, show_default=True, help="Seed of the moments.")
@click.option("--master", default="local-cluster[2,1,512]", show_default=True, help="Where Spark runs.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(KINDS), default=["executor"], show_default=True,
    help="Kinds of processes, in the order of their deaths.",
)  # fmt: skip
def main(messages: int, kills: int, seed: int, master: str, kinds: tuple[str, ...]) -> None:
    with server_set(SERVERS["rabbitmq"]) as servers, TemporaryDirectory() as folder:
        outcome = soak(servers.first().url, messages, kills, seed, Path(folder), master, kinds)
    print(outcome, flush=True)
    assert outcome.lost_tasks >= outcome.killed.get("executor", 0) / 4, "executors were killed that did nothing"


if __name__ == "__main__":
    main()
