"""The texts by which messages of findings name bindings, exchanges and lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from exchange.entities.entities import Binding, Destination, Policy
from exchange.text.display import list_some
from exchange.values.notation import write_arguments

__all__ = ["MAX_LISTED_NAMES", "quote_binding", "quote_exchange", "list_names"]

MAX_LISTED_NAMES: Final = 5
"""Maximum number of names in a message; the others are counted."""


def quote_binding(binding: Binding) -> str:
    """Return ``'orders' -> queue 'billing' with 'order.*.paid'``, and the arguments if there are some."""
    text = f"{quote_exchange(binding.source)} -> {binding.destination} with '{binding.routing_key}'"
    return f"{text} {write_arguments(binding.arguments)}" if binding.arguments else text


def quote_exchange(name: str) -> str:
    """Return the name in quotes, or words for the default exchange, whose name is empty."""
    return f"'{name}'" if name else "the default exchange"


def list_names(items: Iterable[object]) -> str:
    """Return ``'a', 'b' and 'c'``: names, keys of bindings, destinations with their kind."""
    return list_some([_name_of(item) for item in items], MAX_LISTED_NAMES, "and")


def _name_of(item: object) -> str:
    if isinstance(item, Destination):
        return str(item)
    if isinstance(item, Policy):
        return f"'{item.name}'"
    return f"'{item.routing_key}'" if isinstance(item, Binding) else f"'{item}'"
