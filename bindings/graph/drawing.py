"""What is drawn of a topology: a node for each exchange and queue, an edge for all bindings between the same two.

Nothing is placed here, and nothing is left out but the predeclared exchanges that nobody uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from bindings.check.finding import SEVERITIES, Finding, Severity
from exchange.notation import write_arguments
from exchange.parts import PREDECLARED, Binding, Destination, Exchange, Queue, alternate_exchange
from exchange.topology import Topology

__all__ = ["Drawing", "Edge", "Node", "drawing"]

Kind = Literal["exchange", "queue", "missing"]


@dataclass(frozen=True, slots=True)
class Node:
    """An exchange or a queue; ``missing`` is one that a binding or an alternate names and nobody declared."""

    id: Destination
    kind: Kind
    detail: str
    """The type of the exchange or the queue."""
    partitions: str = ""
    """How a queue is partitioned, in its text form."""
    severity: Severity | None = None
    """The gravest finding about it."""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """The bindings from one node to another, or the way to an alternate exchange."""

    source: Destination
    target: Destination
    labels: tuple[str, ...]
    """Routing keys, with arguments where there are some; as in the bindings, sorted."""
    alternate: bool = False
    severity: Severity | None = None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that is drawn, in a stable order."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def drawing(topology: Topology, findings: Iterable[Finding] = ()) -> Drawing:
    """What is to be drawn of a topology, coloured by these findings."""
    about: dict[object, list[Finding]] = {}
    for finding in findings:
        about.setdefault(finding.part, []).append(finding)
    edges = [*_bindings(topology, about), *_alternates(topology, about)]
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


UNUSED: Final = frozenset(exchange.name for exchange in PREDECLARED)
"""Not drawn where nothing leads from or to them."""


def _exchange(exchange: Exchange, about: dict[object, list[Finding]]) -> Node:
    found = about.get(exchange, [])
    detail = exchange.type + (", internal" if exchange.internal else "")
    return Node(Destination("exchange", exchange.name), "exchange", detail, "", _gravest(found), _texts(found))


def _queue(queue: Queue, about: dict[object, list[Finding]]) -> Node:
    found = about.get(queue, [])
    partitions = str(queue.partitioning) if queue.partitioning is not None else ""
    return Node(Destination("queue", queue.name), "queue", queue.type, partitions, _gravest(found), _texts(found))


def _bindings(topology: Topology, about: dict[object, list[Finding]]) -> list[Edge]:
    between: dict[tuple[Destination, Destination], list[Binding]] = {}
    for binding in topology.bindings:
        between.setdefault((Destination("exchange", binding.source), binding.destination), []).append(binding)
    edges = []
    for (source, target), bindings in sorted(between.items()):
        found = [finding for binding in bindings for finding in about.get(binding, ())]
        labels = tuple(sorted(map(_label, bindings)))
        edges.append(Edge(source, target, labels, False, _gravest(found), _texts(found)))
    return edges


def _alternates(topology: Topology, about: dict[object, list[Finding]]) -> list[Edge]:
    edges = []
    for name in sorted(topology.exchanges):
        alternate = alternate_exchange(topology.exchanges[name], topology.policies)
        if name and alternate is not None:
            ends = Destination("exchange", name), Destination("exchange", alternate)
            edges.append(Edge(*ends, ("alternate",), alternate=True))
    return edges


def _label(binding: Binding) -> str:
    if not binding.arguments:
        return binding.routing_key
    return f"{binding.routing_key} {write_arguments(binding.arguments)}".lstrip()


def _gravest(findings: Iterable[Finding]) -> Severity | None:
    return max((finding.rule.severity for finding in findings), key=SEVERITIES.index, default=None)


def _texts(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(f"{finding.code}: {finding.message}" for finding in findings)
