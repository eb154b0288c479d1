"""Places where a bridge reads and writes in a trial: queues, topics, folders.

Tests fill and read a place directly; only the bridge goes through the relays. What was written is read at the end: a
reader with faults of its own could change the order, too.
"""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pika
import pika.exceptions
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.frames import Acked, Event, encode_publish
from bridge.interop import convert_from_rocketmq
from bridge.rocketmq.remoting.admin import list_masters
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.amqp import ContentHeader
from exchange.errors import HashstarError
from tests.chaos.brokers import Broker
from tests.chaos.kinds import Brokers
from tests.support.archives.parts import find_parts
from tests.support.kafka.topics import Topics
from tests.support.rocketmq.topics import Topics as RocketmqTopics
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

HEARTBEAT: Final = 2
"""Heartbeat of RabbitMQ in seconds, for trials in which a stall must outlast it; a busy machine may, too."""

SESSION: Final = 3_000
"""Session timeout of a group, in milliseconds; brokers allow at least 6,000, unless configured as ours."""

PARTITIONS: Final = 6
PERSISTENT: Final = ContentHeader.encode({}, {"delivery_mode": 2})
SINGLE: Final = "x-single-active-consumer"
MANY: Final = 2_000
"""Maximum number of messages that are published at once."""
SILENCE: Final = 60.0
"""Seconds without a delivery after which no more are expected."""
READING: Final = 900.0
"""Maximum number of seconds for reading a topic."""


class Place(ABC):
    """One side of a bridge. ``broker`` is None if it has none that could be restarted or cut off."""

    def __init__(self, brokers: Brokers, side: str, folder: Path) -> None:
        self.broker: Broker | None = None
        self.side = side
        self.name = unique_name("chaos")
        self.more = ""
        """Further lines of the bridge's table."""
        self.is_transactional = False
        """Whether the bridge reads or writes it in transactions: exactly once, if it does so on both sides."""

    @abstractmethod
    def table(self) -> str:
        """Return the lines of a source's or target's table; the topology's queue is ``out``."""

    @abstractmethod
    def close(self) -> None:
        """Remove what would stay otherwise."""


