"""Messages of a RabbitMQ queue through a handler that does nothing: the dispatcher, beside the bare client libraries.

An operation is one message of 100 bytes with three properties, received with a prefetch of 500 and acknowledged, in
microseconds of this process: what a core takes for it, as neither the broker nor the network is counted. The bare
clients acknowledge each message, as their guides show; pika also with ``multiple`` each fifty messages, which is as
little as it can do. ``HASHSTAR_BENCH_RABBITMQ`` names the broker's image, the first one counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from time import process_time
from typing import Any, Final

import aio_pika
import pika
from pika.adapters.asyncio_connection import AsyncioConnection

from benchmarks.broker import VARIABLE, images, run_broker
from benchmarks.measure import Contestant, resident_mb, run_rounds, show
from exchange import Delivery, Dispatcher, PikaQueue
from exchange.dispatch import open_channel

QUEUE: Final = "hashstar-bench"
BODY: Final = b"x" * 100
PREFETCH: Final = 500
MILLION: Final = 1_000_000
PART: Final = 50_000
"""Messages that are in the queue at a time while a million goes through."""

Work = Callable[[str, int], float | Coroutine[Any, Any, float]]
"""Function that consumes a number of messages from the broker at a URL, and returns the CPU seconds of this process."""


def dispatcher(quick: bool) -> None:
    """Measure it."""
    if not images():
        print(f"\ndispatcher: not measured: {VARIABLE} is not set")
        return
    count, rounds = (5_000, 3) if quick else (20_000, 5)
    with run_broker(images()[0]) as url:
        tables: list[tuple[str, list[tuple[str, Work]]]] = [
            ("aio-pika", [("bare aio-pika", _bare_aio_pika), ("dispatcher", _on_aio_pika), ("robust", _on_robust)]),
            (
                "pika",
                [
                    ("bare asyncio, each acked", _bare_pika),
                    ("bare asyncio, acked by fifty", partial(_bare_pika, each=50)),
                    ("dispatcher, asyncio", _on_pika),
                ],
            ),
            ("pika, blocking", [("bare blocking", _bare_blocking), ("dispatcher, blocking", _on_blocking)]),
        ]
        for title, rows in tables:
            contestants = [
                Contestant(name, partial(_measure, url, count, work), "ours" if at else "peer")
                for at, (name, work) in enumerate(rows)
            ]
            for row in run_rounds(contestants, rounds):
                row.note = f"{1e6 / row.cost:,.0f} messages/s a core" if row.cost else ""
            show(f"dispatcher on {title}", f"{count:,} messages, prefetch {PREFETCH}", contestants)
        _weigh(url, PART * 2 if quick else MILLION)


def _measure(url: str, count: int, work: Work) -> float:
    """Return the microseconds of this process for a message."""
    _fill(url, count)
    running = work(url, count)
    seconds = running if isinstance(running, float) else asyncio.run(running)
    return seconds / count * 1e6


def _fill(url: str, count: int) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(QUEUE)
        channel.queue_purge(QUEUE)
        properties = pika.BasicProperties(content_type="application/json", message_id="a" * 36, delivery_mode=1)
        for _ in range(count):
            channel.basic_publish("", QUEUE, BODY, properties)


class _Counter:
    """Counts messages, and knows when all have come."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.done = asyncio.Event()

    def one(self) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


def _counting(counter: _Counter) -> Dispatcher[Any]:
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    async def handle(_: Delivery) -> None:
        counter.one()

    return dispatcher


async def _bare_aio_pika(url: str, count: int) -> float:
    counter = _Counter(count)

    async def handle(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        await message.ack()
        counter.one()

    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        await channel.set_qos(PREFETCH)
        queue = await channel.get_queue(QUEUE)
        start = process_time()
        await queue.consume(handle)
        await counter.done.wait()
        return process_time() - start


async def _on_aio_pika(url: str, count: int, connect: Callable[..., Any] = aio_pika.connect) -> float:
    counter = _Counter(count)
    connection = await connect(url)
    async with connection, connection.channel() as channel:
        queue = await channel.get_queue(QUEUE)
        start = process_time()
        async with _counting(counter).consume(queue, prefetch=PREFETCH):
            await counter.done.wait()
        return process_time() - start


async def _on_robust(url: str, count: int) -> float:
    return await _on_aio_pika(url, count, aio_pika.connect_robust)


def _open_pika(url: str) -> AbstractAsyncContextManager[Any]:
    return open_channel(AsyncioConnection, pika.URLParameters(url))


async def _bare_pika(url: str, count: int, each: int = 1) -> float:
    counter = _Counter(count)

    def handle(channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        counter.one()
        if counter.left % each == 0:
            channel.basic_ack(method.delivery_tag, multiple=each > 1)

    async with _open_pika(url) as channel:
        channel.basic_qos(prefetch_count=PREFETCH)
        start = process_time()
        channel.basic_consume(QUEUE, handle)
        await counter.done.wait()
        return process_time() - start


async def _on_pika(url: str, count: int) -> float:
    counter = _Counter(count)
    async with _open_pika(url) as channel:
        start = process_time()
        async with _counting(counter).consume(PikaQueue(channel, QUEUE), prefetch=PREFETCH):
            await counter.done.wait()
        return process_time() - start


def _bare_blocking(url: str, count: int) -> float:
    left = count

    def handle(channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        nonlocal left
        left -= 1
        channel.basic_ack(method.delivery_tag)
        if not left:
            channel.stop_consuming()

    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        start = process_time()
        channel.basic_consume(QUEUE, handle)
        channel.start_consuming()
        return process_time() - start


def _on_blocking(url: str, count: int) -> float:
    left = count
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        dispatcher = Dispatcher()

        @dispatcher.on("#")
        def handle(_: Delivery) -> None:
            nonlocal left
            left -= 1
            if not left:
                channel.stop_consuming()

        start = process_time()
        dispatcher.consume(channel, QUEUE, prefetch=PREFETCH)
        channel.start_consuming()
        return process_time() - start


def _weigh(url: str, count: int) -> None:
    """Print the memory of this process while messages go through one consumer, part by part."""

    async def work() -> list[float]:
        sizes = []
        async with _open_pika(url) as channel:
            counter = _Counter(PART)
            async with _counting(counter).consume(PikaQueue(channel, QUEUE), prefetch=PREFETCH):
                for _ in range(count // PART):
                    counter.left = PART
                    counter.done.clear()
                    await asyncio.to_thread(_fill_more, url, PART)
                    await counter.done.wait()
                    sizes.append(resident_mb())
        return sizes

    sizes = asyncio.run(work())
    print(f"\nmemory: {count:,} messages through one consumer on pika, MB resident after each {PART:,}:")
    print("  " + " ".join(f"{size:.1f}" for size in sizes))


def _fill_more(url: str, count: int) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        for _ in range(count):
            channel.basic_publish("", QUEUE, BODY)


if __name__ == "__main__":
    dispatcher(quick=True)
