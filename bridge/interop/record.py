"""A record of Kafka as the bridge sees it, and the limits of AMQP and Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from exchange.amqp import ContentHeader
from exchange.amqp.fields import short_string
from exchange.errors import HashstarError

__all__ = [
    "NAME_LIMIT", "Header", "Record", "Unmappable", "check_fits", "check_key", "digest_of", "is_showable",
    "last_header", "reply_headers", "routing_key_for", "whole_key",
]  # fmt: skip

Header = tuple[str, bytes | None]
"""Name and value of a header; the value may be null."""


class Unmappable(HashstarError):
    """A message that the other system cannot hold, or whose headers contradict each other: it becomes a dead letter."""


class Record(NamedTuple):
    """A record of Kafka. None is null, which is not empty: no key, no value (a tombstone)."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    """Headers in their order; a name may be there several times."""
    timestamp: int | None = None
    """Milliseconds since 1970, UTC; None lets the producer choose it."""
    is_append_time: bool = False
    """Whether the timestamp is the broker's, LogAppendTime, and not the producer's, CreateTime."""
    partition: int | None = None
    offset: int | None = None


BATCH_BYTES: Final = 61
"""Size of the head of a batch, in bytes."""
RECORD_BYTES: Final = 36
"""Maximum size, in bytes, of a record's length, attributes, deltas of timestamp and offset, lengths of key and value,
and number of headers."""
HEADER_BYTES: Final = 10
"""Maximum size of the lengths of a header's name and value, in bytes."""


def check_fits(message: ContentHeader | Record, limit: int) -> None:
    """Raise Unmappable if a message's headers do not fit in a frame of ``limit`` bytes, or a record in a batch of them.

    The limit is the ``frame_max`` that a connection agreed on, or the topic's ``max.message.bytes``. The size of a
    record is that of a batch with this record alone, not compressed, as producers estimate it
    (`org.apache.kafka.common.record.AbstractRecords.estimateSizeInBytesUpperBound`).
    """
    if isinstance(message, ContentHeader):
        if not message.fits(limit):
            raise Unmappable(f"its headers and properties are {len(message.raw)} bytes; a frame has {limit}")
        return
    size = BATCH_BYTES + RECORD_BYTES + len(message.key or b"") + len(message.value or b"")
    size += sum(
        HEADER_BYTES + len(name.encode("utf-8", "surrogateescape")) + len(value or b"")
        for name, value in message.headers
    )
    if size > limit:
        raise Unmappable(f"with its headers it is {size} bytes; the topic takes {limit}")


def check_key(key: str) -> str:
    """Return the routing key if AMQP can hold it. Raises Unmappable."""
    if len(key) > 63:  # 63 characters of at most four bytes always fit
        try:
            short_string(key)
        except ValueError as error:
            raise Unmappable(f"routing key {error}") from None
    return key


NAME_LIMIT: Final = 255
"""Maximum length of a routing key or of a header's name in AMQP, in bytes."""

SHOWABLE_BYTES: Final = 200
"""Maximum length of a name, in bytes, that fits in AMQP with any prefix of ours before it."""


def is_showable(name: str) -> bool:
    """Return whether the dead letter of an unmappable message keeps a header or property of this name.

    It keeps none of the names that begin with ``amqp.``: they have a meaning for the mapping, and may be the very ones
    that contradict each other.
    """
    return len(name.encode("utf-8", "surrogateescape")) <= SHOWABLE_BYTES and not name.startswith("amqp.")


DIGEST_BYTES: Final = 16
MARK: Final = "~"
"""Separator of the beginning of a key that is too long for AMQP and the digest of the whole key."""
MARK_AT: Final = -2 * DIGEST_BYTES - 1
"""Index of the separator, from the end."""
PREFIX_BYTES: Final = NAME_LIMIT + MARK_AT
"""Maximum length of that beginning, in bytes."""


def digest_of(raw: bytes) -> str:
    """Return the digest, in hex, that stands in AMQP for a key or a name that does not fit."""
    return blake2b(raw, digest_size=DIGEST_BYTES).hexdigest()


def routing_key_for(key: bytes | None) -> str:
    """Return the routing key of a record with this key.

    A key that is too long for AMQP is cut at a character, and ends with a digest, so that different keys stay
    different, and messages with one key are still recognised as such. The key itself travels in a header.
    """
    if key is None:
        return ""
    if len(key) <= NAME_LIMIT:
        return key.decode("utf-8", "surrogateescape")
    cut = PREFIX_BYTES
    while cut > PREFIX_BYTES - 3 and key[cut] & 0xC0 == 0x80:  # the middle of a character
        cut -= 1
    return f"{key[:cut].decode('utf-8', 'surrogateescape')}{MARK}{digest_of(key)}"


def whole_key(routing_key: str, key: bytes | None) -> str | None:
    """Return a record's key as text if this is the routing key that was shortened from it, else None."""
    if routing_key[MARK_AT : MARK_AT + 1] != MARK or key is None or len(key) <= NAME_LIMIT:
        return None
    return key.decode("utf-8", "surrogateescape") if routing_key_for(key) == routing_key else None


def last_header(headers: Iterable[Header], name: str) -> bytes | None:
    """Return the value of the last header of this name; None also when there is none."""
    last = None
    for other, value in headers:
        if other == name:
            last = value
    return last


def reply_headers(request: Record) -> list[Header]:
    """Return the headers of an answer to a request that came from AMQP: see the head of this package.

    Raises Unmappable if the request does not name the queue for answers.
    """
    reply_to = last_header(request.headers, "amqp.reply_to")
    if reply_to is None:
        raise Unmappable("the request has no header amqp.reply_to, so nobody waits for an answer")
    correlation = last_header(request.headers, "amqp.correlation_id")
    headers: list[Header] = [("amqp.exchange", b""), ("amqp.routing_key", reply_to)]
    return headers if correlation is None else [*headers, ("amqp.correlation_id", correlation)]
