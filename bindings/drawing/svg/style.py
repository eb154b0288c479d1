"""The style sheet of a picture, light and dark: colours, lines, and what the script marks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from bindings.checking.rules.finding import SEVERITIES
from bindings.drawing.looks import COLOURS, EDGE_COLOURS, ROUTING_LOOKS

__all__ = ["HEADS", "list_rules", "write_style_sheet"]


LINES: Final[Mapping[str, str]] = MappingProxyType({
    "queue": "stroke-width: 1.2",
    "exchange": "stroke-width: 2",
    "alternate": "stroke-width: 1.4; stroke-dasharray: 6 4",
    "dead-letter": "stroke-width: 1.4; stroke-dasharray: 8 3 1.5 3",
    "partitions": "stroke-width: 2.6; stroke-dasharray: 0.1 5; stroke-linecap: round",
    "cut": "stroke-width: 1.2; stroke-dasharray: 2 3",
})  # fmt: skip
"""Kind of an edge -> how its line is drawn."""

HEADS: Final[Mapping[str, str]] = MappingProxyType({
    **{str(kind): colour for kind, colour in EDGE_COLOURS.items()}, "back": "back-edge",
    **{severity: severity for severity in SEVERITIES},
})  # fmt: skip
"""Name of an arrow head -> its colour."""

FONT: Final = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'

FIXED: Final = f"""
svg {{ font: 11px {FONT}; }}
text {{ white-space: pre; }}
.heading {{ font-weight: bold; }}
.shape {{ stroke-width: 1.4; }}
.centre .shape {{ stroke-width: 3.2; }}
.missing .shape {{ stroke-dasharray: 4 3; }}
.unknown .shape {{ stroke-dasharray: 7 3; }}
.cut text, .reference text {{ font-style: italic; }}
.cut .shape, .reference .shape {{ stroke-dasharray: 2 3; }}
.edge path {{ fill: none; }}
.dim {{ opacity: 0.15; }}
.found .shape {{ stroke-width: 4; }}
.chosen .shape, .chosen path {{ stroke-width: 3; }}
svg.live {{ cursor: grab; touch-action: none; user-select: none; }}
#bar {{ display: flex; gap: 6px; align-items: center; padding: 8px; font: 13px system-ui, sans-serif; }}
#bar {{ color-scheme: light dark; }}
#bar input {{ flex: 1; min-width: 0; font: inherit; }}
#bar output {{ min-width: 4.5em; }}
#bar button {{ font: inherit; min-width: 2em; cursor: pointer; }}
.error .shape, .warning .shape {{ stroke-width: 2.6; }}
"""

Rule = tuple[str, str, str]


def list_rules() -> list[Rule]:
    """Return the rules that set colours: selector, property, name of the colour."""
    rules = [
        ("svg, #bar", "background", "paper"), ("#bar", "color", "ink"), ("text, .mark", "fill", "ink"),
        (".soft", "fill", "soft"),
        (".shape", "fill", "sheet"), (".shape, .tick", "stroke", "line"), (".tick", "fill", "none"),
        (".cell", "fill", "partitions-edge"), (".paper", "fill", "paper"), (".missing .shape", "fill", "paper"),
        (".missing .shape", "stroke", "error"), (".cut .shape, .reference .shape", "fill", "paper"),
    ]  # fmt: skip
    for routing in ROUTING_LOOKS:
        rules += [(f".{routing} .shape", "fill", f"{routing}-fill"), (f".{routing} .shape", "stroke", routing)]
    rules += [(f".edge.{kind} path", "stroke", colour) for kind, colour in EDGE_COLOURS.items()]
    rules.append((".edge.back path", "stroke", "back-edge"))
    for severity in SEVERITIES:
        rules += [
            (f".{severity} .shape, .edge.{severity} path", "stroke", severity), (f".{severity} .mark", "fill", severity)
        ]  # fmt: skip
    rules += [(f".head-{head}", "fill", colour) for head, colour in HEADS.items()]
    rules.append((".found .shape, .found .paper", "fill", "mark"))
    return rules


@cache
def write_style_sheet() -> str:
    """Return the style sheet of a picture."""
    lines = [FIXED.strip()]
    lines += [f".edge.{kind} path {{ {properties}; }}" for kind, properties in LINES.items()]
    lines += [_write(rule, dark=False) for rule in list_rules()]
    dark = "\n".join(_write(rule, dark=True) for rule in list_rules())
    return "\n".join([*lines, f"@media (prefers-color-scheme: dark) {{\n{dark}\n}}"])


def _write(rule: Rule, *, dark: bool) -> str:
    selector, what, name = rule
    colour = COLOURS.get(name)
    return f"{selector} {{ {what}: {name if colour is None else colour.dark if dark else colour.light}; }}"
