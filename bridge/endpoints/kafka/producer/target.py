"""What targets of Kafka have in common: their topics, one producer for each connection, and the watch over both.

librdkafka reconnects and writes each message once by itself, so a target is lost only by what does not pass: a missing
permission, a topic that is gone or has other partitions than the topology has, a producer that is fenced.

No batch is larger than the smallest limit of the topics, as far as it is known. `batches` finds out which messages of a
refused batch are at fault. librdkafka refuses what is larger than the largest limit, by itself; as that limit may have
been raised since, it is asked for anew before such a message is judged.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Hashable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, ClassVar, Final, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

from bridge.aside import call_aside
from bridge.endpoint import BridgeLayout, Disconnected, Finding, Outgoing, Place, Receiver, Target
from bridge.endpoints.kafka.cluster.addresses import (
    Settings,
    describe_offline,
    place_of,
    read_current_settings,
)
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.checking import check_target, run_check
from bridge.endpoints.kafka.cluster.errors import CONNECTING, LOG, LOG_LEVEL, Reasons
from bridge.endpoints.kafka.cluster.health import MEASURE_EVERY, ClientHealth
from bridge.endpoints.kafka.cluster.tokens import prepare_login
from bridge.endpoints.kafka.cluster.topics import KafkaTopic, Partitioned, check_topics, fetch_topics
from bridge.endpoints.kafka.producer.batches import BATCH_BYTES, Batching
from bridge.endpoints.kafka.producer.watching import TopicWatch
from bridge.endpoints.kafka.producer.writer import RecordWriter, choose_partitioner_key, with_whole_key
from bridge.endpoints.topics import TopicDestination, find_body_keys
from bridge.pump.placing import KeylessTurns
from exchange.errors import HashstarError
from exchange.partition.clients.kafka import build_default_3_3
from exchange.partition.partitioning.key_source import KeySource
from exchange.partition.partitions import Partitions
from exchange.routing.route import Placement
from exchange.topology.partitioners import find_python_partitionings
from exchange.values.message import Message

CLOSING: Final = 5.0
"""Seconds that a producer may take to end."""

POLL_EVERY: Final = 0.002
"""Minimum number of seconds between polls for delivery reports while messages are under way."""

POLL_MOST: Final = 0.1
"""Maximum number of seconds between these polls."""

ASK_EVERY: Final = 10.0
"""Seconds after which limits of topics are asked for again when a message is larger."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "linger.ms": 5, "message.timeout.ms": 0, **CONNECTING, "log_level": LOG_LEVEL,
    "statistics.interval.ms": int(MEASURE_EVERY * 1_000),
}  # fmt: skip
"""Settings that a table may change."""

FIXED: Final[Mapping[str, Any]] = {"enable.idempotence": True, "allow.auto.create.topics": False}
"""Settings that a table may not change."""


def find_pause(waited: float) -> float:
    """Return the seconds until the next poll for delivery reports, of which none has come for ``waited`` seconds.

    No report is taken later than by a tenth of the time that it took, and silent brokers do not cost a processor.
    """
    return min(max(POLL_EVERY, waited / 10), POLL_MOST)


