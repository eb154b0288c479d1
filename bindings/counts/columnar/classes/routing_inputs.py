"""What decides how messages go on from an exchange, there and on all that may follow.

Of a key, the words that patterns name and the whole of it where keys are compared; of the headers those that bindings
ask for; and where an exchange hashes or rolls dice, all that it looks at.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bindings.analysis.graph import TopologyGraph
from exchange.kinds import Decider, KeyUse, kind_of
from exchange.topology.topology import Topology

__all__ = ["ALONE", "HEADERS", "Way", "special", "way_from"]

HEADERS: Final = "headers"
ALONE: Final = "alone"
"""No two messages need be alike to it."""

SPECIAL: Final = {Decider.HEADERS: HEADERS, Decider.SELECTOR: ALONE, Decider.HASH: ALONE}
"""Decider of an exchange that looks at more than which bindings a key matches -> at what."""


class Way(NamedTuple):
    """From one exchange on."""

    topics: tuple[str, ...]
    """The topic exchanges that can be reached."""
    headers: tuple[str, ...]
    """The headers that a headers exchange asks for, or one with a hash; sorted."""
    properties: tuple[str, ...]
    """The properties that are hashed."""


def special(topology: Topology) -> dict[str, str]:
    """Each exchange that looks at more than which bindings a key matches -> ``HEADERS`` or ``ALONE``."""
    found = {name: SPECIAL.get(kind_of(exchange).decider) for name, exchange in topology.exchanges.items()}
    return {name: what for name, what in found.items() if what is not None}


def way_from(graph: TopologyGraph, start: str) -> Way:
    """Return what decides from this exchange on."""
    topology = graph.topology
    topics: list[str] = []
    headers: set[str] = set()
    properties: set[str] = set()
    for name in graph.graph.downstream([start]):
        exchange = topology.exchanges[name]
        kind = kind_of(exchange)
        if kind.key_use is KeyUse.PATTERN:
            topics.append(exchange.name)
        reads = kind.reads(exchange, topology.bindings_from(exchange.name), topology.profile)
        headers |= reads.headers - {"BCC"}  # which the broker takes out before it routes
        properties |= reads.properties
    return Way(tuple(sorted(topics)), tuple(sorted(headers)), tuple(sorted(properties)))
