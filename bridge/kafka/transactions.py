"""Kafka to Kafka exactly once: what is written and the offsets up to which it was read are one transaction.

A transaction takes messages until there are so many, or for so long. It is committed when all deliveries in it are
whole: the offsets that go with it are those up to which each lane would be settled if it were, so a delivery that is
also written elsewhere, or that waits to be a dead letter, is waited for. Only then the pump is told.

What goes wrong in a transaction aborts it, and its messages go into the next one: but for those of partitions that
were taken away meanwhile, which are the next owner's, from the offsets on that were committed. When nobody knows
whether a transaction was committed, the source is read anew from the offsets that the group has, which do know.

Offsets are committed with the member's place in its group, so a process that was thought dead cannot commit any more
(KIP-447): the transactional id needs to be nobody else's, and need not be the same after a restart.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import sleep
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver, Target
from bridge.kafka.calls import Calls
from bridge.kafka.consuming import KafkaSource, Lane
from bridge.kafka.errors import REFUSALS, Reasons, failure_of, trouble_of
from bridge.kafka.producing import DEFAULTS, FIXED, end, sizes
from bridge.kafka.records import Destination, Writer
from bridge.kafka.topics import topics_of
from bridge.window import Pending
from exchange.errors import HashstarError

__all__ = ["TransactionalTarget"]

STALLED: Final = 5.0
"""Seconds that a transaction waits for deliveries that are not whole."""

PAUSE: Final = 0.1
"""Seconds after an abort."""

IDLE: Final = 5.0
"""Seconds after which offsets are committed of what went nowhere, or elsewhere."""

WAITING: Final = 30.0
"""Seconds that a call may take before it is made again."""

CLOSING: Final = 5.0

LIMITS: Final[Mapping[str, Any]] = {"transaction.timeout.ms": 10_000, "linger.ms": 5}
"""How long a process that was killed holds up those who read only what is committed; and, as a new one needs to know
the offsets, its successor."""


class Transacting:
    """One producer, from its making to its end."""

    def __init__(self, producer: Producer, receiver: Receiver, writer: Writer) -> None:
        self.producer = producer
        self.receiver = receiver
        self.writer = writer
        self.waiting: deque[Outgoing] = deque()
        self.inside: list[Outgoing] = []
        """In the transaction."""
        self.refused: list[tuple[Outgoing, Failure]] = []
        """By brokers: the transaction is to be aborted."""
        self.sources: dict[KafkaSource, None] = {}
        self.news = asyncio.Event()
        self.closed = False


class TransactionalTarget(Target):
    """Topics of the cluster that its only sources, which must be ``transactional``, read from.

    A transaction takes ``messages`` at most, and is committed after ``seconds``. ``transactional_id`` may be given
    where only one process uses it: then a restart does not wait until the transaction of its predecessor expires.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        destinations: Mapping[str, Destination],
        messages: int = 1_000,
        seconds: float = 0.1,
        transactional_id: str | None = None,
    ) -> None:
        self.name = name
        self._settings = dict(settings)
        self._destinations = destinations
        self._topics = sorted({destination.topic for destination in destinations.values()})
        self._messages = messages
        self._seconds = seconds
        self._id = transactional_id
        self._state: Transacting | None = None
        self._calls: Calls | None = None
        self._working: asyncio.Task[None] | None = None

    async def open(self, receiver: Receiver) -> None:
        if self._id is None:
            self._id = f"hashstar-{self.name}-{uuid4().hex}"
        calls = self._calls = Calls()
        reasons = Reasons()
        try:
            topics = await calls.call(lambda: topics_of(self._settings, self._topics, reasons))
            own = {**FIXED, "transactional.id": self._id, "delivery.report.only.error": True}
            settings = {**DEFAULTS, **LIMITS, **sizes(topics.values()), **self._settings, **own}
            settings.pop("message.timeout.ms", None)  # which is the transaction's
            producer = Producer({**settings, "error_cb": reasons.heard})
            await calls.call(lambda: producer.init_transactions(WAITING))
        except KafkaException as error:
            raise reasons.why(error) from None
        state = self._state = Transacting(producer, receiver, Writer(self._destinations, topics))
        self._working = asyncio.create_task(self._work(state, calls))

    def send(self, messages: Sequence[Outgoing]) -> None:
        state = self._state
        if state is not None and messages:
            state.waiting += messages
            state.news.set()

    async def _work(self, state: Transacting, calls: Calls) -> None:
        """One transaction after another."""
        try:
            while True:
                await self._news(state, IDLE)
                if state.waiting or self._offsets(state):
                    await self._transact(state, calls)
        except Exception as problem:  # noqa: BLE001  nobody awaits this task: the pump is told whatever it is
            trouble = problem if isinstance(problem, Disconnected) else Disconnected(str(problem) or repr(problem))
            if isinstance(problem, KafkaException):
                trouble = trouble_of(problem.args[0])
            if not state.closed:
                state.closed = True
                for source in state.sources:
                    source.rewind(f"a transaction failed: {trouble}")
                state.receiver.lost(trouble)

    async def _news(self, state: Transacting, seconds: float) -> None:
        if not state.waiting:
            state.news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(state.news.wait(), seconds)

    async def _transact(self, state: Transacting, calls: Calls) -> None:
        state.producer.begin_transaction()
        try:
            await self._fill(state)
            offsets = self._offsets(state)
            if offsets and not state.refused:
                metadata = {source: source.commit_metadata() for source in offsets}
                await calls.call(partial(_commit, state, offsets, metadata))
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.fatal() or not cause.txn_requires_abort():
                raise
            await self._abort(state, calls)
            await asyncio.sleep(PAUSE)
            return
        except Incomplete:
            await self._abort(state, calls)
            await asyncio.sleep(PAUSE)
            return
        if not offsets or state.refused:
            await self._abort(state, calls)
            return
        for found in offsets.values():
            for lane, offset in found.items():
                lane.committed = max(lane.committed, offset)
        done, state.inside = state.inside, []
        if done and not state.closed:
            state.receiver.confirmed(done)

    async def _fill(self, state: Transacting) -> None:
        """Take messages in until it is time to commit. Raises Incomplete when the transaction is to be begun anew."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            self._take(state)
            state.producer.poll(0)
            now = loop.time()
            if not all(lane.current for lane in _lanes(state.inside)):
                raise Incomplete
            if state.refused:
                return
            full = len(state.inside) >= self._messages or now - began >= self._seconds or not state.inside
            if full and self._whole(state):
                return
            if now - began > self._seconds + STALLED:
                raise Incomplete
            wait = 0.005 if full else max(0.0, began + self._seconds - now)
            if full or state.waiting:
                await asyncio.sleep(min(wait, 0.005))
            else:
                await self._news(state, wait)

    def _take(self, state: Transacting) -> None:
        waiting, produce, record_of = state.waiting, state.producer.produce, state.writer.record
        gone: list[Outgoing] = []
        failed: list[tuple[Outgoing, Failure]] = []
        while waiting:
            outgoing = waiting[0]
            inside = state.inside
            if len(inside) >= self._messages and outgoing.delivery is not inside[-1].delivery:
                break
            lane = outgoing.delivery.lane
            if not isinstance(lane, Lane) or not lane.source.transactional:
                raise Disconnected(
                    f"a message from {outgoing.delivery.origin} cannot be in a transaction: all sources of a "
                    "transactional target must be Kafka's, and say transactional = true"
                )
            if not lane.current:
                gone.append(waiting.popleft())  # the next owner of the partition writes it
                continue
            state.sources[lane.source] = None
            try:
                (topic, key, value, headers, timestamp, *_), number = record_of(outgoing)
                produce(
                    topic, value, key, number, partial(_refused, state, outgoing), timestamp=timestamp or 0,
                    headers=headers,  # type: ignore[arg-type]  # a list of pairs
                )  # fmt: skip
            except BufferError:
                break
            except Disconnected:
                raise
            except KafkaException as error:
                if error.args[0].code() not in REFUSALS or error.args[0].fatal():
                    raise
                failed.append((outgoing, failure_of(error.args[0])))
            except (HashstarError, TypeError, ValueError) as error:
                failed.append((outgoing, Failure(f"unmappable: {error}", final=True)))
            else:
                inside.append(outgoing)
            waiting.popleft()
        if gone:
            state.receiver.confirmed(gone)
        for outgoing, failure in failed:
            state.receiver.failed(outgoing, failure)

    def _whole(self, state: Transacting) -> bool:
        """Whether what is inside is all that there is up to the last delivery inside, of each lane."""
        offsets: dict[Any, int] = {}
        for found in self._offsets(state).values():
            offsets |= found
        return all(outgoing.delivery.position < offsets.get(outgoing.delivery.lane, -1) for outgoing in state.inside)

    def _offsets(self, state: Transacting) -> dict[KafkaSource, dict[Lane, int]]:
        """From which offsets on nothing is done once the transaction is committed, where that is news."""
        copies: dict[Lane, Counter[Pending]] = {}
        for outgoing in state.inside:
            copies.setdefault(outgoing.delivery.lane, Counter())[outgoing.context] += 1  # type: ignore[arg-type]
        found: dict[KafkaSource, dict[Lane, int]] = {}
        for source in state.sources:
            for lane in source.lanes.values():
                offset = lane.settled
                if lane in copies:
                    window = next(iter(copies[lane])).window
                    last = window.last_done(lane, copies[lane])
                    offset = offset if last is None else max(offset, last.position + 1)
                if offset > lane.committed:
                    found.setdefault(source, {})[lane] = offset
        return found

    async def _abort(self, state: Transacting, calls: Calls) -> None:
        """Undo the transaction: what was inside comes first in the next one, but for what brokers refused."""
        await calls.call(partial(_persisting, state, lambda: state.producer.abort_transaction(WAITING)))
        refused, state.refused = state.refused, []
        bad = {outgoing.number for outgoing, _ in refused}
        state.waiting.extendleft(reversed([outgoing for outgoing in state.inside if outgoing.number not in bad]))
        state.inside = []
        if not state.closed:
            for outgoing, failure in refused:
                state.receiver.failed(outgoing, failure)

    async def close(self) -> None:
        state, self._state = self._state, None
        calls, self._calls = self._calls, None
        if self._working is not None:
            self._working.cancel()
            self._working = None
        if calls is None:
            return
        if state is not None:
            state.closed = True
            await asyncio.wait([calls.call(partial(_end, state.producer))], timeout=CLOSING)
        calls.end()


class Incomplete(Exception):
    """The transaction cannot be committed with what is inside."""


def _lanes(messages: Sequence[Outgoing]) -> set[Any]:
    return {outgoing.delivery.lane for outgoing in messages}


def _refused(state: Transacting, outgoing: Outgoing, error: KafkaError | None, _: Any) -> None:
    """A delivery report, of which there are only bad ones. What is no message's fault, the next call tells."""
    if error is not None and error.code() in REFUSALS:
        state.refused.append((outgoing, failure_of(error)))


def _commit(
    state: Transacting, offsets: Mapping[KafkaSource, Mapping[Lane, int]], metadata: Mapping[KafkaSource, Any]
) -> None:
    for source, lanes in offsets.items():
        places = [TopicPartition(lane.topic, lane.partition, offset) for lane, offset in lanes.items()]
        send = partial(state.producer.send_offsets_to_transaction, places, metadata[source], WAITING)
        _persisting(state, send)
    _persisting(state, lambda: state.producer.commit_transaction(WAITING))


def _persisting(state: Transacting, call: Callable[[], Any]) -> None:
    """Make a call until it has an answer."""
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            if state.closed:
                raise trouble_of(error.args[0]) from None
            sleep(PAUSE)
        else:
            return


def _end(producer: Producer) -> None:
    producer.purge(blocking=False)
    with suppress(KafkaException):  # as when there is no transaction
        producer.abort_transaction(CLOSING)
    end(producer)
