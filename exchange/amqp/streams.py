"""Streams of RabbitMQ over AMQP 0-9-1: the offset of a message, and a fingerprint that tells it from others.

A stream that is deleted and declared again counts from 0 again: an offset alone does not identify a message.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from exchange.amqp.content import ContentHeader
from exchange.text.numbers import is_digits
from exchange.values.field_values import resolve_type

STREAM_OFFSET: Final = "x-stream-offset"
"""Argument of a consumer, where it begins to read; and header of its messages."""
FILTER: Final = "x-stream-filter"
"""Argument of a consumer: the filter values that it wants. The broker leaves out chunks by their Bloom filters."""
MATCH_UNFILTERED: Final = "x-stream-match-unfiltered"
"""Argument of a consumer: whether it wants messages without a filter value, too."""
FILTER_VALUE: Final = "x-stream-filter-value"
"""Header of a message, its filter value."""
FIRST_SECONDS: Final = 10.0
"""Maximum number of seconds until a stream that has messages delivers the first one."""
EMPTY_SECONDS: Final = 2.0
"""The same for a stream of which the broker counts no messages: its count is some seconds old."""
OFFSET_DIGITS: Final = 18
"""Maximum number of digits of an offset: AMQP's integers have 64 bits."""


def read_offset(content: ContentHeader) -> int | None:
    """Return the offset of a stream's message; None for a message of another queue."""
    kind, offset = resolve_type(content.header(STREAM_OFFSET))
    return offset if kind == "long" else None


def is_offset(text: str) -> bool:
    """Return whether a text is an offset."""
    return is_digits(text) and len(text) <= OFFSET_DIGITS


def fingerprint_message(exchange: str, routing_key: str, body: bytes) -> str:
    """Return the fingerprint of a message whose names were decoded."""
    return fingerprint_content(
        exchange.encode("utf-8", "surrogateescape"), routing_key.encode("utf-8", "surrogateescape"), body
    )


def fingerprint_content(exchange: bytes, routing_key: bytes, body: bytes) -> str:
    """Return a hash that identifies a message, without its headers, whose encoding differs between broker releases."""
    return sha256(b"\0".join([exchange, routing_key, body])).hexdigest()[:32]
