"""Clients that call, and servers that reply, on RabbitMQ, Kafka and RocketMQ, each as its own users write them.

A `Side` is one system in a bridge between two: it has what the bridge's file needs for it, makes the places there,
calls over them, and serves them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, Protocol
from uuid import uuid4

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bridge.consumers.requests import ReplyTimeout, Requester
from bridge.rocketmq.consumer.consumer import Consumer as RocketConsumer
from bridge.rocketmq.consumer.group import ConsumerSettings
from bridge.rocketmq.consumer.offsets import ConsumeFrom
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.producer import requests as rocketmq
from bridge.rocketmq.producer.producer import Producer as RocketProducer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.errors import RemotingError
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.values.message import Message
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

CLUSTER: Final = "hashstar"
"""The name of the RocketMQ cluster in the images of the tests."""

Call = Callable[[bytes], Awaitable[bytes]]
"""Function that sends a request with this body, and returns the body of the reply. Raises TimedOut."""


class TimedOut(Exception):
    """No reply came in time."""


def answer_to(body: bytes) -> bytes:
    """Return what every server replies to a request: it tells whose the reply is."""
    return b"reply to " + body


class Side(Protocol):
    """A system on one side of a bridge; ``seconds`` is the time limit of each call."""

    def source(self) -> str:
        """Return the lines of the bridge's table for a source that reads the requests of callers here."""

    def target(self) -> str:
        """Return the lines of the table for a target that writes the requests of callers elsewhere."""

    def replies(self) -> str:
        """Return the lines of the table for the place where servers reply."""

    async def prepare(self) -> None:
        """Make all queues or topics."""

    def caller(self, seconds: float) -> Any:
        """Return the context of a function that calls, a `Call`."""

    def serve(self) -> Any:
        """Return the context in which requests are replied to."""


class RabbitmqSide:
    """Queues; callers use a `Requester`, with direct reply-to or a queue of its own."""

    def __init__(self, url: str, *, queue: bool = False) -> None:
        self._url, self._queue = url, queue
        name = unique_name("calls")
        self._asked, self._served, self._replies = f"{name}-asked", f"{name}-served", f"{name}-replies"

    def source(self) -> str:
        return f'url = "{self._url}"\nqueue = "{self._asked}"'

    def target(self) -> str:
        return f'url = "{self._url}"\nqueues = {{ out = "{self._served}" }}'

    def replies(self) -> str:
        return f'queue = "{self._replies}"'

    async def prepare(self) -> None:
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel()
            for name in (self._asked, self._served, self._replies):
                await channel.declare_queue(name, durable=True, arguments={"x-expires": 600_000})

    @asynccontextmanager
    async def caller(self, seconds: float) -> AsyncIterator[Call]:
        async with Requester(self._url, replies="queue" if self._queue else "direct", timeout=seconds) as requester:

            async def call(body: bytes) -> bytes:
                try:
                    return (await requester.request(Message("", self._asked, body=body))).body
                except ReplyTimeout:
                    raise TimedOut from None

            yield call

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel()
            await channel.set_qos(100)
            queue = await channel.get_queue(self._served)

            async def reply(incoming: AbstractIncomingMessage) -> None:
                async with incoming.process():
                    assert incoming.reply_to is not None
                    answer = aio_pika.Message(answer_to(incoming.body), correlation_id=incoming.correlation_id)
                    await channel.default_exchange.publish(answer, incoming.reply_to)

            await queue.consume(reply)
            yield


