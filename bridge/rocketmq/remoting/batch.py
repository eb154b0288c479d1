"""Several messages for one queue in one request (``SEND_BATCH_MESSAGE``), and back.

They have one topic, wait for the store alike, and none is delayed or a retry (`MessageBatch.generateFromList`). All of
them together may be as large as one message.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from bindings.archive.rocketmq.record import PART, split_batch
from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.properties import (
    DELAY,
    TIMER_DELIVER_MS,
    WAIT,
    IllegalMessage,
    checked_properties,
    decoded,
)
from exchange.errors import InputError

__all__ = ["batch_of", "messages_of"]

RETRY: Final = "%RETRY%"
LATER: Final = frozenset({DELAY, TIMER_DELIVER_MS})
SHORT: Final = Struct(">H")


def batch_of(messages: Sequence[RocketMessage]) -> bytes:
    """The body of the request (`MessageDecoder.encodeMessages`). Raises IllegalMessage."""
    if not messages:
        raise IllegalMessage("a batch of no messages")
    first = messages[0]
    topic, waits = first.topic, first.properties.get(WAIT)
    if topic.startswith(RETRY):
        raise IllegalMessage("a retry cannot be in a batch")
    pieces: list[bytes] = []
    for message in messages:
        properties = message.properties
        if message.topic != topic:
            raise IllegalMessage(f"a batch is of one topic, and has messages for {topic!r} and {message.topic!r}")
        if properties.get(WAIT) != waits and message.wait_store_ok != first.wait_store_ok:
            raise IllegalMessage("the messages of a batch are to wait for the store alike")
        if not LATER.isdisjoint(properties) and (message.delay_level > 0 or message.deliver_ms > 0):
            raise IllegalMessage("a message that is delayed cannot be in a batch")
        raw, body = checked_properties(properties), message.body
        size = PART.size + len(body) + 2 + len(raw)
        pieces += PART.pack(size, 0, 0, message.flag, len(body)), body, SHORT.pack(len(raw)), raw
    return b"".join(pieces)


def messages_of(topic: str, data: bytes) -> list[RocketMessage]:
    """The messages of a batch (`MessageDecoder.decodeMessages`). Raises InputError."""
    try:
        return [RocketMessage(topic, part.body, decoded(part.properties), part.flag) for part in split_batch(data)]
    except InputError as error:
        raise InputError(f"{topic}: {error}") from None
