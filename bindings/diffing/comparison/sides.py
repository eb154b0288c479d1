"""One side of a comparison: which edges lead to a queue, and which of them a message takes.

The edges out of an exchange that a message takes depend on the message alone, not on how it came there. Exchanges that
do not decide by conditions (but by chance, a hash, or code unknown here) are *loose ends*: paths lead to them and not
through them; `bindings.diffing.comparison.choices` finds out what becomes of a message there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bindings.diffing.comparison.conditions import ConditionalEdge, ExchangeBranches, Probe
from exchange.entities.entities import Binding, Destination
from exchange.kinds import Kind, UnknownExchange, find_kind
from exchange.kinds.condition import NEVER, Condition
from exchange.topology.graph import Graph, TopologyGraph

DEFAULT: Final = ""


class Side:
    """One of the two topologies. ``loose`` are the names of exchanges that are loose ends on either side."""

    def __init__(self, whole: TopologyGraph, loose: Collection[str]) -> None:
        topology = whole.topology
        self.topology: Final = topology
        self.loose: Final = loose
        self.kinds: Final[dict[str, type[Kind]]] = {
            name: find_kind(exchange) for name, exchange in topology.exchanges.items() if name not in loose
        }
        """The kinds of exchanges, except loose ends."""
        self.published: Final = {name: None for name, each in topology.exchanges.items() if not each.internal}
        """The exchanges that publishers may use."""
        self.routed_as: Final = {name: kind.routes_as for name, kind in self.kinds.items()}
        """Exchange, except loose ends -> the exchange type by whose conditions it routes."""
        self.alternates: Final = {name: other for name, other in whole.alternates.items() if name in self.kinds}
        self.onwards: Final = {
            name: bindings for name, bindings in whole.bindings.items() if name and name in self.kinds
        }
        """The bindings of an exchange that lead to other exchanges."""
        self.joined: Final[dict[tuple[tuple[Condition, ...], Condition], tuple[Condition, ...] | None]] = {}
        """Cache: conditions and one more -> all of them together, see `bindings.diffing.comparison.paths`."""
        self.graph: Final = whole.graph
        """All edges between exchanges that messages may take, those out of loose ends included."""
        self._through: Final = Graph()  # the same without the edges out of loose ends
        self._alternate_of: Final[dict[str, list[str]]] = {}
        self._branches: Final[dict[str, ExchangeBranches]] = {}
        self._into: Final[dict[str, tuple[tuple[str, Condition], ...]]] = {}
        for source, bindings in self.onwards.items():
            for binding in bindings:
                self._through.add(source, binding.destination.name)
        for source, alternate in self.alternates.items():
            self._through.add(source, alternate)
            self._alternate_of.setdefault(alternate, []).append(source)

    def exists(self, destination: Destination) -> bool:
        """Return whether there is such a queue or exchange."""
        known: Mapping[str, object] = self.topology.queues if destination.kind == "queue" else self.topology.exchanges
        return destination.name in known

    def branches_of(self, exchange: str, bindings: Iterable[Binding]) -> ExchangeBranches:
        """Return bindings of an exchange as branches; none for a loose end."""
        kind = self.kinds.get(exchange, UnknownExchange)
        return ExchangeBranches(() if kind is UnknownExchange else bindings, kind, self.topology.profile)

    def condition_of(self, binding: Binding) -> Condition:
        """Return the condition of a binding whose source is no loose end."""
        condition = self.kinds[binding.source].condition(binding, self.topology.profile)
        assert condition is not None  # loose ends are all that have none  # noqa: S101
        return condition

    def branches(self, exchange: str) -> ExchangeBranches:
        """Return all bindings of an exchange, also those to nowhere: what matches one does not go to the alternate."""
        branches = self._branches.get(exchange)
        if branches is None:
            branches = self.branches_of(exchange, self.topology.bindings_from(exchange))
            self._branches[exchange] = branches
        return branches

    def alternate_of(self, exchange: str) -> Sequence[str]:
        """Return the exchanges that have this one as their alternate."""
        return self._alternate_of.get(exchange, ())

    def into(self, exchange: str) -> tuple[tuple[str, Condition], ...]:
        """Return the exchanges from which bindings lead to this one, each with the condition of the binding."""
        edges = self._into.get(exchange)
        if edges is None:
            asked: dict[tuple[str, Condition], None] = {}
            for binding in self.topology.bindings_to(Destination("exchange", exchange)):
                if binding.source and binding.source in self.kinds:
                    asked[binding.source, self.condition_of(binding)] = None
            edges = self._into[exchange] = tuple(pair for pair in asked if pair[1] != NEVER)
        return edges

    def before(self, exchanges: Iterable[str]) -> set[str]:
        """Return these exchanges and all from which a path leads to one of them, not through loose ends."""
        return self._through.upstream(exchanges)


class Leg(NamedTuple):
    """A leg of a message's path: over an edge, or to the alternate exchange where ``edge`` is None."""

    source: str
    edge: ConditionalEdge | None


