"""What routes cost a job of Spark: the same job with and without them, in one session, by turns.

Two jobs read Parquet, group by exchange and key, and write the groups to Parquet: one has the groups routed, one each
row. Another reads a stream of RabbitMQ and writes its rows, if ``HASHSTAR_BENCH_RABBITMQ`` names an image. Microseconds
are those of the processors, of this process and all its children, for a row that was read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pika
import pyarrow as pa

import bindings.spark
from benchmarks import broker
from benchmarks.audit import CORES, SETTINGS
from benchmarks.audit_archive import EXCHANGES, PATTERNS, draw_by_rank, draw_keys, keys_topology, write_archive
from benchmarks.measure import Contestant, processor_seconds, run_rounds, show
from benchmarks.workloads import SEED
from bindings.auditing.spark.session import open_session

STREAM: Final = "bench-stream"
KEYS: Final = 50_000
ROWS_OF_STREAM: Final = 10
"""Rows that are read from Parquet, for each message of the stream."""


def spark_route(quick: bool) -> None:
    """50,000 keys by Zipf's law through a thousand patterns."""
    rows, rounds = (500_000, 3) if quick else (10_000_000, 5)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hashstar" / "benchmarks"
    topology = keys_topology()
    with open_session(f"local[{CORES}]", conf=SETTINGS) as spark, TemporaryDirectory() as out:
        files = spark.read.option("recursiveFileLookup", "true").parquet(str(write_archive(folder, "few", rows)))
        routed = bindings.spark.route(files, topology)
        jobs = {"groupBy": _group(files), "groupBy, routed": bindings.spark.route(_group(files), topology)}
        jobs["routed, groupBy"] = _group(routed, "any_value(queues) AS queues", "any_value(unroutable) AS unroutable")
        _compare(f"route in Spark, groups of {rows:,} rows", jobs, rows, rounds, out)
        for image in broker.images()[:1]:
            with broker.run_broker(image) as url:
                _publish(url, count := rows // ROWS_OF_STREAM)
                bindings.spark.register_streams(spark)
                source = spark.read.format("rabbitmq-stream").option("url", url).option("stream", STREAM).load()
                jobs = {"stream": source, "stream, routed": bindings.spark.route(source, topology)}
                _compare(f"route in Spark, a stream of {count:,} messages", jobs, count, rounds, out)


def _publish(url: str, messages: int) -> None:
    """Publish messages of some hundred bytes to a new stream, with keys by Zipf's law."""
    generator = np.random.default_rng(SEED)
    keys = draw_keys(generator, KEYS).take(pa.array(draw_by_rank(generator, KEYS, messages))).to_pylist()
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(STREAM, durable=True, arguments={"x-queue-type": "stream"})
        channel.exchange_declare(EXCHANGES[0], "topic", durable=True)
        channel.queue_bind(STREAM, EXCHANGES[0], "#")
        properties = pika.BasicProperties(headers={"tenant": "tenant-1"}, content_type="application/json")
        for key in keys:
            channel.basic_publish(EXCHANGES[0], key, b"x" * 200, properties)
        channel.queue_unbind(STREAM, EXCHANGES[0], "#")  # answered behind all of them


def _group(frame: Any, *more: str) -> Any:
    from pyspark.sql.functions import expr

    wanted = ("count(*) AS messages", "min(time) AS first", "max(time) AS last", "sum(body_size) AS bytes", *more)
    return frame.groupBy("exchange", "routing_key").agg(*map(expr, wanted))


def _compare(title: str, jobs: dict[str, Any], rows: int, rounds: int, out: str) -> None:
    def measured(frame: Any) -> Callable[[], float]:
        def measure() -> float:
            before = processor_seconds(os.getpid())
            frame.write.mode("overwrite").parquet(out)
            return (processor_seconds(os.getpid()) - before) / rows * 1e6

        return measure

    (first, floor), *others = jobs.items()
    contestants = [Contestant(first, measured(floor), "floor", "reads, writes Parquet")]
    contestants += [Contestant(name, measured(frame)) for name, frame in others]
    for each in contestants:
        assert each.measure is not None
        each.measure()  # what Spark compiles, and workers learn
    show(title, f"{PATTERNS:,} bindings, {CORES} cores", run_rounds(contestants, rounds))
