"""Find the parts of a message that decide its route from an exchange on, through all exchanges that may follow.

These are the words of its key that patterns name; the whole key where keys are compared; the headers that bindings ask
for; and the header or property that an exchange hashes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from exchange.kinds import Decider, KeyUse, can_delay, find_kind
from exchange.kinds.delayed import DELAY
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology

HEADERS: Final = "headers"
ALONE: Final = "alone"
"""Any two messages may be routed differently, so each must be shown to the router."""

SPECIAL: Final = {Decider.HEADERS: HEADERS, Decider.SELECTOR: ALONE, Decider.HASH: ALONE}
"""Decider of an exchange that reads more than the key -> how to classify its messages: ``HEADERS`` or ``ALONE``."""


class RoutingInputs(NamedTuple):
    """What an exchange and those that can be reached from it read of a message."""

    topics: tuple[str, ...]
    """Topic exchanges that can be reached, whose patterns read the key; sorted."""
    headers: tuple[str, ...]
    """Headers that bindings ask for or that an exchange hashes; sorted."""
    properties: tuple[str, ...]
    """Properties that an exchange hashes; sorted."""


def find_special_exchanges(topology: Topology) -> dict[str, str]:
    """Return the exchanges that read more of a message than its key, each with ``HEADERS`` or ``ALONE``."""
    needs = {
        name: ALONE if can_delay(exchange) else SPECIAL.get(find_kind(exchange).decider)
        for name, exchange in topology.exchanges.items()
    }
    return {name: need for name, need in needs.items() if need is not None}


def find_inputs(graph: TopologyGraph, start: str) -> RoutingInputs:
    """Return what decides the routes of messages that are published to the exchange ``start``."""
    topology = graph.topology
    topics: list[str] = []
    headers: set[str] = set()
    properties: set[str] = set()
    for name in graph.graph.downstream([start]):
        exchange = topology.exchanges[name]
        kind = find_kind(exchange)
        if kind.key_use is KeyUse.PATTERN:
            topics.append(exchange.name)
        reads = kind.reads(exchange, topology.bindings_from(exchange.name), topology.profile)
        headers |= reads.headers - {"BCC"}  # the broker removes BCC before it routes
        properties |= reads.properties
        if can_delay(exchange):
            headers.add(DELAY)
    return RoutingInputs(tuple(sorted(topics)), tuple(sorted(headers)), tuple(sorted(properties)))
