"""Kafka: topics as sources, with a consumer group, and as targets, with an idempotent producer and our own partitions.

A partition that is assigned is a lane; what is settled of it is stored, and librdkafka commits what is stored: now and
then, when the partition is taken away, and at the end. Partitions are chosen here, as the queue's partitioning says,
or by murmur2 of the routing key as the Java producer does: librdkafka's own partitioners are never asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bridge.endpoint import Delivery, Disconnected, EndOfStream, Failure, Outgoing, Receiver, Source, Target
from bridge.kafka.addresses import settings_of
from bridge.mapping import Record, identity_of_record, to_amqp, to_kafka, with_identity
from bridge.policy import Policy
from bridge.table import Table
from exchange.errors import HashstarError, InputError
from exchange.partition.key_source import ROUTING_KEY, KeySource
from exchange.partition.partitioning import Partitioning, key_from

__all__ = ["KafkaSource", "KafkaTarget", "dead_letter_target", "source", "target"]

SECONDS: Final = 10.0
"""How long brokers may take to tell about topics."""

IDLE_FIRST: Final = 0.001
IDLE_MOST: Final = 0.02
"""Seconds between looks for news while there are none."""

FIXED_BYTES: Final = 512
"""What a delivery takes beside its value, about."""

Lane = tuple[str, int, int]
"""Topic, partition, and which assignment of it."""


class KafkaSource(Source):
    """Topics, read with a consumer group. ``until_end`` ends when all partitions were read to where they end."""

    def __init__(
        self, name: str, settings: Mapping[str, Any], topics: Sequence[str], *, until_end: bool = False
    ) -> None:
        self.name = name
        self._settings = {
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "cooperative-sticky",
            **settings,
            "enable.auto.offset.store": False,
            "enable.auto.commit": True,
            "enable.partition.eof": until_end,
        }
        self._topics = list(topics)
        self._until_end = until_end
        self._consumer: Consumer | None = None
        self._assignment = 0
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._at_end: set[tuple[str, int]] = set()

    async def open(self) -> None:
        self._lanes.clear()
        self._at_end.clear()
        try:
            self._consumer = Consumer({**self._settings, "error_cb": lambda _: None})
            await _need_topics(self._consumer, self._topics)
            self._consumer.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._taken, on_lost=self._taken)
        except KafkaException as error:
            raise _trouble(error.args[0]) from None

    def _assigned(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._assignment += 1
            self._lanes[each.topic, each.partition] = (each.topic, each.partition, self._assignment)

    def _taken(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._lanes.pop((each.topic, each.partition), None)
            self._at_end.discard((each.topic, each.partition))

    async def read(self, limit: int) -> Sequence[Delivery]:
        wait = IDLE_FIRST
        while True:
            consumer = self._consumer
            if consumer is None:
                raise Disconnected(f"{self.name}: closed")
            try:
                messages = consumer.consume(limit, 0)
            except KafkaException as error:
                raise _trouble(error.args[0]) from None
            deliveries = [found for message in messages if (found := self._delivery(message)) is not None]
            if deliveries:
                return deliveries
            if self._until_end and self._lanes and len(self._at_end) == len(self._lanes):
                raise EndOfStream
            await asyncio.sleep(wait)
            wait = min(wait * 2, IDLE_MOST)

    def _delivery(self, message: Any) -> Delivery | None:
        error = message.error()
        topic, number = message.topic(), message.partition()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add((topic, number))
                return None
            if error.retriable() and not error.fatal():
                return None
            raise _trouble(error)
        lane = self._lanes.get((topic, number))
        if lane is None:
            return None
        self._at_end.discard((topic, number))
        kind, time = message.timestamp()
        offset, value = message.offset(), message.value()
        record = Record(
            topic, message.key(), value, message.headers() or (), time if kind else None, kind == 2, number, offset
        )
        size = len(value or b"") + FIXED_BYTES
        identity = identity_of_record(self.name, record)
        micros = time * 1_000 if kind else None
        return Delivery(to_amqp(record), lane, offset, identity, micros, False, size, f"{topic}-{number} at {offset}")

    def settle(self, delivery: Delivery) -> None:
        lane: Lane = delivery.lane  # type: ignore[assignment]  # which is of this source
        topic, partition, _ = lane
        if self._consumer is None or self._lanes.get((topic, partition)) != lane:
            return
        with suppress(KafkaException):  # it was taken away just now: whoever has it reads from what was committed
            self._consumer.store_offsets(offsets=[TopicPartition(topic, partition, delivery.position + 1)])

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._lanes.clear()
        if consumer is not None:
            await asyncio.to_thread(consumer.close)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where messages of a topology's queue go."""

    topic: str
    key: KeySource = ROUTING_KEY
    """What is the record's key, of queues that are not partitioned by another."""


