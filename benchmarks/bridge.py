"""The bridge on a real RabbitMQ: what it moves in a second, beside bare pika and the broker's own shovel.

``HASHSTAR_BENCH_RABBITMQ`` names the images, as in `benchmarks.broker`; each is started, and its shovel plugin switched
on. Queues are durable and classic, messages persistent, of 200 bytes, with a header; 1,000 are under way at most,
which is the shovel's default. Contestants take turns at a queue that is filled anew for each, on the same broker; a
rate is of wall time, so that a busy machine shows in all of them. Kafka is where ``HASHSTAR_KAFKA_BOOTSTRAP`` says.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, Final

import pika
from pika.adapters.blocking_connection import BlockingChannel

from benchmarks import broker
from benchmarks.measure import resident_mb
from bridge.amqp import ContentHeader
from bridge.endpoint import Outgoing, Receiver, Target
from bridge.endpoints.rabbitmq import Address, RabbitmqSource, RabbitmqTarget
from bridge.policy import Policy
from bridge.pump import Inlet, Pump
from bridge.rabbitmq.addresses import broker_of
from bridge.rabbitmq.connection import Connection
from bridge.rabbitmq.frames import Acked, Event, publish
from exchange import Binding, Exchange, Queue, Router, Topology

__all__ = ["bridge"]

FROM: Final = "bench-from"
TO: Final = "bench-to"
WINDOW: Final = 1_000
ROUNDS: Final = 5
COUNT: Final = 40_000
MILLION: Final = 1_000_000
ACKNOWLEDGED: Final = 100
"""Bare pika acknowledges so many at once."""
LEAD: Final = 5_000
"""So many publishes fill a queue ahead of their confirms."""
KAFKA: Final = "HASHSTAR_KAFKA_BOOTSTRAP"

BODY: Final = b'{"order": 1234567, "items": [' + b'{"sku": "a-17", "n": 2}, ' * 6 + b"null]}"
HEADER: Final = ContentHeader.of({"region": "eu-west-1"}, {"delivery_mode": 2, "content_type": "application/json"})


def bridge(quick: bool) -> None:
    """Measure all of it on each image."""
    for image in broker.images():
        with _running(image) as (container, url):
            _measure(image, container, url, quick)
    if not broker.images():
        print(f"\nbridge: not measured: {broker.VARIABLE} is not set")


def _measure(image: str, container: str, url: str, quick: bool) -> None:
    count, rounds = (COUNT // 4, 2) if quick else (COUNT, ROUNDS)
    contestants: dict[str, Callable[[int], float]] = {
        "bare pika, acknowledging only": lambda n: _bare(url, n),
        "RabbitMQ -> memory": lambda n: _ours(url, Forgetting(), n),
        "RabbitMQ -> RabbitMQ": lambda n: _ours(url, _rabbitmq_target(url), n),
        "shovel, inside the broker": lambda n: _shovel(container, url, "amqp://", n),
        "shovel, over TCP": lambda n: _shovel(container, url, "amqp://127.0.0.1", n),
    }
    kafka = os.environ.get(KAFKA)
    if kafka:
        contestants["RabbitMQ -> Kafka"] = lambda n: _ours(url, _kafka_target(kafka), n)
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, measure in contestants.items():
            _fill(url, count)
            rates[name].append(measure(count))
    print(f"\nbridge on {image}: messages a second, median (least - most) of {rounds} rounds of {count:,}")
    _show(rates)
    if not kafka:
        print(f"  RabbitMQ -> Kafka: not measured: {KAFKA} is not set")
    _show_memory(url, MILLION // 20 if quick else MILLION)


def _show(rates: Mapping[str, Sequence[float]]) -> None:
    floor, *_ = [median(each) for each in rates.values()]
    for name, found in rates.items():
        middle = median(found)
        print(f"  {name:30} {middle:>9,.0f} ({min(found):,.0f} - {max(found):,.0f}), {middle / floor:.0%} of bare pika")


def _show_memory(url: str, count: int) -> None:
    """RabbitMQ -> RabbitMQ, filled and emptied again and again by one pump: what it keeps."""
    sizes: list[float] = []
    step = count // 10

    async def run() -> None:
        source = RabbitmqSource("bench", [broker_of(url)], FROM, prefetch=WINDOW)
        settled = Settled()
        pump = _pump(source, _rabbitmq_target(url), settled)
        running = asyncio.ensure_future(pump.run())
        for n in range(1, 11):
            await _publish(url, step)
            await settled.until(n * step)
            sizes.append(resident_mb())
            await asyncio.to_thread(_purge, url)
        pump.stop()
        await running

    _declare(url)
    asyncio.run(run())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(
        f"  memory after each tenth of {count:,} messages RabbitMQ -> RabbitMQ: "
        f"{', '.join(f'{size:.0f}' for size in sizes)} MB; at most {peak:.0f} MB"
    )


# What is measured: each gives messages a second.


def _bare(url: str, count: int) -> float:
    times: list[float] = []
    seen = 0

    def opened(connection: Any) -> None:
        connection.channel(on_open_callback=consume)

    def consume(channel: Any) -> None:
        channel.basic_qos(prefetch_count=WINDOW, callback=lambda _: channel.basic_consume(FROM, deliver))

    def deliver(channel: Any, method: Any, _: object, __: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen % ACKNOWLEDGED == 0 or seen == count:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if seen == count:
            times.append(time.perf_counter())
            channel.connection.close()

    connection = pika.SelectConnection(
        pika.URLParameters(url), on_open_callback=opened, on_close_callback=lambda each, _: each.ioloop.stop()
    )
    start = time.perf_counter()
    connection.ioloop.start()
    return count / (times[0] - start)


def _ours(url: str, target: Target, count: int) -> float:
    async def run() -> float:
        settled = Settled()
        pump = _pump(RabbitmqSource("bench", [broker_of(url)], FROM, prefetch=WINDOW), target, settled)
        start = time.perf_counter()
        running = asyncio.ensure_future(pump.run())
        await settled.until(count)
        took = time.perf_counter() - start
        pump.stop()
        await running
        return took

    return count / asyncio.run(run())


def _shovel(container: str, url: str, uri: str, count: int) -> float:
    """From the moment when messages begin to arrive: what rabbitmqctl takes to start is not the shovel's."""
    definition = {
        "src-protocol": "amqp091", "src-uri": uri, "src-queue": FROM, "src-prefetch-count": WINDOW,
        "dest-protocol": "amqp091", "dest-uri": uri, "dest-queue": TO, "ack-mode": "on-confirm",
    }  # fmt: skip
    with _channel(url) as channel:
        broker._docker("exec", container, "rabbitmqctl", "set_parameter", "shovel", "bench", json.dumps(definition))
        while not (first := _waiting(channel)):
            time.sleep(0.005)
        start = time.perf_counter()
        while _waiting(channel) < count:
            time.sleep(0.02)
        took = time.perf_counter() - start
        broker._docker("exec", container, "rabbitmqctl", "clear_parameter", "shovel", "bench")
    return (count - first) / took


