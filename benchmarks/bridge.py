"""The bridge on real brokers: what it moves in a second, beside bare clients and RabbitMQ's own shovel.

``HASHSTAR_BENCH_RABBITMQ`` names images, as in `benchmarks.broker`, ``HASHSTAR_BENCH_KAFKA`` one of Kafka; each is
started. Queues are durable and classic, messages persistent, of 190 bytes, with a header; 1,000 are under way at most,
which is the shovel's default, and 10,000 of Kafka's. Contestants take turns on the same brokers; a rate is of the
clock, from the first message that arrives to the last, so that a busy machine shows in all of them. Beside it is what a
message took of the processors, for the process that moves it and for brokers and all: a busy machine shows less there.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any, Final

import pika

from benchmarks import broker
from benchmarks.bridge_brokers import (
    FROM,
    KAFKA,
    TO,
    Broker,
    channel,
    count_in_queue,
    fill_queue,
    fill_topic,
    kafka,
    kafka_image,
    make_topic,
    rabbitmq,
    run_shovel,
)
from benchmarks.bridge_long import PARTITIONS, memory_of_archive, memory_of_rabbitmq, show_workers
from benchmarks.bridge_pumps import (
    KAFKA_WINDOW,
    WINDOW,
    Clock,
    Counting,
    Forgetting,
    Rate,
    from_queue,
    from_topic,
    pump_of,
    to_queue,
    to_topic,
    unique,
)
from bridge.endpoint import Source, Target

ROUNDS: Final = 3
COUNT: Final = 40_000
KAFKA_COUNT: Final = 200_000
MILLION: Final = 1_000_000
ACKNOWLEDGED: Final = 100
"""Number of messages that bare pika acknowledges at once."""

BARE: Final = "bare pika, acknowledging only"
SHOVEL: Final = "shovel, inside the broker"
BARE_KAFKA: Final = "bare confluent-kafka, consuming"


def bridge(quick: bool) -> None:
    """Measure everything on each image of RabbitMQ, and once what needs none."""
    image = kafka_image()
    with ExitStack() as brokers:
        to_kafka = None if image is None else brokers.enter_context(kafka(image))
        for each in broker.images():
            with rabbitmq(each) as found:
                _measure_rabbitmq(each, found, to_kafka, quick)
        if not broker.images():
            print(f"\nbridge of RabbitMQ: not measured: {broker.VARIABLE} is not set")
        if to_kafka is None:
            print(f"\nbridge of Kafka: not measured: {KAFKA} is not set")
        else:
            _measure_kafka(str(image), to_kafka, quick)


def _measure_rabbitmq(image: str, found: Broker, to_kafka: Broker | None, quick: bool) -> None:
    count, rounds = (COUNT // 4, 2) if quick else (COUNT, ROUNDS)
    url = found.url
    contestants: dict[str, Contestant] = {
        BARE: partial(_bare, url),
        "RabbitMQ -> memory": lambda n, clock: _pump(from_queue(url), Forgetting(), WINDOW, n, clock),
        "RabbitMQ -> RabbitMQ": lambda n, clock: _pump(from_queue(url), to_queue(url), WINDOW, n, clock),
        SHOVEL: partial(_shovel, found, "amqp://"),
        "shovel, over TCP": partial(_shovel, found, "amqp://127.0.0.1"),
    }
    if to_kafka is not None:
        make_topic(to_kafka.url, TO, PARTITIONS)
        contestants["RabbitMQ -> Kafka"] = lambda n, clock: _pump(
            from_queue(url), to_topic(to_kafka.url), WINDOW, n, clock
        )
    roots = [each.process for each in (found, to_kafka) if each is not None]
    rates = _run_in_turns(contestants, rounds, count, roots, before=lambda: fill_queue(url, count))
    _show(f"bridge on {image}, {rounds} rounds of {count:,}", rates)
    _compare(rates, "RabbitMQ -> Kafka", BARE)
    _compare(rates, "RabbitMQ -> RabbitMQ", SHOVEL)
    memory_of_rabbitmq(url, MILLION // 20 if quick else MILLION)


def _measure_kafka(image: str, found: Broker, quick: bool) -> None:
    count, rounds = (KAFKA_COUNT // 4, 2) if quick else (KAFKA_COUNT, ROUNDS)
    url, topic = found.url, make_topic(found.url, FROM, PARTITIONS)
    fill_topic(url, topic, count)
    contestants: dict[str, Contestant] = {
        BARE_KAFKA: partial(_bare_kafka, url, topic),
        "Kafka -> memory": lambda n, clock: _pump(from_topic(url, topic), Forgetting(), KAFKA_WINDOW, n, clock),
        "Kafka -> archive": partial(_archive, url, topic),
    }
    rates = _run_in_turns(contestants, rounds, count, [found.process])
    _show(f"bridge on {image}, {rounds} rounds of {count:,}", rates)
    show_workers(url, count)
    memory_of_archive(url, MILLION // 20 if quick else MILLION)


# How it is measured.


Contestant = Callable[[int, Clock], Rate]


def _run_in_turns(
    contestants: Mapping[str, Contestant],
    rounds: int,
    count: int,
    brokers: Sequence[int],
    before: Callable[[], None] = lambda: None,
) -> dict[str, list[Rate]]:
    rates: dict[str, list[Rate]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, measure in contestants.items():
            before()
            rates[name].append(measure(count, Clock(count, brokers)))
    return rates


def _show(title: str, rates: Mapping[str, Sequence[Rate]]) -> None:
    floor, *_ = [median([each.per_second for each in found]) for found in rates.values()]
    print(f"\n{title}: messages a second, median (least - most); microseconds of the processors for each")
    print(f"  {'':32}{'':>30}{'of the first':>14}{'own':>8}{'with brokers':>14}")
    for name, found in rates.items():
        speeds = [each.per_second for each in found]
        span = f"{median(speeds):,.0f} ({min(speeds):,.0f} - {max(speeds):,.0f})"
        own, together = median([each.own for each in found]), median([each.together for each in found])
        print(f"  {name:32}{span:>30}{median(speeds) / floor:>14.0%}{own:>8.1f}{together:>14.1f}")


def _compare(rates: Mapping[str, Sequence[Rate]], ours: str, peer: str) -> None:
    """Compare round by round, as the contestants of a round have had about the same machine."""
    if ours in rates:
        ratios = [one.per_second / other.per_second for one, other in zip(rates[ours], rates[peer], strict=True)]
        print(f"  {ours} / {peer}: {median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})")


def _bare(url: str, count: int, clock: Clock) -> Rate:
    rates: list[Rate] = []
    seen = 0

    def opened(connection: Any) -> None:
        connection.channel(on_open_callback=consume)

    def consume(found: Any) -> None:
        found.basic_qos(prefetch_count=WINDOW, callback=lambda _: found.basic_consume(FROM, deliver))

    def deliver(found: Any, method: Any, _: object, __: bytes) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            clock.start(1)
        if seen % ACKNOWLEDGED == 0 or seen == count:
            found.basic_ack(method.delivery_tag, multiple=True)
        if seen == count:
            rates.append(clock.stop())
            found.connection.close()

    connection = pika.SelectConnection(
        pika.URLParameters(url), on_open_callback=opened, on_close_callback=lambda each, _: each.ioloop.stop()
    )
    connection.ioloop.start()
    return rates[0]


def _bare_kafka(url: str, topic: str, count: int, clock: Clock) -> Rate:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": url, "group.id": unique("bare"), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    seen = 0
    while seen < count:
        found = consumer.consume(WINDOW, 0.1)
        if found and not seen:
            clock.start(len(found))
        seen += len(found)
    rate = clock.stop()
    consumer.close()
    return rate


def _pump(source: Source, target: Target, window: int, count: int, clock: Clock) -> Rate:
    async def run() -> Rate:
        counting = Counting(clock, count)
        pump = pump_of(source, target, counting, window)
        running = asyncio.ensure_future(pump.run())
        rate = await counting.rate
        pump.stop()
        await running
        return rate

    return asyncio.run(run())


def _archive(url: str, topic: str, count: int, clock: Clock) -> Rate:
    from bridge.endpoints.archive.config import ArchiveTarget

    folder = Path(mkdtemp())
    try:
        return _pump(from_topic(url, topic), ArchiveTarget("bench", folder, {TO: ""}), KAFKA_WINDOW, count, clock)
    finally:
        shutil.rmtree(folder)


def _shovel(found: Broker, uri: str, count: int, clock: Clock) -> Rate:
    with channel(found.url) as looking, run_shovel(found, uri, WINDOW):
        while not (first := count_in_queue(looking)):
            time.sleep(0.005)
        clock.start(first)
        while count_in_queue(looking) < count:
            time.sleep(0.02)
        return clock.stop()
