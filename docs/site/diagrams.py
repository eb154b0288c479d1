"""Mermaid's diagrams, drawn when the website is built: no page loads Mermaid, and a page without scripts has them."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import mermaidx

__all__ = ["draw"]

THEMES: Final = {"default": "only-light", "dark": "only-dark"}
"""Theme of Mermaid -> the class by which Material shows a picture in one of its two palettes."""


def draw(source: str, *_: Any, **__: Any) -> str:
    """Return the HTML of a block ``mermaid``: the diagram as SVG, once for each palette."""
    pictures = [f'<div class="{shown}">{_svg(source, theme)}</div>' for theme, shown in THEMES.items()]
    return f'<div class="diagram">{"".join(pictures)}</div>'


@cache
def _svg(source: str, theme: str) -> str:
    """Return a diagram as SVG whose ids are its own: two diagrams may be on one page."""
    svg = mermaidx.render(source, theme=theme).svg
    return re.sub(r"\bmermaid-svg\b", f"diagram-{theme}-{abs(hash(source)):x}", svg)