def _waiting(channel: BlockingChannel) -> int:
    return int(channel.queue_declare(TO, passive=True).method.message_count)


# What is needed for it.


class Forgetting(Target):
    """Confirms all, and keeps nothing."""

    name = "nothing"

    async def open(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def send(self, messages: Sequence[Outgoing]) -> None:
        asyncio.get_running_loop().call_soon(self._receiver.confirmed, messages)

    async def close(self) -> None:
        pass


class Settled:
    """Listens to a pump, and counts what targets have confirmed."""

    def __init__(self) -> None:
        self._count = 0
        self._wanted = 0
        self._there = asyncio.Event()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None

    def confirmed(self, _: str, messages: Sequence[Outgoing], __: float) -> None:
        self._count += len(messages)
        if self._count >= self._wanted:
            self._there.set()

    async def until(self, count: int) -> None:
        self._wanted = count
        if self._count < count:
            self._there.clear()
            await self._there.wait()


def _pump(source: RabbitmqSource, target: Target, settled: Settled) -> Pump:
    topology = Topology().declare_exchange(Exchange("bench", "topic")).declare_queue(Queue(TO))
    topology = topology.bind(Binding.to_queue("bench", TO, "#"))
    return Pump([Inlet(source, "bench")], Router(topology), {TO: target}, settled, Policy(window=WINDOW))


def _rabbitmq_target(url: str) -> RabbitmqTarget:
    return RabbitmqTarget("bench", [broker_of(url)], {TO: Address.queue(TO)})


def _kafka_target(bootstrap: str) -> Target:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    from bridge.endpoints.kafka import Destination, KafkaTarget

    admin = AdminClient({"bootstrap.servers": bootstrap})
    if TO not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(TO, 6, 1)])[TO].result(10)
    return KafkaTarget("bench", {"bootstrap.servers": bootstrap}, {TO: Destination(TO)})


@contextmanager
def _running(image: str) -> Iterator[tuple[str, str]]:
    """A broker with the shovel plugin: its container and URL."""
    with broker._container(image) as container:
        port = int(broker._docker("port", container, "5672/tcp").splitlines()[0].rpartition(":")[2])
        broker._connected(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)).close()
        broker._docker("exec", "-u", "root", container, "rabbitmq-plugins", "enable", "rabbitmq_shovel")
        yield container, f"amqp://guest:guest@127.0.0.1:{port}/%2F"


@contextmanager
def _channel(url: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(f"{url}?heartbeat=0"))
    try:
        yield connection.channel()
    finally:
        connection.close()


def _declare(url: str) -> None:
    with _channel(url) as channel:
        for queue in (FROM, TO):
            channel.queue_delete(queue)
            channel.queue_declare(queue, durable=True)


def _purge(url: str) -> None:
    with _channel(url) as channel:
        channel.queue_purge(TO)


def _fill(url: str, count: int) -> None:
    _declare(url)
    asyncio.run(_publish(url, count))


async def _publish(url: str, count: int) -> None:
    """Publish so many messages, and wait until the broker has them."""
    last = 0
    news = asyncio.Event()

    def hear(events: list[Event]) -> None:
        nonlocal last
        last = max([last, *[each.number for each in events if isinstance(each, Acked)]])
        news.set()

    connection = await Connection.open([broker_of(url)], lambda _: None)
    channel = await connection.channel()
    await channel.confirms()
    channel.on_events = hear
    frame = publish(channel.number, b"", FROM.encode(), HEADER.raw, BODY, connection.frame_max, mandatory=False)
    for start in range(0, count, WINDOW):
        size = min(WINDOW, count - start)
        connection.write(frame * size)
        while start + size - last > (LEAD if start + size < count else 0):
            news.clear()
            await news.wait()
    await connection.close()
