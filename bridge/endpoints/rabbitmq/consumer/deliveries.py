"""What arrived from a queue, as deliveries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from bridge.endpoint import Delivery, validate_time
from bridge.endpoints.rabbitmq.frames import Arrived, Event
from bridge.interop import identify_message
from bridge.interop.replayed import REPLAYED, find_published
from exchange.amqp import ContentHeader, MalformedHeader, build_lazy_message

FIXED_BYTES: Final = 512
"""Approximate size of a delivery in memory besides its body and properties, in bytes."""

HEADERS: Final = 0x20
"""Flag of the headers in the first byte of a content header."""

EXPIRATION: Final = 0x01
"""Flag of the expiration in the first byte of a content header."""

ID_OR_TIME: Final = 0x80 | 0x40
"""Flags of message_id and timestamp in the second byte."""


def find_breach(events: Sequence[Event], last: int) -> str | None:
    """Return why these events cannot be what comes behind the delivery tag ``last`` in a channel; None if they can.

    Tags count the deliveries of a channel. One that was left out would be acknowledged with those after it.
    """
    tags = [event.tag for event in events if type(event) is Arrived]
    if tags == list(range(last + 1, last + 1 + len(events))):
        return None
    if len(tags) != len(events):
        return "the broker confirms or returns messages in a channel in which none are published"
    return f"the broker left deliveries out: after number {last} it sent those with the numbers {tags[:5]}"


def make_deliveries(
    arrived: deque[Arrived],
    count: int,
    *,
    source: str,
    queue: str,
    epoch: int,
    on_redelivery: Callable[[ContentHeader], None],
    on_expiration: Callable[[ContentHeader], None],
) -> list[Delivery]:
    """Take ``count`` of those that arrived, and return them as deliveries of the lane ``epoch``."""
    origin = f"queue {queue}"
    deliveries = []
    for _ in range(count):
        tag, redelivered, exchange, key, properties, body = arrived.popleft()
        content = ContentHeader(properties)
        has_marks = properties[0] & HEADERS and b"x-" in properties
        if has_marks and not exchange and REPLAYED in properties:
            exchange, key, content = find_published(exchange, key, content)
        message = build_lazy_message(_decode_name(exchange), _decode_name(key), content, body)
        size = len(body) + len(properties) + FIXED_BYTES
        if redelivered:
            on_redelivery(content)
        if properties[0] & EXPIRATION:
            on_expiration(content)
        identity = time = None
        if has_marks or properties[1] & ID_OR_TIME:
            identity, time = read_identity_and_time(source, queue, key, content, body)
        deliveries.append(Delivery(message, epoch, tag, identity, time, redelivered, size, origin))
    return deliveries


def read_identity_and_time(
    source: str, queue: str, key: bytes, content: ContentHeader, body: bytes
) -> tuple[str | None, int | None]:
    """Return identity and time of a message; None for both if its header cannot be read."""
    with suppress(MalformedHeader):
        stamp = content.property("timestamp")
        time = None if stamp is None else validate_time(stamp.value * 1_000_000)
        return identify_message(source, queue, key, content, body), time
    return None, None


def _decode_name(name: bytes) -> str:
    """Decode a short string of AMQP; bytes that are not UTF-8 become surrogates."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("utf-8", "surrogateescape")
