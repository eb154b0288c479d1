"""Draw many queues with the same bindings as one node.

Queues are alike when the same exchanges lead to them with the same keys, their dead letters go the same way, and their
types, partitionings and severest findings are the same. A key that is the queue's own name counts as the same key, as
on a direct exchange that is used like the default one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bindings.drawing.model import OWN_NAME, Drawing, Edge, Node, NodeId
from exchange.text.display import count_noun

__all__ = ["FEWEST", "bundle_queues"]

FEWEST: Final = 6
"""Minimum number of queues of a bundle."""
FINDINGS: Final = 20
"""Maximum number of findings that a bundle keeps from its queues and their bindings."""


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