@dataclass(slots=True, eq=False)
class _Producing:
    """The state of one producer."""

    producer: Producer
    receiver: Receiver
    partitionings: dict[str, Partitioning]
    """Topic -> how records of queues that are not partitioned are spread."""
    under_way: int = 0
    waiting: deque[Outgoing] = field(default_factory=deque)
    """Not taken yet, as the producer's queue is full."""
    confirmed: list[Outgoing] = field(default_factory=list)
    failed: list[tuple[Outgoing, Failure]] = field(default_factory=list)
    trouble: Disconnected | None = None
    polling: asyncio.TimerHandle | None = None
    closed: bool = False


class KafkaTarget(Target):
    """Topics. ``destinations`` maps the topology's queues to them; ``""`` among them is for messages of no queue."""

    def __init__(self, name: str, settings: Mapping[str, Any], destinations: Mapping[str, Destination]) -> None:
        self.name = name
        self._settings = {
            "linger.ms": 5,
            "message.timeout.ms": 0,
            **settings,
            "enable.idempotence": True,
            "enable.gapless.guarantee": False,
        }
        self._destinations = destinations
        self._state: _Producing | None = None

    async def open(self, receiver: Receiver) -> None:
        topics = {destination.topic for destination in self._destinations.values()}
        try:
            producer = Producer({**self._settings, "error_cb": self._error})
            counts = await _need_topics(producer, sorted(topics))
        except KafkaException as error:
            raise _trouble(error.args[0]) from None
        spread = {topic: Partitioning.parse(f"kafka.murmur2 over {count}") for topic, count in counts.items()}
        self._state = _Producing(producer, receiver, spread)

    def _error(self, error: KafkaError) -> None:
        if error.fatal() and self._state is not None:
            self._state.trouble = _trouble(error)

    def send(self, messages: Sequence[Outgoing]) -> None:
        state = self._state
        if state is None:
            return
        state.waiting += messages
        self._produce(state)
        if state.polling is None:
            state.polling = asyncio.get_running_loop().call_soon(self._poll, state)  # type: ignore[assignment]

    def _produce(self, state: _Producing) -> None:
        waiting, produce = state.waiting, state.producer.produce
        while waiting:
            outgoing = waiting[0]
            try:
                record, partition = self._record(state, outgoing)
                produce(
                    record.topic, record.value, record.key, partition, partial(self._reported, state, outgoing),
                    headers=list(record.headers),
                )  # fmt: skip
            except BufferError:
                return
            except KafkaException as error:
                state.failed.append((outgoing, _failure(error.args[0])))
            except (HashstarError, TypeError, ValueError) as error:
                state.failed.append((outgoing, Failure(str(error), final=True)))
            else:
                state.under_way += 1
            waiting.popleft()

    def _record(self, state: _Producing, outgoing: Outgoing) -> tuple[Record, int]:
        destination = self._destinations[outgoing.queue]
        message = with_identity(outgoing.message, outgoing.delivery.identity)
        placement = outgoing.placement
        if placement is not None:
            key, partition = placement.key, placement.partition
        else:
            key = destination.key.of(outgoing.message)
            partition = state.partitionings[destination.topic].choose_for(key).partition
        if partition is None:
            # The key does not decide: any will do, and this one is as good in every run.
            count = len(list(state.partitionings[destination.topic].partitions))
            partition = outgoing.number % count
        return to_kafka(message, destination.topic, _bytes(key)), partition

    def _reported(self, state: _Producing, outgoing: Outgoing, error: KafkaError | None, _: Any) -> None:
        state.under_way -= 1
        if error is None:
            state.confirmed.append(outgoing)
        elif error.code() in GONE or error.fatal():
            state.trouble = state.trouble or _trouble(error)
        else:
            state.failed.append((outgoing, _failure(error)))

    def _poll(self, state: _Producing) -> None:
        state.polling = None
        if state.closed:
            return
        state.producer.poll(0)
        self._produce(state)
        confirmed, state.confirmed = state.confirmed, []
        failed, state.failed = state.failed, []
        if confirmed:
            state.receiver.confirmed(confirmed)
        for outgoing, failure in failed:
            state.receiver.failed(outgoing, failure)
        if state.trouble is not None:
            state.closed = True
            state.receiver.lost(state.trouble)
        elif (state.under_way or state.waiting) and state.polling is None:
            state.polling = asyncio.get_running_loop().call_later(0.002, self._poll, state)

    async def close(self) -> None:
        state, self._state = self._state, None
        if state is None:
            return
        state.closed = True
        state.waiting.clear()
        # What was not confirmed is sent again by whoever comes next: it must not arrive behind that.
        state.producer.purge(blocking=False)
        await asyncio.to_thread(state.producer.flush, 2.0)


