"""What the bridge's benchmark shows over a longer time: memory over a million messages, and several workers."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from benchmarks.bridge_brokers import SECONDS, TO, declare, fill_topic, make_topic, publish_all
from benchmarks.bridge_pumps import KAFKA_WINDOW, WINDOW, Counting, from_queue, from_topic, pump_of, to_queue, unique
from benchmarks.measure import processor_seconds, resident_mb
from bridge.endpoint import Source, Target

LONGEST: Final = 150.0
"""Seconds for a million messages, or for as many of them as go into that."""
PARTITIONS: Final = 4
SHARES: Final = (0.1, 0.5, 1.0)


def memory_of_rabbitmq(url: str, count: int) -> None:
    """RabbitMQ -> RabbitMQ."""
    _show_memory("RabbitMQ -> RabbitMQ", count, _pass_rabbitmq, url, _publish_aside)


def memory_of_archive(url: str, count: int) -> None:
    """Kafka -> archive."""
    _show_memory("Kafka -> archive", count, _into_archive, url, _produce_aside)


def _show_memory(name: str, count: int, move: Callable[..., Sizes], url: str, fill: Callable[..., None]) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as children:
        place = unique("million")
        moving = children.submit(move, url, place, count)
        children.submit(fill, url, place, count).result()
        sizes, seconds, moved = moving.result()
    text = ", ".join(f"{size:.0f} MB after {messages:,}" for messages, size in sizes)
    print(f"  {name}, resident memory: {text}; {moved:,} messages in {seconds:.0f} s, with what filled the source")


Sizes = tuple[list[tuple[int, float]], float, int]
"""Messages and MB; seconds, and how many there were in all."""


def _pass_rabbitmq(url: str, _: str, count: int) -> Sizes:
    declare(url)
    return asyncio.run(_measure_sizes(from_queue(url), to_queue(url), WINDOW, count))


def _publish_aside(url: str, _: str, count: int) -> None:
    """Fill the queue while it is emptied, as long as that may take."""
    time.sleep(2.0)  # until the queues are new

    async def bounded() -> None:
        await asyncio.wait([asyncio.create_task(publish_all(url, count))], timeout=LONGEST)

    asyncio.run(bounded())


def _into_archive(url: str, topic: str, count: int) -> Sizes:
    from bridge.endpoints.archive.config import ArchiveTarget

    make_topic(url, topic, PARTITIONS)
    folder = Path(mkdtemp())
    try:
        target = ArchiveTarget("bench", folder, {TO: ""})
        return asyncio.run(_measure_sizes(from_topic(url, topic), target, KAFKA_WINDOW, count))
    finally:
        shutil.rmtree(folder)


def _produce_aside(url: str, topic: str, count: int) -> None:
    time.sleep(2.0)
    fill_topic(url, topic, count)


async def _measure_sizes(source: Source, target: Target, window: int, count: int) -> Sizes:
    counting = Counting(None, count)
    pump = pump_of(source, target, counting, window)
    start = time.perf_counter()
    running = asyncio.ensure_future(pump.run())
    sizes: list[tuple[int, float]] = []
    for share in SHARES:
        await counting.until(int(share * count), start + LONGEST - time.perf_counter())
        sizes.append((counting.count, resident_mb()))
    took = time.perf_counter() - start
    pump.stop()
    await running
    return sizes, took, counting.count


def show_workers(url: str, count: int) -> None:
    """Kafka -> Kafka and Kafka -> archive by the program, as its brokers take little of the processors."""
    for name in ("Kafka", "archive"):
        for workers in (1, 2):
            folder = Path(mkdtemp())
            try:
                speed, own = _measure_workers(url, folder, name, workers, count)
            finally:
                shutil.rmtree(folder)
            cores = f"{speed * own / 1e6:.2f} of {os.cpu_count()} cores"
            print(f"  Kafka -> {name}, workers = {workers}: {speed:,.0f} messages a second; {own:.1f} us each, {cores}")


CONFIGURATION: Final = """
topology = "bench.bindings"
workers = {workers}
http = "off"
log_level = "warning"
policy = {{ window = {window} }}
sources.read = {{ url = "kafka://{url}", topic = "{source}", group = "{source}", exchange = "bench" }}
targets.write = {{ {target} }}
"""


def _measure_workers(url: str, folder: Path, name: str, workers: int, count: int) -> tuple[float, float]:
    """Messages a second, and microseconds of the processors for each; what counts is what was committed."""
    from confluent_kafka import Consumer, TopicPartition

    source = make_topic(url, unique("read"), PARTITIONS)
    if name == "Kafka":
        target = f'url = "kafka://{url}", queues = {{ {TO} = "{make_topic(url, unique("write"), PARTITIONS)}" }}'
    else:
        target = f'url = "archive:{folder / "archive"}", queues = {{ {TO} = "." }}'
    (folder / "bench.bindings").write_text(f"exchange bench: fanout\nqueue {TO}\nbench -> {TO}\n", "utf-8")
    text = CONFIGURATION.format(workers=workers, window=KAFKA_WINDOW, url=url, source=source, target=target)
    (folder / "bridge.toml").write_text(text, "utf-8")
    looking = Consumer({"bootstrap.servers": url, "group.id": source})  # which only asks, and is no member

    def done() -> int:
        committed = looking.committed([TopicPartition(source, each) for each in range(PARTITIONS)], 10)
        return sum([max(0, each.offset) for each in committed])

    command = [sys.executable, "-m", "bridge.cli", "bridge", "run", str(folder / "bridge.toml")]
    with subprocess.Popen(command) as program:  # noqa: S603  this very program
        try:
            _wait_for_members(url, source, workers)
            program.send_signal(signal.SIGUSR1)  # pause it, so that all workers are ready when it begins
            fill_topic(url, source, count)
            program.send_signal(signal.SIGUSR2)
            while not (first := done()):
                time.sleep(0.005)
            start, spent = time.perf_counter(), processor_seconds(program.pid)
            while done() < count:
                time.sleep(0.01)
            took, spent = time.perf_counter() - start, processor_seconds(program.pid) - spent
        finally:
            program.terminate()
    looking.close()
    return (count - first) / took, spent / (count - first) * 1e6


def _wait_for_members(url: str, group: str, count: int) -> None:
    """Wait until ``count`` members have their share of the partitions."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": url})
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        members = admin.describe_consumer_groups([group])[group].result(10).members
        shares = [len(each.assignment.topic_partitions) for each in members]
        if len(shares) == count and min(shares) == PARTITIONS // count:
            return
        time.sleep(0.2)
    raise RuntimeError(f"no {count} members came to group {group}")
