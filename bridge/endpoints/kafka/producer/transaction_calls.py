"""The calls of a transactional producer that wait for brokers, made on a thread of their own.

librdkafka asks for such calls to be repeated, and was seen to wait for ever in one; so none lasts longer than the
transaction may.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic, sleep
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.calls import Calls
from bridge.endpoints.kafka.consumer.assignment import Assignment, Lane
from bridge.endpoints.kafka.errors import trouble_of
from bridge.endpoints.kafka.producer.plain import end_producer
from bridge.endpoints.kafka.producer.target import CLOSING
from bridge.endpoints.kafka.producer.transaction import Incomplete, Transacting

__all__ = [
    "PAUSE",
    "WAITING",
    "abort",
    "call_within",
    "cause_of",
    "commit",
    "end_transactional",
    "poll_errors",
    "retry_call",
]

WAITING: Final = 30.0
"""Seconds that a call may take before it is made again."""

LOOK: Final = 0.02
"""Seconds between looks at whether the messages under way are still to be waited for."""

STEP: Final = 0.1
"""Seconds of one call that aborts a transaction; see `abort`."""

PAUSE: Final = 0.1
"""Seconds until a call is made again."""


def commit(
    connection: Transacting, offsets: Mapping[Assignment, Mapping[Lane, int]], metadata: Mapping[Assignment, Any]
) -> None:
    """Add these offsets to the transaction, with their members' group metadata, and commit it.

    Raises Incomplete, KafkaException, Disconnected.
    """
    for assignment, lanes in offsets.items():
        commits = [lane.commit_at(offset) for lane, offset in lanes.items()]
        retry_call(connection, partial(connection.producer.send_offsets_to_transaction, commits, metadata[assignment]))
    _flush(connection)
    retry_call(connection, connection.producer.commit_transaction)


def _flush(connection: Transacting) -> None:
    """Wait until all messages are written, or one will not be.

    Committing would wait, too, but also when a message was refused: librdkafka 2.16 takes back what had left for the
    same partition behind it, and neither sends it nor gives it up before its time is over, which is the transaction's.
    Raises Incomplete.
    """
    deadline = monotonic() + connection.patience
    while connection.producer.flush(LOOK) and not connection.broken and monotonic() < deadline:
        if connection.closed:
            raise Incomplete("the target is being closed")
    if connection.refused:
        raise Incomplete("brokers refused a message")


def abort(connection: Transacting) -> None:
    """Abort the transaction. Each call gives up what librdkafka took back meanwhile, see `_flush`: so all are short."""
    retry_call(connection, connection.producer.abort_transaction, STEP)


def retry_call(connection: Transacting, call: Callable[[float], Any], step: float = WAITING) -> None:
    """Make a call again until it has an answer; it takes the number of seconds that it may wait.

    Not for longer than the transaction may last: then the coordinator aborts it, if it was not committed. librdkafka
    was seen to wait for ever for what it asked of a broker that was restarted. Raises KafkaException, Disconnected.
    """
    deadline = monotonic() + connection.patience
    while True:
        try:
            call(max(0.1, min(step, deadline - monotonic())))
        except KafkaException as error:
            if not error.args[0].retriable() or monotonic() > deadline:
                raise
            if connection.closed:
                raise trouble_of(error.args[0]) from None
            if connection.reasons.trouble is not None:
                raise connection.reasons.trouble from None
            sleep(PAUSE)
        else:
            return


async def call_within(calls: Calls, call: Callable[[], None], seconds: float) -> None:
    """Make a call that takes ``seconds`` at most; leave a producer behind that does not come back from it.

    librdkafka 2.16 was seen to wait for ever, whatever its timeout, for a coordinator that was restarted, where its
    ``metadata.recovery.strategy`` was ``rebootstrap``. Raises what the call raises, and Disconnected.
    """
    try:
        async with asyncio.timeout(seconds + CLOSING):
            await calls.call(call)
    except TimeoutError:
        raise Disconnected("librdkafka has not come back from a call that was to end long ago") from None


def cause_of(connection: Transacting, problem: KafkaException) -> KafkaError:
    """Return the error that a call failed with: the fatal one, if there is one, which is reported once by polling."""
    try:
        connection.producer.poll(0)
    except KafkaException as fatal:
        problem = fatal
    cause: KafkaError = problem.args[0]
    return cause


def poll_errors(connection: Transacting) -> None:
    """Raise errors that came while nothing was written: Disconnected, or KafkaException for what does not pass."""
    connection.producer.poll(0)
    if connection.reasons.trouble is not None:
        raise connection.reasons.trouble


def end_transactional(producer: Producer) -> None:
    """Abort what is open, and end the producer."""
    producer.purge(blocking=False)
    with suppress(KafkaException):  # as when there is no transaction
        producer.abort_transaction(CLOSING)
    end_producer(producer)
