"""Find a message that shows where the dead letters of a queue went before a change, and where they go after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Final

from bindings.analysis.crawl import Budget, OutOfBudget, shortest_key
from exchange.entities.entities import Destination
from exchange.entities.in_force import DeadLetters
from exchange.kinds import kind_of
from exchange.patterns.pattern import AMQP
from exchange.routing.dead_letters import find_hop
from exchange.routing.route import DeadLetterHop
from exchange.routing.router import Router
from exchange.text.display import list_some
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology
from exchange.values.message import Message

__all__ = ["DEAD_LETTERS", "Letters"]

DEAD_LETTERS: Final = frozenset({"dead-letter-exchange", "dead-letter-routing-key"})
"""Settings that decide where dead letters go."""
QUEUES: Final = 20
"""Maximum number of queues of one change whose messages are tried."""
KEYS: Final = 20
"""Maximum number of keys tried for one queue."""
STEPS: Final = 10_000
"""Maximum cost of the search for one key."""
LISTED: Final = 3
"""Maximum number of queues that an example lists."""
LOST: Final = frozenset({"dropped", "missing", "unroutable"})


class Letters:
    """The dead letters of two topologies; nothing is computed before it is asked for."""

    def __init__(self, before: Topology, after: Topology) -> None:
        self._topologies: Final = before, after
        self._arriving: Final[tuple[dict[str, bool], dict[str, bool]]] = {}, {}

    @cached_property
    def _routers(self) -> tuple[Router, Router]:
        before, after = self._topologies
        return Router(before), Router(after)

    @cached_property
    def _graphs(self) -> tuple[TopologyGraph, TopologyGraph]:
        before, after = self._topologies
        return TopologyGraph(before), TopologyGraph(after)

    def may_arrive(self, side: int, letters: DeadLetters) -> bool:
        """Return whether some dead letter may get to a queue, 0 before the change, 1 after it.

        An exchange that leads to no binding of a queue drops them all, and so does one that does not exist.
        """
        topology, name = self._topologies[side], letters.exchange
        if name is None or name not in topology.exchanges:
            return False
        if not name:
            return letters.routing_key is None or letters.routing_key in topology.queues
        known = self._arriving[side].get(name)
        if known is None:
            behind = self._graphs[side].graph.downstream([name])
            known = self._arriving[side][name] = any(
                binding.destination.kind == "queue" for source in behind for binding in topology.bindings_from(source)
            )
        return known

    def find_example(self, queues: Sequence[str]) -> str:
        """Return a message that is dead-lettered otherwise after the change, one that is lost if possible.

        "" if no message was found: a few of each of the first queues are tried. One that is lost before and after the
        change shows nothing.
        """
        found = ""
        for name in queues[:QUEUES]:
            for key in islice(self._keys(name), KEYS):
                old, new = self._hop(0, name, key), self._hop(1, name, key)
                if old is None or new is None or (old.outcome, old.queues) == (new.outcome, new.queues):
                    continue
                if old.outcome in LOST and new.outcome in LOST:
                    continue
                text = f"such as '{key}' in queue '{name}': {_describe(old)}, then {_describe(new)}"
                if new.outcome in LOST:
                    return text
                found = found or text
        return found

    def _keys(self, queue: str) -> Iterator[str]:
        """Yield keys that messages of a queue may have after the change."""
        after = self._topologies[1]
        ways = after.bindings_to(Destination("queue", queue))
        for binding in ways:
            source = after.exchanges.get(binding.source)
            kind = None if source is None or source.internal else kind_of(source)
            pattern = None if kind is None else kind.pattern(binding)
            if pattern is not None:
                try:
                    key = shortest_key(AMQP, (pattern,), (), Budget(STEPS))
                except OutOfBudget:
                    continue
                if key is not None:
                    yield key
            elif kind is not None and kind.decider.has_conditions:
                yield binding.routing_key or "x"
        if not ways:
            yield queue  # messages come by the default exchange

    def _hop(self, side: int, name: str, key: str) -> DeadLetterHop | None:
        """Return what becomes of a dead letter on one side; None where headers or chance decide."""
        topology = self._topologies[side]
        hop = find_hop(topology.queues[name], Message("", key), topology.policies_in_force(), self._routers[side])
        exchange = topology.exchanges.get(hop.letters.exchange or "")
        if exchange is not None and not kind_of(exchange).decider.is_key_only:
            return None
        return None if hop.outcome in ("unknown", "undecided") else hop


def _describe(hop: DeadLetterHop) -> str:
    if hop.outcome == "dropped":
        return "dropped"
    if hop.outcome == "missing":
        return f"lost, as exchange '{hop.letters.exchange}' does not exist"
    if hop.outcome == "unroutable":
        return "lost, as no queue gets its dead letter"
    return f"dead-lettered to {list_some([repr(queue) for queue in hop.queues], LISTED)}"
