"""The nodes and edges of a drawing: a node for each exchange and queue, one edge for all bindings between two nodes.

A drawing has no positions (see `bindings.drawing.layout`). It leaves out only the predeclared exchanges without edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

from bindings.analysis.graph import TopologyGraph
from bindings.check.rules.finding import SEVERITIES, Finding, Severity
from exchange.entities.entities import PREDECLARED, Binding, Destination, Exchange, Queue
from exchange.errors import InputError
from exchange.notation import write_arguments
from exchange.topology.topology import Topology

__all__ = ["Drawing", "Edge", "Node", "crop_around", "draw"]

Kind = Literal["exchange", "queue", "missing"]


@dataclass(frozen=True, slots=True)
class Node:
    """An exchange or a queue; ``missing`` is one that a binding or an exchange names and that does not exist."""

    id: Destination
    kind: Kind
    detail: str
    """The type of the exchange or the queue."""
    partitions: str = ""
    """How a queue is partitioned, in its text form."""
    severity: Severity | None = None
    """The highest severity of the findings about it."""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """The bindings from one node to another, or the edge to an alternate exchange."""

    source: Destination
    target: Destination
    labels: tuple[str, ...]
    """Routing keys, with arguments where there are some, sorted. For an alternate exchange ``alternate``, or
    ``alternate?`` where it is not known whether it is in force."""
    alternate: bool = False
    severity: Severity | None = None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that is drawn, in a stable order."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    left_out: int = 0
    """Number of nodes of the topology that are not drawn, see `crop_around`."""


def draw(topology: Topology, findings: Iterable[Finding] = ()) -> Drawing:
    """Return the drawing of a topology, with the nodes and edges that these findings are about marked."""
    about: dict[object, list[Finding]] = {}
    for finding in findings:
        about.setdefault(finding.part, []).append(finding)
    edges = [*_bindings(topology, about), *_alternates(topology)]
    ends = {end for edge in edges for end in (edge.source, edge.target)}
    nodes = [
        _exchange(exchange, about)
        for exchange in sorted(topology.exchanges.values(), key=lambda exchange: exchange.name)
        if exchange.name not in UNUSED or Destination("exchange", exchange.name) in ends
    ]
    nodes += [_queue(queue, about) for queue in sorted(topology.queues.values(), key=lambda queue: queue.name)]
    known = {node.id for node in nodes}
    nodes += [Node(end, "missing", f"no such {end.kind}", severity="error") for end in sorted(ends - known)]
    return Drawing(tuple(nodes), tuple(edges))


def crop_around(whole: Drawing, name: str, depth: int) -> Drawing:
    """Return the part of a drawing within ``depth`` edges, in either direction, of the exchange or queue of this name.

    Raises InputError when there is none.
    """
    near = {node.id for node in whole.nodes if node.id.name == name}
    if not near:
        names = sorted(node.id.name for node in whole.nodes if node.id.name)
        alike = get_close_matches(name, names, 1)
        hint = f"; did you mean '{alike[0]}'?" if alike else ""
        raise InputError(f"there is no exchange or queue '{name}' to draw the surroundings of{hint}")
    beside: dict[Destination, list[Destination]] = {}
    for edge in whole.edges:
        beside.setdefault(edge.source, []).append(edge.target)
        beside.setdefault(edge.target, []).append(edge.source)
    outermost = near
    for _ in range(depth):
        outermost = {other for node in outermost for other in beside.get(node, ())} - near
        if not outermost:
            break
        near = near | outermost
    nodes = tuple(node for node in whole.nodes if node.id in near)
    edges = tuple(edge for edge in whole.edges if edge.source in near and edge.target in near)
    return Drawing(nodes, edges, len(whole.nodes) - len(nodes))


UNUSED: Final = frozenset(exchange.name for exchange in PREDECLARED)
"""Exchanges that are not drawn if no edge begins or ends there."""


def _exchange(exchange: Exchange, about: dict[object, list[Finding]]) -> Node:
    findings = about.get(exchange, [])
    detail = exchange.type + (", internal" if exchange.internal else "")
    return Node(Destination("exchange", exchange.name), "exchange", detail, "", _highest(findings), _texts(findings))


def _queue(queue: Queue, about: dict[object, list[Finding]]) -> Node:
    findings = about.get(queue, [])
    partitions = str(queue.partitioning) if queue.partitioning is not None else ""
    return Node(Destination("queue", queue.name), "queue", queue.type, partitions, _highest(findings), _texts(findings))


def _bindings(topology: Topology, about: dict[object, list[Finding]]) -> list[Edge]:
    between: dict[tuple[Destination, Destination], list[Binding]] = {}
    for binding in topology.bindings:
        between.setdefault((Destination("exchange", binding.source), binding.destination), []).append(binding)
    edges = []
    for (source, target), bindings in sorted(between.items()):
        findings = [finding for binding in bindings for finding in about.get(binding, ())]
        labels = tuple(sorted(map(_label, bindings)))
        edges.append(Edge(source, target, labels, False, _highest(findings), _texts(findings)))
    return edges


def _alternates(topology: Topology) -> list[Edge]:
    edges = []
    for name, possible in sorted(TopologyGraph(topology).possible_alternates.items()):
        label = "alternate" if len(possible) == 1 else "alternate?"
        if len(possible) > 1 and name in UNUSED and not topology.bindings_from(name):
            continue  # a policy pattern that is not understood may apply to all of these, and none needs to be drawn
        for alternate in possible:
            if alternate is not None:
                ends = Destination("exchange", name), Destination("exchange", alternate)
                edges.append(Edge(*ends, (label,), alternate=True))
    return edges


def _label(binding: Binding) -> str:
    if not binding.arguments:
        return binding.routing_key
    return f"{binding.routing_key} {write_arguments(binding.arguments)}".lstrip()


def _highest(findings: Iterable[Finding]) -> Severity | None:
    return max((finding.rule.severity for finding in findings), key=SEVERITIES.index, default=None)


def _texts(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(f"{finding.code}: {finding.message}" for finding in findings)
