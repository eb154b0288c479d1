"""Draw a topology: a node for each exchange and queue, one edge for all bindings between two nodes.

A drawing leaves out only the predeclared exchanges without edges. What the forms of `bindings.drawing.forms` show is
made of it in steps, each of which returns another drawing: `crop_around`, `bundle_queues`, `add_partitions`,
`refer_to_hubs`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import SEVERITIES, Severity
from bindings.drawing.model import Drawing, Edge, Node, NodeId, Routing
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Destination, Exchange, Queue
from exchange.kinds import Decider, find_kind
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology
from exchange.values.notation import write_arguments


def draw(topology: Topology, findings: Iterable[Finding] = ()) -> Drawing:
    """Return the drawing of a topology, with the nodes and edges that these findings are about marked."""
    about: dict[object, list[Finding]] = {}
    for finding in findings:
        about.setdefault(finding.part, []).append(finding)
    graph = TopologyGraph(topology)
    edges = [*_bindings(topology, about), *_alternates(graph), *_dead_letters(graph)]
    ends = {end for edge in edges for end in (edge.source, edge.target)}
    nodes = [
        _exchange(exchange, about)
        for exchange in sorted(topology.exchanges.values(), key=lambda exchange: exchange.name)
        if exchange.name not in PREDECLARED_NAMES or NodeId("exchange", exchange.name) in ends
    ]
    nodes += [_queue(queue, about) for queue in sorted(topology.queues.values(), key=lambda queue: queue.name)]
    known = {node.id for node in nodes}
    nodes += [Node(end, "missing", f"no such {end.part}", severity="error") for end in sorted(ends - known)]
    return Drawing(tuple(nodes), tuple(edges))


def find_highest(severities: Iterable[Severity | None]) -> Severity | None:
    """Return the highest of these severities; None if there is none."""
    return max((severity for severity in severities if severity), key=SEVERITIES.index, default=None)


def _exchange(exchange: Exchange, about: dict[object, list[Finding]]) -> Node:
    findings = about.get(exchange, [])
    kind = find_kind(exchange)
    as_other = kind.routes_as if kind.decider is not Decider.UNKNOWN and kind.routes_as != exchange.type else ""
    detail = ", ".join(filter(None, [
        exchange.type, as_other and f"routes as {as_other}", "internal" if exchange.internal else "",
    ]))  # fmt: skip
    return Node(
        NodeId("exchange", exchange.name), "exchange", detail, exchange.type, Routing(kind.decider, kind.key_use),
        severity=_severity(findings), findings=_texts(findings),
    )  # fmt: skip


def _queue(queue: Queue, about: dict[object, list[Finding]]) -> Node:
    findings = about.get(queue, [])
    return Node(
        NodeId("queue", queue.name), "queue", queue.type, queue.type, partitioning=queue.partitioning,
        severity=_severity(findings), findings=_texts(findings),
    )  # fmt: skip


def _bindings(topology: Topology, about: dict[object, list[Finding]]) -> list[Edge]:
    between: dict[tuple[str, Destination], list[Binding]] = {}
    for binding in topology.bindings:
        between.setdefault((binding.source, binding.destination), []).append(binding)
    edges = []
    for (source, target), bindings in sorted(between.items()):
        findings = [finding for binding in bindings for finding in about.get(binding, ())]
        edges.append(Edge(
            NodeId("exchange", source), NodeId(target.kind, target.name), tuple(sorted(map(label_of, bindings))),
            target.kind, _severity(findings), _texts(findings),
        ))  # fmt: skip
    return edges


def _alternates(graph: TopologyGraph) -> list[Edge]:
    edges = []
    for name, possible in sorted(graph.possible_alternates.items()):
        label = "alternate" if len(possible) == 1 else "alternate?"
        if len(possible) > 1 and name in PREDECLARED_NAMES and not graph.topology.bindings_from(name):
            continue  # a policy pattern that is not understood may apply to all of these, and none needs to be drawn
        edges += [
            Edge(NodeId("exchange", name), NodeId("exchange", alternate), (label,), "alternate")
            for alternate in possible
            if alternate is not None
        ]
    return edges


def _dead_letters(graph: TopologyGraph) -> list[Edge]:
    """Return the edges from queues to their dead letter exchanges, or to queues that these letters name."""
    edges = []
    for name, possible in sorted(graph.dead_letters.items()):
        for letters in possible:
            if letters.exchange is None:
                continue
            # The default exchange takes a key for the name of a queue: the way over it is the way to this queue.
            direct = not letters.exchange and letters.routing_key is not None
            target = NodeId("queue", letters.routing_key or "") if direct else NodeId("exchange", letters.exchange)
            labels = () if direct or letters.routing_key is None else (letters.routing_key,)
            edges.append(Edge(NodeId("queue", name), target, labels, "dead-letter", unsure=len(possible) > 1))
    return edges


def label_of(binding: Binding) -> str:
    """Return what stands on the edge of a binding: its key, and its arguments if it has some."""
    if not binding.arguments:
        return binding.routing_key
    return f"{binding.routing_key} {write_arguments(binding.arguments)}".lstrip()


def _severity(findings: Iterable[Finding]) -> Severity | None:
    return find_highest(finding.rule.severity for finding in findings)


def _texts(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(f"{finding.code}: {finding.message}" for finding in findings)
