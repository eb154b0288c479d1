"""A transactional producer: the messages inside its transaction, the offsets that go with them, and its calls.

A transaction is whole when all copies of all its deliveries are inside, or done elsewhere. The offset that it commits
for a lane is the one up to which the lane is settled once its messages are confirmed.

`commit` and `abort` wait for brokers, on the thread of calls. librdkafka demands that such calls are repeated, and was
seen to wait for ever in one; so none lasts longer than the transaction may.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver
from bridge.endpoints.kafka.cluster.errors import PURGED, REFUSALS, Reasons, to_disconnected, to_failure
from bridge.endpoints.kafka.consumer.assignment import PartitionAssignment, PartitionLane
from bridge.endpoints.kafka.consumer.source import KafkaSource
from bridge.endpoints.kafka.producer.target import Connection
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.pump.window import Pending

WAITING: Final = 30.0
"""Seconds that a call may take before it is made again."""

LOOK: Final = 0.02
"""Seconds between looks at whether the messages under way are still to be waited for."""

STEP: Final = 0.1
"""Seconds of one call that aborts a transaction; see `Transacting.abort`."""

PAUSE: Final = 0.1
"""Seconds until a call is made again."""


MOOT: Final = Failure("its partition was taken away, and the next owner writes it", moot=True)


class Incomplete(Exception):
    """The transaction cannot be committed with the messages inside; the text has the reason."""


class Knotted(Incomplete):
    """It is not whole, and perhaps will not be, as what is missing waits for messages inside."""


class Transacting(Connection):
    """A transactional producer, which has one transaction open at a time.

    A transaction takes ``most_messages``, may last ``patience`` seconds, and commits offsets of ``sources``.
    """

    stalls_after = 8.0
    stall_text = "no transaction is committed"

    def __init__(
        self,
        receiver: Receiver,
        writer: RecordWriter,
        reasons: Reasons,
        patience: float,
        most_messages: int,
        sources: Sequence[KafkaSource] = (),
    ) -> None:
        super().__init__(receiver, writer, reasons)
        self.patience = patience
        self.most_messages = most_messages
        self.inside: list[Outgoing] = []
        """Messages in the transaction."""
        self.refused: list[tuple[Outgoing, Failure]] = []
        """Messages that brokers refused: the transaction is to be aborted."""
        self.broken = False
        """Whether a message inside was not written, for whatever reason: the transaction cannot be committed."""
        self.problem: KafkaError | None = None
        """The reason, if it is no message's fault."""
        self.news = asyncio.Event()
        """Set when messages have come, or the connection is lost."""
        self.is_knotted = False
        """Whether a transaction was not whole, and could not be by itself; see `untie`."""
        self._only: Mapping[Any, int] | None = None
        """Lane -> position up to which its messages may be in the transaction; None: all may."""
        self._sources = sources
        self._assignments: dict[PartitionAssignment, None] = {}

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting or self.inside)

    def lose(self, trouble: Disconnected) -> None:
        """End the connection between two transactions."""
        self.reasons.trouble = trouble
        self.news.set()

    def take(self) -> None:
        """Take messages that wait into the transaction, with all copies of its last delivery. Raises Disconnected."""
        waiting, produce, make_record = self.waiting, self.producer.produce, self.writer.make_record
        inside, only = self.inside, self._only
        failed: list[tuple[Outgoing, Failure]] = []
        later: list[Outgoing] = []
        while waiting:
            outgoing = waiting[0]
            if len(inside) >= self.most_messages and outgoing.delivery is not inside[-1].delivery:
                break
            lane = outgoing.delivery.lane
            if not isinstance(lane, PartitionLane) or not lane.assignment.transactional:
                raise Disconnected(
                    f"a message from {outgoing.delivery.origin} cannot be in a transaction: all sources of a "
                    "transactional target must be Kafka's, with transactional = true"
                )
            if not lane.current:
                self.batching.clear(outgoing)
                failed.append((waiting.popleft(), MOOT))
                continue
            if only is not None and outgoing.delivery.position > only.get(lane, -1):
                later.append(waiting.popleft())
                continue
            self._assignments[lane.assignment] = None
            try:
                (topic, key, value, headers, timestamp, *_), number = make_record(outgoing)
                produce(
                    topic, value, key, number, partial(self._on_delivery, outgoing), timestamp=timestamp or 0,
                    headers=headers,  # type: ignore[arg-type]  # a list of pairs
                )  # fmt: skip
            except BufferError:
                break
            except Disconnected:
                raise
            except KafkaException as error:
                if error.args[0].code() == KafkaError._STATE:
                    self.broken = True
                    break
                if self.is_outgrown(error.args[0]):
                    break
                if error.args[0].code() not in REFUSALS or error.args[0].fatal():
                    raise
                failed.append((outgoing, to_failure(error.args[0])))
            except Exception as error:  # noqa: BLE001  whatever is wrong is wrong with this message only
                failed.append((outgoing, Failure(f"unmappable: {error}", final=True)))
            else:
                inside.append(outgoing)
            waiting.popleft()
        waiting.extendleft(reversed(later))
        for outgoing, failure in failed:
            self.receiver.failed(outgoing, failure)

    def _on_delivery(self, outgoing: Outgoing, error: KafkaError | None, _: Any) -> None:
        """Take a delivery report; there are only bad ones."""
        if error is None:
            return
        self.broken = True
        if error.code() in REFUSALS:
            self.refused.append((outgoing, to_failure(error)))
            if not self.batching.alone:
                self.batching.suspect(outgoing, error)
        elif error.code() not in PURGED:
            self.problem = self.problem or error

    def put_back(self) -> None:
        """Put the messages of an aborted transaction before all that wait, and report those that brokers refused alone.

        Those that were refused in a batch are put back with the others.
        """
        batching = self.batching
        refused, self.refused, self.broken = self.refused if batching.alone else [], [], False
        bad = {outgoing.number for outgoing, _ in refused}
        self.waiting.extendleft(reversed([outgoing for outgoing in self.inside if outgoing.number not in bad]))
        self.inside = []
        for outgoing, failure in refused:
            batching.clear(outgoing)
            batching.note_refusal(asyncio.get_running_loop().time())
            if not self.closed:
                self.receiver.failed(outgoing, failure)

    def untie(self) -> None:
        """Once a transaction was knotted, have the next one take only messages that make it whole, if there are any.

        What was missing may be among those that wait, behind as many as a transaction takes, or may wait for one inside
        to be confirmed, as the next message of a key does with ``one_at_a_time``.
        """
        only: dict[Any, int] = {}
        total = 0
        for lane, copies in _count_copies(self.waiting if self.is_knotted else ()).items():
            last = next(iter(copies)).window.last_settleable(lane, copies)
            for pending in sorted(copies, key=lambda pending: pending.delivery.position):
                total += copies[pending]
                if last is None or pending.delivery.position > last.position or (only and total > self.most_messages):
                    break
                only[lane] = pending.delivery.position
        self._only = only or None

    def is_whole(self) -> bool:
        """Return whether everything up to the last delivery inside, of each lane, is inside or done elsewhere."""
        offsets: dict[Any, int] = {}
        for of_lanes in self.offsets().values():
            offsets |= of_lanes
        return all(outgoing.delivery.position < offsets.get(outgoing.delivery.lane, -1) for outgoing in self.inside)

    def assignments(self) -> Sequence[PartitionAssignment]:
        """Return the assignments whose offsets are committed: those of all sources, even if their messages went
        elsewhere or nowhere.
        """
        for source in self._sources:
            if source.member is not None:
                self._assignments[source.member.assignment] = None
        for closed in [each for each in self._assignments if each.closed]:
            del self._assignments[closed]
        return list(self._assignments)

    def offsets(self) -> dict[PartitionAssignment, dict[PartitionLane, int]]:
        """Return the offset to commit for each lane that has progressed: with this transaction, all deliveries before
        it are done.
        """
        copies = _count_copies(self.inside)
        offsets: dict[PartitionAssignment, dict[PartitionLane, int]] = {}
        for assignment in self.assignments():
            for lane in assignment.lanes.values():
                offset = lane.settled
                if lane in copies:
                    window = next(iter(copies[lane])).window
                    last = window.last_settleable(lane, copies[lane])
                    offset = offset if last is None else max(offset, last.position + 1)
                if offset > lane.committed:
                    offsets.setdefault(assignment, {})[lane] = offset
        return offsets

    # Calls that wait for brokers.

    def commit(
        self,
        commits: Mapping[PartitionAssignment, list[TopicPartition]],
        metadata: Mapping[PartitionAssignment, bytes],
    ) -> None:
        """Add these offsets to the transaction, with their members' group metadata, and commit it.

        Raises Incomplete, KafkaException, Disconnected.
        """
        for assignment, offsets in commits.items():
            self._retry(partial(self.producer.send_offsets_to_transaction, offsets, metadata[assignment]))
        self._flush()
        self._retry(self.producer.commit_transaction)

    def _flush(self) -> None:
        """Wait until all messages are written, or one will not be.

        Committing would wait, too, but also when a message was refused: librdkafka 2.16 takes back what had left for
        the same partition behind it, and neither sends it nor gives it up before its time is over, which is the
        transaction's. Raises Incomplete.
        """
        deadline = monotonic() + self.patience
        while self.producer.flush(LOOK) and not self.broken and monotonic() < deadline:
            if self.closed:
                raise Incomplete("the target is being closed")
        if self.refused:
            raise Incomplete("brokers refused a message")

    def abort(self) -> None:
        """Abort the transaction, with short calls: each gives up what librdkafka took back meanwhile (see `_flush`)."""
        self._retry(self.producer.abort_transaction, STEP)

    def _retry(self, call: Callable[[float], Any], step: float = WAITING) -> None:
        """Make a call again until it has an answer; it takes the number of seconds that it may wait.

        Not for longer than the transaction may last: then the coordinator aborts it, if it was not committed.
        librdkafka was seen to wait for ever for what it asked of a broker that was restarted. Raises KafkaException,
        Disconnected.
        """
        deadline = monotonic() + self.patience
        while True:
            try:
                call(max(0.1, min(step, deadline - monotonic())))
            except KafkaException as error:
                if not error.args[0].retriable() or monotonic() > deadline:
                    raise
                if self.closed:
                    raise to_disconnected(error.args[0]) from None
                if self.reasons.trouble is not None:
                    raise self.reasons.trouble from None
                sleep(PAUSE)
            else:
                return

    # Errors.

    def poll_errors(self) -> None:
        """Raise errors that came while nothing was written: Disconnected, or KafkaException for what does not pass."""
        self.producer.poll(0)
        if self.reasons.trouble is not None:
            raise self.reasons.trouble

    def cause_of(self, problem: KafkaException) -> KafkaError:
        """Return the error that a call failed with: the fatal one, if there is one, which polling raises once."""
        try:
            self.producer.poll(0)
        except KafkaException as fatal:
            problem = fatal
        cause: KafkaError = problem.args[0]
        return cause


def _count_copies(messages: Iterable[Outgoing]) -> dict[Any, Counter[Pending]]:
    """Return, for each lane, how many copies of its deliveries are among these messages."""
    copies: dict[Any, Counter[Pending]] = {}
    for outgoing in messages:
        copies.setdefault(outgoing.delivery.lane, Counter())[outgoing.context] += 1
    return copies


def group_metadata_of(assignments: Iterable[PartitionAssignment]) -> dict[PartitionAssignment, bytes]:
    """Return the metadata of consumers in their groups. Raises Incomplete if one is no member now."""
    metadata = {}
    for assignment in assignments:
        own = assignment.group_metadata()
        if own is None:
            raise Incomplete("a consumer is no member of its group")
        metadata[assignment] = own
    return metadata
