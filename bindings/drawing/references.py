"""Draw many edges to the same node as references: each ends at a small sign with the name of the node.

An alternate exchange or a queue that hundreds of exchanges lead to would tie all of a large picture together with lines
from one end to the other. Like the wires of a circuit diagram, they are named in place of being drawn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bindings.drawing.model import Drawing, Edge, Node, NodeId
from exchange.text.display import count_noun

__all__ = ["LARGE", "MANY", "refer_to_hubs"]

LARGE: Final = 300
"""Minimum number of nodes of a picture in which references are drawn."""
MANY: Final = 12
"""Minimum number of exchanges, and of queues with dead letters, that lead to a node to which references are drawn."""


def refer_to_hubs(drawing: Drawing, large: int = LARGE, many: int = MANY) -> Drawing:
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
