"""The legend of a picture: the shapes, lines and marks that occur in it, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from bindings.checking.rules.table import SEVERITIES
from bindings.drawing.captions import MARKS
from bindings.drawing.layout import Size
from bindings.drawing.looks import look_of
from bindings.drawing.model import Drawing, Node
from bindings.drawing.svg.shapes import LINE, QUEUE_SIGNS, draw_shape, measure, write_text
from exchange.text.display import clip_line, list_some

SAMPLE: Final = Size(26.0, 14.0)
"""Size of the sample of a shape or a line."""
WIDE_SAMPLE: Final = Size(34.0, 14.0)
"""Size of the sample of a queue, which has a sign at its end."""
MARK_SAMPLE: Final = Size(8.0, 14.0)
GAP: Final = 22.0
TYPES: Final = 3
"""Maximum number of exchange types that one entry names."""

EDGE_TEXTS: Final = {
    "queue": "binding to a queue", "exchange": "binding to an exchange", "alternate": "to the alternate exchange",
    "dead-letter": "dead letters: rejected, expired, over the limit", "partitions": "to partitions",
    "cut": "edges that are not drawn",
}  # fmt: skip
NODE_TEXTS: Final = {
    "missing": "does not exist",
    "bundle": "queues with the same bindings",
    "partitions": "partitions of a topic or super stream",
    "cut": "not drawn here",
    "reference": "drawn elsewhere: many lead there",
}


class LegendSample(NamedTuple):
    """A sample with its text. The sample is drawn as the node, or as an edge or a mark of this style."""

    text: str
    style: str
    node: Node | None = None
    mark: str = ""

    @property
    def width(self) -> float:
        """The width of sample and text, in px."""
        return self.sample.width + 6 + measure(self.text)

    @property
    def sample(self) -> Size:
        """The size of the sample."""
        if self.mark:
            return MARK_SAMPLE
        return WIDE_SAMPLE if self.node is not None and self.node.kind in ("queue", "bundle") else SAMPLE


def list_entries(drawing: Drawing, back: Sequence[bool]) -> list[LegendSample]:
    """Return the entries for what is in a drawing; ``back`` is whether each edge closes a cycle."""
    entries: list[LegendSample] = []
    entries += _list_nodes(drawing, "exchange", look_of, lambda types: f"exchange: {types}")
    # Types without a sign of their own share an entry: a topology can have any number of them.
    entries += _list_nodes(
        drawing, "queue", lambda node: node.type if node.type in QUEUE_SIGNS else "", lambda types: f"queue: {types}"
    )
    for kind, text in NODE_TEXTS.items():
        sample = next((node for node in drawing.nodes if node.kind == kind), None)
        if sample is not None:
            entries.append(LegendSample(text, f"node {kind}", sample))
    plain = {edge.kind for edge, is_back in zip(drawing.edges, back, strict=True) if not is_back}
    entries += [LegendSample(text, f"edge {kind}") for kind, text in EDGE_TEXTS.items() if kind in plain]
    if any(edge.is_unsure for edge in drawing.edges):
        entries.append(LegendSample("may not be in force", "", mark="?"))
    if any(back):
        entries.append(LegendSample("leads back: closes a cycle", "edge queue back"))
    severities = {node.severity for node in drawing.nodes} | {edge.severity for edge in drawing.edges}
    entries += [
        LegendSample(f"{severity} of hashstar check", severity, mark=MARKS[severity])
        for severity in reversed(SEVERITIES) if severity in severities
    ]  # fmt: skip
    return entries


def _list_nodes(
    drawing: Drawing, kind: str, key: Callable[[Node], str], text: Callable[[str], str]
) -> Iterator[LegendSample]:
    """Yield an entry for each look of the nodes of a kind, with the types that have it."""
    looks: dict[str, list[Node]] = {}
    for node in drawing.nodes:
        if node.kind == kind or (kind == "queue" and node.kind == "bundle"):
            looks.setdefault(key(node), []).append(node)
    for look, nodes in sorted(looks.items()):
        types = sorted({clip_line(node.type, 24) for node in nodes})
        sample = next((node for node in nodes if node.kind == kind), None)
        if sample is not None:
            yield LegendSample(
                text(list_some(types, TYPES)), f"node {kind} {look if kind == 'exchange' else ''}", sample
            )


def measure_legend(entries: Sequence[LegendSample], width: float) -> float:
    """Return the height of the legend in px, if it is as wide as this."""
    return max((y for _, y, _ in _place(entries, width)), default=-LINE) + LINE


def draw_legend(entries: Sequence[LegendSample], width: float) -> Iterator[str]:
    """Yield the entries in rows of this width."""
    for x, y, entry in _place(entries, width):
        yield f'<g class="legend {escape(entry.style)}" transform="translate({x:.1f} {y:.1f})">'
        if entry.mark:
            yield write_text(entry.mark, 0, LINE - 3, "mark")
        elif entry.node is not None:
            yield from draw_shape(entry.node, entry.sample)
        else:
            kind = "back" if entry.style.endswith("back") else entry.style.removeprefix("edge ")
            yield f'<path d="M0 {LINE / 2:g}H{SAMPLE.width:g}" marker-end="url(#head-{kind})"/>'
        yield write_text(entry.text, entry.sample.width + 6, LINE - 3, "soft")
        yield "</g>"


def _place(entries: Sequence[LegendSample], width: float) -> Iterator[tuple[float, float, LegendSample]]:
    x = y = 0.0
    for entry in entries:
        if x and x + entry.width > width:
            x, y = 0.0, y + LINE + 6
        yield x, y, entry
        x += entry.width + GAP
