"""A small model of transactions of Kafka: what brokers have of a producer, and librdkafka's producer before them.

A coordinator commits records and offsets together, or none of them. It aborts what is open for too long, and then, or
when another producer takes the id, fences the one before. Offsets are taken from members of the group's generation of
now. Requests arrive and answers do not; a transaction that must be aborted, or a fatal error, is told at the next call.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from bridge.endpoints.kafka.consumer.assignment import METADATA
from tests.simulation.blocking import block
from tests.simulation.kafka_topic import ModelTopic

SECONDS: Final = 0.01
"""Maximum number of seconds until a request has arrived, and until its answer has."""
AGAIN: Final = 0.3
"""Seconds until a request is sent again."""

FENCED: Final = KafkaError.INVALID_PRODUCER_EPOCH


class Record(NamedTuple):
    """A record that a producer was given; also the message of its report."""

    topic: str
    partition: int
    value: bytes
    report: Callable[[KafkaError | None, Any], None]


class Open:
    """An open transaction."""

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.timer = timer
        self.records: list[Record] = []
        self.offsets: dict[tuple[str, int], tuple[int, str, int]] = {}
        """Name and partition of a source's topic -> offset, metadata and epoch."""


class ModelCoordinator:
    """Brokers of transactions. ``commit`` is called with the records of each, in order, as they become visible."""

    def __init__(self, commit: Callable[[Sequence[Record]], None]) -> None:
        self.sources: dict[str, ModelTopic] = {}
        """Topics whose offsets are in transactions, by the names of the sources that read them."""
        self._commit = commit
        self._epochs: dict[str, int] = {}
        self._open: dict[str, Open] = {}
        self._committed: set[tuple[str, int]] = set()
        """Ids and epochs whose latest transaction was committed: asked again, a coordinator says so."""

    @property
    def names(self) -> Collection[str]:
        """Ids that producers have taken."""
        return self._epochs.keys()

    def begin(self, name: str) -> int:
        """Have a new producer take an id, and return its epoch."""
        self.fence(name)
        return self._epochs[name]

    def fence(self, name: str) -> None:
        """Abort what an id has open, and fence its producer."""
        self._end(name)
        self._epochs[name] = self._epochs.get(name, 0) + 1

    def take(self, name: str, epoch: int, batch: Sequence[Record], seconds: float) -> int | None:
        """Write a batch, or return the code of its refusal."""
        if epoch != self._epochs[name]:
            return FENCED
        self._opened(name, epoch, seconds).records.extend(batch)
        return None

    def take_offsets(
        self, name: str, epoch: int, offsets: Sequence[TopicPartition], member: tuple[str, int], seconds: float
    ) -> int | None:
        """Take offsets into a transaction, from a member of a group: the name of its source, and its generation."""
        source, generation = member
        topic = self.sources[source]
        if epoch != self._epochs[name]:
            return FENCED
        if generation >= 0 and generation != topic.member_epoch:  # who has none is not looked at
            return KafkaError.ILLEGAL_GENERATION
        taken = self._opened(name, epoch, seconds).offsets
        for each in offsets:
            leader = -1 if each.leader_epoch is None else each.leader_epoch
            taken[source, each.partition] = each.offset, each.metadata or "", leader
            topic.pending.add(each.partition)
        return None

    def commit(self, name: str, epoch: int) -> int | None:
        """Commit a transaction; doing so twice is no error."""
        if epoch != self._epochs[name]:
            return FENCED
        if (name, epoch) in self._committed:
            return None
        self._committed.add((name, epoch))
        if (ended := self._end(name)) is not None:
            for (source, partition), value in ended.offsets.items():
                self.sources[source].committed[partition] = value
            self._commit(ended.records)
        return None

    def abort(self, name: str, epoch: int) -> int | None:
        """Abort a transaction."""
        if epoch != self._epochs[name]:
            return FENCED
        self._end(name)
        return None

    def _opened(self, name: str, epoch: int, seconds: float) -> Open:
        self._committed.discard((name, epoch))
        if name not in self._open:
            self._open[name] = Open(asyncio.get_running_loop().call_later(seconds, self.fence, name))
        return self._open[name]

    def _end(self, name: str) -> Open | None:
        if (ended := self._open.pop(name, None)) is not None:
            ended.timer.cancel()
            for source, partition in ended.offsets:
                self.sources[source].pending.discard(partition)
        return ended


