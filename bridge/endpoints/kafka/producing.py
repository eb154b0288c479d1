"""Topics as a target: an idempotent producer, which keeps the order of each partition whatever its brokers do.

librdkafka reconnects, tries again for ever (``message.timeout.ms`` is 0) and writes each message once, so a target is
lost only by what does not pass: a right that is missing, a topic that is gone, or that has other partitions than the
topology says, a producer that is fenced. What was not confirmed then is purged before the next producer is made: it is
sent again, and must not arrive behind that.

No batch is larger than the least of its topics takes, as a broker refuses a batch as a whole: librdkafka would report
all its messages as too large.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from bridge.endpoint import Disconnected, Failure, Finding, Layout, Outgoing, Place, Receiver, Target
from bridge.endpoints.kafka.addresses import QUIET, Settings, offline, place_of
from bridge.endpoints.kafka.calls import Calls
from bridge.endpoints.kafka.checking import found_at_target, found_within
from bridge.endpoints.kafka.errors import CONNECTING, LOG, LOG_LEVEL, REFUSALS, Reasons, failure_of, trouble_of
from bridge.endpoints.kafka.health import MEASURE_EVERY, NO_BROKER, Health
from bridge.endpoints.kafka.records import Destination, Writer, with_whole_key
from bridge.endpoints.kafka.topics import Partitioned, Topic, agreed, topics_of
from bridge.endpoints.kafka.watching import Watch
from exchange.errors import HashstarError
from exchange.partition.partitioning.key_source import KeySource

__all__ = ["DEFAULTS", "KafkaTarget", "key_of", "partitioned", "sizes"]

POLL_EVERY: Final = 0.002
"""Seconds between looks for reports while messages are under way."""

IDLE_POLL: Final = 1.0
"""The same while none are, for errors and logs."""

UNCONFIRMED: Final = 7.0
"""Seconds without any confirmation, though messages are under way, after which that is trouble."""

CLOSING: Final = 5.0
"""Seconds that a producer may take to end."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "linger.ms": 5, "message.timeout.ms": 0, **CONNECTING, "log_level": LOG_LEVEL,
    "statistics.interval.ms": int(MEASURE_EVERY * 1_000),
}  # fmt: skip

FIXED: Final[Mapping[str, Any]] = {"enable.idempotence": True, "allow.auto.create.topics": False}

BATCH_BYTES: Final = 1_000_000


