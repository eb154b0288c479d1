"""Kafka to Kafka exactly once: what is written and the offsets up to which it was read are one transaction.

A transaction takes messages until there are so many, or for so long. It is committed when all deliveries in it are
whole: the offsets that go with it are those up to which each lane would be settled if it were, so a delivery that is
also written elsewhere, or that waits to be a dead letter, is waited for. Only then the pump is told.

What goes wrong in a transaction aborts it, and its messages go into the next one: but for those of partitions that
were taken away meanwhile, which are the next owner's, from the offsets on that were committed. When nobody knows
whether a transaction was committed, the source is read anew from the offsets that the group has, which do know.

Offsets are committed with the member's place in its group, so a process that was thought dead cannot commit any more
(KIP-447): the transactional id needs to be nobody else's, and need not be the same after a restart.

A coordinator aborts what takes longer than the transaction timeout, and fences its producer. The timeout is short, as
it is how long the successor of a process that was killed waits; it is doubled whenever it was too short, as on a broker
that is overloaded nothing would ever be committed otherwise.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Producer

from bridge.endpoint import Disconnected, Failure, Finding, Layout, Misfit, Outgoing, Place, Receiver, Target
from bridge.endpoints.kafka.addresses import QUIET, Settings, offline, place_of
from bridge.endpoints.kafka.calls import Calls
from bridge.endpoints.kafka.checking import found_at_target, found_within
from bridge.endpoints.kafka.consuming import KafkaSource
from bridge.endpoints.kafka.errors import LOG, PURGED, REFUSALS, RIGHTS, Reasons, failure_of, told, trouble_of
from bridge.endpoints.kafka.membership import Lane, Member
from bridge.endpoints.kafka.producing import DEFAULTS, FIXED, key_of, partitioned, sizes
from bridge.endpoints.kafka.records import Destination, Writer
from bridge.endpoints.kafka.topics import Partitioned, Topic, agreed, cluster_of, topics_of
from bridge.endpoints.kafka.transacting import (
    CLOSING,
    PAUSE,
    WAITING,
    Incomplete,
    Transacting,
    abort,
    answered,
    cause_of,
    commit,
    finish,
    hear,
    places_of,
)
from bridge.endpoints.kafka.watching import Watch
from bridge.pump.window import Pending
from exchange.errors import InputError

__all__ = ["TransactionalTarget"]

STALLED: Final = 5.0
"""Seconds that a transaction waits for deliveries that are not whole."""

IDLE: Final = 1.0
"""Seconds after which offsets are committed of what went nowhere, or elsewhere."""

TIMEOUT: Final = "transaction.timeout.ms"
"""How long a process that was killed holds up those who read only what is committed; and, as a new one needs to know
the offsets, its successor."""
SHORTEST: Final = 10_000
LONGEST: Final = 160_000

STAYING: Final[Mapping[str, Any]] = {"metadata.recovery.strategy": "none"}
"""When no broker is up, librdkafka 2.16 begins anew with its bootstrap servers (KIP-899), and what was asked of a
coordinator meanwhile is mostly never answered (see its issue 5511). A target that is lost begins with them anyway."""

SLOW: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT})
"""Errors of a transaction that would have taken longer than it may."""


class TransactionalTarget(Target):
    """Topics of the cluster that its only sources, which must be ``transactional``, read from.

    A transaction takes ``messages`` at most, and is committed after ``seconds``. ``transactional_id`` may be given
    where only one process uses it: then a restart does not wait until the transaction of its predecessor expires.
    """

    transactional = True

    def __init__(
        self,
        name: str,
        settings: Settings,
        destinations: Mapping[str, Destination],
        messages: int = 1_000,
        seconds: float = 0.1,
        transactional_id: str | None = None,
    ) -> None:
        self.name = name
        self._given = settings
        self._destinations = destinations
        self._topics = sorted({destination.topic for destination in destinations.values()})
        self._messages = messages
        self._seconds = seconds
        self._id = transactional_id
        self._shared_id = transactional_id is not None
        self._timeout = int(self.settings.get(TIMEOUT, SHORTEST))
        self._partitioned: Partitioned = {}
        self._sources: Sequence[KafkaSource] = ()
        """Of its bridge, as far as they are known."""
        self._state: Transacting | None = None
        self._calls: Calls | None = None
        self._working: asyncio.Task[None] | None = None
        self._watch: Watch | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of librdkafka, as of now. Raises InputError where a secret cannot be read any more."""
        return dict(self._given() if callable(self._given) else self._given)

    def make_offline(self) -> None:
        """Make a producer and drop it, without an address. Raises KafkaException for settings that are wrong."""
        Producer(self._all_settings(offline(self.settings), {}), logger=QUIET)

    def _all_settings(self, given: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
        own = {
            **FIXED, "transactional.id": self._id or "hashstar", "delivery.report.only.error": True,
            TIMEOUT: self._timeout,
        }  # fmt: skip
        settings = {**DEFAULTS, **STAYING, **limits, **given, **own}
        settings.pop("message.timeout.ms", None)  # which is the transaction's
        if "socket.timeout.ms" not in given:
            settings.pop("socket.timeout.ms")  # which must be less than that, and then is by itself
        return settings

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
        sources = [source for source in layout.sources if isinstance(source, KafkaSource) and source.transactional]
        others = [source.name for source in layout.sources if source not in sources]
        if others:
            raise Misfit(
                "transactional",
                f"what {' and '.join(others)} gives cannot be in a transaction: all sources of a bridge with a "
                "transactional target must be Kafka's and say transactional = true; else write transactional = false",
            )
        if self._shared_id and layout.workers > 1:
            raise Misfit(
                "transactional_id",
                f"{layout.workers} workers with one id would put out each other; take it away, or write workers = 1",
            )
        self._sources = sources
        self._partitioned = partitioned(self._destinations, layout)

    def key_of(self, outgoing: Outgoing) -> Hashable:
        return key_of(self._destinations, outgoing, super().key_of)

    async def open(self, receiver: Receiver) -> None:
        if self._id is None:
            self._id = f"hashstar-{self.name}-{uuid4().hex}"
        calls = self._calls = Calls()
        reasons = Reasons()
        given = self.settings
        try:
            topics = await calls.call(lambda: topics_of(given, self._topics, reasons))
            agreed(topics, self._partitioned)
            await calls.call(partial(self._check_cluster, given, reasons))

            def measured(statistics: str) -> None:
                state = self._state
                if state is not None and not state.closed:
                    state.measured(statistics)

            settings = self._all_settings(given, sizes(topics.values()))
            producer = Producer({**settings, "error_cb": reasons.heard, "stats_cb": measured}, logger=reasons)
            writer, patience = Writer(self._destinations, topics), self._timeout / 1_000
            state = self._state = Transacting(producer, receiver, writer, reasons, patience)
            await answered(calls, lambda: producer.init_transactions(WAITING), WAITING)
        except KafkaException as error:
            raise reasons.why(error) from None
        self._working = asyncio.create_task(self._work(state, calls))
        self._watch = Watch(producer, topics, self._partitioned, reasons)
        self._watching = asyncio.create_task(self._watch.run(lambda found: self._changed(state, found)))
        self._watching.add_done_callback(partial(self._watched, state))

    def _changed(self, state: Transacting, topics: Mapping[str, Topic]) -> None:
        state.writer = Writer(self._destinations, topics)

    def _watched(self, state: Transacting, task: asyncio.Task[None]) -> None:
        """What ended the looks at the topics ends the connection, between two transactions."""
        if not task.cancelled() and (problem := task.exception()) is not None:
            state.reasons.trouble = problem if isinstance(problem, Disconnected) else Disconnected(repr(problem))
            state.news.set()

    def _check_cluster(self, given: Mapping[str, Any], reasons: Reasons) -> None:
        """On the thread of calls. Raises InputError, KafkaException."""
        if not self._sources:
            return
        own = cluster_of(given, reasons)
        for source in self._sources:
            if cluster_of(source.settings, reasons) != own:
                raise InputError(
                    f"transactional: {source.name} reads from another cluster, and no transaction spans two; write "
                    "transactional = false in both"
                )

    def send(self, messages: Sequence[Outgoing]) -> None:
        state = self._state
        if state is not None and messages:
            if not state.waiting and not state.inside:
                state.moved = asyncio.get_running_loop().time()
            state.waiting += messages
            state.news.set()

    async def _work(self, state: Transacting, calls: Calls) -> None:
        """One transaction after another."""
        try:
            while True:
                await self._news(state, IDLE)
                hear(state)
                if state.waiting or self._offsets(state):
                    await self._transact(state, calls)
        except Exception as problem:  # noqa: BLE001  nobody awaits this task: the pump is told whatever it is
            trouble = problem if isinstance(problem, Disconnected) else Disconnected(str(problem) or repr(problem))
            if isinstance(problem, KafkaException):
                cause = cause_of(state, problem)
                trouble = trouble_of(cause)
                if cause.fatal() or cause.code() in SLOW:
                    # As after a transaction that took too long. Others may have fenced it, too, and no harm is done.
                    self._timeout = max(self._timeout, min(self._timeout * 2, LONGEST))
            if not state.closed:
                state.closed = True
                for member in self._members(state):
                    member.rewind(f"a transaction failed: {trouble}")
                state.receiver.lost(trouble)

    async def _news(self, state: Transacting, seconds: float) -> None:
        if not state.waiting:
            state.news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await state.news.wait()

    async def _transact(self, state: Transacting, calls: Calls) -> None:
        state.producer.begin_transaction()
        try:
            await self._fill(state)
            offsets = self._offsets(state)
            if offsets and not state.refused:
                await answered(calls, partial(commit, state, offsets, places_of(offsets)), 2 * state.patience)
            pause = state.broken and not state.refused
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.fatal() or not cause.txn_requires_abort() or cause.code() in RIGHTS:
                raise
            LOG.warning("%s: a transaction is begun anew: %s", self.name, told(cause))
            offsets, pause = {}, True
        except Incomplete as reason:
            LOG.info("%s: a transaction is begun anew: %s", self.name, reason)
            offsets, pause = {}, True
        if not offsets or state.refused:
            await self._abort(state, calls)
            if pause:
                await asyncio.sleep(PAUSE)
            return
        for found in offsets.values():
            for lane, offset in found.items():
                lane.committed = max(lane.committed, offset)
        done, state.inside = state.inside, []
        state.moved = asyncio.get_running_loop().time()
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
                raise Incomplete("partitions were taken away")
            if state.broken:
                return
            full = len(state.inside) >= self._messages or now - began >= self._seconds or not state.inside
            if full and self._whole(state):
                return
            if now - began > self._seconds + STALLED:
                raise Incomplete("a delivery in it waits for others, or is not whole")
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
            if not isinstance(lane, Lane) or not lane.member.transactional:
                raise Disconnected(
                    f"a message from {outgoing.delivery.origin} cannot be in a transaction: all sources of a "
                    "transactional target must be Kafka's, and say transactional = true"
                )
            if not lane.current:
                gone.append(waiting.popleft())  # the next owner of the partition writes it
                continue
            state.members[lane.member] = None
            try:
                (topic, key, value, headers, timestamp, *_), number = record_of(outgoing)
                produce(
                    topic, value, key, number, partial(_reported, state, outgoing), timestamp=timestamp or 0,
                    headers=headers,  # type: ignore[arg-type]  # a list of pairs
                )  # fmt: skip
            except BufferError:
                break
            except Disconnected:
                raise
            except KafkaException as error:
                if error.args[0].code() == KafkaError._STATE:
                    state.broken = True
                    break
                if error.args[0].code() not in REFUSALS or error.args[0].fatal():
                    raise
                failed.append((outgoing, failure_of(error.args[0])))
            except Exception as error:  # noqa: BLE001  whatever is wrong is wrong with this message only
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

    def _members(self, state: Transacting) -> Sequence[Member]:
        """Whose offsets are committed: those of its bridge, also if all they gave went elsewhere or nowhere."""
        for source in self._sources:
            if source.member is not None:
                state.members[source.member] = None
        for member in [member for member in state.members if member.closed]:
            del state.members[member]
        return list(state.members)

    def _offsets(self, state: Transacting) -> dict[Member, dict[Lane, int]]:
        """From which offsets on nothing is done once the transaction is committed, where that is news."""
        copies: dict[Lane, Counter[Pending]] = {}
        for outgoing in state.inside:
            copies.setdefault(outgoing.delivery.lane, Counter())[outgoing.context] += 1  # type: ignore[arg-type]
        found: dict[Member, dict[Lane, int]] = {}
        for member in self._members(state):
            for lane in member.lanes.values():
                offset = lane.settled
                if lane in copies:
                    window = next(iter(copies[lane])).window
                    last = window.last_done(lane, copies[lane])
                    offset = offset if last is None else max(offset, last.position + 1)
                if offset > lane.committed:
                    found.setdefault(member, {})[lane] = offset
        return found

    async def _abort(self, state: Transacting, calls: Calls) -> None:
        """Undo the transaction: what was inside comes first in the next one, but for what brokers refused."""
        await answered(calls, partial(abort, state), state.patience)
        refused, state.refused, state.broken = state.refused, [], False
        bad = {outgoing.number for outgoing, _ in refused}
        state.waiting.extendleft(reversed([outgoing for outgoing in state.inside if outgoing.number not in bad]))
        state.inside = []
        if not state.closed:
            for outgoing, failure in refused:
                state.receiver.failed(outgoing, failure)
        problem, state.problem = state.problem, None
        if problem is not None:
            raise KafkaException(problem)

    async def close(self) -> None:
        state, self._state = self._state, None
        calls, self._calls = self._calls, None
        working, self._working = self._working, None
        if self._watching is not None:
            self._watching.cancel()
        self._watch = self._watching = None
        if working is not None:
            working.cancel()
            await asyncio.wait([working])
        if calls is None:
            return
        if state is not None:
            idle = working is not None and not state.closed and not state.waiting and not state.inside
            if idle and self._offsets(state):
                # What is settled elsewhere since the last transaction would only come once more.
                with suppress(Exception):
                    async with asyncio.timeout(CLOSING):
                        await self._transact(state, calls)
            state.closed = True
            await asyncio.wait([calls.call(partial(finish, state.producer))], timeout=CLOSING)
        calls.end()


def _lanes(messages: Sequence[Outgoing]) -> set[Any]:
    return {outgoing.delivery.lane for outgoing in messages}


def _reported(state: Transacting, outgoing: Outgoing, error: KafkaError | None, _: Any) -> None:
    """A delivery report, of which there are only bad ones."""
    if error is None:
        return
    state.broken = True
    if error.code() in REFUSALS:
        state.refused.append((outgoing, failure_of(error)))
    elif error.code() not in PURGED:
        state.problem = state.problem or error
