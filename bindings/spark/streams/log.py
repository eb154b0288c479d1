"""A stream as a log: what is asked of a broker, and where its messages begin and end.

The invariant of all that is read: an end is the offset after a message that was seen. Not every offset has a message
that AMQP 0-9-1 delivers: RabbitMQ begins segments with data of its own, which takes one, and does not deliver batches
that clients of the stream protocol compress. A reader that waited for such an offset would wait for ever. One that
waits for an offset below a message that was seen does not: that message, or a later one, comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final, NamedTuple, Protocol, TypeAlias

from bindings.applying.amqp import Lost, OperationRefused
from exchange.amqp import ContentHeader
from exchange.amqp.streams import EMPTY_SECONDS, FIRST_SECONDS, fingerprint_message
from exchange.errors import InputError
from exchange.text.display import count_noun

LOG: Final = logging.getLogger("hashstar.spark")

Position: TypeAlias = int | str | datetime
"""Where reading begins: an offset, ``first``, ``last``, ``next``, an age as ``1h``, or a time."""

READ_SECONDS: Final = 60.0
"""Maximum number of seconds until the next message, of those that are known to be there."""
ROUNDS: Final = 64
"""Maximum number of times that a reader at the end of a stream asks for more: writers may be faster than it."""
RETRIES: Final = 8
"""Maximum number of connections in a row that bring no message, before a read fails."""
PAUSES: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between them; the last one repeats."""
NO_REPLICA: Final = "running replica"
"""Words of the refusal by a node that has no running copy of the stream, as while it starts."""


class StreamMessage(NamedTuple):
    """A message of a stream."""

    offset: int
    exchange: str
    routing_key: str
    content: ContentHeader
    body: bytes

    @property
    def fingerprint(self) -> str:
        """A hash by which a stream is known again."""
        return fingerprint_message(self.exchange, self.routing_key, self.body)


class StreamConsumer(Protocol):
    """A consumer of a stream. It may deliver messages before the position, of the chunk that has it."""

    def receive(self, seconds: float) -> Sequence[StreamMessage]:
        """Return messages that have arrived; wait for at most ``seconds`` if there are none. Raises Lost."""
        ...

    def catch_up(self) -> Sequence[StreamMessage]:
        """Return messages that the stream has beyond those received; none if it had no more. Raises Lost."""
        ...

    def close(self) -> None:
        """End the consumer."""
        ...


class StreamBroker(Protocol):
    """A connection to a broker."""

    def count(self, stream: str) -> int:
        """Return the number of messages that the broker counts, which may be some seconds old.

        Raises OperationRefused, Lost.
        """
        ...

    def subscribe(self, stream: str, position: Position, *, prefetch: int | None = None) -> StreamConsumer:
        """Begin to read; ``prefetch`` limits the messages on their way. Raises OperationRefused, Lost."""
        ...


Connect: TypeAlias = Callable[[], AbstractContextManager[StreamBroker]]
"""Opens a connection, which the context closes. Raises OperationRefused, Lost."""


def find_message(broker: StreamBroker, stream: str, position: Position, seconds: float) -> StreamMessage | None:
    """Return the first message from a position on; None if none comes within ``seconds``."""
    log = broker.subscribe(stream, position, prefetch=1)
    try:
        while got := log.receive(seconds):
            for message in got:
                if not isinstance(position, int) or message.offset >= position:
                    return message
        return None
    finally:
        log.close()


def find_first(broker: StreamBroker, stream: str) -> StreamMessage | None:
    """Return the first message that a stream still has; None if it has none."""
    return find_message(broker, stream, "first", _wait_for(broker, stream))


def find_last(broker: StreamBroker, stream: str, start: int) -> StreamMessage | None:
    """Return the last message of a stream, or a later one than ``start`` if it is written without a pause.

    None if it has none, or if only batches that AMQP 0-9-1 does not deliver follow ``start``.
    """
    seconds = _wait_for(broker, stream)
    last = _follow(broker, stream, "last", seconds)
    if last is None and seconds == FIRST_SECONDS:  # the last chunk has no message for us, those before may have one
        last = _follow(broker, stream, start, seconds)
    return last


def _wait_for(broker: StreamBroker, stream: str) -> float:
    return FIRST_SECONDS if broker.count(stream) else EMPTY_SECONDS