class Producing:
    """One producer, from its making to its end."""

    def __init__(self, producer: Producer, receiver: Receiver, writer: Writer, reasons: Reasons) -> None:
        self.producer = producer
        self.receiver = receiver
        self.writer = writer
        self.reasons = reasons
        self.under_way = 0
        self.answered = asyncio.get_running_loop().time()
        """When a message was answered for last, or the first one that is under way was sent."""
        self.health = Health(lambda: reasons.latest)
        self.waiting: deque[Outgoing] = deque()
        """Not taken yet, as the producer's queue is full."""
        self.confirmed: list[Outgoing] = []
        self.failed: list[tuple[Outgoing, Failure]] = []
        self.trouble: Disconnected | None = None
        self.polling: asyncio.Handle | None = None
        self.closed = False

    def produce(self) -> None:
        """Give the producer what is waiting, as much as it takes."""
        waiting, produce, record_of = self.waiting, self.producer.produce, self.writer.record
        if not self.under_way:
            self.answered = asyncio.get_running_loop().time()
        while waiting and self.trouble is None:
            outgoing = waiting[0]
            try:
                (topic, key, value, headers, timestamp, *_), number = record_of(outgoing)
                produce(
                    topic, value, key, number, partial(self._reported, outgoing), timestamp=timestamp or 0,
                    headers=headers,  # type: ignore[arg-type]  # a list of pairs
                )  # fmt: skip
            except BufferError:
                return
            except Disconnected as error:
                self.trouble = error
                return
            except KafkaException as error:
                self._refused(outgoing, error.args[0])
            except Exception as error:  # noqa: BLE001  whatever is wrong is wrong with this message only
                self.failed.append((outgoing, Failure(f"unmappable: {error}", final=True)))
            else:
                self.under_way += 1
            waiting.popleft()

    def _reported(self, outgoing: Outgoing, error: KafkaError | None, _: Any) -> None:
        self.under_way -= 1
        if error is None:
            self.confirmed.append(outgoing)
        else:
            self._refused(outgoing, error)

    def _refused(self, outgoing: Outgoing, error: KafkaError) -> None:
        if error.code() in REFUSALS and not error.fatal():
            self.failed.append((outgoing, failure_of(error)))
        elif self.trouble is None:
            self.trouble = trouble_of(error)

    def poll(self) -> None:
        """Hear reports and tell them; again soon, while there will be more."""
        self.polling = None
        if self.closed:
            return
        try:
            self.producer.poll(0)
        except KafkaException as error:  # what is fatal is not told to `error_cb`, but raised here, once
            self.trouble = self.trouble or trouble_of(error.args[0])
        self.produce()
        try:
            self.tell()
        finally:  # whatever the pump thinks of it, what is still under way must be heard of
            trouble = self.trouble or self.reasons.trouble
            if trouble is not None:
                self.lose(trouble)
            elif self.under_way or self.waiting:
                self.poll_soon(POLL_EVERY)

    def lose(self, trouble: Disconnected) -> None:
        """Tell the pump, unless it has closed this just now."""
        if not self.closed:
            self.closed = True
            self.receiver.lost(trouble)

    def tell(self) -> None:
        """Tell the pump what is known."""
        confirmed, self.confirmed = self.confirmed, []
        failed, self.failed = self.failed, []
        if confirmed or failed:
            self.answered = asyncio.get_running_loop().time()
        if confirmed:
            self.receiver.confirmed(confirmed)
        for outgoing, failure in failed:
            self.receiver.failed(outgoing, failure)

    def measured(self, statistics: str) -> None:
        """A ``stats_cb``."""
        self.health.look(statistics, monotonic())
        if self.health.is_abandoned:
            self.trouble = self.trouble or Disconnected(NO_BROKER)

    @property
    def stalled(self) -> str | None:
        """Why nothing is written; None: no reason is known."""
        now = asyncio.get_running_loop().time()
        if self.health.trouble is None and (self.under_way or self.waiting) and now - self.answered > UNCONFIRMED:
            reason = self.reasons.latest
            return f"the brokers confirm nothing{': ' if reason else ''}{reason}"
        return self.health.trouble

    def poll_soon(self, seconds: float) -> None:
        """Poll after so many seconds, unless that is to come anyway."""
        if self.polling is None and not self.closed:
            self.polling = asyncio.get_running_loop().call_later(seconds, self.poll)


