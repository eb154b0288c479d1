"""Map fields of Kafka's and RocketMQ's records to exchange and routing key.

Both systems have only topics and keys, so the user names the places of exchange and routing key. A place is

``topic``, ``key``   topic and key of the record; in RocketMQ, the key is the first of KEYS
``tag``              RocketMQ's TAGS
``header:NAME``      a header of Kafka's record, a user property of RocketMQ's message
``=TEXT``            this text, for all records

By default the topic is the exchange and the key the routing key, which is empty for a record without a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exchange.errors import InputError

__all__ = ["USUAL", "FieldMapping", "check_place"]


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """The places of exchange and routing key. Raises InputError for a text that names no place."""

    exchange: str = "topic"
    routing_key: str = "key"

    def __post_init__(self) -> None:
        check_place(self.exchange)
        check_place(self.routing_key)

    @property
    def allows_no_key(self) -> bool:
        """Whether a record without a key is a message with an empty routing key; without another place it is bad."""
        return self.routing_key == "key"


def check_place(place: str) -> str:
    """Return the text if it names a place, else raise InputError."""
    if place in ("topic", "key", "tag") or place.startswith(("header:", "=")):
        return place
    raise InputError(f"{place!r} is no place for an exchange or routing key: topic, key, tag, header:NAME or =TEXT")


USUAL: Final = FieldMapping()
"""The topic is the exchange, the key the routing key."""
