"""Brokers for the bridge's benchmark: started, filled and emptied."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import pika
from pika.adapters.blocking_connection import BlockingChannel

from benchmarks import broker
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.frames import Acked, Event, encode_publish
from exchange.amqp import ContentHeader
from tests.support.unique import free_port

FROM: Final = "bench-from"
TO: Final = "bench-to"
KAFKA: Final = "HASHSTAR_BENCH_KAFKA"
"""The variable that names the image of Kafka."""

BODY: Final = b'{"order": 1234567, "items": [' + b'{"sku": "a-17", "n": 2}, ' * 6 + b"null]}"
HEADER: Final = ContentHeader.encode({"region": "eu-west-1"}, {"delivery_mode": 2, "content_type": "application/json"})
STEP: Final = 1_000
LEAD: Final = 5_000
"""Maximum number of unconfirmed publishes while a queue is filled."""
SECONDS: Final = 120
"""A broker may take so long to start, and a queue to get its first message."""


class Broker(NamedTuple):
    """One that was started."""

    container: str
    process: int
    """The container's first process, below which all others are."""
    url: str


@contextmanager
def rabbitmq(image: str) -> Iterator[Broker]:
    """With the shovel plugin."""
    with broker._container(image) as container:
        port = int(broker._docker("port", container, "5672/tcp").splitlines()[0].rpartition(":")[2])
        broker._connect(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0)).close()
        broker._docker("exec", "-u", "root", container, "rabbitmq-plugins", "enable", "rabbitmq_shovel")
        yield Broker(container, _process(container), f"amqp://guest:guest@127.0.0.1:{port}/%2F")


@contextmanager
def kafka(image: str) -> Iterator[Broker]:
    """One node that is broker and controller."""
    port = free_port()
    settings = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }
    named = [part for name, value in settings.items() for part in ("-e", f"{name}={value}")]
    container = broker._docker("run", "-d", "--rm", "-p", f"127.0.0.1:{port}:9092", *named, image)
    try:
        url = f"127.0.0.1:{port}"
        _wait_for_kafka(url)
        yield Broker(container, _process(container), url)
    finally:
        broker._docker("rm", "-f", "-v", container)


def _wait_for_kafka(url: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": url, "log_level": 0})
    end = time.monotonic() + SECONDS
    while True:
        with suppress(KafkaException):
            admin.list_topics(timeout=2)
            return
        if time.monotonic() > end:
            raise RuntimeError(f"Kafka at {url} does not answer")


def _process(container: str) -> int:
    return int(broker._docker("inspect", "-f", "{{.State.Pid}}", container))


# RabbitMQ.


@contextmanager
def channel(url: str) -> Iterator[BlockingChannel]:
    """Open a channel of pika, for what is not measured."""
    connection = pika.BlockingConnection(pika.URLParameters(f"{url}?heartbeat=0"))
    try:
        yield connection.channel()
    finally:
        connection.close()


def declare(url: str) -> None:
    """Both queues, empty."""
    with channel(url) as found:
        for queue in (FROM, TO):
            found.queue_delete(queue)
            found.queue_declare(queue, durable=True)


def count_in_queue(found: BlockingChannel, queue: str = TO) -> int:
    """Return the number of messages in a queue."""
    return int(found.queue_declare(queue, passive=True).method.message_count)


def fill_queue(url: str, count: int) -> None:
    """Put ``count`` messages into the one queue, and none into the other."""
    declare(url)
    asyncio.run(publish_all(url, count))


async def publish_all(url: str, count: int) -> None:
    """Publish ``count`` messages, and wait until the broker has them."""
    last = 0
    news = asyncio.Event()

    def hear(events: list[Event]) -> None:
        nonlocal last
        last = max([last, *[each.number for each in events if isinstance(each, Acked)]])
        news.set()

    connection = await Connection.open([parse_broker(url)], lambda _: None)
    opened = await connection.channel()
    await opened.enable_confirms()
    opened.on_events = hear
    frame = encode_publish(opened.number, b"", FROM.encode(), HEADER.raw, BODY, connection.frame_max, mandatory=False)
    for start in range(0, count, STEP):
        size = min(STEP, count - start)
        connection.write(frame * size)
        while start + size - last > (LEAD if start + size < count else 0):
            news.clear()
            await news.wait()
    await connection.close()


@contextmanager
def run_shovel(of: Broker, uri: str, window: int) -> Iterator[None]:
    """While RabbitMQ's own shovel moves what is in the queue, each message confirmed before it is acknowledged."""
    definition = {
        "src-protocol": "amqp091", "src-uri": uri, "src-queue": FROM, "src-prefetch-count": window,
        "dest-protocol": "amqp091", "dest-uri": uri, "dest-queue": TO, "ack-mode": "on-confirm",
    }  # fmt: skip
    broker._docker("exec", of.container, "rabbitmqctl", "set_parameter", "shovel", "bench", json.dumps(definition))
    try:
        yield
    finally:
        broker._docker("exec", of.container, "rabbitmqctl", "clear_parameter", "shovel", "bench")


# Kafka.


def make_topic(url: str, name: str, partitions: int) -> str:
    """Create a new topic and return its name."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": url, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    return name


def fill_topic(url: str, name: str, count: int) -> None:
    """Write ``count`` records with keys and two headers, as the messages of the queue have."""
    from confluent_kafka import Producer

    headers: Any = [("content-type", b"application/json"), ("region", b"eu-west-1")]
    producer = Producer({"bootstrap.servers": url, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for number in range(count):
        producer.produce(name, BODY, b"key.%d" % (number % 1_000), headers=headers)
        if number % STEP == 0:
            producer.poll(0)
    producer.flush()


def kafka_image() -> str | None:
    """Return Kafka's image, as named by the environment."""
    return os.environ.get(KAFKA) or None
