"""The identity of a message, set as simply as can be: what `bridge.interop.marks` does to the bytes of its header."""

from __future__ import annotations

from bridge.interop import IDENTITY
from exchange.amqp import content_of, message_of
from exchange.values.message import Message

__all__ = ["with_identity"]


def with_identity(message: Message, identity: str | None) -> Message:
    """Return the message with this identity in the place of any other one; None: with none."""
    content = content_of(message).without_header(IDENTITY)
    marked = content if identity is None else content.with_header(IDENTITY, identity)
    return message_of(message.exchange, message.routing_key, marked, message.body)