class Readable(Place):
    """A place that a source can read."""

    @abstractmethod
    def put(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Add keys and bodies."""

    @abstractmethod
    def count_left(self) -> int | None:
        """Return the number of messages that were not read, or not committed; None if the broker does not answer."""


class Writable(Place):
    """A place that a target can write to."""

    @abstractmethod
    def arrivals(self) -> Iterator[tuple[str, bytes]]:
        """Yield keys and bodies in the order of arrival; queues and topics yield each only once."""


class Queue(Readable, Writable):
    """A queue of RabbitMQ, of a kind.

    It has a single active consumer: otherwise a bridge that was started again would continue to read while the broker
    still has the old connection, whose messages come back later.
    """

    def __init__(
        self,
        kind: str,
        brokers: Brokers,
        side: str,
        folder: Path,
        arguments: Mapping[str, Any] | None = None,
        heartbeat: int | None = None,
        exchange_type: str = "fanout",
        auto_delete: bool = False,
        broker: str = "rabbitmq",
    ) -> None:
        super().__init__(brokers, side, folder)
        self.broker = brokers[broker]
        self.login = "guest:guest"
        """User and password that the bridge logs in with."""
        self.scheme = "amqp"
        self.through_exchange = True
        """Whether a target publishes to the exchange, or straight to the queue."""
        self._heartbeat = "" if heartbeat is None else f"?heartbeat={heartbeat}"
        self._channel: Any = None
        self._exchange_type, self._auto_delete = exchange_type, auto_delete
        self._arguments = {"x-queue-type": kind, SINGLE: True, **(arguments or {})}
        self.make()

    def make(self, kind: str = "", limits: Mapping[str, Any] | None = None) -> None:
        """Declare the queue, of another type or with other limits if given, and the exchange that keeps keys."""
        others = self._arguments if limits is None else {SINGLE: True, **limits}
        self._arguments = {**others, "x-queue-type": kind or self._arguments["x-queue-type"]}
        given = {name: value for name, value in self._arguments.items() if not self.is_stream or name != SINGLE}
        channel = self.open_channel()
        channel.queue_declare(self.name, durable=True, auto_delete=self._auto_delete, arguments=given)
        channel.exchange_declare(self.name, self._exchange_type, durable=True)
        channel.queue_bind(self.name, self.name, "key.#")

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream now."""
        return bool(self._arguments["x-queue-type"] == "stream")

    @property
    def _url(self) -> str:
        assert self.broker is not None
        return self.broker.url

    def delete_queue(self) -> None:
        """Delete the queue; the exchange stays."""
        self.open_channel().queue_delete(self.name)

    def delete_exchange(self) -> None:
        """Delete the exchange; the queue stays."""
        self.open_channel().exchange_delete(self.name)

    def table(self) -> str:
        assert self.broker is not None
        first, *others = self.broker.address(self.side).split(",")
        hosts = f"hosts = {json.dumps(others)}\n" if others else ""
        exchange = f'queues.out.exchange = "{self.name}"' if self.through_exchange else f'queues.out = "{self.name}"'
        what = f'queue = "{self.name}"' if self.side == "source" else exchange
        return f'url = "{self.scheme}://{self.login}@{first}/%2F{self._heartbeat}"\n{what}\n{hosts}{self.more}'

    def open_channel(self) -> Any:
        """Open a channel. Raises AMQPError."""
        if self._channel is not None:
            with suppress(pika.exceptions.AMQPError):
                self._channel.connection.close()
        self._channel = pika.BlockingConnection(pika.URLParameters(f"{self._url}?heartbeat=0")).channel()
        return self._channel

    def put(self, messages: Iterable[tuple[str, bytes]]) -> None:
        self.put_with(PERSISTENT, messages)

    def put_with(self, header: ContentHeader, messages: Iterable[tuple[str, bytes]], login: str = "") -> None:
        """Add keys and bodies with properties and headers, as the user of a login, ``USER:PASSWORD``."""
        url = self._url.replace("guest:guest", login) if login else self._url
        asyncio.run(self._publish(list(messages), header, url))

    async def _publish(self, messages: Sequence[tuple[str, bytes]], header: ContentHeader, url: str) -> None:
        """Publish messages, and wait until the broker has confirmed them."""
        confirmed, news = 0, asyncio.Event()

        def take_confirms(events: list[Event]) -> None:
            nonlocal confirmed
            confirmed = max([confirmed, *[each.number for each in events if isinstance(each, Acked) and not each.nack]])
            news.set()

        connection = await Connection.open([parse_broker(url)], lambda _: None)
        channel = await connection.channel()
        exchange, number, most = self.name.encode(), channel.number, connection.frame_max
        await channel.enable_confirms()
        channel.on_events = take_confirms
        for start in range(0, len(messages), MANY):
            frames = [
                encode_publish(number, exchange, key.encode(), header.raw, body, most, mandatory=True)
                for key, body in messages[start : start + MANY]
            ]
            connection.write(b"".join(frames))
            while start + len(frames) > confirmed:
                news.clear()
                await asyncio.wait_for(news.wait(), find_limit())
        await connection.close()

    def count_left(self) -> int | None:
        if self.is_stream:  # which keeps what was read: wait for what is written
            return 0
        try:
            channel = self._channel if self._channel.is_open else self.open_channel()
            answer = channel.queue_declare(self.name, passive=True).method
        except (pika.exceptions.AMQPError, OSError):
            return None
        # For a quorum queue whose leader does not answer in time, RabbitMQ answers with no messages and no consumers.
        return int(answer.message_count) if answer.message_count or answer.consumer_count else None

    def count(self) -> tuple[int, int]:
        """Return the number of messages in the queue, and the number of its consumers."""
        answer = self.open_channel().queue_declare(self.name, passive=True).method
        return int(answer.message_count), int(answer.consumer_count)

    def arrivals(self) -> Iterator[tuple[str, bytes]]:
        for method, _, body in self.deliveries():
            yield method.routing_key, body

    def deliveries(self) -> Iterator[tuple[Any, Any, bytes]]:
        """Yield method, properties and body of all messages in the queue, and remove them."""
        channel = self.open_channel()
        count, deadline = 0, time.monotonic() + SILENCE
        while not count and time.monotonic() < deadline:  # see `left`
            count = int(channel.queue_declare(self.name, passive=True).method.message_count)
            time.sleep(0.1)
        for delivery in islice(channel.consume(self.name, auto_ack=True, inactivity_timeout=SILENCE), count):
            if delivery[0] is None:
                break
            yield delivery
        channel.cancel()  # or it would get, and lose, what comes later

    def close(self) -> None:
        channel = self.open_channel()
        channel.queue_delete(self.name)
        channel.exchange_delete(self.name)
        channel.connection.close()


class Topic(Readable, Writable):
    """A topic of Kafka, whose bridge may read or write it in transactions."""

    def __init__(
        self,
        transactional: bool,
        brokers: Brokers,
        side: str,
        folder: Path,
        kind: str = "",
        partitions: int = PARTITIONS,
        config: Mapping[str, str] | None = None,
        replicas: int | None = None,
    ) -> None:
        super().__init__(brokers, side, folder)
        self.broker = brokers[kind or ("kafka for transactions" if transactional else "kafka")]
        self._replicas = self.broker.size if replicas is None else replicas
        self.is_transactional = transactional
        self.own_id = transactional
        """Whether the bridge's transactions have a fixed id: then only one process at a time can run."""
        self.settings: dict[str, int | str] = {"session.timeout.ms": SESSION, "heartbeat.interval.ms": SESSION // 6}
        """Settings of librdkafka for a bridge that reads it."""
        self.topics = Topics(self.broker.url, {"log_level": 0})
        self._config = config
        self._taken: dict[int, int] = {}
        """Partition -> offset up to which `arrivals` has yielded messages."""
        self.make(partitions)
        # A consumer that joins no group; it only asks for offsets, even while a transaction is open.
        own = {
            "group.id": self.name, "enable.auto.commit": False, "isolation.level": "read_uncommitted",
            "reconnect.backoff.max.ms": 1_000, "metadata.recovery.strategy": "none",
        }  # fmt: skip
        self._group = Consumer({**self.topics.settings, **own})
        self._put = 0

    def make(self, partitions: int = PARTITIONS) -> None:
        """Create the topic."""
        self.partitions = partitions
        self.topics.make(partitions, self.name, self._config, self._replicas)
        self._taken.clear()

    def delete_topic(self) -> None:
        """Delete the topic, and wait until it is gone."""
        self.topics.made.remove(self.name)
        self.topics.admin.delete_topics([self.name])[self.name].result(find_limit())
        deadline = time.monotonic() + find_limit()
        while self.name in self.topics.admin.list_topics(timeout=find_limit()).topics and time.monotonic() < deadline:
            time.sleep(0.1)
        self._put = 0

    def forget(self) -> None:
        """Forget the topic, which its broker has lost."""
        self.topics.made.remove(self.name)
        self._put = 0

    def add_partitions(self, total: int) -> None:
        """Add partitions to the topic, up to ``total``."""
        self.topics.admin.create_partitions([NewPartitions(self.name, total)])[self.name].result(find_limit())
        self.partitions = total

    def table(self) -> str:
        assert self.broker is not None
        url = f'url = "kafka://{self.broker.address(self.side)}"\n'
        if self.is_transactional:
            url += "transactional = true\n"
        if self.side == "target":
            # With a fixed id, it does not wait until the transaction of the process before it ends.
            own = f'transactional_id = "{self.name}"\n' if self.own_id else ""
            return f'{url}{own}queues.out = "{self.name}"\n{self.more}'
        own = ", ".join([f"{json.dumps(name)} = {json.dumps(value)}" for name, value in self.settings.items()])
        return f'{url}topic = "{self.name}"\ngroup = "{self.name}"\nlibrdkafka = {{ {own} }}\n{self.more}'

    def put(self, messages: Iterable[tuple[str, bytes]]) -> None:
        self.put_records([(key.encode(), body) for key, body in messages])

    def put_records(self, records: Sequence[tuple[bytes | None, bytes | None]], **settings: Any) -> None:
        """Add keys and values, with settings of a producer."""
        # Without idempotence, a batch that is sent again, as to a new topic, may come after the next one.
        self.topics.put(self.name, records, **{"enable.idempotence": True, **settings})
        self._put += len(records)

    def skip(self, count: int) -> None:
        """Count records that others have put, and that no reader gets, although offsets count them."""
        self._put += count

    def count_left(self) -> int | None:
        try:
            committed = self._group.committed([TopicPartition(self.name, n) for n in range(self.partitions)], 1.0)
        except KafkaException:
            return None
        if any(each.error is not None for each in committed):
            return None
        return self._put - sum([max(0, each.offset) for each in committed])

    def arrivals(self) -> Iterator[tuple[str, bytes]]:
        for message in self.records():
            yield message.key().decode(), message.value()

    def records(self) -> Iterator[Any]:
        """Yield Kafka's records that `arrivals` has not yielded yet."""
        for message in self.topics.read(self.name, 0, READING):
            if message.offset() >= self._taken.get(message.partition(), 0):
                self._taken[message.partition()] = message.offset() + 1
                yield message

    def close(self) -> None:
        self._group.close()
        self.topics.delete()


class RocketmqTopic(Readable, Writable):
    """A topic of RocketMQ."""

    def __init__(self, brokers: Brokers, side: str, folder: Path) -> None:
        super().__init__(brokers, side, folder)
        self.broker = brokers["rocketmq"]
        self.port = self.broker.port
        """Port at which the bridge finds the name server."""
        self._topics = RocketmqTopics(self.broker.url)
        self._topics.make(PARTITIONS, self.name)
        self._taken: set[str] = set()  # ids of what `arrivals` has yielded

    def table(self) -> str:
        url = f'url = "rocketmq://127.0.0.1:{self.port}"\n{self.more}'
        if self.side == "target":
            return f'{url}queues.out = "{self.name}"\n'
        return f'{url}topic = "{self.name}"\ngroup = "{self.name}"\n'

    def configure(self, settings: str) -> None:
        """Change settings of all brokers, ``NAME=VALUE`` a line, while they run."""
        self._topics.do(self._configure(settings))

    async def _configure(self, settings: str) -> None:
        for address in (await list_masters(self._topics.client)).values():
            await self._topics.client.ask(address, RequestCode.UPDATE_BROKER_CONFIG, {}, settings.encode())

    def put(self, messages: Iterable[tuple[str, bytes]]) -> None:
        self._topics.put_many(self.name, [RocketMessage.build(self.name, body, keys=key) for key, body in messages])

    def count_left(self) -> int | None:
        try:
            return self._topics.left(self.name, self.name)
        except (HashstarError, TimeoutError):
            return None

    def arrivals(self) -> Iterator[tuple[str, bytes]]:
        for message in self._topics.read(self.name, 0, READING):
            if message.offset_id not in self._taken:
                self._taken.add(message.offset_id)
                home = convert_from_rocketmq(message)
                yield home.routing_key, home.body

    def close(self) -> None:
        self._topics.close()


class Folder(Writable):
    """An archive."""

    def __init__(self, brokers: Brokers, side: str, folder: Path) -> None:
        super().__init__(brokers, side, folder)
        self.path = folder / "archive"

    def table(self) -> str:
        return f'url = "archive:{self.path}"\nqueues.out = "."\nrotate = "1 s"\n'

    def close(self) -> None:
        """Do nothing: the archive is in the folder of the run."""

    def arrivals(self) -> Iterator[tuple[str, bytes]]:
        for part in find_parts(self.path):
            for batch in pq.ParquetFile(part).iter_batches(columns=["routing_key", "body"]):
                yield from zip(*[column.to_pylist() for column in batch.columns], strict=True)
