"""The picture of a topology that fits a page: all of it if it is small, else the neighbourhood of what is looked at."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from bindings.drawing.drawing import label_of
from bindings.drawing.model import Drawing, Edge, NodeId
from bindings.drawing.svg import to_svg
from bindings.serve.traffic import DEAD, ReportTraffic
from bindings.serve.view import View
from exchange.entities.entities import Destination

DEFAULT_NODES: Final = 60
"""Maximum number of nodes of a picture, unless the page asks for another number."""
STYLE: Final = re.compile("<style>(.*?)</style>", re.DOTALL)
SCRIPT: Final = re.compile("<script>.*?</script>", re.DOTALL)
NEIGHBOURS: Final = 24
"""Maximum number of nodes of a picture that are only near what is looked at, if not all nodes fit."""
MAX_EDGES: Final = 400
"""Maximum number of edges of a picture."""


def make_picture(view: View, focus: Sequence[Destination], most: int, traffic: ReportTraffic | None) -> dict[str, Any]:
    """Return the picture as SVG, and what its nodes and edges stand for, in the order in which they are drawn."""
    drawing = choose_part(view, [NodeId(*part) for part in focus], most)
    edges = [_edge_json(edge) for edge in drawing.edges]
    if traffic is not None:
        counted = [_count(view, edge, traffic) for edge in drawing.edges]
        drawing = replace(drawing, edges=tuple([edge for edge, _ in counted]))
        edges = [{**edge, **counts} for edge, (_, counts) in zip(edges, counted, strict=True)]
    svg, style = _split_style(to_svg(drawing, f"virtual host {view.topology.vhost}"))
    return {
        "svg": svg,
        "style": style,
        "nodes": [
            {"kind": node.id.part, "name": node.id.name, "missing": node.kind == "missing"} for node in drawing.nodes
        ],
        "edges": edges,
        "left_out": drawing.left_out,
    }


def choose_part(view: View, focus: Iterable[NodeId], most: int) -> Drawing:
    """Return the drawing if it has at most ``most`` nodes; else those of ``focus``, and some neighbours, nearest first.

    Without a focus it begins with the first exchanges by name.
    """
    whole = view.drawing()
    if len(whole.nodes) <= most and len(whole.edges) <= MAX_EDGES:
        return whole
    known = {node.id for node in whole.nodes}
    near: dict[NodeId, None] = {}
    pending = deque([part for part in dict.fromkeys(focus) if part in known] or [node.id for node in whole.nodes[:1]])
    most = min(most, len(pending) + NEIGHBOURS)
    neighbours = view.neighbours()
    while pending and len(near) < most:
        node = pending.popleft()
        if node not in near:
            near[node] = None
            # No more than could be drawn: an exchange may have a hundred thousand queues.
            pending.extend([other for other in neighbours.get(node, ())[: 2 * most] if other not in near])
    edges = [edge for edge in whole.edges if edge.source in near and edge.target in near]
    nodes = tuple(node for node in whole.nodes if node.id in near)
    return Drawing(nodes, tuple(edges[:MAX_EDGES]), len(whole.nodes) - len(nodes))


def _split_style(svg: str) -> tuple[str, str]:
    """Return a picture without its style sheet and script, which the policy of a page refuses, and the style sheet.

    The style sheet is CSS as it is: nothing of the topology is in it.
    """
    style = STYLE.search(svg)
    return SCRIPT.sub("", STYLE.sub("", svg)), style[1] if style else ""


def _edge_json(edge: Edge) -> dict[str, Any]:
    return {
        "source": edge.source.name,
        "destination_type": edge.target.part,
        "destination": edge.target.name,
        "alternate": edge.kind == "alternate",
        "dead_letters": edge.kind == "dead-letter",
        "messages": None,
        "dead": False,
    }


def _count(view: View, edge: Edge, traffic: ReportTraffic) -> tuple[Edge, dict[str, Any]]:
    """Return the edge with the messages of each of its bindings beside the key, and their sum."""
    if edge.kind not in ("queue", "exchange"):
        return edge, {}
    uses = [
        (binding, traffic.uses.get(binding))
        for binding in view.topology.bindings_to(Destination(edge.kind, edge.target.name))
        if binding.source == edge.source.name
    ]
    # In braces, as arguments are: a caption has such labels as they are, and others with blanks in quotes.
    labels = [
        label_of(binding) if use is None else f"{label_of(binding)} {{{use.messages:,}}}".lstrip()
        for binding, use in uses
    ]
    counted = [use for _, use in uses if use is not None]
    return replace(edge, labels=tuple(sorted(labels))), {
        "messages": sum(use.messages for use in counted) if counted else None,
        "dead": bool(counted) and all(use.state in DEAD for use in counted),
    }
