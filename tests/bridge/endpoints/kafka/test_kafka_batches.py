"""Batches that a broker refuses: exactly the guilty messages are refused, and order holds, in a model of both sides."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.kafka.cluster.errors import Reasons
from bridge.endpoints.kafka.cluster.topics import KafkaTopic
from bridge.endpoints.kafka.producer.batches import Batching
from bridge.endpoints.kafka.producer.plain import BATCHES, Producing
from bridge.endpoints.kafka.producer.target import ASK_EVERY, POLL_EVERY, POLL_MOST
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.endpoints.topics import TopicDestination
from exchange import Message
from tests.simulation.kafka import ModelBroker, ModelProducer, Record
from tests.support.bridge.behaviour import Reports
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

LIMIT = 100
"""Maximum size of a batch, in bytes."""
GUILTY = b"x"
"""A message with this in its body is refused by itself, and so is a batch with it."""


class Broker(ModelBroker):
    """A broker that keeps what was written."""

    def __init__(self) -> None:
        super().__init__(LIMIT, lambda value: GUILTY in value, self._keep)
        self.written: dict[int, list[bytes]] = {}

    def _keep(self, place: int, batch: Sequence[Record]) -> None:
        self.written.setdefault(place, []).extend(record.value for record in batch)


class Scene:
    """A connection to the model of a broker."""

    def __init__(self, random: Random, known: int = 1_000_000) -> None:
        self.broker, self.reports, self.made = Broker(), Reports(), 0
        self.known = known
        """Limit of the topic when it was asked for, long ago."""
        self.state = Producing(
            self.reports, RecordWriter({"q": TopicDestination("t")}, {"t": KafkaTopic(2, None)}), Reasons()
        )
        self.random = random
        self.make(BATCHES)
        self.state.renew, self.state.ask_limits = self.renew, self.ask_limits
        self.state.limits_asked_at -= ASK_EVERY

    async def ask_limits(self) -> bool:
        """Learn the limit of now."""
        await pass_time(self.random.choice((0, 0.001, 0.05)))
        before, self.known = self.known, LIMIT
        self.state.limits_asked_at, self.state.outgrown = asyncio.get_running_loop().time(), False
        return before != LIMIT

    async def renew(self, changes: Mapping[str, Any]) -> None:
        """Make another producer after a while, as on a thread."""
        await pass_time(self.random.choice((0, 0.001, 0.05)))
        self.make(changes)

    def make(self, changes: Mapping[str, Any]) -> None:
        made: Any = ModelProducer(self.broker, self.random, {**BATCHES, "message.max.bytes": self.known, **changes})
        self.state.producer = made
        self.made += 1

    async def write(self, bodies: list[bytes]) -> None:
        """Write messages of four keys, and wait for all answers."""
        messages = [Message("", f"k{n % 4}", body=b"%d:%b" % (n, body)) for n, body in enumerate(bodies)]
        for n, message in enumerate(messages, 1):
            self.state.waiting.append(Outgoing(message, Delivery(message), "q", None, n))
            if self.random.random() < 0.2:
                self.state.produce()
                self.state.poll_soon(0)
                await pass_time(self.random.choice((0, 0.001, 0.01)))
        self.state.poll_soon(0)
        await self.reports.answers(len(bodies))


BODIES = st.lists(
    st.one_of(st.just(b""), st.just(GUILTY), st.integers(0, 60).map(bytes), st.just(bytes(LIMIT))), max_size=60
)


@examples(200)
@given(bodies=BODIES, seed=st.integers(0, 1 << 20), known=st.sampled_from([LIMIT // 3, LIMIT, 10 * LIMIT]))
def test_exactly_the_guilty_are_refused_and_each_partition_has_all_others_once_and_in_order(
    bodies: list[bytes], seed: int, known: int
) -> None:
    """Also where the limit is another one than when it was asked for."""

    async def check() -> None:
        scene = Scene(Random(seed), known)
        await scene.write(bodies)
        guilty = [n for n, body in enumerate(bodies) if body == GUILTY or len(b"%d:" % n) + len(body) > LIMIT]
        assert sorted(outgoing.number - 1 for outgoing, _ in scene.reports.failures) == guilty
        assert all(failure.final for _, failure in scene.reports.failures)
        written = [[int(value.partition(b":")[0]) for value in values] for values in scene.broker.written.values()]
        assert all(numbers == sorted(numbers) for numbers in written)
        assert sorted(chain(*written)) == [n for n in range(len(bodies)) if n not in guilty]
        assert not scene.reports.losses

    run_virtually(check())


def test_messages_go_in_batches_again_after_a_calm_time_and_batches_that_were_too_large_are_smaller() -> None:
    async def check() -> None:
        scene = Scene(Random(1))
        await scene.write([bytes(60)] * 40)
        assert not scene.reports.failures
        assert scene.made == 2
        while scene.made == 2:
            scene.state.poll_soon(0)  # as the target does every second
            await pass_time(0.1)
        assert not scene.state.batching.alone
        assert scene.state.batching.batch_bytes < 1_000_000

    run_virtually(check())


@pytest.mark.parametrize("count", [1, 2])
def test_batches_become_smaller_only_if_one_of_several_messages_was_too_large(count: int) -> None:
    batching = Batching(80_000)
    error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    message = Message("", "k", body=bytes(20_000))
    for n in range(count):
        batching.suspect(Outgoing(message, Delivery(message), "q", None, n), error)
    batching.part(0.0)
    assert batching.batch_bytes == (80_000 if count == 1 else 20_000)


class SilentProducer:
    """A producer whose brokers confirm its only message some time after it was written."""

    def __init__(self, confirms_at: float) -> None:
        self.confirms_at = confirms_at
        self.polls: list[float] = []
        self._report: Any = None

    def produce(self, topic: str, value: bytes, key: bytes, number: int, report: Any, **_: Any) -> None:
        self._report = report

    def poll(self, _: float) -> None:
        now = asyncio.get_running_loop().time()
        self.polls.append(now)
        if self._report is not None and now >= self.confirms_at:
            report, self._report = self._report, None
            report(None, SimpleNamespace(topic=lambda: "t", partition=lambda: 0))


@pytest.mark.parametrize("seconds", [0.0, 0.003, 0.05, 0.5, 20.0])
def test_silent_brokers_are_polled_rarely_and_a_confirmation_is_late_by_a_tenth_of_its_time(seconds: float) -> None:
    async def check() -> None:
        scene = Scene(Random(1))
        producer: Any = SilentProducer(seconds)
        scene.state.producer = producer
        message = Message("", "k", body=b"1")
        scene.state.waiting.append(Outgoing(message, Delivery(message), "q", None, 1))
        scene.state.produce()
        scene.state.poll_soon(0)
        await scene.reports.answers(1)
        late = asyncio.get_running_loop().time() - seconds
        assert late <= max(POLL_EVERY, min(seconds / 9, POLL_MOST)) + 1e-6
        assert len(producer.polls) <= 60 + 12 * seconds

    run_virtually(check())


def test_a_message_that_comes_after_a_silence_is_polled_for_at_once() -> None:
    async def check() -> None:
        scene = Scene(Random(1))
        producer: Any = SilentProducer(1_000.0)
        scene.state.producer = producer
        message = Message("", "k", body=b"1")
        scene.state.waiting.append(Outgoing(message, Delivery(message), "q", None, 1))
        scene.state.produce()
        scene.state.poll_soon(0)
        await pass_time(30.01)
        before = len(producer.polls)
        scene.state.poll_soon(0)
        await pass_time(0.001)
        assert len(producer.polls) == before + 1

    run_virtually(check())
