"""Kafka to Kafka exactly once: the messages written and the offsets up to which they were read are one transaction.

A transaction takes messages up to a number, or for a time. It is committed when it is whole: it waits for a delivery
that is also written elsewhere, or that is to become a dead letter. Its messages are confirmed only after the commit.

An error in a transaction aborts it, and its messages go into the next one; except for those of partitions that were
taken away meanwhile, which the next owner reads again, from the offsets that were committed. When it is unknown
whether a transaction was committed, the source is read again from the offsets that the group has: they are right in
either case.

Offsets are committed with the member's generation in its group, so a process that was thought dead cannot commit any
more (KIP-447): the transactional id needs to be unique, and need not be the same after a restart.

A coordinator aborts a transaction that takes longer than the transaction timeout, and fences its producer. The timeout
is short, because the successor of a process that was killed waits for it. It is doubled whenever it was too short:
otherwise nothing would ever be committed on an overloaded broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Producer

from bridge.endpoint import BridgeLayout, Disconnected, Misfit, Outgoing, Receiver
from bridge.endpoints.kafka.cluster.addresses import Settings
from bridge.endpoints.kafka.cluster.asking import fetch_cluster_id
from bridge.endpoints.kafka.cluster.calls import Calls, take_back
from bridge.endpoints.kafka.cluster.errors import LOG, PERMISSIONS, Reasons, describe_error, to_disconnected
from bridge.endpoints.kafka.consumer.source import KafkaSource
from bridge.endpoints.kafka.producer.batches import ONE_BY_ONE
from bridge.endpoints.kafka.producer.plain import end_producer
from bridge.endpoints.kafka.producer.target import CLOSING, TopicTarget, find_pause
from bridge.endpoints.kafka.producer.transaction import (
    PAUSE,
    WAITING,
    Incomplete,
    Knotted,
    Transacting,
    group_metadata_of,
)
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.endpoints.topics import TopicDestination
from bridge.pump.dead_letters import count_accepted
from exchange.errors import InputError

STALLED: Final = 5.0
"""Maximum number of seconds that a transaction whose time is over waits to become whole."""

IDLE: Final = 1.0
"""Seconds without new messages after which the offsets of messages that went nowhere, or elsewhere, are committed."""

TIMEOUT: Final = "transaction.timeout.ms"
"""Setting for how long a killed process delays readers of committed messages, and its successor, which needs to know
the offsets."""
SHORTEST: Final = 10_000
LONGEST: Final = 160_000
"""Milliseconds of the timeout: at first, and at most."""

STAYING: Final[Mapping[str, Any]] = {"metadata.recovery.strategy": "none"}
"""When no broker is up, librdkafka 2.16 begins anew with its bootstrap servers (KIP-899), and what was asked of a
coordinator meanwhile is mostly never answered (see its issue 5511). A target that is lost begins with them anyway."""

SLOW: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT})
"""Errors of a transaction that would have taken longer than it may."""


class TransactionalTarget(TopicTarget[Transacting]):
    """Topics of the cluster that its only sources, which must be ``transactional``, read from.

    A transaction takes ``messages`` at most, and is committed after ``seconds``. ``transactional_id`` may be given
    where only one process uses it: then a restart does not wait until the transaction of its predecessor expires.
    """

    transactional = True

    def __init__(
        self,
        name: str,
        settings: Settings,
        destinations: Mapping[str, TopicDestination],
        messages: int = 1_000,
        seconds: float = 0.1,
        transactional_id: str | None = None,
    ) -> None:
        super().__init__(name, settings, destinations)
        self._messages = messages
        self._seconds = seconds
        self._id = transactional_id
        self.sole_writer = transactional_id
        self._timeout = int(self.settings.get(TIMEOUT, SHORTEST))
        self._sources: Sequence[KafkaSource] = ()
        """Sources of its bridge; known after `meet`."""

    def producer_settings(self, given: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
        settings = super().producer_settings({**STAYING, **limits, **given}, {})
        settings |= {
            "transactional.id": self._id or "hashstar", "delivery.report.only.error": True, TIMEOUT: self._timeout,
        }  # fmt: skip
        settings.pop("message.timeout.ms", None)  # which is the transaction's
        if "socket.timeout.ms" not in given:
            settings.pop("socket.timeout.ms")  # which must be less than that, and then is by itself
        return settings

    def meet(self, layout: BridgeLayout) -> None:
        super().meet(layout)
        sources = [source for source in layout.sources if isinstance(source, KafkaSource) and source.transactional]
        others = [source.name for source in layout.sources if source not in sources]
        if others:
            raise Misfit(
                "transactional",
                f"what {' and '.join(others)} gives cannot be in a transaction: all sources of a bridge with a "
                "transactional target must be Kafka's, with transactional = true; else write transactional = false",
            )
        if self.sole_writer is not None and layout.workers > 1:
            raise Misfit(
                "transactional_id",
                f"{layout.workers} workers with one id would put out each other; take it away, or write workers = 1",
            )
        self._sources = sources

    async def _check_sources(self, calls: Calls, given: Mapping[str, Any], reasons: Reasons) -> None:
        def check() -> None:
            own = fetch_cluster_id(given, reasons)
            for source in self._sources:
                if fetch_cluster_id(source.settings, reasons) != own:
                    raise InputError(
                        f"transactional: {source.name} reads from another cluster, and no transaction spans two; write "
                        "transactional = false in both"
                    )

        if self._sources:
            await calls.call(check)

    def _connect(self, receiver: Receiver, writer: RecordWriter, reasons: Reasons) -> Transacting:
        return Transacting(receiver, writer, reasons, self._timeout / 1_000, self._messages, self._sources)

    async def open(self, receiver: Receiver) -> None:
        if self._id is None:
            self._id = f"hashstar-{self.name}-{uuid4().hex}"
        await super().open(receiver)

    async def _begin(self, connection: Transacting, calls: Calls) -> None:
        await _call_within(calls, lambda: connection.producer.init_transactions(WAITING), WAITING)

    def send(self, messages: Sequence[Outgoing]) -> None:
        connection = self._connection
        if connection is not None and messages:
            if not connection.is_busy:
                connection.moved = asyncio.get_running_loop().time()
            connection.waiting += messages
            connection.news.set()

    async def _work(self, connection: Transacting, calls: Calls) -> None:
        """Make one transaction after another."""
        try:
            while True:
                await _wait_for_news(connection, IDLE)
                connection.poll_errors()
                if connection.batching.may_join(asyncio.get_running_loop().time()):
                    await self._renew(connection, calls, connection.batching.join())
                if connection.outgrown and await connection.ask_limits():
                    await self._renew(connection, calls, ONE_BY_ONE if connection.batching.alone else {})
                if connection.waiting or connection.offsets():
                    await self._transact(connection, calls)
        except Exception as problem:  # noqa: BLE001  this task is not awaited: any error is reported to the pump
            trouble = problem if isinstance(problem, Disconnected) else Disconnected(str(problem) or repr(problem))
            if isinstance(problem, KafkaException):
                cause = connection.cause_of(problem)
                trouble = to_disconnected(cause)
                if cause.fatal() or cause.code() in SLOW:
                    # As after a transaction that took too long. Others may have fenced it, too, and no harm is done.
                    self._timeout = max(self._timeout, min(self._timeout * 2, LONGEST))
            if not connection.closed:
                connection.closed = True
                for assignment in connection.assignments():
                    assignment.rewind(f"a transaction failed: {trouble}")
                connection.receiver.lost(trouble)

    async def _transact(self, connection: Transacting, calls: Calls) -> None:
        """Make a transaction of the messages that wait, and commit it, or abort it and put them back."""
        connection.producer.begin_transaction()
        connection.untie()
        try:
            await self._fill(connection)
            offsets = connection.offsets()
            if offsets and not connection.refused:
                metadata = group_metadata_of(offsets)
                # Made here, as lanes note epochs while it is committed.
                commits = {each: [lane.commit_at(at) for lane, at in lanes.items()] for each, lanes in offsets.items()}
                await _call_within(calls, partial(connection.commit, commits, metadata), 2 * connection.patience)
            # What has broken a transaction without a refused message needs time to pass.
            pause = connection.broken and not connection.refused
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.fatal() or not cause.txn_requires_abort() or cause.code() in PERMISSIONS:
                raise
            LOG.warning("%s: a transaction is begun anew: %s", self.name, describe_error(cause))
            offsets, pause = {}, True
        except Incomplete as reason:
            LOG.info("%s: a transaction is begun anew: %s", self.name, reason)
            connection.is_knotted |= isinstance(reason, Knotted)
            offsets, pause = {}, True
        if not offsets or connection.refused:  # nothing was committed: no progress, an error, or a refused message
            await self._abort(connection, calls)
            if pause:
                await asyncio.sleep(PAUSE)
            return
        for lanes in offsets.values():
            for lane, offset in lanes.items():
                lane.committed = max(lane.committed, offset)
        done, connection.inside = connection.inside, []
        for outgoing in done if connection.batching.suspects else ():
            connection.batching.clear(outgoing)
        connection.moved = asyncio.get_running_loop().time()
        if done and not connection.closed:
            connection.receiver.confirmed(done)

    async def _fill(self, connection: Transacting) -> None:
        """Take messages in until it is time to commit. Raises Incomplete when the transaction is to be begun anew."""
        loop, accepted = asyncio.get_running_loop(), 0
        ends, full_since = loop.time() + self._seconds, inf
        while True:
            connection.take()
            connection.producer.poll(0)
            now = loop.time()
            lanes: set[Any] = {outgoing.delivery.lane for outgoing in connection.inside}
            if not all(lane.current for lane in lanes):
                raise Incomplete("partitions were taken away")
            if connection.broken:
                return
            full = len(connection.inside) >= self._messages or now >= ends or not connection.inside
            if full and connection.is_whole():
                return
            if full and len(connection.inside) > accepted and not len(connection.producer):  # brokers have them all
                accepted = len(connection.inside)
                count_accepted(connection.inside)
            if now > ends + STALLED:
                raise Knotted("a delivery in it waits for others, or is not whole")
            if full:
                full_since = min(full_since, now)
                await asyncio.sleep(find_pause(now - full_since))
            elif connection.waiting:
                await asyncio.sleep(min(ends - now, 0.005))
            else:
                await _wait_for_news(connection, ends - now)

    async def _abort(self, connection: Transacting, calls: Calls) -> None:
        """Abort the transaction; its messages come first in the next one, without those that brokers refused alone.

        After the refusal of a batch another producer goes on, which writes each message alone.
        """
        await _call_within(calls, connection.abort, connection.patience)
        batching = connection.batching
        has_suspects = bool(connection.refused) and not batching.alone
        connection.put_back()
        problem, connection.problem = connection.problem, None
        if problem is not None:
            raise KafkaException(problem)
        if has_suspects:
            batching.part(asyncio.get_running_loop().time())
            await self._renew(connection, calls, ONE_BY_ONE)

    async def _renew(self, connection: Transacting, calls: Calls, changes: Mapping[str, Any]) -> None:
        """Go on, between two transactions, with another producer. Raises KafkaException, Disconnected."""
        await connection.renew(changes)
        await self._begin(connection, calls)

    async def _finish(self, connection: Transacting, tasks: Collection[asyncio.Task[None]], calls: Calls) -> None:
        """Commit what was settled elsewhere since the last transaction; without this it would be delivered again."""
        if not tasks:
            return
        await asyncio.wait(tasks)
        if not (connection.closed or connection.is_busy) and connection.offsets():
            with suppress(Exception):
                async with asyncio.timeout(CLOSING):
                    await self._transact(connection, calls)

    def _end(self, producer: Producer) -> None:
        take_back(producer)
        with suppress(KafkaException):  # as when there is no transaction
            producer.abort_transaction(CLOSING)
        end_producer(producer)


async def _wait_for_news(connection: Transacting, seconds: float) -> None:
    if not connection.waiting:
        connection.news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await connection.news.wait()


async def _call_within(calls: Calls, call: Callable[[], None], seconds: float) -> None:
    """Make a call that takes ``seconds`` at most; leave a producer behind that does not come back from it.

    librdkafka 2.16 was seen to wait for ever, whatever its timeout, for a coordinator that was restarted, where its
    ``metadata.recovery.strategy`` was ``rebootstrap``. Raises what the call raises, and Disconnected.
    """
    try:
        async with asyncio.timeout(seconds + CLOSING):
            await calls.call(call)
    except TimeoutError:
        raise Disconnected("librdkafka has not come back from a call that was to end long ago") from None
