"""A small model of Kafka below the real target: librdkafka's producer, and brokers that refuse batches as a whole."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from bridge.endpoint import Disconnected, Receiver
from bridge.endpoints.kafka.cluster.errors import Reasons
from bridge.endpoints.kafka.cluster.topics import KafkaTopic
from bridge.endpoints.kafka.producer.plain import BATCHES, KafkaTarget, Producing
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.endpoints.topics import TopicDestination
from tests.simulation.plan import Fault
from tests.simulation.sources import Client
from tests.simulation.world import World
from tests.support.virtual_loop import pass_time

LIMIT: Final = 6
"""Maximum size of a batch, in bytes: that of three messages."""


class Record(NamedTuple):
    """A record that a producer was given; also the message of its report."""

    place: int
    value: bytes
    report: Callable[[KafkaError | None, Any], None]
    headers: Sequence[tuple[str, bytes]]

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self.place


class ModelBroker:
    """Partitions, and the producers that it knows there. ``write`` is called with each batch that is written."""

    def __init__(
        self, limit: int, is_guilty: Callable[[bytes], bool], write: Callable[[int, Sequence[Record]], None]
    ) -> None:
        self._limit = limit
        self._is_guilty = is_guilty
        self._write = write
        self._next: dict[tuple[int, int], int] = {}
        """Producer and partition -> the number of the batch that it must write next."""

    def take(self, producer: ModelProducer, place: int, number: int, batch: list[Record]) -> int | None:
        """Write a batch, or return the code of its refusal; ``number`` counts the producer's batches there."""
        if sum(len(record.value) for record in batch) > self._limit:
            return KafkaError.MSG_SIZE_TOO_LARGE
        if any(self._is_guilty(record.value) for record in batch):
            return KafkaError.INVALID_RECORD
        # As brokers do: a producer of which nothing is there may begin with any number.
        if producer.stops and self._next.setdefault((id(producer), place), number) != number:
            return KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._next[id(producer), place] = number + 1
        self._write(place, batch)
        return None


class ModelProducer:
    """What librdkafka does with a batch that is refused, with batches of random lengths, several of them under way."""

    def __init__(self, broker: ModelBroker, random: Random, settings: Mapping[str, Any]) -> None:
        self.stops = settings["enable.gapless.guarantee"]
        self._broker = broker
        self._random = random
        self._most = settings.get("batch.num.messages", 6)
        self._largest = settings.get("message.max.bytes", 1_000_000)
        self._sent: dict[int, int] = {}
        self._queue: list[Record] = []
        self._answers: deque[tuple[list[Record], int | None]] = deque()
        self._reports: list[tuple[Record, int | None]] = []
        self._fatal = self._raised = False

    def produce(self, _: str, value: bytes, __: Any, place: int, report: Any, *, headers: Any = (), **___: Any) -> None:
        if self._fatal:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        if len(self._queue) > 30:
            raise BufferError
        if len(value) > self._largest:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self._queue.append(Record(place, value, report, headers))

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


class KafkaServer(Client):
    """A topic of two partitions that the real target writes to."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self.broker = ModelBroker(LIMIT, self._is_guilty, self._write)
        self.endpoint = _Topics(self)

    def is_at_fault(self, number: int) -> bool:
        """Return whether a message is refused by itself."""
        return self.world.odd.get(number) == "refused"

    def _is_guilty(self, value: bytes) -> bool:
        return self.name != "dead" and not self.world.well and self.is_at_fault(int(value))

    def _write(self, _: int, batch: Sequence[Record]) -> None:
        for record in batch:
            dead_queue = dict(record.headers).get("hashstar-queue", b"").decode()
            self.world.store("" if self.name == "dead" else self.name, int(record.value), dead_queue)

    def make_producer(self, changes: Mapping[str, Any]) -> Any:
        """Make a producer."""
        return _Producer(self, {**BATCHES, **changes})

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        if fault.what == "mute":
            asyncio.get_running_loop().call_later(fault.seconds, self.lose)

    def lose(self) -> None:
        connection = self.endpoint._connection
        if connection is not None:
            connection.lose(Disconnected("fenced"))
        self.news.set()

    def kill(self) -> None:
        self.is_dead = True
        self.endpoint.end()


class _Producer(ModelProducer):
    """A producer that does nothing while its brokers are silent, or when it was left."""

    def __init__(self, server: KafkaServer, settings: Mapping[str, Any]) -> None:
        super().__init__(server.broker, server.world.random, settings)
        self._server = server

    def poll(self, timeout: float) -> None:
        if not self._server.has("mute") and not self._server.is_dead:
            super().poll(timeout)


class _Topics(KafkaTarget):
    """The real target, without the threads and looks of its opening."""

    def __init__(self, server: KafkaServer) -> None:
        queue = "" if server.name == "dead" else server.name
        self._where: Final = {queue: TopicDestination("t")}
        super().__init__(server.name, {}, self._where)
        self._server: Final = server

    async def open(self, receiver: Receiver) -> None:
        server = self._server
        await server.reach()
        if server.is_dead:
            raise Disconnected("dead")
        writer = RecordWriter(self._where, {"t": KafkaTopic(2, None)}, self._turns)
        connection = self._connection = Producing(receiver, writer, Reasons())
        connection.producer = server.make_producer({})

        async def renew(changes: Mapping[str, Any]) -> None:
            await pass_time(server.world.delay(0.05))
            connection.producer = server.make_producer(changes)

        connection.renew = renew
        calls: Any = None
        self._tasks = [asyncio.create_task(self._work(connection, calls))]

    def end(self) -> None:
        """Leave the producer, which writes nothing more."""
        connection, self._connection = self._connection, None
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        if connection is not None:
            connection.closed = True
            connection.waiting.clear()

    async def close(self) -> None:
        self.end()