GONE: Final = frozenset({
    KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION, KafkaError._FATAL, KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION,
})  # fmt: skip
"""Errors that are about the connection or the topic, and no message's fault."""

FINAL: Final = frozenset({
    KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD, KafkaError._INVALID_ARG,
    KafkaError.INVALID_TIMESTAMP,
})  # fmt: skip
"""Errors that are the message's, and will be next time."""


async def _need_topics(client: Any, topics: Sequence[str]) -> dict[str, int]:
    """How many partitions each topic has. Raises Disconnected if brokers do not answer or a topic is missing."""
    found = (await asyncio.to_thread(client.list_topics, timeout=SECONDS)).topics
    for topic in topics:
        if topic not in found or found[topic].error is not None:
            raise Disconnected(f"there is no topic {topic!r}")
    return {topic: len(found[topic].partitions) for topic in topics}


def _trouble(error: KafkaError) -> Disconnected:
    return Disconnected(f"{error.name()}: {error.str()}")


def _failure(error: KafkaError) -> Failure:
    return Failure(f"{error.name()}: {error.str()}", final=error.code() in FINAL)


def _bytes(key: Any) -> bytes | None:
    """A record's key as the client's serializers write it."""
    if key is None or isinstance(key, bytes):
        return key
    return key.encode("utf-8", "surrogateescape") if isinstance(key, str) else str(key).encode()


def source(name: str, url: str, table: Table, policy: Policy) -> KafkaSource:
    """The source of a configuration; see `bridge.endpoints`."""
    topics = table.texts("topics") if table.maybe("topic") is None else [table.text("topic")]
    until_end = table.flag("until_end", default=False)
    settings = settings_of(url, table)
    settings["group.id"] = table.text("group", f"hashstar-{name}")
    return KafkaSource(name, settings, topics, until_end=until_end)


def target(name: str, url: str, table: Table) -> tuple[KafkaTarget, list[str]]:
    """The target of a configuration, and its queues; see `bridge.endpoints`."""
    destinations = table.mapping("queues", destination_of, 'the name of a topic, or { topic = "...", key = "word 2" }')
    return KafkaTarget(name, settings_of(url, table), destinations), list(destinations)


def dead_letter_target(name: str, url: str, table: Table) -> KafkaTarget:
    """The target of dead letters of a configuration; see `bridge.endpoints`."""
    return KafkaTarget(name, settings_of(url, table), {"": Destination(table.text("topic"))})


def destination_of(value: Any) -> Destination:
    """A destination as a configuration has it. Raises ValueError."""
    if isinstance(value, str):
        return Destination(value)
    if not isinstance(value, dict) or not {*value} <= {"topic", "key"} or not isinstance(value.get("topic"), str):
        raise ValueError
    try:
        return Destination(value["topic"], key_from(value["key"]) if "key" in value else ROUTING_KEY)
    except (HashstarError, TypeError, InputError):
        raise ValueError from None