class KafkaSide:
    """Topics; callers and servers keep to the convention of Spring Kafka's ReplyingKafkaTemplate."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        name = unique_name("calls")
        self._asked, self._served, self._replies, self._home = (f"{name}-{each}" for each in ("a", "s", "r", "h"))

    def source(self) -> str:
        return f'url = "kafka://{self._bootstrap}"\ntopic = "{self._asked}"\nreply_topics = ["{self._home}"]'

    def target(self) -> str:
        return f'url = "kafka://{self._bootstrap}"\nqueues = {{ out = "{self._served}" }}'

    def replies(self) -> str:
        return f'topic = "{self._replies}"'

    async def prepare(self) -> None:
        client = AdminClient({"bootstrap.servers": self._bootstrap})  # its futures end with it
        topics = [NewTopic(name, 2, 1) for name in (self._asked, self._served, self._replies, self._home)]
        for made in client.create_topics(topics).values():
            await asyncio.to_thread(made.result, 30)

    @asynccontextmanager
    async def caller(self, seconds: float) -> AsyncIterator[Call]:
        loop = asyncio.get_running_loop()
        waiting: dict[bytes, asyncio.Future[bytes]] = {}
        partition: Final = 1  # where this caller waits
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 1})
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._home, partition, OFFSET_END)])
        await asyncio.to_thread(consumer.consume, 1, 3)  # until the end of the topic is known

        def settle(correlation: bytes, body: bytes) -> None:
            replied = waiting.get(correlation)
            if replied is not None and not replied.done():
                replied.set_result(body)

        def take(record: Any) -> None:
            correlation = dict(record.headers())["kafka_correlationId"]
            loop.call_soon_threadsafe(settle, correlation, record.value())

        async def call(body: bytes) -> bytes:
            correlation = uuid4().bytes
            replied = waiting[correlation] = loop.create_future()
            headers: list[tuple[str, str | bytes | None]] = [
                ("kafka_replyTopic", self._home.encode()),
                ("kafka_replyPartition", partition.to_bytes(4)),
                ("kafka_correlationId", correlation),
            ]
            producer.produce(self._asked, body, body, headers=headers)
            producer.poll(0)
            try:
                async with asyncio.timeout(seconds):
                    reply: bytes = await replied
                    return reply
            except TimeoutError:
                raise TimedOut from None
            finally:
                del waiting[correlation]

        with polling(consumer, take):
            yield call
        producer.flush(find_limit())

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 1})
        consumer = Consumer({
            "bootstrap.servers": self._bootstrap, "group.id": self._served, "auto.offset.reset": "earliest",
        })  # fmt: skip
        consumer.subscribe([self._served])

        def reply(record: Any) -> None:
            headers = dict(record.headers())
            answer: list[tuple[str, str | bytes | None]] = [("kafka_correlationId", headers["kafka_correlationId"])]
            producer.produce(headers["kafka_replyTopic"].decode(), answer_to(record.value()), headers=answer)
            producer.poll(0)

        with polling(consumer, reply):
            yield
        producer.flush(find_limit())


class polling:  # noqa: N801  a context, used as a function
    """Poll a consumer on a thread, and call a function with each record."""

    def __init__(self, consumer: Consumer, take: Callable[[Any], None]) -> None:
        self._consumer, self._take = consumer, take
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for record in self._consumer.consume(100, 0.1):
                if record.error() is None:
                    self._take(record)


class RocketmqSide:
    """Topics; callers and servers use our client, which does as Java's."""

    def __init__(self, name_server: str) -> None:
        self._name_server = name_server
        name = unique_name("calls")
        self._asked, self._served = f"{name}-asked", f"{name}-served"

    def source(self) -> str:
        return f'url = "rocketmq://{self._name_server}"\ntopic = "{self._asked}"'

    def target(self) -> str:
        return f'url = "rocketmq://{self._name_server}"\nqueues = {{ out = "{self._served}" }}'

    def replies(self) -> str:
        return f'topic = "{CLUSTER}_REPLY_TOPIC"'

    async def prepare(self) -> None:
        async with Client(ClientSettings(self._name_server)) as client:
            for topic in (self._asked, self._served):
                await admin.create_topic(client, admin.TopicConfig(topic, 2, 2))

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[tuple[Client, RocketProducer]]:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(ClientSettings(self._name_server)))
            yield client, await stack.enter_async_context(RocketProducer(client, ProducerSettings("hashstar-calls")))

    @asynccontextmanager
    async def caller(self, seconds: float) -> AsyncIterator[Call]:
        async with self._client() as (_, producer), rocketmq.Requester(producer) as requester:

            async def call(body: bytes) -> bytes:
                try:
                    message = RocketMessage.build(self._asked, body)
                    return bytes((await requester.request(message, timeout_ms=int(seconds * 1_000))).body)
                except rocketmq.ReplyTimeout:
                    raise TimedOut from None

            yield call

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        settings = ConsumerSettings(consume_from=ConsumeFrom.FIRST)
        subscriptions: Sequence[Subscription] = [Subscription.to_tags(self._served)]
        async with (
            self._client() as (client, producer),
            RocketConsumer(client, self._served, subscriptions, settings) as consumer,
        ):

            async def run() -> None:
                while True:
                    for message in await consumer.receive(32):
                        with suppress(RemotingError):  # without a bridge now, the broker still stores the reply
                            await producer.send(rocketmq.reply_to(message, answer_to(message.body)))
                        consumer.done(message)

            running = asyncio.create_task(run())
            try:
                yield
            finally:
                running.cancel()
                await asyncio.wait([running])
