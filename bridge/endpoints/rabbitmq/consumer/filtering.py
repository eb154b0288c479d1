"""The messages that are wanted of a stream, by the filter values that their publishers gave them (RabbitMQ 3.13).

The broker reads a chunk of messages only if its Bloom filter may have one of the values, and then sends all of it: so
what it sends is compared again, message by message. What it leaves out is not reported: no offset shows how far it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exchange.amqp.streams import FILTER, FILTER_VALUE, MATCH_UNFILTERED
from exchange.values.field_values import resolve_type
from exchange.values.message import Message


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """Filter values, and whether messages without one are wanted, too."""

    values: frozenset[str]
    """None of them is empty."""
    unfiltered: bool = False

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of a consumer."""
        return {FILTER: sorted(self.values), MATCH_UNFILTERED: self.unfiltered}

    def __call__(self, message: Message) -> bool:
        """Return whether a message is wanted. To the broker, only a text that is not empty is a filter value.

        Raises HashstarError for headers that cannot be read.
        """
        value = message.headers.get(FILTER_VALUE)
        kind, text = resolve_type(value)
        return value in self.values if kind == "longstr" and text else self.unfiltered
