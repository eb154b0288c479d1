"""Pumps for the bridge's benchmark, as the daemon would run them, and the clock that they are measured with."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from benchmarks.bridge_brokers import FROM, TO
from benchmarks.measure import processor_seconds
from bridge.daemon.run import calm_collector
from bridge.endpoint import Outgoing, Receiver, Source, Target
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.config import PublishAddress, RabbitmqSource, RabbitmqTarget
from bridge.endpoints.topics import TopicDestination
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Queue, Router, Topology

WINDOW: Final = 2_000
KAFKA_WINDOW: Final = 10_000


class Rate(NamedTuple):
    """The result of a round."""

    per_second: float
    own: float
    """Microseconds of the processors for a message, of this process and those it began."""
    together: float
    """With the brokers."""


class Clock:
    """From the first message to the last."""

    def __init__(self, count: int, brokers: Sequence[int]) -> None:
        self._count = count
        self._brokers = brokers

    def start(self, done: int) -> None:
        """Start the clock after the first ``done`` messages."""
        self._count -= done
        self._processors = self._now()
        self._start = time.perf_counter()

    def stop(self) -> Rate:
        """All have."""
        took = time.perf_counter() - self._start
        own, theirs = (now - then for now, then in zip(self._now(), self._processors, strict=True))
        return Rate(self._count / took, own / self._count * 1e6, (own + theirs) / self._count * 1e6)

    def _now(self) -> tuple[float, float]:
        return processor_seconds(os.getpid()), processor_seconds(*self._brokers)


class Forgetting(Target):
    """Confirms all, and keeps nothing."""

    name = "nothing"

    async def open(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def send(self, messages: Sequence[Outgoing]) -> None:
        asyncio.get_running_loop().call_soon(self._receiver.confirmed, messages)

    async def close(self) -> None:
        pass


class Counting:
    """Listens to a pump, and counts what targets have confirmed."""

    def __init__(self, clock: Clock | None, wanted: int) -> None:
        self.count = 0
        self.rate: asyncio.Future[Rate] = asyncio.get_running_loop().create_future()
        """Known when as many as are wanted have been confirmed."""
        self._clock = clock
        self._wanted = wanted
        self._reached = asyncio.Event()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None

    def confirmed(self, _: str, messages: Sequence[Outgoing], __: float) -> None:
        first, self.count = self.count, self.count + len(messages)
        if self.count >= self._wanted:
            self._reached.set()
        if self._clock is None:
            return
        if not first:
            self._clock.start(self.count)
        if self.count >= self._wanted and not self.rate.done():
            self.rate.set_result(self._clock.stop())

    async def until(self, count: int, seconds: float) -> None:
        """Wait until ``count`` messages have been confirmed, or the time is over."""
        self._wanted = count
        if self.count < count:
            self._reached.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reached.wait(), max(0.0, seconds))


def pump_of(source: Source, target: Target, counting: Counting, window: int) -> Pump:
    """Build a pump of one source and one target, as the daemon does."""
    calm_collector()
    topology = Topology().declare_exchange(Exchange("bench", "topic")).declare_queue(Queue(TO))
    topology = topology.bind(Binding.to_queue("bench", TO, "#"))
    return Pump([Inlet(source, "bench")], Router(topology), {TO: target}, counting, Policy(window=window))


def from_queue(url: str) -> RabbitmqSource:
    """Return the queue that is filled, as a source."""
    return RabbitmqSource("bench", [parse_broker(url)], FROM, prefetch=WINDOW)


def to_queue(url: str) -> RabbitmqTarget:
    """Return the other queue, as a target."""
    return RabbitmqTarget("bench", [parse_broker(url)], {TO: PublishAddress.queue(TO)})


def from_topic(url: str, topic: str) -> Source:
    """Return a topic from its beginning, read by a new group, as a source."""
    from bridge.endpoints.kafka.config import KafkaSource

    settings = {"bootstrap.servers": url, "group.id": unique("bench")}
    return KafkaSource("bench", settings, [topic], window=KAFKA_WINDOW)


def to_topic(url: str) -> Target:
    """Return the topic that is written, as a target."""
    from bridge.endpoints.kafka.config import KafkaTarget

    return KafkaTarget("bench", {"bootstrap.servers": url}, {TO: TopicDestination(TO)})


def unique(name: str) -> str:
    """Return a unique name."""
    return f"{name}-{time.time_ns()}"
