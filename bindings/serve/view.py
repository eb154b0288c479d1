"""One virtual host with what the questions about it need. Each part is made once, when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from bindings.checking.check import check
from bindings.checking.rules.finding import Finding
from bindings.diffing.comparison.sides import Side
from bindings.drawing.drawing import draw
from bindings.drawing.model import Drawing, NodeId
from bindings.sources.language.expectations import Expectation
from bindings.sources.open import Source
from exchange.entities.entities import Destination
from exchange.entities.part import Part
from exchange.kinds import find_kind
from exchange.routing.router import Router
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology

Value = TypeVar("Value")


class Once(Generic[Value]):
    """A value that the first caller makes and all others wait for; an error is not kept."""

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make: Final = make
        self._lock: Final = threading.Lock()
        self._made: list[Value] = []

    def __call__(self) -> Value:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


class View:
    """A virtual host as it was read, or as a draft would make it."""

    def __init__(
        self, source: Source, topology: Topology, expectations: Sequence[Expectation] = (), *, has_lines: bool = True
    ) -> None:
        self.source: Final = source
        self.has_lines: Final = has_lines
        """Whether the parts are those of the source, whose lines it knows. A text that was edited has other lines."""
        self.topology: Final = topology
        self.router: Final = Router(topology)
        self.findings: Final[Once[list[Finding]]] = Once(lambda: check(topology, expectations))
        """The findings of `hashstar check`, without those about the file as a whole."""
        self.drawing: Final[Once[Drawing]] = Once(lambda: draw(topology))
        """The picture of everything, without findings."""
        self.neighbours: Final[Once[dict[NodeId, list[NodeId]]]] = Once(self._find_neighbours)
        """Node of the drawing -> the nodes that an edge joins it with, in the order of the edges."""
        self.names: Final[Once[list[tuple[str, Destination]]]] = Once(self._list_names)
        """Every exchange and queue by its name without capitals."""
        self.side: Final[Once[Side]] = Once(self._make_side)
        """The topology as the search for messages looks at it (`bindings.diffing.comparison`)."""

    def exists(self, part: Destination) -> bool:
        """Return whether there is such an exchange or queue."""
        return part.name in (self.topology.exchanges if part.kind == "exchange" else self.topology.queues)

    def line_of(self, part: Part) -> int | None:
        """Return the line of the source that declares a part, from 1; None if it is not a .bindings file."""
        return self.source.line_of(self.topology.vhost, part) if self.has_lines else None

    def _find_neighbours(self) -> dict[NodeId, list[NodeId]]:
        neighbours: dict[NodeId, dict[NodeId, None]] = {}
        for edge in self.drawing().edges:
            neighbours.setdefault(edge.source, {})[edge.target] = None
            neighbours.setdefault(edge.target, {})[edge.source] = None
        return {node: [*others] for node, others in neighbours.items()}

    def _list_names(self) -> list[tuple[str, Destination]]:
        names = [(name.lower(), Destination("exchange", name)) for name in self.topology.exchanges]
        return sorted(names + [(name.lower(), Destination("queue", name)) for name in self.topology.queues])

    def _make_side(self) -> Side:
        graph = TopologyGraph(self.topology)
        loose = {
            name
            for name, exchange in self.topology.exchanges.items()
            if name in graph.unsure or not find_kind(exchange).decider.has_conditions
        }
        return Side(graph, loose)
