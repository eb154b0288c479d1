"""What decides how messages go on from an exchange, there and on all that may follow.

Of a key, the words that patterns name and the whole of it where keys are compared; of the headers those that bindings
ask for; and where an exchange hashes or rolls dice, all that it looks at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from exchange.kinds import KINDS
from exchange.kinds.headers import conditions_of
from exchange.parts import Exchange, possible_alternates
from exchange.topology import Topology

__all__ = ["ALONE", "HEADERS", "Way", "kind_of", "reachable", "special", "way_from"]

HEADERS: Final = "headers"
ALONE: Final = "alone"
"""No two messages need be alike to it."""

SPECIAL: Final = {"headers": HEADERS, "x-consistent-hash": ALONE, "x-modulus-hash": ALONE}
"""Type of an exchange that looks at more than which bindings a key matches -> at what."""


class Way(NamedTuple):
    """From one exchange on."""

    topics: tuple[str, ...]
    """The topic exchanges that can be reached."""
    headers: tuple[str, ...]
    """The headers that a headers exchange asks for, or one with a hash; sorted."""
    properties: tuple[str, ...]
    """The properties that are hashed."""


def kind_of(exchange: Exchange) -> str:
    """Its type, or the one that it delays; "" for the default exchange, and for types unknown to us."""
    if not exchange.name:
        return ""
    name = exchange.type
    if name == "x-delayed-message":
        name = str(exchange.arguments.get("x-delayed-type", ""))
    return name if name in KINDS else ""


def special(topology: Topology) -> dict[str, str]:
    """Each exchange that looks at more than which bindings a key matches -> ``HEADERS`` or ``ALONE``."""
    found = {name: SPECIAL.get(kind_of(exchange)) for name, exchange in topology.exchanges.items()}
    return {name: what for name, what in found.items() if what is not None}


def way_from(topology: Topology, start: str) -> Way:
    """What decides from this exchange on."""
    topics: list[str] = []
    headers: set[str] = set()
    properties: set[str] = set()
    for exchange in reachable(topology, start):
        kind = kind_of(exchange)
        if kind == "topic":
            topics.append(exchange.name)
        elif kind == "headers":
            for binding in topology.bindings_from(exchange.name):
                headers |= {name for name, _ in conditions_of(binding, topology.profile)}
        elif kind == "x-consistent-hash":
            headers |= {str(exchange.arguments[name]) for name in ("hash-header",) if name in exchange.arguments}
            properties |= {str(exchange.arguments[name]) for name in ("hash-property",) if name in exchange.arguments}
    headers.discard("BCC")  # which the broker takes out before it routes
    return Way(tuple(sorted(topics)), tuple(sorted(headers)), tuple(sorted(properties)))


def reachable(topology: Topology, start: str) -> Iterator[Exchange]:
    """The exchange, and all that bindings and alternate exchanges may lead to from it."""
    seen, pending = {start}, [start]
    while pending:
        exchange = topology.exchanges.get(pending.pop())
        if exchange is None:
            continue
        yield exchange
        onwards = [
            binding.destination.name
            for binding in topology.bindings_from(exchange.name)
            if binding.destination.kind == "exchange"
        ]
        # What is published to the default exchange never takes its alternate; what comes there as an alternate does.
        if exchange.name or start:
            onwards += [name for name in possible_alternates(exchange, topology.policies) if name is not None]
        for name in onwards:
            if name not in seen:
                seen.add(name)
                pending.append(name)
