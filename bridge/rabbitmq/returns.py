"""Which of the messages under way a basic.return is about.

A return does not say the number of its publish. But the broker returns in the order in which it was given messages,
and before it confirms the one it returns; so the message is the first, behind the one that was returned last, that
looks the same. Should two look the same, exchange, key, properties and body, then the same becomes of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bridge.rabbitmq.frames import Returned

__all__ = ["Sent", "returned_one"]


class Sent(NamedTuple):
    """A publish that is not confirmed."""

    exchange: bytes
    routing_key: bytes
    properties: bytes
    body: bytes


def returned_one(sent: Mapping[int, Sent], event: Returned, after: int) -> int | None:
    """The number of the publish that is returned; ``sent`` is in the order of numbers, ``after`` the last one returned.

    None when there is none: then the return tells of nothing that is waited for.
    """
    alike: int | None = None
    for number, message in _from(sent, after + 1):
        if (message.exchange, message.routing_key, message.body) == (event.exchange, event.routing_key, event.body):
            if message.properties == event.properties:
                return number
            # The broker takes BCC out of the headers, so the properties may be others than those that were sent.
            alike = number if alike is None else alike
    return alike


def _from(sent: Mapping[int, Sent], first: int) -> Iterator[tuple[int, Sent]]:
    for number, message in sent.items():
        if number >= first:
            yield number, message
