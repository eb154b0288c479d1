"""How messages of findings name things."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from exchange.entities.entities import Binding, Destination, Policy
from exchange.notation import write_arguments

__all__ = ["named", "several", "shown"]

LISTED: Final = 5
"""So many of several names are told, and the number of the others."""


def shown(binding: Binding) -> str:
    """A binding: ``'orders' -> queue 'billing' with 'order.*.paid'``."""
    told = f"{named(binding.source)} -> {binding.destination} with '{binding.routing_key}'"
    if not binding.arguments:
        return told
    return f"{told} {write_arguments(binding.arguments)}"


def named(exchange: str) -> str:
    """An exchange by its name, which is empty for one of them."""
    return f"'{exchange}'" if exchange else "the default exchange"


def several(items: Iterable[object], last: str = "and") -> str:
    """``'a', 'b' and 'c'``: the first few of many, and how many more there are."""
    texts = [_text(item) for item in items]
    if len(texts) > LISTED + 1:
        return f"{', '.join(texts[:LISTED])} and {len(texts) - LISTED} more"
    return _joined(texts, last)


def _text(item: object) -> str:
    if isinstance(item, Destination):
        return str(item)
    if isinstance(item, Policy):
        return f"'{item.name}'"
    return f"'{item.routing_key}'" if isinstance(item, Binding) else f"'{item}'"


def _joined(texts: Sequence[str], last: str) -> str:
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}" if len(texts) > 1 else "".join(texts)