class Host(Protocol):
    """What a producer must know of the process that it is in, and of the faults that last there."""

    coordinator: ModelCoordinator
    random: Random
    is_dead: bool

    @property
    def is_silent(self) -> bool: ...
    @property
    def answer_fault(self) -> str: ...
    def take_abortable(self) -> bool: ...
    def refuse(self, batch: Sequence[Record]) -> int | None: ...


class ModelTransactionalProducer:
    """What librdkafka does with transactions, with batches of random lengths, several of them under way."""

    def __init__(self, settings: Mapping[str, Any], logger: Any = None) -> None:
        self._host: Host = settings["host"]
        self._name: str = settings["transactional.id"]
        self._seconds = settings["transaction.timeout.ms"] / 1_000
        self._most: int = settings.get("batch.num.messages", 6)
        self._epoch = -1
        self._queue: list[tuple[Record, float]] = []
        """Records that were not sent, and when they were given."""
        self._under_way = 0
        self._reports: deque[tuple[Record, int]] = deque()
        self._fatal: KafkaError | None = None
        self._has_raised = False
        self._abortable: KafkaError | None = None
        self._is_open = self._is_writing = False

    def __len__(self) -> int:
        return len(self._queue) + self._under_way + len(self._reports)

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # Records.

    def produce(self, topic: str, value: bytes, _: Any, number: int, report: Any, **__: Any) -> None:
        if self._fatal is not None:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        if self._abortable is not None or not self._is_open or self._host.is_dead:
            raise KafkaException(KafkaError(KafkaError._STATE))
        if len(self._queue) > 30:
            raise BufferError
        self._queue.append((Record(topic, number, value, report), self._now))
        self._write_soon()

    def _write_soon(self, seconds: float = SECONDS) -> None:
        if not self._is_writing:
            self._is_writing = True
            asyncio.get_running_loop().call_later(self._host.random.random() * seconds, self._write)

    def _write(self) -> None:
        self._is_writing = False
        host = self._host
        if not self._queue or self._fatal is not None or self._abortable is not None or host.is_dead:
            return
        if host.is_silent or self._under_way > 4:
            late = [record for record, since in self._queue if self._now - since > self._seconds]
            if late:  # the time of a message is that of its transaction
                self._queue = [each for each in self._queue if each[0] not in late]
                self._reports += [(record, KafkaError._MSG_TIMED_OUT) for record in late]
                self._abort_later(KafkaError._MSG_TIMED_OUT)
            else:
                self._write_soon(AGAIN)
            return
        first = host.random.choice(self._queue)[0]
        batch = [each for each, _ in self._queue if (each.topic, each.partition) == (first.topic, first.partition)]
        batch = batch[: host.random.randint(1, self._most)]
        self._queue = [each for each in self._queue if each[0] not in batch]
        code = host.refuse(batch)
        if code is None:
            code = host.coordinator.take(self._name, self._epoch, batch, self._seconds)
        self._under_way += len(batch)
        asyncio.get_running_loop().call_later(host.random.random() * SECONDS, self._answer, batch, code)
        self._write_soon()

    def _answer(self, batch: list[Record], code: int | None) -> None:
        self._under_way -= len(batch)
        if code == FENCED:
            self._fail(code)
        elif code is not None:
            self._abort_later(code)
        if code is not None:
            self._reports += [(record, code) for record in batch]

    def _abort_later(self, code: int) -> None:
        self._abortable = self._abortable or KafkaError(code, "", False, False, True)

    def _fail(self, code: int) -> None:
        self._fatal = self._fatal or KafkaError(code, "", True)

    def poll(self, _: float) -> int:
        self._report()
        if self._fatal is not None and not self._has_raised:
            self._has_raised = True
            raise KafkaException(self._fatal)
        return 0

    def _report(self) -> None:
        while self._reports and not self._host.is_dead:
            record, code = self._reports.popleft()
            record.report(KafkaError(code), record)

    def flush(self, seconds: float) -> int:
        until = self._now + seconds
        while len(self) and self._now < until and block(0.01):
            self._report()
        self._report()
        return len(self)

    def purge(self, *, in_queue: bool, in_flight: bool, blocking: bool) -> None:
        assert in_queue
        assert blocking
        self._reports += [(record, KafkaError._PURGE_QUEUE) for record, _ in self._queue]
        self._queue.clear()

    # Transactions.

    def init_transactions(self, seconds: float) -> None:
        def begin() -> int | None:
            self._epoch = self._host.coordinator.begin(self._name)
            return None

        self._ask(begin, seconds)

    def begin_transaction(self) -> None:
        self._check()
        if self._is_open:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._is_open = True

    def send_offsets_to_transaction(self, offsets: Sequence[TopicPartition], metadata: bytes, seconds: float) -> None:
        self._check_open()
        assert metadata.startswith(METADATA)
        start = len(METADATA)
        member = metadata[start + 4 :].decode(), int.from_bytes(metadata[start : start + 4], sys.byteorder, signed=True)
        coordinator = self._host.coordinator
        self._ask(lambda: coordinator.take_offsets(self._name, self._epoch, offsets, member, self._seconds), seconds)

    def commit_transaction(self, seconds: float) -> None:
        self._check_open()
        began = self._now
        while len(self):
            self._check_open()
            if self._now - began >= seconds:
                raise self._late()
            self.flush(0.05)
        self._check_open()
        self._ask(lambda: self._host.coordinator.commit(self._name, self._epoch), seconds - (self._now - began))
        self._is_open = False

    def abort_transaction(self, seconds: float) -> None:
        self._check()
        if not self._is_open:
            raise KafkaException(KafkaError(KafkaError._STATE))
        began = self._now
        self.purge(in_queue=True, in_flight=True, blocking=True)
        while len(self):
            if self._now - began >= seconds or not block(0.01):
                raise self._late()
            self._report()
        self._ask(lambda: self._host.coordinator.abort(self._name, self._epoch), seconds - (self._now - began))
        self._is_open, self._abortable = False, None

    def _check(self) -> None:
        if self._host.is_dead:
            raise KafkaException(KafkaError(KafkaError._STATE))
        if self._fatal is not None:
            raise KafkaException(self._fatal)

    def _check_open(self) -> None:
        self._check()
        if self._is_open and self._host.take_abortable():
            self._abort_later(KafkaError.REQUEST_TIMED_OUT)
        if self._abortable is not None:
            raise KafkaException(self._abortable)

    def _late(self) -> KafkaException:
        return KafkaException(KafkaError(KafkaError._TIMED_OUT, "", False, True))

    def _ask(self, act: Callable[[], int | None], seconds: float) -> None:
        """Ask the coordinator, again and again, until it answers. Raises KafkaException."""
        host, until = self._host, self._now + max(seconds, 0.0)
        while True:
            if not block(host.random.random() * SECONDS):
                raise self._late()
            if host.is_dead:
                if host.random.random() < 0.5:  # it was under way
                    act()
                raise KafkaException(KafkaError(KafkaError._STATE))
            fault = host.answer_fault
            if not host.is_silent and fault not in {"unavailable", "lose request"}:
                code = act()  # even if its answer is lost
                block(host.random.random() * SECONDS)
                if fault != "lose answer" and not host.is_silent:
                    break
            if self._now >= until or not block(min(AGAIN, max(0.001, until - self._now))):
                raise self._late()
        if code == FENCED:
            self._fail(code)
        elif code is not None:
            self._abort_later(code)
        self._check()
        if self._abortable is not None and code is not None:
            raise KafkaException(self._abortable)
