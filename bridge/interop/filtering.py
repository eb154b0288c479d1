"""Which messages of a source are wanted, whatever its system: a selector and tags, as in RocketMQ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bridge.interop import find_headers_for_property
from exchange.selector import Selector, SelectorFailure, Tags, properties_of
from exchange.values.message import Message

NO_MATCH: Final = "no match"
FAILS: Final = "fails"
"""The selector cannot be evaluated for the message, such as ``price > 10`` for the price ``9.99``."""


@dataclass(frozen=True, slots=True)
class Filter:
    """RocketMQ's SQL92 selector, tags, or both, which must both match, for messages of every system.

    `exchange.selector.amqp` defines what they read. A message that does not match is counted and settled.
    """

    selector: Selector | None = None
    tags: Tags | None = None
    condition: Callable[[Message], bool] | None = None
    """The source's own condition (`bridge.endpoint.Source.condition`); None: it has none."""

    def objection(self, message: Message) -> str | None:
        """Return why the message does not match: ``NO_MATCH``, or ``FAILS`` and the comparison; None if it matches.

        Raises HashstarError for headers that cannot be read.
        """
        if self.condition is not None and not self.condition(message):
            return NO_MATCH
        if self.tags is not None and not self.tags(properties_of(message, self.tags.names, find_headers_for_property)):
            return NO_MATCH
        if self.selector is None:
            return None
        try:
            matches = self.selector.evaluate(properties_of(message, self.selector.names, find_headers_for_property))
        except SelectorFailure as failure:
            return f"{FAILS}: {self.selector.text[slice(*failure.span)]}"
        return None if matches else NO_MATCH
