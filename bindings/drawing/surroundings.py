"""Draw a part of a topology: what is near some exchanges and queues, and how much is cut off where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from bindings.drawing.model import Drawing, Edge, Node, NodeId
from exchange.errors import InputError
from exchange.text.display import count_noun, suggest

Direction = Literal["any", "to", "from"]

DIRECTIONS: Final = ("any", "to", "from")
"""Ways to follow edges: both ways at each node; only against them, to what leads to a node; only along them."""


def crop_around(whole: Drawing, names: Sequence[str], depth: int, direction: Direction = "any") -> Drawing:
    """Return the part of a drawing within ``depth`` edges of the exchanges and queues of these names.

    Where edges lead on to nodes that are not drawn, a node of the kind ``cut`` holds their number. Raises InputError
    when there is no exchange and no queue of one of these names.
    """
    near = centres = _find_centres(whole, names)
    beside: dict[NodeId, list[NodeId]] = {}
    for edge in whole.edges:
        if direction != "to":
            beside.setdefault(edge.source, []).append(edge.target)
        if direction != "from":
            beside.setdefault(edge.target, []).append(edge.source)
    outermost = near
    for _ in range(depth):
        outermost = {other for node in outermost for other in beside.get(node, ())} - near
        if not outermost:
            break
        near = near | outermost
    nodes = tuple(node for node in whole.nodes if node.id in near)
    edges = tuple(edge for edge in whole.edges if edge.source in near and edge.target in near)
    cut, stubs = _cut_off(whole, near)
    return Drawing((*nodes, *cut), (*edges, *stubs), len(whole.nodes) - len(nodes), frozenset(centres))


def _find_centres(whole: Drawing, names: Iterable[str]) -> set[NodeId]:
    by_name: dict[str, list[NodeId]] = {}
    for node in whole.nodes:
        by_name.setdefault(node.id.name, []).append(node.id)
    centres: set[NodeId] = set()
    for name in names:
        if name not in by_name:
            near = suggest(name, sorted(by_name))
            raise InputError(f"there is no exchange or queue '{name}' to draw the surroundings of{near}")
        centres.update(by_name[name])
    return centres


def _cut_off(whole: Drawing, near: set[NodeId]) -> tuple[list[Node], list[Edge]]:
    """Return nodes and edges for what is not drawn before and behind each node that is."""
    before: dict[NodeId, set[NodeId]] = {}
    behind: dict[NodeId, set[NodeId]] = {}
    for edge in whole.edges:
        if edge.source in near and edge.target not in near:
            behind.setdefault(edge.source, set()).add(edge.target)
        elif edge.target in near and edge.source not in near:
            before.setdefault(edge.target, set()).add(edge.source)
    nodes, edges = [], []
    for id_, others in sorted(before.items()):
        nodes.append(Node(NodeId("source", id_.name, id_.part), "cut", _count(others)))
        edges.append(Edge(nodes[-1].id, id_, kind="cut"))
    for id_, others in sorted(behind.items()):
        nodes.append(Node(NodeId("destination", id_.name, id_.part), "cut", _count(others)))
        edges.append(Edge(id_, nodes[-1].id, kind="cut"))
    return nodes, edges


def _count(others: Iterable[NodeId]) -> str:
    numbers = Counter(other.part for other in others)
    return ", ".join(count_noun(number, f"more {part}") for part, number in sorted(numbers.items()))
