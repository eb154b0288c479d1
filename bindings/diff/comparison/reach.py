"""One topology as ways from exchange to exchange: which of them lead to a queue, and which of them a message takes.

A walk through a topology is a search of a graph: the edges out of an exchange depend on the message alone, not on how
it came there. Exchanges that do not decide by conditions (chance, a hash, code we do not know) are *loose ends*: ways
lead to them and not through them; see `bindings.diff.comparison.choices` for what becomes of a message there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bindings.analysis.graph import Graph, TopologyGraph
from bindings.diff.comparison.conditions import NEVER, Branches, Condition, Edge, Probe
from exchange.entities.entities import Binding, Destination
from exchange.kinds import Kind, Unknown, kind_of

__all__ = ["Anywhere", "Leg", "Side", "Ways"]

DEFAULT: Final = ""


class Side:
    """One of the two topologies. ``loose`` are the names of exchanges that are loose ends on either side."""

    def __init__(self, whole: TopologyGraph, loose: Collection[str]) -> None:
        topology = whole.topology
        self.topology: Final = topology
        self.loose: Final = loose
        self.kinds: Final[dict[str, type[Kind]]] = {
            name: kind_of(exchange) for name, exchange in topology.exchanges.items() if name not in loose
        }
        """The kinds of exchanges, except loose ends."""
        self.alternates: Final = {name: other for name, other in whole.alternates.items() if name in self.kinds}
        self.onwards: Final = {
            name: bindings for name, bindings in whole.bindings.items() if name and name in self.kinds
        }
        """The bindings of an exchange that lead to other exchanges."""
        self.joined: Final[dict[tuple[tuple[Condition, ...], Condition], tuple[Condition, ...] | None]] = {}
        """What is found out about conditions together, see `bindings.diff.comparison.routes`."""
        self.graph: Final = whole.graph
        """All that may hand messages on, loose ends included."""
        self._through: Final = Graph()  # the same without what loose ends hand on
        self._alternate_of: Final[dict[str, list[str]]] = {}
        self._branches: Final[dict[str, Branches]] = {}
        self._into: Final[dict[str, tuple[tuple[str, Condition], ...]]] = {}
        for source, bindings in self.onwards.items():
            for binding in bindings:
                self._through.add(source, binding.destination.name)
        for source, alternate in self.alternates.items():
            self._through.add(source, alternate)
            self._alternate_of.setdefault(alternate, []).append(source)

    def routes_as(self, exchange: str) -> str | None:
        """Return the exchange type whose conditions an exchange has; None of a loose end."""
        kind = self.kinds.get(exchange)
        return None if kind is None else kind.routes_as

    def exists(self, destination: Destination) -> bool:
        """Whether there is such a queue or exchange."""
        known: Mapping[str, object] = self.topology.queues if destination.kind == "queue" else self.topology.exchanges
        return destination.name in known

    def publishable(self, exchange: str) -> bool:
        """Whether a publisher may use it."""
        found = self.topology.exchanges.get(exchange)
        return found is not None and not found.internal

    def branches_of(self, exchange: str, bindings: Iterable[Binding]) -> Branches:
        """Some of an exchange's bindings, as branches; none of a loose end."""
        kind = self.kinds.get(exchange, Unknown)
        return Branches(() if kind is Unknown else bindings, kind, self.topology.profile)

    def condition_of(self, binding: Binding) -> Condition:
        """Return what a binding asks whose source is no loose end."""
        condition = self.kinds[binding.source].condition(binding, self.topology.profile)
        assert condition is not None  # loose ends are all that have none  # noqa: S101
        return condition

    def branches(self, exchange: str) -> Branches:
        """All of an exchange's bindings, those to nowhere included, since they keep a message from its alternate."""
        found = self._branches.get(exchange)
        if found is None:
            found = self.branches_of(exchange, self.topology.bindings_from(exchange))
            self._branches[exchange] = found
        return found

    def alternate_of(self, exchange: str) -> Sequence[str]:
        """The exchanges whose alternate exchange it is."""
        return self._alternate_of.get(exchange, ())

    def into(self, exchange: str) -> tuple[tuple[str, Condition], ...]:
        """The exchanges from which bindings lead here, and what those ask."""
        found = self._into.get(exchange)
        if found is None:
            asked: dict[tuple[str, Condition], None] = {}
            for binding in self.topology.bindings_to(Destination("exchange", exchange)):
                if binding.source and binding.source in self.kinds:
                    asked[binding.source, self.condition_of(binding)] = None
            found = self._into[exchange] = tuple(pair for pair in asked if pair[1] != NEVER)
        return found

    def before(self, exchanges: Iterable[str]) -> set[str]:
        """The exchanges from which bindings or alternate exchanges lead to any of these, and these themselves."""
        return self._through.upstream(exchanges)


class Leg(NamedTuple):
    """A step of a message on its way: by a binding, or by the alternate exchange where there is no edge."""

    source: str
    edge: Edge | None


class Ways:
    """All ways of one side that lead to one destination, from wherever. There are none to what does not exist."""

    def __init__(self, side: Side, end: Destination) -> None:
        self.side: Final = side
        self.end: Final = end
        self.last: Final[dict[str, list[Binding]]] = {}
        """By exchange, the bindings that lead to the end itself."""
        self.exchanges: Final[set[str]] = set()
        """Those from which there are ways."""
        self._branches: Final[dict[str, Branches]] = {}
        if not side.exists(end):
            return
        for binding in side.topology.bindings_to(end):
            if binding.source and binding.source in side.kinds:
                self.last.setdefault(binding.source, []).append(binding)
        self.exchanges.update(side.before([*self.last, end.name] if end.kind == "exchange" else self.last))
        if end.kind == "queue":
            self.last[DEFAULT] = [Binding(DEFAULT, end, end.name)]
            self.exchanges.add(DEFAULT)

    def branches(self, exchange: str) -> Branches:
        """The bindings of an exchange on these ways."""
        found = self._branches.get(exchange)
        if found is None:
            bindings = [b for b in self.side.onwards.get(exchange, ()) if b.destination.name in self.exchanges]
            if self.end.kind == "queue":
                bindings += self.last.get(exchange, ())
            found = self._branches[exchange] = self.side.branches_of(exchange, bindings)
        return found

    def alternate(self, exchange: str) -> str | None:
        """The alternate exchange, where a way leads through it."""
        alternate = self.side.alternates.get(exchange)
        return alternate if alternate in self.exchanges else None

    def ends(self, destination: Destination) -> bool:
        """Whether a message has arrived."""
        return destination == self.end

    def walk(self, entry: str, probe: Probe) -> tuple[dict[str, Leg | None], list[Leg] | None]:
        """The exchanges a message reaches, each with the leg that led there; and the legs to the end, if it gets there.

        It goes only where there are ways, and no further once it has arrived.
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
    """The ways to any queue at all, and to loose ends, where a message may go on to some."""

    def __init__(self, side: Side) -> None:
        super().__init__(side, Destination("exchange", ""))

    def branches(self, exchange: str) -> Branches:
        return self.side.branches(exchange)

    def alternate(self, exchange: str) -> str | None:
        return self.side.alternates.get(exchange)

    def ends(self, destination: Destination) -> bool:
        return destination.kind == "queue" or destination.name in self.side.loose
