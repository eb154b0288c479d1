"""The forms of a drawing, and what pictures show otherwise than a topology has it: bundles, references, partitions.

A bundle is one node for many queues that are alike: the same exchanges lead to them with the same keys, their dead
letters go the same way, and their types, partitionings and severest findings are the same. A key that is the queue's
own name counts as the same key, as on a direct exchange that is used like the default one.

An alternate exchange or a queue that hundreds of exchanges lead to would tie all of a large picture together with lines
from one end to the other. Like the wires of a circuit diagram, they are named in place of being drawn: each edge ends
at a reference, a small sign with the name of the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bindings.drawing.model import OWN_NAME, Drawing, Edge, Node, NodeId
from exchange.partition.partitioning.specification import Partitioning
from exchange.text.display import count_noun, list_some
from exchange.values.forms import Form, Forms

FORMS: Final[Forms] = {
    "text": Form("bindings.drawing.text:to_text", (".txt",)),
    "svg": Form("bindings.drawing.svg:to_svg", (".svg", "")),
    "mermaid": Form("bindings.drawing.mermaid:to_mermaid", (".mmd", ".mermaid")),
    "dot": Form("bindings.drawing.dot:to_dot", (".dot", ".gv")),
}

FEWEST: Final = 6
"""Minimum number of queues of a bundle."""
FINDINGS: Final = 20
"""Maximum number of findings that a bundle keeps from its queues and their bindings."""
LARGE_PICTURE_NODES: Final = 300
"""Minimum number of nodes of a picture in which references are drawn."""
MIN_REFERRING_NODES: Final = 12
"""Minimum number of exchanges, and of queues with dead letters, that lead to a node to which references are drawn."""
SYSTEMS: Final = {
    "kafka": ("Kafka topic", "partition"),
    "librdkafka": ("Kafka topic", "partition"),
    "sarama": ("Kafka topic", "partition"),
    "franz-go": ("Kafka topic", "partition"),
    "rocketmq": ("RocketMQ topic", "queue"),
    "rabbitmq": ("super stream", "partition"),
}
"""First word of a strategy -> what has the partitions, and what one of them is called there."""
NAMES: Final = 3
"""Maximum number of brokers or streams that are listed."""


def make_picture(drawing: Drawing, *, expand: bool = False) -> Drawing:
    """Return what pictures show: the drawing with partitions, and unless ``expand`` with bundles and references."""
    return add_partitions(drawing) if expand else refer_to_hubs(add_partitions(bundle_queues(drawing)))


def bundle_queues(drawing: Drawing, fewest: int = FEWEST) -> Drawing:
    """Return the drawing with a node of the kind ``bundle`` in place of ``fewest`` or more queues that are alike."""
    into: dict[NodeId, list[Edge]] = {}
    for edge in drawing.edges:
        into.setdefault(edge.target, []).append(edge)
    has_way_out = {edge.source for edge in drawing.edges if edge.kind != "dead-letter"}
    letters: dict[NodeId, list[object]] = {}
    for edge in drawing.edges:
        if edge.kind == "dead-letter":
            letters.setdefault(edge.source, []).append((edge.target, _keys(edge), edge.unsure))
    alike: dict[object, list[Node]] = {}
    for node in drawing.nodes:
        if node.kind == "queue" and node.id not in has_way_out and node.id not in drawing.centres:
            ways = tuple(sorted((edge.source, _keys(edge), edge.severity or "") for edge in into.get(node.id, ())))
            ways_out = tuple(letters.get(node.id, ()))
            alike.setdefault((node.detail, node.partitioning, node.severity, ways, ways_out), []).append(node)
    bundle_of: dict[NodeId, NodeId] = {}
    bundles: dict[NodeId, Node] = {}
    for nodes in alike.values():
        if len(nodes) >= fewest:
            bundle = _bundle(nodes)
            bundles[nodes[0].id] = bundle
            bundle_of.update({node.id: bundle.id for node in nodes})
    kept = [bundles.get(node.id, node) for node in drawing.nodes if node.id not in bundle_of or node.id in bundles]
    return replace(drawing, nodes=tuple(kept), edges=tuple(_join(drawing.edges, bundle_of)))


def _keys(edge: Edge) -> tuple[str, ...]:
    queue = edge.source if edge.kind == "dead-letter" else edge.target
    return tuple(OWN_NAME if label == queue.name and label else label for label in edge.labels)


def _bundle(nodes: Sequence[Node]) -> Node:
    names = tuple(node.id.name for node in nodes)
    findings = [finding for node in nodes for finding in node.findings]
    return replace(
        nodes[0],
        id=NodeId("bundle", names[0]),
        kind="bundle",
        detail=f"{count_noun(len(nodes), 'queue')}, {nodes[0].type}",
        members=names,
        findings=tuple(findings[:FINDINGS]),
    )


def _join(edges: Sequence[Edge], bundle_of: Mapping[NodeId, NodeId]) -> list[Edge]:
    """Return the edges, with one in place of those between the same node and queues of the same bundle."""
    joined: dict[tuple[NodeId, NodeId, tuple[str, ...]], Edge] = {}
    kept: list[Edge | None] = []
    for edge in edges:
        source, target = (bundle_of.get(end, end) for end in (edge.source, edge.target))
        if (source, target) == (edge.source, edge.target):
            kept.append(edge)
            continue
        key = (source, target, _keys(edge))
        if key in joined:
            findings = (*joined[key].findings, *edge.findings)[:FINDINGS]
            joined[key] = replace(joined[key], findings=findings)
        else:
            joined[key] = replace(edge, source=source, target=target, labels=key[2])
    return [*filter(None, kept), *joined.values()]


def refer_to_hubs(drawing: Drawing, large: int = LARGE_PICTURE_NODES, many: int = MIN_REFERRING_NODES) -> Drawing:
    """Return the drawing with a node of the kind ``reference`` at the end of each edge to a node that many lead to."""
    if len(drawing.nodes) < large:
        return drawing
    sources: dict[NodeId, set[NodeId]] = {}
    for edge in drawing.edges:
        if (edge.source.part == "exchange" or edge.kind == "dead-letter") and edge.source != edge.target:
            sources.setdefault(edge.target, set()).add(edge.source)
    hubs = [
        node.id for node in drawing.nodes if len(sources.get(node.id, ())) >= many and node.id not in drawing.centres
    ]
    nodes = [
        Node(NodeId("source", hub.name, hub.part), "reference", f"from {_count(sources[hub])}", refers_to=hub)
        for hub in hubs
    ]  # fmt: skip
    edges = [Edge(node.id, hub, kind="cut") for node, hub in zip(nodes, hubs, strict=True)]
    referred = set(hubs)
    signs: dict[NodeId, Node] = {}
    for edge in drawing.edges:
        if edge.target not in referred or edge.source not in sources[edge.target]:
            edges.append(edge)
            continue
        sign = NodeId("reference", edge.target.name, f"{edge.target.part}, {edge.source.part} {edge.source.name}")
        signs[sign] = Node(sign, "reference", f"to {edge.target.part}", refers_to=edge.target)
        edges.append(replace(edge, target=sign))
    return replace(drawing, nodes=(*drawing.nodes, *nodes, *signs.values()), edges=tuple(edges))


def _count(sources: set[NodeId]) -> str:
    exchanges = sum(source.part == "exchange" for source in sources)
    numbers = ((exchanges, "exchange"), (len(sources) - exchanges, "queue"))
    return " and ".join([count_noun(number, noun) for number, noun in numbers if number])


def add_partitions(drawing: Drawing) -> Drawing:
    """Return the drawing with a node of the kind ``partitions`` behind each partitioned queue or bundle of queues."""
    nodes: list[Node] = []
    edges: list[Edge] = []
    for node in drawing.nodes:
        nodes.append(node)
        partitioning = node.partitioning
        if partitioning is not None and node.kind in ("queue", "bundle"):
            behind = NodeId("partitions", node.id.name, node.id.part)
            nodes.append(Node(behind, "partitions", _describe(partitioning), _name_system(partitioning),
                              partitioning=partitioning))  # fmt: skip
            label = f"{partitioning.strategy} by {partitioning.key}"
            edges.append(Edge(node.id, behind, (label,), "partitions"))
    return replace(drawing, nodes=tuple(nodes), edges=(*drawing.edges, *edges))


def _name_system(partitioning: Partitioning) -> str:
    """Return what has the partitions: ``Kafka topic``; ``topic`` for a partitioner that is not in the table."""
    return SYSTEMS.get(partitioning.strategy.partition(".")[0], ("topic", ""))[0]


def _describe(partitioning: Partitioning) -> str:
    """Return the number of partitions, and the brokers or streams that have them, where these are named."""
    noun = SYSTEMS.get(partitioning.strategy.partition(".")[0], ("", "partition"))[1]
    number = count_noun(partitioning.partitions.count, noun)
    if partitioning.partitions == type(partitioning.partitions).from_count(partitioning.partitions.count):
        return number
    brokers = Counter(partition.leader.name for partition in partitioning.partitions if partition.leader is not None)
    if any(brokers):
        return f"{number}: {list_some([f'{name} {n}' for name, n in brokers.items()], NAMES)}"
    return f"{number}: {list_some([partition.name for partition in partitioning.partitions], NAMES)}"
