"""Convert messages to aio-pika's and back. Imports aio-pika, so this module is imported only where it is used."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from exchange.values.field_values import Typed, to_plain
from exchange.values.message import Message

COPIED: Final = (
    "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "message_id",
    "type", "user_id", "app_id",
)  # fmt: skip
"""Properties that aio-pika passes unchanged; expiration and timestamp are converted."""


def to_aio_pika(message: Message, correlation_id: str, reply_to: str, expiration: float | None) -> aio_pika.Message:
    """Return the request that publishes a message; ``expiration`` is in seconds, None for the message's own.

    It is transient unless the message has another ``delivery_mode``. Raises ValueError for a property that AMQP does
    not have.
    """
    given = {name: to_plain(value) for name, value in message.properties.items()}
    own = given.pop("expiration", None)
    if expiration is None and own is not None:
        expiration = int(own) / 1_000
    given.pop("cluster_id", None)  # aio-pika cannot send this one, which no broker uses
    unknown = given.keys() - {*COPIED, "timestamp"}
    if unknown:
        raise ValueError(f"AMQP has no property {min(unknown)!r}")
    # By the message id, aio-pika recognises which message a broker returns: it must be another one for each request.
    given.update(correlation_id=correlation_id, reply_to=reply_to, expiration=expiration)
    given["message_id"] = given.get("message_id") or correlation_id
    return aio_pika.Message(message.body, headers=to_plain(message.headers), **given)


def convert_message(incoming: AbstractIncomingMessage) -> Message:
    """Return a message that was received; integers in its headers are plain numbers, as aio-pika decodes them."""
    properties: dict[str, Any] = {name: getattr(incoming, name) for name in COPIED}
    if incoming.expiration is not None:
        properties["expiration"] = incoming.properties.expiration
    if isinstance(incoming.timestamp, datetime):
        properties["timestamp"] = Typed("timestamp", int(incoming.timestamp.timestamp()))
    for name in ("delivery_mode", "priority"):
        properties[name] = None if properties[name] is None else int(properties[name])
    return Message(
        incoming.exchange or "",
        incoming.routing_key or "",
        dict(incoming.headers),
        {name: value for name, value in properties.items() if value is not None},
        incoming.body,
    )
