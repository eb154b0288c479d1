"""A million messages to a RocketMQ, by our client and by its Java client: what each sends in a second.

``HASHSTAR_ROCKETMQ_NAMESRV`` names the name servers; without it, or without Java and Maven, nothing is measured. Both
send to one topic of 8 queues on each broker, which take turns, bodies of 200 bytes, each in three ways: with so many
under way that the broker is the limit, in batches of 32, and one after the other. They take turns on the same brokers,
after a round that does not count, in which Java compiles itself; a rate is of wall time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings, SendResult
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.partition.clients.rocketmq.send import SendSettings
from tests.recorders.jvm import PROGRAMS, find_classpath, make_command

VARIABLE: Final = "HASHSTAR_ROCKETMQ_NAMESRV"
VERSION: Final = "5.5.0"
SOURCE: Final = Path(__file__).parent / "RocketmqSend.java"
TOPIC: Final = "hashstar-bench"
QUEUES: Final = 8
BODY: Final = b"x" * 200
WINDOW: Final = 1_000
BATCH: Final = 32
ROUNDS: Final = 10
MODES: Final = {"async": 100_000, "batch": 100_000, "sync": 2_000}
"""Way -> messages in a round: a million in all, but of those sent one after the other."""


def rocketmq(quick: bool) -> None:
    """Measure it."""
    namesrv = os.environ.get(VARIABLE)
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if not namesrv or absent:
        print(f"\nrocketmq: not measured: {'no ' + ' and no '.join(absent) if namesrv else f'{VARIABLE} is not set'}")
        return
    rounds = 3 if quick else ROUNDS
    asyncio.run(_make_topic(namesrv))
    with _java(namesrv) as java:
        for mode, whole in MODES.items():
            count = whole // 20 if quick else whole
            rates: dict[str, list[float]] = {"ours": [], "Java": []}
            for number in range(rounds + 1):
                took = {"ours": asyncio.run(_ours(namesrv, mode, count)), "Java": java(mode, count)}
                if number:
                    for name, seconds in took.items():
                        rates[name].append(count / seconds)
            _show(f"rocketmq, {mode}: messages a second, median (least - most) of {rounds} rounds of {count:,}", rates)


def _show(title: str, rates: dict[str, list[float]]) -> None:
    print(f"\n{title}")
    java = median(rates["Java"])
    for name, found in rates.items():
        middle = median(found)
        print(f"  {name:6} {middle:>9,.0f} ({min(found):,.0f} - {max(found):,.0f}), {middle / java:.2f} of Java's")


async def _make_topic(namesrv: str) -> None:
    async with Client(ClientSettings(namesrv)) as client:
        await admin.create_topic(client, admin.TopicConfig(TOPIC, QUEUES, QUEUES))


async def _ours(namesrv: str, mode: str, count: int) -> float:
    """Seconds."""
    settings = ProducerSettings(
        "bench-ours", SendSettings(send_msg_timeout=30_000), async_send_num=WINDOW // (BATCH if mode == "batch" else 1)
    )
    failed = 0

    def count_failure(sent: asyncio.Future[SendResult]) -> None:
        nonlocal failed
        failed += sent.exception() is not None

    async with Client(ClientSettings(namesrv)) as client, Producer(client, settings) as producer:
        await producer.send(RocketMessage.build(TOPIC, BODY))
        start = time.perf_counter()
        if mode == "sync":
            for _ in range(count):
                await producer.send(RocketMessage.build(TOPIC, BODY))
        elif mode == "async":
            for _ in range(count):
                (await producer.send_async(RocketMessage.build(TOPIC, BODY))).add_done_callback(count_failure)
        else:
            for _ in range(0, count, BATCH):
                batch = [RocketMessage.build(TOPIC, BODY) for _ in range(BATCH)]
                (await producer.send_batch_async(batch)).add_done_callback(count_failure)
        await producer.flush()
        took = time.perf_counter() - start
    _check(failed, count)
    return took


@contextmanager
def _java(namesrv: str) -> Iterator[Callable[[str, int], float]]:
    """Yield a function that has the Java client send messages in one way, and returns the seconds that took."""
    jars = find_classpath(f"org.apache.rocketmq:rocketmq-client:{VERSION}")
    running = [
        *make_command(SOURCE, jars, "--add-opens", "java.base/java.nio=ALL-UNNAMED"),
        namesrv,
        TOPIC,
        str(len(BODY)),
    ]
    with subprocess.Popen(running, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:  # noqa: S603

        def send(mode: str, count: int) -> float:
            assert java.stdin is not None
            assert java.stdout is not None
            window = WINDOW // (BATCH if mode == "batch" else 1)
            java.stdin.write(f"{mode} {count} {window}\n")
            java.stdin.flush()
            seconds, failed = java.stdout.readline().split()
            _check(int(failed), count)
            return float(seconds)

        yield send
        if java.stdin is not None:
            java.stdin.close()


def _check(failed: int, count: int) -> None:
    if failed:
        print(f"  {failed} of {count:,} failed: the broker was busy")