class KafkaTarget(Target):
    """Topics. ``destinations`` maps the topology's queues to them; ``""`` among them is for messages of no queue."""

    def __init__(self, name: str, settings: Settings, destinations: Mapping[str, Destination]) -> None:
        self.name = name
        self._given = settings
        self._destinations = destinations
        self._topics = sorted({destination.topic for destination in destinations.values()})
        self._partitioned: Partitioned = {}
        self._state: Producing | None = None
        self._calls: Calls | None = None
        self._watch: Watch | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of librdkafka, as of now. Raises InputError where a secret cannot be read any more."""
        return dict(self._given() if callable(self._given) else self._given)

    def make_offline(self) -> None:
        """Make a producer and drop it, without an address. Raises KafkaException for settings that are wrong."""
        Producer({**DEFAULTS, **offline(self.settings), **FIXED}, logger=QUIET)

    @property
    def trouble(self) -> str | None:
        state, watch = self._state, self._watch
        if state is None or watch is None:
            return None
        return state.stalled or watch.trouble

    @property
    def places(self) -> frozenset[Place]:
        return frozenset([place_of(self.settings, topic) for topic in self._topics])

    async def check(self) -> Sequence[Finding]:
        return await found_within(lambda: found_at_target(self.settings, self._topics, self._partitioned))

    def meet(self, layout: Layout) -> None:
        self._partitioned = partitioned(self._destinations, layout)

    def key_of(self, outgoing: Outgoing) -> Hashable:
        return key_of(self._destinations, outgoing, super().key_of)

    async def open(self, receiver: Receiver) -> None:
        calls = self._calls = Calls()
        reasons = Reasons()
        given = self.settings
        try:
            topics = await calls.call(lambda: topics_of(given, self._topics, reasons))
            agreed(topics, self._partitioned)
            state: Producing | None = None

            def measured(statistics: str) -> None:
                if state is not None:
                    state.measured(statistics)

            settings = {**DEFAULTS, **sizes(topics.values()), **given, **FIXED}
            producer = Producer({**settings, "error_cb": reasons.heard, "stats_cb": measured}, logger=reasons)
        except KafkaException as error:
            raise reasons.why(error) from None
        state = self._state = Producing(producer, receiver, Writer(self._destinations, topics), reasons)
        self._watch = Watch(producer, topics, self._partitioned, reasons)
        self._tasks = [
            asyncio.create_task(self._keep_polling(state)),
            asyncio.create_task(self._watch.run(lambda found: self._changed(state, found))),
        ]
        for task in self._tasks:
            task.add_done_callback(partial(self._ended, state))

    def _changed(self, state: Producing, topics: Mapping[str, Topic]) -> None:
        """Topics grow, and producers everywhere else see it."""
        state.writer = Writer(self._destinations, topics)

    async def _keep_polling(self, state: Producing) -> None:
        """Have what librdkafka has to say heard also while nothing is written."""
        while not state.closed:
            await asyncio.sleep(IDLE_POLL)
            state.poll_soon(0)

    def _ended(self, state: Producing, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (problem := task.exception()) is None:
            return
        if not isinstance(problem, Disconnected):
            LOG.error("%s: %r", self.name, problem, exc_info=problem)
            problem = Disconnected(repr(problem))
        state.lose(problem)

    def send(self, messages: Sequence[Outgoing]) -> None:
        state = self._state
        if state is None:
            return
        state.waiting += messages
        state.produce()
        state.poll_soon(0)

    async def close(self) -> None:
        state, self._state = self._state, None
        calls, self._calls = self._calls, None
        for task in self._tasks:
            task.cancel()
        self._tasks, self._watch = [], None
        if calls is None:
            return
        if state is not None:
            state.closed = True
            state.waiting.clear()
            await asyncio.wait([calls.call(partial(end, state.producer))], timeout=CLOSING)
        calls.end()


def end(producer: Producer) -> None:
    """Forget what was not written, and end."""
    with suppress(KafkaException):  # a fatal error that nobody heard yet
        producer.purge(blocking=False)
        producer.flush(CLOSING)


def sizes(topics: Any) -> dict[str, int]:
    """Settings with which what a topic takes can be sent, and no batch is more than any topic takes."""
    limits = [topic.most_bytes for topic in topics if topic.most_bytes is not None]
    if not limits:
        return {}
    return {
        "message.max.bytes": min(max(*limits, BATCH_BYTES), 1_000_000_000),
        "batch.size": max(min(*limits, BATCH_BYTES), 1),
    }


def partitioned(destinations: Mapping[str, Destination], layout: Layout) -> Partitioned:
    """Queue -> its topic, and over how many partitions the topology spreads it; of queues that are partitioned."""
    found = {}
    for queue, destination in destinations.items():
        partitioning = layout.topology.queues[queue].partitioning
        if partitioning is not None:
            found[queue] = destination.topic, len(list(partitioning.partitions))
    return found


def key_of(
    destinations: Mapping[str, Destination], outgoing: Outgoing, otherwise: Callable[[Outgoing], Hashable]
) -> Hashable:
    """See `Target.key_of`: of a queue that is not partitioned, what the table has for its key, as that decides."""
    destination, placement = destinations.get(outgoing.queue), outgoing.placement
    if placement is not None:
        source: KeySource | None = placement.partitioning.key
        if placement.partitioning.key.part != "word" or with_whole_key(outgoing.message) is outgoing.message:
            return otherwise(outgoing)
    else:
        source = None if destination is None else destination.key
    if source is None:
        return otherwise(outgoing)
    try:
        key = source.of(with_whole_key(outgoing.message))
    except HashstarError:  # nor can it be written then
        return otherwise(outgoing)
    return outgoing.queue, key if isinstance(key, Hashable) else repr(key)
