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
==========================  ===========================================================================
"""

from __future__ import annotations

from dataclasses import replace

from bridge.amqp import MalformedHeader, content_of
from bridge.endpoint import Delivery
from exchange.message import Message
from exchange.values import Typed

__all__ = ["dead_letter_of"]


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