def _follow(broker: StreamBroker, stream: str, position: Position, seconds: float) -> StreamMessage | None:
    """Return the last message from a position on, or the last of many."""
    log = broker.subscribe(stream, position)
    last: StreamMessage | None = None
    try:
        got = log.receive(seconds)
        for _ in range(ROUNDS):
            if not got:
                break
            last = got[-1]
            got = log.catch_up()
    finally:
        log.close()
    return last


class OffsetRange(NamedTuple):
    """A part of a stream: offsets from ``start`` up to and without ``end``."""

    stream: str
    start: int
    end: int

    def count_below(self, first: int) -> int:
        """Return how many offsets of the range are below the first one of the stream."""
        return max(0, min(self.end, first) - self.start)


def read_range(
    connect: Connect, wanted: OffsetRange, lose: Callable[[int, int], None], pause: Callable[[float], None]
) -> Iterator[StreamMessage]:
    """Yield the messages of a range, in the order of their offsets, each once; the same ones whenever it is called.

    The message at ``end - 1``, or a later one, must have been seen. A connection that is lost is opened again, and
    reading continues. ``lose`` is called at the end with the number of offsets that retention has removed meanwhile,
    and the first one that is left; it may raise. ``pause`` sleeps. Raises Lost, OperationRefused; InputError if the
    messages do not come.
    """
    stream, expected, end = wanted
    gaps: list[OffsetRange] = []
    tries = Tries(pause)
    while True:
        try:
            with connect() as broker:
                if expected < end:
                    for message in _read(broker, OffsetRange(stream, expected, end)):
                        if message.offset > expected:
                            gaps.append(OffsetRange(stream, expected, min(message.offset, end)))
                        expected, tries.failures = message.offset + 1, 0
                        if message.offset < end:
                            yield message
                _report_gaps(broker, gaps, lose)
                return
        except (Lost, OperationRefused) as error:
            tries.wait_after(error)


class Tries:
    """Connections in a row that were lost. ``pause`` sleeps."""

    def __init__(self, pause: Callable[[float], None]) -> None:
        self._pause: Final = pause
        self.failures = 0

    def wait_after(self, error: Lost | OperationRefused) -> None:
        """Pause before the next try. Raises the error if that is of no use, or there were too many."""
        if self.failures == RETRIES or is_final(error):
            raise error
        self._pause(PAUSES[min(self.failures, len(PAUSES) - 1)])
        self.failures += 1


def is_final(error: Lost | OperationRefused) -> bool:
    """Return whether trying again is of no use: the broker has refused it, and not because it is starting."""
    return isinstance(error, OperationRefused) and error.code < 500 and NO_REPLICA not in str(error)


def _read(broker: StreamBroker, wanted: OffsetRange) -> Iterator[StreamMessage]:
    """Yield messages from the start on, up to the first one at the last offset or behind it."""
    stream, expected, end = wanted
    log = broker.subscribe(stream, expected)
    try:
        while expected < end:
            got = log.receive(READ_SECONDS)
            if not got:
                raise Lost(f"stream '{stream}': no message in {READ_SECONDS:g} s, though it had one at {end - 1:,}")
            for message in got:
                if message.offset >= expected:  # else it is before the offset, in the same chunk
                    expected = message.offset + 1
                    yield message
                    if expected >= end:
                        return
    finally:
        log.close()


def _report_gaps(broker: StreamBroker, gaps: Sequence[OffsetRange], lose: Callable[[int, int], None]) -> None:
    """Report offsets without a message that are below the first message: only retention, at the front, removes any."""
    if gaps and (first := find_first(broker, gaps[0].stream)) is not None:
        lost = sum(gap.count_below(first.offset) for gap in gaps)
        if lost:
            lose(lost, first.offset)


def describe_loss(stream: str, start: int, lost: int, first: int) -> str:
    """Return what an error or a warning says about removed messages."""
    return (
        f"stream '{stream}' lacks {count_noun(lost, 'offset')} from {start:,} on, its first message is {first:,}: "
        "retention has removed them before they were read, unless AMQP 0-9-1 has no messages for them"
    )


def report_loss(text: str, *, fails: bool) -> None:
    """Log a loss of data, or raise InputError with the way out."""
    if fails:
        raise InputError(f'{text}; .option("failOnDataLoss", "false") goes on without them, and says how many')
    LOG.warning(text)
