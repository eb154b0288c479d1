"""The drawing as text: from each exchange to which no edge leads, a tree of where messages go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.drawing.model import Drawing, Edge, Node, NodeId
from exchange.text.display import escape_line, list_some

LABELS: Final = 4
"""Maximum number of routing keys shown for the bindings between two nodes."""

MARKS: Final = {"error": "✗", "warning": "!", "note": "·"}


def to_text(drawing: Drawing, caveat: str = "") -> str:
    """Return the lines, escaped, without a final newline. A subtree is drawn once; later only its root is named.

    ``caveat`` comes before the drawing.
    """
    nodes = {node.id: node for node in drawing.nodes}
    out: dict[NodeId, list[Edge]] = {}
    for edge in drawing.edges:
        out.setdefault(edge.source, []).append(edge)
    inlets = {edge.target: nodes[edge.source] for edge in drawing.edges if nodes[edge.source].kind == "cut"}
    titles = {node.id: _title(node, inlets.get(node.id)) for node in drawing.nodes}
    entered = {edge.target for edge in drawing.edges if edge.target != edge.source and nodes[edge.source].kind != "cut"}
    bound = {edge.target for edge in drawing.edges if edge.kind != "dead-letter"}
    drawn: set[NodeId] = set()
    lines: list[str] = [escape_line(caveat)] if caveat else []
    exchanges = [node for node in drawing.nodes if node.id.part == "exchange"]
    # In a cycle every exchange has an incoming edge, so the first that is not drawn yet becomes a root. What only the
    # dead letters of a queue enter is drawn below that queue.
    letting_go = [node for node in drawing.nodes if node.id.part == "queue" and out.get(node.id)]
    roots = [node for node in exchanges if node.id not in entered]
    roots += [node for node in letting_go if node.id not in entered]
    roots += [node for node in exchanges if node.id not in bound]
    for node in [*roots, *exchanges, *letting_go]:
        if node.id not in drawn:
            lines += [titles[node.id], *_below(node.id, titles, out, drawn), ""]
    alone = [node.id for node in drawing.nodes if node.id.part == "queue" and not {node.id} & (entered | drawn)]
    lines += [line for node_id in alone if node_id in inlets for line in (titles[node_id], "")]
    unbound = [f"  {titles[node_id]}" for node_id in alone if node_id not in inlets]
    if unbound:
        lines += ["queues without a binding (the default exchange reaches them)", *unbound, ""]
    if drawing.left_out:
        lines += [f"and {drawing.left_out:,} further away, exchanges and queues", ""]
    return "\n".join(map(escape_line, lines[:-1]))


def _below(
    start: NodeId, titles: dict[NodeId, str], out: dict[NodeId, list[Edge]], drawn: set[NodeId]
) -> Iterator[str]:
    """Yield the tree under a node; in a loop, as a chain of exchanges can be longer than Python's stack is deep."""
    drawn.add(start)
    walk: list[tuple[str, Iterator[tuple[bool, Edge]]]] = [("", _with_last(out.get(start, [])))]
    while walk:
        indent, rest = walk[-1]
        for last, edge in rest:
            again = edge.target in drawn and bool(out.get(edge.target))
            labels = f"{_labels(edge)} " if _labels(edge) else ""
            yield f"{indent}{'└─' if last else '├─'} {labels}-> {titles[edge.target]}{' (above)' if again else ''}"
            if edge.target not in drawn and (edge.target.part == "exchange" or out.get(edge.target)):
                drawn.add(edge.target)
                walk.append((indent + ("   " if last else "│  "), _with_last(out.get(edge.target, []))))
                break
        else:
            walk.pop()


def _with_last(edges: list[Edge]) -> Iterator[tuple[bool, Edge]]:
    return ((at == len(edges) - 1, edge) for at, edge in enumerate(edges))


def _title(node: Node, inlet: Node | None) -> str:
    """Return the text of a node; ``inlet`` stands for the nodes that lead to it and are not drawn."""
    if node.kind == "cut":
        return f"... {node.detail}"
    name = node.id.name or "(the default exchange)"
    partitions = f", {node.partitioning}" if node.partitioning is not None else ""
    kind = "" if node.kind == "missing" else f"{node.id.part}: "
    mark = f" {MARKS[node.severity]}" if node.severity else ""
    more = f" <- ... {inlet.detail}" if inlet is not None else ""
    return f"{name} ({kind}{node.detail}{partitions}){mark}{more}"


def _labels(edge: Edge) -> str:
    if edge.kind == "alternate":
        return edge.labels[0]
    if edge.kind == "dead-letter":
        key = f" with the key '{edge.labels[0]}'" if edge.labels else ""
        return f"dead letters{'?' if edge.is_unsure else ''}{key}"
    if edge.labels in ((), ("",)):
        return ""
    labels = [label if label.endswith("}") else f"'{label}'" for label in edge.labels]
    return list_some(labels, LABELS)
