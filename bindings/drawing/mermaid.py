"""The drawing in Mermaid, which GitHub, GitLab and many documentation tools draw from the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from bindings.drawing.captions import caption_node, caption_without_legend, mark_lines
from bindings.drawing.looks import look_of
from bindings.drawing.model import Drawing
from exchange.text.display import escape_line

MAX_EDGES: Final = 500
"""Mermaid's own maximum number of edges, unless ``maxEdges`` is set."""
MAX_CHARACTERS: Final = 50_000
"""Mermaid's own maximum length of a text, unless ``maxTextSize`` is set."""
TOO_LARGE: Final = (
    f"Mermaid refuses more than {MAX_EDGES} edges or {MAX_CHARACTERS:,} characters, unless maxEdges and maxTextSize "
    "of its configuration are raised"
)
"""The note for a diagram that `is_too_large`."""

SHAPES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType({
    "literal": ("(", ")"),
    "pattern": ("([", "])"),
    "all": (">", "]"),
    "headers": ("{{", "}}"),
    "hash": ("[/", "/]"),
    "chance": ("[\\", "\\]"),
    "unknown": ("[", "]"),
    "queue": ("[[", "]]"),
    "bundle": ("[[", "]]"),
    "partitions": ("[(", ")]"),
    "missing": ("[", "]"),
    "cut": ("[", "]"),
    "reference": ("[", "]"),
})  # fmt: skip
"""Look of a node -> the brackets around its text."""

ARROWS: Final = {
    "alternate": "-.->", "dead-letter": "-.->", "partitions": "==>", "cut": "-.->", "exchange": "==>", "queue": "-->",
}  # fmt: skip

SPECIAL: Final = re.compile(r"[^\w .,:/-]|_|[.-](?= |$)")
"""Characters that may mean something to Mermaid, to the Markdown in its labels, or to HTML; written as entities. A full
stop or a hyphen before a blank makes a list in Markdown."""
JOINED: Final = re.compile(r"\\(?=n)|\$(?=\$)|:(?=fa-)")
"""First characters of what Mermaid replaces even behind entities: ``\\n``, ``$$`` for formulas, ``:fa-`` for icons."""
SEPARATOR: Final = "\u200c"
"""A character without width, which keeps these apart."""

CLASSES: Final = (
    "classDef missing stroke-dasharray: 4 3",
    "classDef cut stroke-dasharray: 2 3",
    "classDef reference stroke-dasharray: 2 3",
    "classDef unknown stroke-dasharray: 7 3",
    "classDef error stroke:#d33,stroke-width:3px",
    "classDef warning stroke:#b70,stroke-width:3px",
)
"""Styles that leave colours of paper and text to the theme, light or dark."""


def to_mermaid(drawing: Drawing, title: str) -> str:
    """Return the text of the diagram, for a code block of the language ``mermaid``."""
    return "\n".join(_write(drawing, title)) + "\n"


def is_too_large(drawing: Drawing, title: str) -> bool:
    """Return whether Mermaid, as it is installed, refuses the diagram."""
    return len(drawing.edges) > MAX_EDGES or len(to_mermaid(drawing, title)) > MAX_CHARACTERS


def _write(drawing: Drawing, title: str) -> Iterator[str]:
    number = {node.id: at for at, node in enumerate(drawing.nodes)}
    yield f"%% {escape_line(title).replace('%', '').replace('{', '(').replace('}', ')')}"
    yield "flowchart LR"
    for at, node in enumerate(drawing.nodes):
        opening, closing = SHAPES[look_of(node)]
        yield f"  n{at}{opening}{_quote(mark_lines(node, caption_node(node)))}{closing}"
    for edge in drawing.edges:
        caption = mark_lines(edge, [caption_without_legend(edge)])
        label = f"|{_quote(caption)}|" if any(caption) else ""
        yield f"  n{number[edge.source]} {ARROWS[edge.kind]}{label} n{number[edge.target]}"
    used: dict[str, list[str]] = {}
    for at, node in enumerate(drawing.nodes):
        for name in (look_of(node), node.severity):
            used.setdefault(name or "", []).append(f"n{at}")
    for line in CLASSES:
        name = line.split()[1]
        if name in used:
            yield f"  {line}"
            yield f"  class {','.join(used[name])} {name}"


def _quote(lines: Sequence[str]) -> str:
    apart = [JOINED.sub(lambda match: match[0] + SEPARATOR, line) for line in lines]
    return '"' + "<br/>".join(SPECIAL.sub(lambda match: f"#{ord(match[0])};", line) for line in apart) + '"'
