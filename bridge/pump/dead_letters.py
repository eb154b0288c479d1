"""Dead letters: the message as it was read, with headers about why and when it was given up, and where it was.

==========================  ===========================================================================
header                      what it is
==========================  ===========================================================================
hashstar-reason             the reason of the target or the router
hashstar-time               when it was given up, AMQP timestamp: seconds since 1970
hashstar-origin             where it was read
hashstar-exchange           the exchange that it was published to
hashstar-routing-key        the routing key that it was published with
hashstar-queue              the topology's queue whose target refused it; "" when no queue got it
hashstar-target             the target, or the source when no queue got it
hashstar-attempts           how often it was sent to the target
hashstar-content-header     only if the message's headers cannot be read: flags and properties as the bytes that
                            were received. Then none of them is a header or property of the dead letter.
hashstar-user_id,           properties and headers of the message for which a broker would refuse, drop or copy
hashstar-expiration,        the dead letter; they are kept under these names instead of their own
hashstar-CC, hashstar-BCC
hashstar-packed             only if the target of dead letters refused this one because of its headers: true.
                            The body is then the whole dead letter as a line of JSON that `hashstar route` and
                            archives read, and its headers are only those of this table.
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

__all__ = ["build_dead_letter", "is_packed", "pack"]

PACKED: Final = "hashstar-packed"


def build_dead_letter(delivery: Delivery, reason: str, target: str, queue: str, attempts: int, now: float) -> Message:
    """Build the dead letter of a delivery; exchange, key, properties, body and the other headers stay as they were.

    ``now`` is in seconds since 1970.
    """
    message = delivery.message
    added = {
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
                added[f"hashstar-{name}"] = values.pop(name)
        return replace(message, headers={**headers, **added}, properties=properties)
    except MalformedHeader:
        added["hashstar-content-header"] = content_of(message).raw
        return replace(message, headers=added, properties={})


def pack(dead: Message) -> Message:
    """Return a dead letter with its whole message in the body, for a system that refuses its headers."""
    headers = {name: value for name, value in dead.headers.items() if name.startswith("hashstar-")}
    headers.pop("hashstar-content-header", None)
    return Message(
        dead.exchange, dead.routing_key, {**headers, PACKED: True}, {"content_type": "application/json"},
        json_line(message_to_json(dead)),
    )  # fmt: skip


def is_packed(dead: Message) -> bool:
    """Return whether a dead letter was packed already, so that it cannot be made smaller."""
    return PACKED in dead.headers
