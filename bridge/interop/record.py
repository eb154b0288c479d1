"""A record of Kafka as the bridge sees it, and the limits of AMQP and Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from exchange.amqp.fields import encode_short_string
from exchange.errors import HashstarError

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


def check_key(key: str) -> str:
    """Return the routing key if AMQP can hold it. Raises Unmappable."""
    if len(key) > 63:  # 63 characters of at most four bytes always fit
        try:
            encode_short_string(key)
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


def compute_digest(raw: bytes) -> str:
    """Return the digest, in hex, that stands in AMQP for a key or a name that does not fit."""
    return blake2b(raw, digest_size=DIGEST_BYTES).hexdigest()


def build_routing_key(key: bytes | None) -> str:
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
    return f"{key[:cut].decode('utf-8', 'surrogateescape')}{MARK}{compute_digest(key)}"


def read_whole_key(routing_key: str, key: bytes | None) -> str | None:
    """Return a record's key as text if this is the routing key that was shortened from it, else None."""
    if routing_key[MARK_AT : MARK_AT + 1] != MARK or key is None or len(key) <= NAME_LIMIT:
        return None
    return key.decode("utf-8", "surrogateescape") if build_routing_key(key) == routing_key else None


def find_last_header(headers: Iterable[Header], name: str) -> bytes | None:
    """Return the value of the last header of this name; None also when there is none."""
    last = None
    for other, value in headers:
        if other == name:
            last = value
    return last