class Ways:
    """The part of one side from which paths lead to one destination, the end; empty if the end does not exist."""

    def __init__(self, side: Side, end: Destination) -> None:
        self.side: Final = side
        self.end: Final = end
        self.last: Final[dict[str, list[Binding]]] = {}
        """Exchange -> its bindings to the end itself."""
        self.exchanges: Final[set[str]] = set()
        """The exchanges from which a path leads to the end."""
        self._branches: Final[dict[str, ExchangeBranches]] = {}
        if not side.exists(end):
            return
        for binding in side.topology.bindings_to(end):
            if binding.source and binding.source in side.kinds:
                self.last.setdefault(binding.source, []).append(binding)
        self.exchanges.update(side.before([*self.last, end.name] if end.kind == "exchange" else self.last))
        if end.kind == "queue":
            self.last[DEFAULT] = [Binding(DEFAULT, end, end.name)]
            self.exchanges.add(DEFAULT)

    def branches(self, exchange: str) -> ExchangeBranches:
        """Return the bindings of an exchange that are on a path to the end."""
        branches = self._branches.get(exchange)
        if branches is None:
            bindings = [b for b in self.side.onwards.get(exchange, ()) if b.destination.name in self.exchanges]
            if self.end.kind == "queue":
                bindings += self.last.get(exchange, ())
            branches = self._branches[exchange] = self.side.branches_of(exchange, bindings)
        return branches

    def alternate(self, exchange: str) -> str | None:
        """Return the alternate exchange if a path to the end leads through it, else None."""
        alternate = self.side.alternates.get(exchange)
        return alternate if alternate in self.exchanges else None

    def ends(self, destination: Destination) -> bool:
        """Return whether a message has arrived at the end."""
        return destination == self.end

    def walk(self, entry: str, probe: Probe) -> tuple[dict[str, Leg | None], list[Leg] | None]:
        """Return the exchanges that a message reaches, each with the leg that led there, and its legs to the end.

        The legs are None if the message does not get to the end. The walk stays on paths to the end, and stops there.
        """
        reached: dict[str, Leg | None] = {entry: None}
        if self.ends(Destination("exchange", entry)) and self.side.exists(Destination("exchange", entry)):
            return reached, []
        work = [entry]
        while work:
            at = work.pop()
            onwards: list[tuple[Destination, Leg]] = [
                (edge.target, Leg(at, edge)) for edge in self.branches(at).taken(probe)
            ]
            alternate = self.alternate(at)
            if alternate is not None and not onwards and not any(self.side.branches(at).taken(probe)):
                onwards.append((Destination("exchange", alternate), Leg(at, None)))
            for target, leg in onwards:
                if self.ends(target) and self.side.exists(target):
                    return reached, self._back(reached, leg)
                if target.kind == "exchange" and target.name not in reached and target.name:
                    reached[target.name] = leg
                    work.append(target.name)
        return reached, None

    def _back(self, reached: Mapping[str, Leg | None], leg: Leg) -> list[Leg]:
        legs: list[Leg] = []
        step: Leg | None = leg
        while step is not None:
            legs.append(step)
            step = reached[step.source]
        return legs[::-1]


class Anywhere(Ways):
    """The ways to all ends at once: any queue, and any loose end, since a message may go on from there to queues."""

    def __init__(self, side: Side) -> None:
        super().__init__(side, Destination("exchange", ""))

    def branches(self, exchange: str) -> ExchangeBranches:
        return self.side.branches(exchange)

    def alternate(self, exchange: str) -> str | None:
        return self.side.alternates.get(exchange)

    def ends(self, destination: Destination) -> bool:
        return destination.kind == "queue" or destination.name in self.side.loose
