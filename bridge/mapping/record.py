"""A record of Kafka as the bridge sees it, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bridge.amqp import ContentHeader
from bridge.amqp.fields import short_string
from exchange.errors import HashstarError

__all__ = ["Header", "Record", "Unmappable", "check_fits", "checked_key", "last_header", "reply_headers"]

Header = tuple[str, bytes | None]
"""A name and a value, which may be null."""


class Unmappable(HashstarError):
    """A message that the other system cannot hold, or whose headers contradict each other: one for the dead letters."""


class Record(NamedTuple):
    """A record of Kafka. Null is None, and is not empty: without a key, without a value (a tombstone)."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    """In their order, names repeated as they are."""
    timestamp: int | None = None
    """Milliseconds since 1970, UTC; None to let the producer tell it."""
    is_append_time: bool = False
    """Whether that is LogAppendTime, the broker's, and not CreateTime, the producer's."""
    partition: int | None = None
    offset: int | None = None


BATCH_BYTES: Final = 61
RECORD_BYTES: Final = 36
"""At most: length, attributes, deltas of timestamp and offset, lengths of key and value, number of headers."""


def check_fits(message: ContentHeader | Record, limit: int) -> None:
    """Raise Unmappable if a message's headers need a frame of more than ``limit`` bytes, or a record more altogether.

    The limit is the ``frame_max`` that a connection agreed on, or the topic's ``max.message.bytes``. A record is
    taken to be alone in its batch and not compressed, as producers do (`org.apache.kafka.common.record.AbstractRecords
    .estimateSizeInBytesUpperBound`).
    """
    if isinstance(message, ContentHeader):
        if not message.fits(limit):
            raise Unmappable(f"its headers and properties are {len(message.raw)} bytes; a frame has {limit}")
        return
    size = BATCH_BYTES + RECORD_BYTES + len(message.key or b"") + len(message.value or b"")
    size += sum(
        10 + len(name.encode("utf-8", "surrogateescape")) + len(value or b"") for name, value in message.headers
    )
    if size > limit:
        raise Unmappable(f"with its headers it is {size} bytes; the topic takes {limit}")


def checked_key(key: str) -> str:
    """The routing key, if AMQP can hold it. Raises Unmappable."""
    if len(key) > 63:  # of at most four bytes each
        try:
            short_string(key)
        except ValueError as error:
            raise Unmappable(f"routing key {error}") from None
    return key


def last_header(headers: Iterable[Header], name: str) -> bytes | None:
    """The last value of this name; None also when there is none."""
    found = None
    for other, value in headers:
        if other == name:
            found = value
    return found


def reply_headers(request: Record) -> list[Header]:
    """The headers of an answer to a request that came from AMQP: see the head of this package.

    Raises Unmappable if the request does not say where answers go.
    """
    reply_to = last_header(request.headers, "amqp.reply_to")
    if reply_to is None:
        raise Unmappable("the request has no header amqp.reply_to, so nobody waits for an answer")
    correlation = last_header(request.headers, "amqp.correlation_id")
    headers: list[Header] = [("amqp.exchange", b""), ("amqp.routing_key", reply_to)]
    return headers if correlation is None else [*headers, ("amqp.correlation_id", correlation)]
