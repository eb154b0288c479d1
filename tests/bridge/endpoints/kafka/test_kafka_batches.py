"""Batches that a broker refuses: exactly the guilty messages are refused, and order holds, in a model of both sides."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.kafka.cluster.errors import Reasons
from bridge.endpoints.kafka.cluster.topics import KafkaTopic
from bridge.endpoints.kafka.producer.batches import Batching
from bridge.endpoints.kafka.producer.plain import BATCHES, Producing
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.endpoints.topics import TopicDestination
from exchange import Message
from tests.support.bridge.behaviour import Reports
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

LIMIT = 100
"""Maximum size of a batch, in bytes."""
GUILTY = b"x"
"""A message with this in its body is refused by itself, and so is a batch with it."""


class Record(NamedTuple):
    """A record that a producer was given; also the message of its report."""

    place: int
    value: bytes
    report: Callable[[KafkaError | None, Any], None]

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self.place


class Broker:
    """Partitions, each with what was written to it, and the producers that it knows there."""

    def __init__(self) -> None:
        self.written: dict[int, list[bytes]] = {}
        self.next: dict[tuple[int, int], int] = {}
        """Producer and partition -> the number of the batch that it must write next."""

    def take(self, producer: Producer, place: int, number: int, batch: list[Record]) -> int | None:
        """Write a batch, or return the code of its refusal; ``number`` counts the producer's batches there."""
        if sum(len(record.value) for record in batch) > LIMIT:
            return KafkaError.MSG_SIZE_TOO_LARGE
        if any(GUILTY in record.value for record in batch):
            return KafkaError.INVALID_RECORD
        # As brokers do: a producer of which nothing is there may begin with any number.
        if producer.stops and self.next.setdefault((id(producer), place), number) != number:
            return KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.next[id(producer), place] = number + 1
        self.written.setdefault(place, []).extend(record.value for record in batch)
        return None


class Producer:
    """What librdkafka does with a batch that is refused, with batches of random lengths, several of them under way."""

    def __init__(self, broker: Broker, random: Random, settings: Mapping[str, Any]) -> None:
        self.stops = settings["enable.gapless.guarantee"]
        self._broker = broker
        self._random = random
        self._most = settings.get("batch.num.messages", 6)
        self._sent: dict[int, int] = {}
        self._queue: list[Record] = []
        self._answers: deque[tuple[list[Record], int | None]] = deque()
        self._reports: list[tuple[Record, int | None]] = []
        self._fatal = self._raised = False

    def produce(self, _: str, value: bytes, __: Any, place: int, report: Any, **___: Any) -> None:
        if self._fatal:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        if len(self._queue) > 30:
            raise BufferError
        self._queue.append(Record(place, value, report))

    def purge(self, *, in_queue: bool, in_flight: bool, blocking: bool) -> None:
        assert (in_queue, in_flight, blocking) == (True, False, True)
        self._reports += [(record, KafkaError._PURGE_QUEUE) for record in self._queue]
        self._queue.clear()

    def poll(self, _: float) -> None:
        for _ in range(self._random.randrange(4)):
            if self._random.random() < 0.6:
                self._write()
            elif self._answers:
                self._take_answer()
        if self._fatal and not self._raised:
            self._raised = True
            raise KafkaException(KafkaError(KafkaError._GAPLESS_GUARANTEE, "", fatal=True))
        reports, self._reports = self._reports, []
        for record, code in reports:
            record.report(None if code is None else KafkaError(code), record)

    def _write(self) -> None:
        if not self._queue or self._fatal or len(self._answers) > 4:
            return
        place = self._random.choice(self._queue).place
        batch = [record for record in self._queue if record.place == place]
        batch = batch[: self._random.randint(1, self._most)]
        self._queue = [record for record in self._queue if record not in batch]
        number = self._sent[place] = self._sent.get(place, -1) + 1
        self._answers.append((batch, self._broker.take(self, place, number, batch)))

    def _take_answer(self) -> None:
        batch, code = self._answers.popleft()
        if code == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._queue = batch + self._queue
            return
        if code is not None and self.stops and not self._fatal:
            self._fatal = True
            self.purge(in_queue=True, in_flight=False, blocking=True)  # reported before its cause
        self._reports += [(record, code) for record in batch]


class Scene:
    """A connection to the model of a broker."""

    def __init__(self, random: Random) -> None:
        self.broker, self.reports, self.made = Broker(), Reports(), 0
        self.state = Producing(
            self.reports, RecordWriter({"q": TopicDestination("t")}, {"t": KafkaTopic(2, None)}), Reasons()
        )
        self.random = random
        self.make(BATCHES)
        self.state.renew = self.renew

    async def renew(self, changes: Mapping[str, Any]) -> None:
        """Make another producer after a while, as on a thread."""
        await pass_time(self.random.choice((0, 0.001, 0.05)))
        self.make(changes)

    def make(self, changes: Mapping[str, Any]) -> None:
        made: Any = Producer(self.broker, self.random, {**BATCHES, **changes})
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
@given(bodies=BODIES, seed=st.integers(0, 1 << 20))
def test_exactly_the_guilty_are_refused_and_each_partition_has_all_others_once_and_in_order(
    bodies: list[bytes], seed: int
) -> None:
    async def check() -> None:
        scene = Scene(Random(seed))
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
