"""What a dead letter says of itself: the message as it was read, with headers about why, when and whence.

==========================  ===========================================================================
header                      what it is
==========================  ===========================================================================
hashstar-reason             as the target or the router said it
hashstar-time               when it was given up, AMQP timestamp: seconds since 1970
hashstar-origin             where it was read
hashstar-exchange           the exchange it was published to
hashstar-routing-key        and the key
hashstar-queue              the topology's queue whose target refused it; "" when no queue got it
hashstar-target             the target, or the source when no queue got it
hashstar-attempts           how often the target was asked
hashstar-content-header     only where the message's headers cannot be read: flags and properties as the bytes
                            they came as. Then none of them is a header or property of the dead letter.
hashstar-user_id,           properties and headers of the message that would have a broker refuse, drop or
hashstar-expiration,        copy its dead letter; they are not under their own names
hashstar-CC, hashstar-BCC
hashstar-packed            only where what takes dead letters refused this one, as its headers are too many: true.
                            The dead letter without this is the body, as a line of JSON that `hashstar route`
                            and archives read, and the headers here are those of this table.
==========================  ===========================================================================
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bridge.endpoint import Delivery
from exchange.amqp import MalformedHeader, content_of
from exchange.field_json import json_line, message_to_json
from exchange.field_values import Typed
from exchange.message import Message

__all__ = ["dead_letter_of", "is_packed", "pack"]

PACKED: Final = "hashstar-packed"


def dead_letter_of(delivery: Delivery, reason: str, target: str, queue: str, attempts: int, now: float) -> Message:
    """The dead letter of a delivery: exchange, key, properties, body and the other headers are as they were.

    ``now`` is in seconds since 1970.
    """
    message = delivery.message
    told = {
        "hashstar-reason": reason,
        "hashstar-time": Typed("timestamp", int(now)),
        "hashstar-origin": delivery.origin,
        "hashstar-exchange": message.exchange,
        "hashstar-routing-key": message.routing_key,
        "hashstar-queue": queue,
        "hashstar-target": target,
        "hashstar-attempts": attempts,
    }
    try:
        headers, properties = dict(message.headers), dict(message.properties)
        for name, values in (("user_id", properties), ("expiration", properties), ("CC", headers), ("BCC", headers)):
            if name in values:
                told[f"hashstar-{name}"] = values.pop(name)
        return replace(message, headers={**headers, **told}, properties=properties)
    except MalformedHeader:
        told["hashstar-content-header"] = content_of(message).raw
        return replace(message, headers=told, properties={})


def pack(dead: Message) -> Message:
    """Return a dead letter with all of it in the body, for a system that does not take its headers."""
    headers = {name: value for name, value in dead.headers.items() if name.startswith("hashstar-")}
    headers.pop("hashstar-content-header", None)
    return Message(
        dead.exchange, dead.routing_key, {**headers, PACKED: True}, {"content_type": "application/json"},
        json_line(message_to_json(dead)),
    )  # fmt: skip


def is_packed(dead: Message) -> bool:
    """Return whether a dead letter is as small as it can be made."""
    return PACKED in dead.headers
