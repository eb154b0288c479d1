"""Which of a source's messages are wanted: RocketMQ's selectors, for messages of every system.

A message that is not wanted is settled as it is, and counted; it does not enter the topology.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bridge.interop import headers_for_property
from bridge.table import Table
from exchange.errors import HashstarError
from exchange.message import Message
from exchange.selector import Selector, SelectorFailure, Tags, properties_of

__all__ = ["FAILS", "NO_MATCH", "Filter", "filter_of"]

NO_MATCH: Final = "no match"
FAILS: Final = "fails"
"""Of a message that a selector cannot be evaluated for, such as ``price > 10`` where the price is ``9.99``."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A SQL92 selector, tags, or both; wanted is what both take. `exchange.selector.amqp` has what they see."""

    selector: Selector | None = None
    tags: Tags | None = None

    def objection(self, message: Message) -> str | None:
        """Why the message is not wanted, ``NO_MATCH`` or ``FAILS`` and the comparison; None: it is wanted.

        Raises HashstarError for headers that cannot be read.
        """
        if self.tags is not None and not self.tags(properties_of(message, self.tags.names, headers_for_property)):
            return NO_MATCH
        if self.selector is None:
            return None
        try:
            matches = self.selector.evaluate(properties_of(message, self.selector.names, headers_for_property))
        except SelectorFailure as failure:
            return f"{FAILS}: {self.selector.text[slice(*failure.span)]}"
        return None if matches else NO_MATCH


def filter_of(table: Table) -> Filter | None:
    """The filter that a source's table describes, with ``selector`` and ``tags``; None without. Raises InputError."""
    selector, tags = table.maybe_text("selector"), table.maybe_text("tags")
    if selector is None and tags is None:
        return None
    key = "selector"
    try:
        by_sql = None if selector is None else Selector.parse(selector)
        key = "tags"
        return Filter(by_sql, None if tags is None else Tags.parse(tags))
    except HashstarError as error:
        raise table.error(key, str(error)) from None
