"""Topics as a target: an idempotent producer, which keeps the order of each partition whatever its brokers do.

librdkafka reconnects, tries again for ever (``message.timeout.ms`` is 0) and writes each message once, so a target is
lost only by what does not pass: a right that is missing, a topic that is gone, a producer that is fenced. What was not
confirmed then is purged before the next producer is made: it is sent again, and must not arrive behind that.

No batch is larger than the least of its topics takes, as a broker refuses a batch as a whole: librdkafka would report
all its messages as too large.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from bridge.endpoint import Disconnected, Failure, Layout, Outgoing, Receiver, Target
from bridge.kafka.calls import Calls
from bridge.kafka.errors import LOG_LEVEL, RECONNECT_MOST, REFUSALS, Reasons, failure_of, trouble_of
from bridge.kafka.records import Destination, Writer
from bridge.kafka.topics import Partitioned, Topic, agreed, topics_of
from exchange.errors import HashstarError

__all__ = ["DEFAULTS", "KafkaTarget", "key_of", "partitioned", "sizes"]

POLL_EVERY: Final = 0.002
"""Seconds between looks for reports while messages are under way."""

IDLE_POLL: Final = 1.0
"""The same while none are, for errors and logs."""

LOOK_EVERY: Final = 60.0
"""Seconds between looks at how many partitions topics have."""

CLOSING: Final = 5.0
"""Seconds that a producer may take to end."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "linger.ms": 5, "message.timeout.ms": 0, "reconnect.backoff.max.ms": RECONNECT_MOST, "log_level": LOG_LEVEL,
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
            except (HashstarError, TypeError, ValueError) as error:
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
        if confirmed:
            self.receiver.confirmed(confirmed)
        for outgoing, failure in failed:
            self.receiver.failed(outgoing, failure)

    def poll_soon(self, seconds: float) -> None:
        """Poll after so many seconds, unless that is to come anyway."""
        if self.polling is None and not self.closed:
            self.polling = asyncio.get_running_loop().call_later(seconds, self.poll)


class KafkaTarget(Target):
    """Topics. ``destinations`` maps the topology's queues to them; ``""`` among them is for messages of no queue."""

    def __init__(self, name: str, settings: Mapping[str, Any], destinations: Mapping[str, Destination]) -> None:
        self.name = name
        self._settings = dict(settings)
        self._destinations = destinations
        self._topics = sorted({destination.topic for destination in destinations.values()})
        self._partitioned: Partitioned = {}
        self._state: Producing | None = None
        self._calls: Calls | None = None
        self._watching: asyncio.Task[None] | None = None

    def meet(self, layout: Layout) -> None:
        self._partitioned = partitioned(self._destinations, layout)

    def key_of(self, outgoing: Outgoing) -> Hashable:
        return key_of(self._destinations, outgoing, super().key_of)

    async def open(self, receiver: Receiver) -> None:
        calls = self._calls = Calls()
        reasons = Reasons()
        try:
            topics = await calls.call(lambda: topics_of(self._settings, self._topics, reasons))
            agreed(topics, self._partitioned)
            settings = {**DEFAULTS, **sizes(topics.values()), **self._settings, **FIXED}
            producer = Producer({**settings, "error_cb": reasons.heard}, logger=reasons)
        except KafkaException as error:
            raise reasons.why(error) from None
        self._state = Producing(producer, receiver, Writer(self._destinations, topics), reasons)
        self._watching = asyncio.create_task(self._watch(self._state, calls, topics))

    async def _watch(self, state: Producing, calls: Calls, topics: Mapping[str, Topic]) -> None:
        """Topics grow, and producers everywhere else see it; and what is told of connections is to be heard."""
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while not state.closed:
            await asyncio.sleep(IDLE_POLL)
            state.poll_soon(0)
            if loop.time() - looked < LOOK_EVERY:
                continue
            looked = loop.time()
            with suppress(KafkaException, Disconnected):
                now = await calls.call(lambda: topics_of(self._settings, self._topics, Reasons()))
                if now != topics:
                    topics = now
                    state.writer = Writer(self._destinations, now)

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
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
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
    destination = destinations.get(outgoing.queue)
    if outgoing.placement is not None or destination is None or destination.key is None:
        return otherwise(outgoing)
    try:
        key = destination.key.of(outgoing.message)
    except HashstarError:  # nor can it be written then
        return otherwise(outgoing)
    return outgoing.queue, key if isinstance(key, Hashable) else repr(key)
