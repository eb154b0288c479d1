"""The drawing as text: from each exchange to which no edge leads, a tree of where messages go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.drawing.drawing import Drawing, Edge, Node
from exchange.display import escape_line, list_some
from exchange.entities.entities import Destination

__all__ = ["to_text"]

LABELS: Final = 4
"""Maximum number of routing keys shown for the bindings between two nodes."""

MARKS: Final = {"error": " ✗", "warning": " !", "note": " ·", None: ""}


def to_text(drawing: Drawing) -> str:
    """Return the lines, escaped, without a final newline. A subtree is drawn once; later only its root is named."""
    nodes = {node.id: node for node in drawing.nodes}
    out: dict[Destination, list[Edge]] = {}
    for edge in drawing.edges:
        out.setdefault(edge.source, []).append(edge)
    entered = {edge.target for edge in drawing.edges if edge.target != edge.source}
    drawn: set[Destination] = set()
    lines: list[str] = []
    exchanges = [node for node in drawing.nodes if node.id.kind == "exchange"]
    # In a cycle every exchange has an incoming edge, so the first that is not drawn yet becomes a root.
    for node in [node for node in exchanges if node.id not in entered] + exchanges:
        if node.id not in drawn:
            lines += [_title(node), *_below(node.id, nodes, out, drawn), ""]
    alone = [node for node in drawing.nodes if node.id.kind == "queue" and node.id not in entered]
    if alone:
        lines += [
            "queues without a binding (the default exchange reaches them)",
            *(f"  {_title(n)}" for n in alone),
            "",
        ]
    if drawing.left_out:
        lines += [f"and {drawing.left_out:,} exchanges and queues further away", ""]
    return "\n".join(map(escape_line, lines[:-1]))


def _below(
    start: Destination, nodes: dict[Destination, Node], out: dict[Destination, list[Edge]], drawn: set[Destination]
) -> Iterator[str]:
    """Yield the tree under a node; in a loop, as a chain of exchanges can be longer than Python's stack is deep."""
    drawn.add(start)
    walk: list[tuple[str, Iterator[tuple[bool, Edge]]]] = [("", _with_last(out.get(start, [])))]
    while walk:
        indent, rest = walk[-1]
        for last, edge in rest:
            target = nodes[edge.target]
            again = edge.target in drawn and bool(out.get(edge.target))
            labels = f"{_labels(edge)} " if _labels(edge) else ""
            yield f"{indent}{'└─' if last else '├─'} {labels}-> {_title(target)}{' (above)' if again else ''}"
            if edge.target not in drawn and edge.target.kind == "exchange":
                drawn.add(edge.target)
                walk.append((indent + ("   " if last else "│  "), _with_last(out.get(edge.target, []))))
                break
        else:
            walk.pop()


def _with_last(edges: list[Edge]) -> Iterator[tuple[bool, Edge]]:
    return ((at == len(edges) - 1, edge) for at, edge in enumerate(edges))


def _title(node: Node) -> str:
    name = node.id.name or "(the default exchange)"
    partitions = f", {node.partitions}" if node.partitions else ""
    kind = "" if node.kind == "missing" else f"{node.id.kind}: "
    return f"{name} ({kind}{node.detail}{partitions}){MARKS[node.severity]}"


def _labels(edge: Edge) -> str:
    if edge.alternate:
        return edge.labels[0]
    if edge.labels == ("",):
        return ""
    labels = [label if label.endswith("}") else f"'{label}'" for label in edge.labels]
    return list_some(labels, LABELS)
