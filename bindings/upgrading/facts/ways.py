"""Where the dead letters of queues may go, and in which circles: a graph of queues and exchanges."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Final

from exchange.entities.in_force import DeadLetters
from exchange.errors import HashstarError
from exchange.kinds import Decider, kind_of
from exchange.routing.router import Router
from exchange.topology.graph import TopologyGraph, find_cycles, reach
from exchange.topology.topology import Topology
from exchange.values.message import Message

__all__ = ["DeadLetterWays"]

QUEUE: Final = "queue "
EXCHANGE: Final = "exchange "


class DeadLetterWays:
    """The ways of dead letters through a topology.

    They are exact for a queue that gives its dead letters a key, if nothing but keys decides where they go; else they
    are those that a message may take. What keeps its key on the default exchange is left out: the key of a message
    decides.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology: Final = topology
        self._graph: Final = TopologyGraph(topology)

    @cached_property
    def circles(self) -> set[str]:
        """The queues that a message may come back to as a dead letter."""
        return self.circles_among(self._topology.queues.keys())

    def circles_among(self, queues: Collection[str]) -> set[str]:
        """Return which of these queues a message may come back to as a dead letter without getting to others."""
        left_out = {QUEUE + name for name in self._topology.queues.keys() - set(queues)}
        edges = {node: targets - left_out for node, targets in self._edges.items() if node not in left_out}
        nodes = {node for circle in find_cycles(edges) for node in circle}
        nodes |= {node for node, targets in edges.items() if node in targets}
        return {node.removeprefix(QUEUE) for node in nodes if node.startswith(QUEUE)}

    def leading_to(self, queues: Collection[str]) -> list[str]:
        """Return the queues whose dead letters may get to one of these at once."""
        wanted = {QUEUE + name for name in queues}
        between = {node: targets for node, targets in self._edges.items() if node.startswith(EXCHANGE)}
        lead = {node for node in between if not wanted.isdisjoint(reach(between, [node]))} | wanted
        return [
            node.removeprefix(QUEUE)
            for node, targets in self._edges.items()
            if node.startswith(QUEUE) and not lead.isdisjoint(targets)
        ]

    @cached_property
    def _edges(self) -> dict[str, set[str]]:
        """Queue or exchange -> the queues and exchanges that dead letters get to from there."""
        if not self._graph.dead_letters:
            return {}  # no router is built
        router = Router(self._topology)
        edges = {
            QUEUE + name: {target for letters in possible for target in self._targets(letters, router)}
            for name, possible in self._graph.dead_letters.items()
        }
        first = {target for targets in edges.values() for target in targets if target.startswith(EXCHANGE)}
        for exchange in self._graph.graph.downstream(target.removeprefix(EXCHANGE) for target in first):
            bound = {QUEUE + b.destination.name for b in self._topology.bindings_from(exchange)
                     if b.destination.kind == "queue"}  # fmt: skip
            edges[EXCHANGE + exchange] = bound | {EXCHANGE + name for name in self._graph.graph.next.get(exchange, ())}
        return edges

    def _targets(self, letters: DeadLetters, router: Router) -> set[str]:
        exchange = letters.exchange
        if exchange is None or exchange not in self._topology.exchanges:
            return set()
        if letters.routing_key is None or not self._by_key(exchange):
            return {EXCHANGE + exchange} if exchange else set()
        try:
            route = router.route_dead_letter(Message(exchange, letters.routing_key))
        except HashstarError:
            return set()
        return {QUEUE + name for name in route.queues}

    def _by_key(self, exchange: str) -> bool:
        """Return whether keys alone decide where a message goes from an exchange."""
        behind = self._graph.graph.downstream([exchange])
        deciders = {kind_of(self._topology.exchanges[name]).decider for name in behind}
        return deciders <= {Decider.NOTHING, Decider.KEY}
