"""What a record of Kafka or RocketMQ is in AMQP: where its exchange and routing key are.

Both systems know topics and keys only, so it must be said how whoever copied the messages there kept them. A place is

``topic``, ``key``   the record's own; of RocketMQ, the key is the first of KEYS
``tag``              RocketMQ's TAGS
``header:NAME``      a header of Kafka's record, a user property of RocketMQ's message
``=TEXT``            this text, for all records

By default the topic is the exchange and the key the routing key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exchange.errors import InputError

__all__ = ["USUAL", "Mapping", "checked_place"]


@dataclass(frozen=True, slots=True)
class Mapping:
    """Where exchange and routing key are. Raises InputError for what is no place."""

    exchange: str = "topic"
    routing_key: str = "key"

    def __post_init__(self) -> None:
        checked_place(self.exchange)
        checked_place(self.routing_key)


def checked_place(place: str) -> str:
    """The place, if it is one. Raises InputError."""
    if place in ("topic", "key", "tag") or place.startswith(("header:", "=")):
        return place
    raise InputError(f"{place!r} is no place for an exchange or routing key: topic, key, tag, header:NAME or =TEXT")


USUAL: Final = Mapping()
"""The topic is the exchange, the key the routing key."""
