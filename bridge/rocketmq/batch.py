"""Several messages for one queue in one request (``SEND_BATCH_MESSAGE``), and back.

They have one topic, wait for the store alike, and none is delayed or a retry (`MessageBatch.generateFromList`). All of
them together may be as large as one message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bindings.archive.rocketmq_record import PART, messages_in
from bridge.rocketmq.message import RocketMessage
from bridge.rocketmq.properties import IllegalMessage, checked_properties, decoded
from exchange.errors import InputError

__all__ = ["batch_of", "messages_of"]

RETRY: Final = "%RETRY%"


def batch_of(messages: Sequence[RocketMessage]) -> bytes:
    """The body of the request (`MessageDecoder.encodeMessages`). Raises IllegalMessage."""
    if not messages:
        raise IllegalMessage("a batch of no messages")
    first = messages[0]
    pieces: list[bytes] = []
    for message in messages:
        if message.topic != first.topic:
            raise IllegalMessage(f"a batch is of one topic, and has messages for {first.topic!r} and {message.topic!r}")
        if message.wait_store_ok != first.wait_store_ok:
            raise IllegalMessage("the messages of a batch are to wait for the store alike")
        if message.delay_level > 0 or message.deliver_ms > 0:
            raise IllegalMessage("a message that is delayed cannot be in a batch")
        if message.topic.startswith(RETRY):
            raise IllegalMessage("a retry cannot be in a batch")
        properties = checked_properties(message.properties)
        body = message.body
        size = PART.size + len(body) + 2 + len(properties)
        pieces += PART.pack(size, 0, 0, message.flag, len(body)), body, len(properties).to_bytes(2, "big"), properties
    return b"".join(pieces)


def messages_of(topic: str, data: bytes) -> list[RocketMessage]:
    """The messages of a batch (`MessageDecoder.decodeMessages`). Raises InputError."""
    try:
        return [RocketMessage(topic, part.body, decoded(part.properties), part.flag) for part in messages_in(data)]
    except InputError as error:
        raise InputError(f"{topic}: {error}") from None
