"""Messages of a partitioned queue through a consumer group, beside plain consumers of the same queues.

An operation is one message of all partitions together, from the first that a handler gets to the last one that is
handled, in microseconds on the clock: two processes share eight queues in both rows. The plain consumers are those of
aio-pika, each with four queues from the start; the members of the group divide them among themselves. Handlers do
nothing, and each message is acknowledged. The second table is the processor time of these processes, which other
programs leave alone. ``HASHSTAR_BENCH_RABBITMQ`` names the broker's image, the first one counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from multiprocessing import get_context
from typing import Any, Final, Literal

import aio_pika

from benchmarks.broker import VARIABLE, images, run_broker
from benchmarks.measure import Contestant, run_rounds, show
from bridge.consumers.groups import ConsumerGroup, PartitionedQueue, create
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.frames import Acked, Event, encode_publish
from exchange.amqp import ContentHeader

QUEUE: Final = "bench"
PARTITIONS: Final = 8
PROCESSES: Final = 2
PREFETCH: Final = 100
HEADER: Final = ContentHeader.encode({"region": "eu-west-1"}, {"delivery_mode": 2, "content_type": "application/json"})
BODY: Final = b"x" * 100
SECONDS: Final = 600
"""Maximum duration of a round."""

SPAWN: Final = get_context("spawn")

Consume = Callable[[str, str, int, Callable[[], None], Any], Coroutine[Any, Any, None]]
"""Consumes at a URL, from a partitioned queue, as this number of process, until the event at the end is set; it calls
the function for each message."""


def groups(quick: bool) -> None:
    """Measure it."""
    if not images():
        print(f"\ngroups: not measured: {VARIABLE} is not set")
        return
    count, rounds = (16_000, 3) if quick else (80_000, 5)
    with run_broker(images()[0]) as url:
        for kind in ("classic", "quorum"):
            cpu: dict[str, list[float]] = {}
            rows = [
                Contestant("plain consumers", partial(_measure, url, kind, count, _consume_plainly, cpu), "floor"),
                Contestant("consumer group", partial(_measure, url, kind, count, _consume_as_member, cpu)),
            ]
            show(f"groups, {kind} queues", "a message of 8 partitions, 2 processes", run_rounds(rows, rounds))
            used = [
                Contestant("plain consumers", None, "floor", costs=cpu["_consume_plainly"]),
                Contestant("consumer group", None, costs=cpu["_consume_as_member"]),
            ]
            show(f"groups, {kind} queues", "processor time of a message", used)


def _measure(
    url: str, kind: Literal["classic", "quorum"], count: int, consume: Consume, cpu: dict[str, list[float]]
) -> float:
    """Return the microseconds of one of ``count`` messages; add the processor's to ``cpu``."""
    queue = f"{QUEUE}-{kind}-{time.monotonic_ns()}"
    asyncio.run(create(url, PartitionedQueue(queue, 64, kind), PARTITIONS))
    asyncio.run(_fill(url, queue, count))
    handled = SPAWN.RawArray("q", PROCESSES)
    results: Any = SPAWN.Queue()
    done = SPAWN.Event()
    members = [
        SPAWN.Process(target=_work, args=(url, queue, number, consume, handled, results, done))
        for number in range(PROCESSES)
    ]
    for member in members:
        member.start()
    ends = time.monotonic() + SECONDS
    while sum(handled) < count and time.monotonic() < ends:
        time.sleep(0.01)
    done.set()
    times = [results.get(timeout=60) for _ in members]
    for member in members:
        member.join()
    firsts, lasts, used = zip(*times, strict=True)
    cpu.setdefault(consume.__name__, []).append(sum(used) / count * 1e6)
    return float(max(lasts) - min(firsts)) / count * 1e6


def _work(url: str, queue: str, number: int, consume: Consume, handled: Any, results: Any, done: Any) -> None:
    """Consume in a process of its own; report when the first and the last message came, and the processor time."""
    first, last, began = 0.0, 0.0, 0.0

    def handle() -> None:
        nonlocal first, last, began
        last = time.monotonic()
        if not first:
            first, began = last, time.process_time()
        handled[number] += 1

    asyncio.run(consume(url, queue, number, handle, done))
    results.put((first, last, time.process_time() - began))


async def _wait(done: Any) -> None:
    while not done.is_set():  # noqa: ASYNC110  # it is set by another process
        await asyncio.sleep(0.02)


async def _consume_plainly(url: str, queue: str, number: int, handle: Callable[[], None], done: Any) -> None:
    async def on_message(message: Any) -> None:
        handle()
        await message.ack()

    async with await aio_pika.connect(url) as connection:
        for partition in range(number, PARTITIONS, PROCESSES):
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=PREFETCH)
            opened = await channel.get_queue(f"{queue}-{partition}")
            await opened.consume(on_message)
        await _wait(done)


async def _consume_as_member(url: str, queue: str, number: int, handle: Callable[[], None], done: Any) -> None:
    async def on_message(_: object) -> None:
        handle()

    group = ConsumerGroup(url.partition("?")[0], queue, on_message, prefetch=PREFETCH)
    running = asyncio.create_task(group.run())
    await _wait(done)
    group.stop()
    await running


async def _fill(url: str, queue: str, count: int) -> None:
    """Put the messages into the partitions, the same number into each."""
    last = 0
    news = asyncio.Event()

    def hear(events: list[Event]) -> None:
        nonlocal last
        last = max([last, *[each.number for each in events if isinstance(each, Acked)]])
        news.set()

    connection = await Connection.open([parse_broker(url)], lambda _: None)
    channel = await connection.channel()
    await channel.enable_confirms()
    channel.on_events = hear
    sent = 0
    for partition in range(PARTITIONS):
        key = f"{queue}-{partition}".encode()
        frame = encode_publish(
            channel.number, b"", key, HEADER.raw, BODY, connection.frame_max, mandatory=False
        )  # fmt: skip
        for _ in range(count // PARTITIONS // 500):
            connection.write(frame * 500)
            sent += 500
            while sent - last > 5_000:
                news.clear()
                await news.wait()
    while last < sent:
        news.clear()
        await news.wait()
    await connection.close()
