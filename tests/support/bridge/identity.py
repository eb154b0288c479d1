"""The identity of a message, set as simply as can be: what `bridge.interop.marks` does to the bytes of its header."""

from __future__ import annotations

from bridge.interop import IDENTITY
from exchange.amqp import build_lazy_message, get_content
from exchange.values.message import Message


def with_identity(message: Message, identity: str | None) -> Message:
    """Return the message with this identity in the place of any other one; None: with none."""
    content = get_content(message).without_header(IDENTITY)
    marked = content if identity is None else content.with_header(IDENTITY, identity)
    return build_lazy_message(message.exchange, message.routing_key, marked, message.body)
