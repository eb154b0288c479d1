"""A transactional producer and the calls of it that wait for brokers, made on a thread of their own.

librdkafka tells of such calls that they may be made again, and was seen to wait for ever in one; so none lasts longer
than the transaction may.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic, sleep
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver
from bridge.endpoints.kafka.calls import Calls
from bridge.endpoints.kafka.errors import Reasons, trouble_of
from bridge.endpoints.kafka.health import NO_BROKER, Health
from bridge.endpoints.kafka.membership import Lane, Member
from bridge.endpoints.kafka.producing import end
from bridge.endpoints.kafka.records import Writer

__all__ = [
    "CLOSING",
    "PAUSE",
    "WAITING",
    "Incomplete",
    "Transacting",
    "answered",
    "cause_of",
    "commit",
    "finish",
    "hear",
    "persisting",
    "places_of",
]

WAITING: Final = 30.0
"""Seconds that a call may take before it is made again."""

LOOK: Final = 0.02
"""Seconds between looks whether what is under way is still to be waited for."""

STEP: Final = 0.1
"""Seconds that a transaction is being undone before it is seen to again."""

PAUSE: Final = 0.1
"""Seconds until a call is made again."""

CLOSING: Final = 5.0

UNCOMMITTED: Final = 8.0
"""Seconds without a commit, though there are messages, after which that is trouble."""


class Transacting:
    """One producer, from its making to its end."""

    def __init__(
        self, producer: Producer, receiver: Receiver, writer: Writer, reasons: Reasons, patience: float
    ) -> None:
        self.producer = producer
        self.patience = patience
        """Seconds that a transaction may take."""
        self.receiver = receiver
        self.writer = writer
        self.reasons = reasons
        self.waiting: deque[Outgoing] = deque()
        self.inside: list[Outgoing] = []
        """In the transaction."""
        self.refused: list[tuple[Outgoing, Failure]] = []
        """By brokers: the transaction is to be aborted."""
        self.broken = False
        """Whether something that is inside was not written, for whatever reason: it cannot be committed either."""
        self.problem: KafkaError | None = None
        """The reason, if it is no message's fault."""
        self.members: dict[Member, None] = {}
        """Whose offsets are committed."""
        self.news = asyncio.Event()
        self.moved = asyncio.get_running_loop().time()
        """When a transaction was committed last, or the first message came."""
        self.health = Health(lambda: reasons.latest)
        self.closed = False

    def measured(self, statistics: str) -> None:
        """A ``stats_cb``, on whichever thread polls: those of calls and the event loop's."""
        self.health.look(statistics, monotonic())
        if self.health.is_abandoned:
            self.reasons.trouble = self.reasons.trouble or Disconnected(NO_BROKER)

    @property
    def stalled(self) -> str | None:
        """Why nothing is written; None: no reason is known."""
        now = asyncio.get_running_loop().time()
        if self.health.trouble is None and (self.waiting or self.inside) and now - self.moved > UNCOMMITTED:
            reason = self.reasons.latest
            return f"no transaction is committed{': ' if reason else ''}{reason}"
        return self.health.trouble


class Incomplete(Exception):
    """The transaction cannot be committed with what is inside; the message says why."""


def commit(state: Transacting, offsets: Mapping[Member, Mapping[Lane, int]], places: Mapping[Member, Any]) -> None:
    """Have these offsets in the transaction, with the members' places in their groups, and end it.

    Raises Incomplete, KafkaException, Disconnected.
    """
    for member, lanes in offsets.items():
        told = [lane.up_to(offset) for lane, offset in lanes.items()]
        persisting(state, partial(state.producer.send_offsets_to_transaction, told, places[member]))
    written(state)
    persisting(state, state.producer.commit_transaction)


def written(state: Transacting) -> None:
    """Wait until all is written, or something will not be.

    Committing would wait, too, but also when a message was refused: what had left for the same partition behind it
    librdkafka 2.16 takes back, and neither sends it nor gives it up before its time is over, which is the
    transaction's. Raises Incomplete.
    """
    deadline = monotonic() + state.patience
    while state.producer.flush(LOOK) and not state.broken and monotonic() < deadline:
        if state.closed:
            raise Incomplete("the target is being closed")
    if state.refused:
        raise Incomplete("brokers refused a message")


def abort(state: Transacting) -> None:
    """Undo the transaction. Each call gives up what librdkafka took back meanwhile; see `written`."""
    persisting(state, state.producer.abort_transaction, STEP)


def persisting(state: Transacting, call: Callable[[float], Any], step: float = WAITING) -> None:
    """Make a call, which takes how many seconds it may wait, until it has an answer.

    Not for longer than the transaction may last: then the coordinator undoes it, if it was not committed. librdkafka
    was seen to wait for ever for what it asked of a broker that was restarted. Raises KafkaException, Disconnected.
    """
    deadline = monotonic() + state.patience
    while True:
        try:
            call(max(0.1, min(step, deadline - monotonic())))
        except KafkaException as error:
            if not error.args[0].retriable() or monotonic() > deadline:
                raise
            if state.closed:
                raise trouble_of(error.args[0]) from None
            if state.reasons.trouble is not None:
                raise state.reasons.trouble from None
            sleep(PAUSE)
        else:
            return


async def answered(calls: Calls, call: Callable[[], None], seconds: float) -> None:
    """Have a call made that takes so long at most, and leave a producer behind that does not come back from it.

    librdkafka 2.16 was seen to wait for ever, whatever it was told, for a coordinator that was restarted, where its
    ``metadata.recovery.strategy`` was ``rebootstrap``. Raises what the call raises, and Disconnected.
    """
    try:
        async with asyncio.timeout(seconds + CLOSING):
            await calls.call(call)
    except TimeoutError:
        raise Disconnected("librdkafka has not come back from a call that was to end long ago") from None


def places_of(members: Iterable[Member]) -> dict[Member, bytes]:
    """Their places in their groups. Raises Incomplete if one has none."""
    places = {}
    for member in members:
        place = member.place()
        if place is None:
            raise Incomplete("a consumer has no place in its group")
        places[member] = place
    return places


def cause_of(state: Transacting, problem: KafkaException) -> KafkaError:
    """The error, which is told once, and on later occasions only that there was one."""
    try:
        state.producer.poll(0)
    except KafkaException as fatal:
        problem = fatal
    cause: KafkaError = problem.args[0]
    return cause


def hear(state: Transacting) -> None:
    """Hear of errors while nothing is written. Raises Disconnected, KafkaException for what does not pass."""
    state.producer.poll(0)
    if state.reasons.trouble is not None:
        raise state.reasons.trouble


def finish(producer: Producer) -> None:
    """Undo what is open, and end the producer."""
    producer.purge(blocking=False)
    with suppress(KafkaException):  # as when there is no transaction
        producer.abort_transaction(CLOSING)
    end(producer)
