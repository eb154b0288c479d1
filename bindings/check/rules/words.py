"""The texts by which messages of findings name bindings, exchanges and lists."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from exchange.display import list_some
from exchange.entities.entities import Binding, Destination, Policy
from exchange.notation import write_arguments

__all__ = ["LISTED", "quote_binding", "quote_exchange", "list_names", "suggest_name"]

CLOSE: Final = 0.75
"""Least likeness of a name that is suggested for another one."""
LISTED: Final = 5
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
    return list_some([_name_of(item) for item in items], LISTED, "and")


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'orders'?`` if a known name is much like this one, else ""."""
    near = get_close_matches(name, [each for each in known if each], 1, CLOSE)
    return f"; did you mean '{near[0]}'?" if near else ""


def _name_of(item: object) -> str:
    if isinstance(item, Destination):
        return str(item)
    if isinstance(item, Policy):
        return f"'{item.name}'"
    return f"'{item.routing_key}'" if isinstance(item, Binding) else f"'{item}'"
