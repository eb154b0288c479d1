"""Filters of sources: RocketMQ's selectors, applied to messages of every system.

A message that does not match is counted and settled; it does not enter the topology.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bridge.interop import headers_for_property
from bridge.pump.keys import SELECTOR, TAGS
from bridge.table import Table
from exchange.errors import HashstarError
from exchange.selector import Selector, SelectorFailure, Tags, properties_of
from exchange.values.message import Message

__all__ = ["FAILS", "NO_MATCH", "Filter", "read_filter"]

NO_MATCH: Final = "no match"
FAILS: Final = "fails"
"""The selector cannot be evaluated for the message, such as ``price > 10`` for the price ``9.99``."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A SQL92 selector, tags, or both, which must both match. `exchange.selector.amqp` defines what they read."""

    selector: Selector | None = None
    tags: Tags | None = None

    def objection(self, message: Message) -> str | None:
        """Return why the message does not match: ``NO_MATCH``, or ``FAILS`` and the comparison; None if it matches.

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


def read_filter(table: Table) -> Filter | None:
    """Read the filter of a source's table, ``selector`` and ``tags``; None if it has neither. Raises InputError."""
    selector, tags = SELECTOR.read(table), TAGS.read(table)
    if selector is None and tags is None:
        return None
    key = "selector"
    try:
        by_sql = None if selector is None else Selector.parse(selector)
        key = "tags"
        return Filter(by_sql, None if tags is None else Tags.parse(tags))
    except HashstarError as error:
        raise table.error(key, str(error)) from None