class Connection(ABC):
    """A producer, from its start to its end."""

    stalls_after: ClassVar[float]
    """Seconds without progress, while messages wait, after which the target is in trouble."""
    stall_text: ClassVar[str]
    """Text of that trouble."""

    producer: Producer
    """Set by the target: the producer needs `on_statistics` when it is made."""
    renew: Callable[[Mapping[str, Any]], Coroutine[Any, Any, None]]
    """Makes another producer with these settings changed, and ends the former; set by the target."""
    ask_limits: Callable[[], Coroutine[Any, Any, bool]]
    """Asks for the limits of the topics, and returns whether the next producer has others; set by the target."""

    def __init__(self, receiver: Receiver, writer: RecordWriter, reasons: Reasons) -> None:
        self.receiver = receiver
        self.writer = writer
        self.reasons = reasons
        self.health = ClientHealth(
            lambda: reasons.latest, reasons.may_be_tls, reasons.connects_within, reasons.note_connected
        )
        self.waiting: deque[Outgoing] = deque()
        """Messages that the producer was not given yet."""
        self.batching = Batching()
        self.moved = asyncio.get_running_loop().time()
        """Time of the latest progress, or when the first message came, by the loop's clock."""
        self.closed = False
        self.outgrown = False
        """Whether limits are to be asked for before the next message is written."""
        self.limits_asked_at = self.moved

    def is_outgrown(self, error: KafkaError) -> bool:
        """Return whether a message that the producer has refused may be within the limit of now, which is to be asked
        for then.
        """
        asked = asyncio.get_running_loop().time() - self.limits_asked_at
        self.outgrown = error.code() == KafkaError.MSG_SIZE_TOO_LARGE and asked >= ASK_EVERY
        return self.outgrown

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether there are messages that are not confirmed."""

    @abstractmethod
    def lose(self, trouble: Disconnected) -> None:
        """End the connection."""

    def on_statistics(self, text: str) -> None:
        """Look at librdkafka's statistics, on whichever thread polls: that of calls, or the event loop's."""
        self.health.look(text, monotonic())
        if self.health.abandoned is not None:
            self.reasons.trouble = self.reasons.trouble or Disconnected(self.health.abandoned)

    @property
    def stalled(self) -> str | None:
        """Why nothing is written; None: no reason is known."""
        now = asyncio.get_running_loop().time()
        if self.health.trouble is None and self.is_busy and now - self.moved > self.stalls_after:
            return f"{self.stall_text}{self.find_reason()}"
        return self.health.trouble

    def find_reason(self) -> str:
        """Return why brokers do not answer, behind a colon: a quota, no producer id, or the last error; "" if none is
        known.
        """
        reason = self.health.find_quota(monotonic()) or self.reasons.find_why_not_begun() or self.reasons.latest
        return reason and f": {reason}"


C = TypeVar("C", bound=Connection)


class TopicTarget(Target, Generic[C]):
    """Topics. ``destinations`` maps the topology's queues to them; ``""`` among them is for messages of no queue."""

    def __init__(self, name: str, settings: Settings, destinations: Mapping[str, TopicDestination]) -> None:
        self.name = name
        self._given = settings
        self._destinations = destinations
        self.body_keys = find_body_keys(destinations)
        self._topics = sorted({destination.topic for destination in destinations.values()})
        self._partitioned: Partitioned = {}
        self._with_racks = False
        """Whether a partitioner may read the racks of leaders."""
        self._turns = KeylessTurns(build_default_3_3())
        self._connection: C | None = None
        self._calls: Calls | None = None
        self._watch: TopicWatch | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of librdkafka, as of now. Raises Disconnected where a secret cannot be read any more."""
        return read_current_settings(self._given)

    def producer_settings(self, given: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
        """Return all settings of a producer; ``limits`` are those that follow from its topics."""
        return {**DEFAULTS, **limits, **given, **FIXED}

    @property
    def offline_settings(self) -> dict[str, Any]:
        """All settings of a producer, without addresses and tokens."""
        return self.producer_settings(describe_offline(self.settings), {})

    def make_writer(self, topics: Mapping[str, KafkaTopic]) -> RecordWriter:
        """Return what makes records for these topics."""
        return RecordWriter(self._destinations, topics, self._turns)

    def make_offline(self, settings: Mapping[str, Any], logger: logging.Logger) -> None:
        """Make a producer and drop it, without an address. Raises KafkaException for settings that are wrong."""
        Producer(dict(settings), logger=logger).poll(0)  # which passes on what it has logged

    @property
    def trouble(self) -> str | None:
        connection, watch = self._connection, self._watch
        if connection is None or watch is None:
            return None
        return connection.stalled or watch.trouble

    @property
    def places(self) -> frozenset[Place]:
        return frozenset([place_of(self.settings, topic) for topic in self._topics])

    async def check(self) -> Sequence[Finding]:
        return await run_check(lambda: check_target(prepare_login(self.settings), self._topics, self._partitioned))

    def meet(self, layout: BridgeLayout) -> None:
        self._partitioned = {
            queue: (destination.topic, len(list(partitioning.partitions)))
            for queue, destination in self._destinations.items()
            if (partitioning := layout.topology.queues[queue].partitioning) is not None
        }
        mine = [layout.topology.queues[queue].partitioning for queue in self._partitioned]
        self._with_racks = not find_python_partitionings(layout.topology).keys().isdisjoint(self._destinations) or any(
            partitioning is not None and "rack=" in partitioning.strategy for partitioning in mine
        )

    def key_of(self, outgoing: Outgoing) -> Hashable:
        """Return the key whose messages are kept in order.

        For a queue that is not partitioned it is the key of the target's table, if there is one; else as in
        `Target.key_of`. Where the key of a record was too long for AMQP, the whole key counts.
        """
        destination, placement = self._destinations.get(outgoing.queue), outgoing.placement
        if placement is not None:
            source: KeySource | None = placement.partitioning.key
            if placement.partitioning.key.part != "word" or with_whole_key(outgoing.message) is outgoing.message:
                return super().key_of(outgoing)
        else:
            source = None if destination is None else destination.key
        if source is None:
            return super().key_of(outgoing)
        try:
            key = source.read(with_whole_key(outgoing.message))
        except HashstarError:  # nor can it be written then
            return super().key_of(outgoing)
        return outgoing.queue, key if isinstance(key, Hashable) else repr(key)

    def view_for(self, message: Message, placement: Placement) -> tuple[str, Any, Partitions]:
        topic = self._destinations[placement.queue].topic
        known = None if self._connection is None else self._connection.writer.leaders.get(topic)
        return topic, choose_partitioner_key(message, placement), known or placement.partitioning.partitions

    def name_destination(self, outgoing: Outgoing) -> tuple[str, ...]:
        return (self._destinations[outgoing.queue].topic,)

    async def open(self, receiver: Receiver) -> None:
        calls = self._calls = Calls()
        given = await calls.call(lambda: prepare_login(self.settings))
        reasons = Reasons(given)
        try:
            fetch = partial(
                fetch_topics, given, self._topics, reasons, with_racks=self._with_racks,
                wanted=dict(self._partitioned.values()),
            )  # fmt: skip
            topics = await calls.call(fetch)
            check_topics(topics, self._partitioned)
            await self._check_sources(calls, given, reasons)
            connection = self._connect(receiver, self.make_writer(topics), reasons)
            callbacks = {"error_cb": reasons.note_error, "stats_cb": connection.on_statistics}
            settings = self.producer_settings(given, _limits_of(topics.values()))
            connection.producer = await calls.call(lambda: Producer({**settings, **callbacks}, logger=reasons))
            connection.batching.batch_bytes = int(settings.get("batch.size", BATCH_BYTES))

            async def renew(changes: Mapping[str, Any]) -> None:
                other = await calls.call(lambda: Producer({**settings, **changes, **callbacks}, logger=reasons))
                if connection.closed:  # while it was made
                    await call_aside(self._end, other)
                    return
                former, connection.producer = connection.producer, other
                calls.call(partial(self._end, former))

            async def ask_limits() -> bool:
                current = self.producer_settings(given, _limits_of((await calls.call(fetch)).values()))
                connection.limits_asked_at, connection.outgrown = asyncio.get_running_loop().time(), False
                if current == settings:
                    return False
                settings.update(current)
                connection.batching.batch_bytes = int(settings.get("batch.size", BATCH_BYTES))
                return True

            connection.renew, connection.ask_limits = renew, ask_limits
            self._connection = connection
            await self._begin(connection, calls)
        except KafkaException as error:
            raise await call_aside(reasons.explain, error) from None
        self._watch = TopicWatch(lambda: connection.producer, topics, self._partitioned, connection.find_reason)
        watching = self._watch.run(lambda changed: self._use(connection, changed))
        self._tasks = [asyncio.create_task(work) for work in (watching, self._work(connection, calls))]
        for task in self._tasks:
            task.add_done_callback(partial(self._on_task_end, connection))

    async def _check_sources(self, calls: Calls, given: Mapping[str, Any], reasons: Reasons) -> None:
        """Raise InputError or KafkaException for sources that do not fit."""

    @abstractmethod
    def _connect(self, receiver: Receiver, writer: RecordWriter, reasons: Reasons) -> C:
        """Return a connection without its producer."""

    async def _begin(self, connection: C, calls: Calls) -> None:
        """Have a producer ready to write. Raises KafkaException, Disconnected."""

    @abstractmethod
    def _work(self, connection: C, calls: Calls) -> Coroutine[Any, Any, None]:
        """Work as long as the target is open."""

    def _use(self, connection: C, topics: Mapping[str, KafkaTopic]) -> None:
        """Write to partitions that were added, as producers everywhere else do."""
        connection.writer = self.make_writer(topics)

    def _on_task_end(self, connection: C, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (problem := task.exception()) is None:
            return
        if not isinstance(problem, Disconnected):
            LOG.error("%s: %r", self.name, problem, exc_info=problem)
            problem = Disconnected(repr(problem))
        connection.lose(problem)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        calls, self._calls = self._calls, None
        tasks, self._tasks, self._watch = self._tasks, [], None
        for task in tasks:
            task.cancel()
        if calls is None:
            return
        if connection is not None:
            await self._finish(connection, tasks, calls)
            connection.closed = True
            connection.waiting.clear()
            ending = calls.call(partial(self._end, connection.producer))
            # Both have a callback of the connection: none of them would be freed.
            del connection.producer, connection.renew, connection.ask_limits
            await asyncio.wait([ending], timeout=CLOSING)
        calls.end()

    async def _finish(self, connection: C, tasks: Collection[asyncio.Task[None]], calls: Calls) -> None:
        """Do what is left to do before a producer is ended; ``tasks`` were cancelled just now."""

    @abstractmethod
    def _end(self, producer: Producer) -> None:
        """End a producer; wait for it. Called on the thread of calls."""


def _limits_of(topics: Collection[KafkaTopic]) -> dict[str, int]:
    """Return settings that allow messages up to the largest limit of the topics, and batches up to the smallest."""
    limits = [topic.most_bytes for topic in topics if topic.most_bytes is not None]
    if not limits:
        return {}
    return {
        "message.max.bytes": min(max(*limits, BATCH_BYTES), 1_000_000_000),
        "batch.size": max(min(*limits, BATCH_BYTES), 1),
    }
