"""Several messages for one queue in one request (``SEND_BATCH_MESSAGE``), encoded and decoded.

All have the same topic and the same ``wait_store_ok``, and none is delayed or a retry
(`MessageBatch.generateFromList`). Together they may be as large as one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from struct import Struct
from typing import Final

from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.properties import (
    DELAY,
    PROPERTIES_BYTES,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    WAIT,
    IllegalMessage,
    decode_properties,
    encode_checked_properties,
)
from exchange.errors import InputError
from exchange.rocketmq.stored_record import PART, split_batch

__all__ = ["encode_batch", "decode_batch"]

RETRY: Final = "%RETRY%"
DELAYS: Final = frozenset({DELAY, TIMER_DELIVER_MS})
SHORT: Final = Struct(">H")


def encode_batch(messages: Sequence[RocketMessage], ids: Sequence[str] = ()) -> bytes:
    """Return the body of the request (`MessageDecoder.encodeMessages`). Raises IllegalMessage.

    ``ids`` are the unique ids of the messages, for those that have none among their properties.
    """
    if not messages:
        raise IllegalMessage("a batch without messages")
    first = messages[0]
    topic, waits = first.topic, first.properties.get(WAIT)
    if topic.startswith(RETRY):
        raise IllegalMessage("a retry cannot be in a batch")
    pieces: list[bytes] = []
    encoded: Mapping[str, str] | None = None
    for message, unique_id in zip_longest(messages, ids):
        own_topic, body, properties, flag = message
        if own_topic != topic:
            raise IllegalMessage(f"a batch is of one topic, and has messages for {topic!r} and {own_topic!r}")
        if properties != encoded:  # most messages of a batch have the same properties, which are encoded once
            if properties.get(WAIT) != waits and message.wait_store_ok != first.wait_store_ok:
                raise IllegalMessage("the messages of a batch are to wait for the store alike")
            if not DELAYS.isdisjoint(properties) and (message.delay_level > 0 or message.deliver_ms > 0):
                raise IllegalMessage("a message that is delayed cannot be in a batch")
            without_id, encoded, has_id = encode_checked_properties(properties), properties, UNIQ_KEY in properties
        if unique_id is None or has_id:
            raw = without_id
        else:
            raw = without_id + f"{UNIQ_KEY}\x01{unique_id}\x02".encode()
            if len(raw) > PROPERTIES_BYTES:
                raw = encode_checked_properties({**properties, UNIQ_KEY: unique_id})
        length, size = len(body), len(raw)
        pieces += PART.pack(PART.size + length + 2 + size, 0, 0, flag, length), body, SHORT.pack(size), raw
    return b"".join(pieces)


def decode_batch(topic: str, data: bytes) -> list[RocketMessage]:
    """Return the messages of a batch (`MessageDecoder.decodeMessages`). Raises InputError."""
    try:
        return [
            RocketMessage(topic, each.body, decode_properties(each.properties), each.flag) for each in split_batch(data)
        ]
    except InputError as error:
        raise InputError(f"{topic}: {error}") from None
