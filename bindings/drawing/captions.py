"""What is written on nodes and edges, and what their tooltips hold, in every form that is a picture.

Names and keys are shortened in the middle; the tooltips have them whole. All texts are escaped for people, as
`exchange.text.display` does it; a form escapes them once more for its own notation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bindings.drawing.model import OWN_NAME, Drawing, Edge, Node
from exchange.text.display import clip_line, count_noun, escape_line, list_some

LONGEST: Final = 36
"""Maximum number of characters of a name or a key in a picture."""
LONGEST_CAPTION: Final = 46
"""Maximum number of characters of all keys on an edge together, unless the first one alone is longer."""
TIPS: Final = 60
"""Maximum number of names or keys in a tooltip."""
MAX_NAMED_QUEUES: Final = 2
"""Maximum number of queues that a bundle names."""

MARKS: Final = {"error": "✗", "warning": "!", "note": "i"}
"""Severity -> the mark beside a name, for eyes and printers that do not see colours."""


def name_node(node: Node) -> str:
    """Return the name of a node, whole: ``orders``; ``a, b and 37 more`` for a bundle of queues."""
    if node.kind == "bundle":
        return list_some([escape_line(name) for name in node.members], MAX_NAMED_QUEUES)
    if node.kind == "partitions":
        return node.type
    if node.kind == "cut" or node.id.part == "source":
        return node.detail
    return escape_line(node.id.name) or "(default)"


def caption_node(node: Node) -> list[str]:
    """Return the lines of a node: its name and what it is."""
    if node.kind == "bundle":
        names = [clip_line(name, LONGEST // MAX_NAMED_QUEUES) for name in node.members]
        return [list_some(names, MAX_NAMED_QUEUES), clip_line(node.detail, LONGEST)]
    if node.kind in ("cut", "reference"):
        return [clip_line(name_node(node), LONGEST)]
    return [clip_line(name_node(node), LONGEST), clip_line(node.detail, LONGEST)]


def describe_node(node: Node) -> list[str]:
    """Return the lines of the tooltip of a node."""
    if node.kind == "partitions":
        return [f"{node.type}: {escape_line(node.detail)}", escape_line(str(node.partitioning))]
    if node.kind == "cut":
        way = "before" if node.id.part == "source" else "behind"
        return [f"{node.detail} {way} {node.id.qualifier} '{escape_line(node.id.name)}', not drawn here"]
    if node.kind == "reference" and node.id.part == "source":
        return [f"edges {node.detail} to '{escape_line(node.id.name)}' end at signs with its name"]
    if node.kind == "reference":
        return [f"{node.detail} '{escape_line(node.id.name)}', which is drawn elsewhere, as many lead to it"]
    if node.kind == "bundle":
        lines = [f"{escape_line(node.detail)}, with the same bindings:", *_list(node.members)]
    else:
        lines = [f"{node.id.part} {_quote(node.id.name) or '(the default exchange)'}: {escape_line(node.detail)}"]
    if node.partitioning is not None:
        lines.append(escape_line(str(node.partitioning)))
    return [*lines, *map(escape_line, node.findings)]


def caption_edge(edge: Edge) -> str:
    """Return the text on an edge: its keys, or their number and the first of them; "" if there is nothing to write.

    >>> caption_edge(Edge(NodeId("exchange", "e"), NodeId("queue", "q"), ("a.*", "b.#")))
    'a.*, b.#'
    """
    if edge.kind == "alternate":
        return "?" if edge.is_unsure else ""
    if edge.kind == "dead-letter":
        return "?" if edge.is_unsure else "".join([clip_line(key, LONGEST) for key in edge.labels])
    if edge.kind == "partitions":
        return clip_line(edge.labels[0], LONGEST_CAPTION)
    if edge.kind == "cut" or edge.labels == ("",):
        return ""
    keys = [_show_key(label) for label in edge.labels[: LONGEST_CAPTION // 2]]
    whole = ", ".join(keys)
    if len(keys) == len(edge.labels) and (len(keys) == 1 or len(whole) <= LONGEST_CAPTION):
        return whole
    noun = "binding" if any(label.endswith("}") for label in edge.labels) else "key"
    text = f"{count_noun(len(edge.labels), noun)}: {keys[0]}"
    for key in keys[1:]:
        if len(text) + len(key) + 5 > LONGEST_CAPTION:
            break
        text += f", {key}"
    return f"{text}, ..."


def mark_lines(part: Node | Edge, lines: Sequence[str]) -> list[str]:
    """Return the lines of a node or an edge with the mark of its findings before the first: ``! orders``."""
    return [f"{MARKS[part.severity]} {lines[0]}".strip(), *lines[1:]] if part.severity else list(lines)


def describe_edge(edge: Edge) -> list[str]:
    """Return the lines of the tooltip of an edge."""
    ends = f"{_quote(edge.source.name) or 'default'} -> {_quote(edge.target.name) or 'default'}"
    if edge.kind == "cut":
        return ["their edges are not drawn here"]
    if edge.kind == "partitions":
        return [escape_line(edge.labels[0])]
    if edge.kind == "alternate":
        unsure = ", if it is in force: that depends on a policy that is not understood" if edge.is_unsure else ""
        return [f"{ends}: the alternate exchange{unsure}"]
    if edge.kind == "dead-letter":
        return _describe_dead_letters(edge)
    kind = "exchange " if edge.kind == "exchange" else ""
    target = "each of these queues" if edge.target.part == "bundle" else f"{kind}{_quote(edge.target.name)}"
    return [
        f"{_quote(edge.source.name)} -> {target}",
        *_list([label or '""' for label in edge.labels]),
        *map(escape_line, edge.findings),
    ]


def caption_without_legend(edge: Edge) -> str:
    """Return the text on an edge in a form that has no legend: what only a colour or dashes show is in words, too."""
    text = caption_edge(edge)
    if edge.kind != "dead-letter":
        return text
    return f"dead letters{'?' if edge.is_unsure else f', key {text}' if text else ''}"


def _describe_dead_letters(edge: Edge) -> list[str]:
    of = "each of these queues" if edge.source.part == "bundle" else _quote(edge.source.name)
    key = f" with the key {_quote(edge.labels[0])}" if edge.labels and edge.labels != (OWN_NAME,) else ""
    key = " with the name of the queue as key" if edge.labels == (OWN_NAME,) else key
    unsure = ", if that is in force: it is not known which policy is" if edge.is_unsure else ""
    return [f"dead letters of {of} -> {edge.target.part} {_quote(edge.target.name) or '(default)'}{key}{unsure}"]


def count_parts(drawing: Drawing) -> str:
    """Return the numbers of exchanges, queues and bindings: ``9 exchanges, 33 queues, 34 bindings``.

    Those that are not drawn are not counted, queues in bundles are.
    """
    exchanges = sum(node.kind == "exchange" for node in drawing.nodes)
    queues = sum(len(node.members) or 1 for node in drawing.nodes if node.kind in ("queue", "bundle"))
    members = {node.id: len(node.members) for node in drawing.nodes if node.kind == "bundle"}
    bindings = sum(
        len(edge.labels) * members.get(edge.target, 1) for edge in drawing.edges if edge.kind in ("queue", "exchange")
    )
    return ", ".join([
        count_noun(exchanges, "exchange"), count_noun(queues, "queue"), count_noun(bindings, "binding"),
    ])  # fmt: skip


def _show_key(label: str) -> str:
    """Return a key, clipped, in quotes where its end would not be seen in a list."""
    text = clip_line(label, LONGEST)
    if label.endswith("}") or label == OWN_NAME:
        return text
    return f"'{text}'" if not text or " " in text or "," in text else text


def _quote(name: str) -> str:
    return f"'{escape_line(name)}'" if name else ""


def _list(texts: Sequence[str]) -> list[str]:
    lines = [escape_line(text) for text in texts[:TIPS]]
    return [*lines, f"and {len(texts) - TIPS:,} more"] if len(texts) > TIPS else lines
