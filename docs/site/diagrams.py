"""Mermaid's diagrams, drawn when the website is built: no page loads Mermaid, and a page without scripts has them."""

from __future__ import annotations

from functools import cache
from typing import Any, Final
from zlib import crc32

import mermaidx
from pymdownx.superfences import SuperFencesException

THEMES: Final = {"neutral": "only-light", "dark": "only-dark"}
"""Theme of Mermaid -> the class of its picture, which `docs/site/theme/assets/hashstar.css` shows in one palette."""


def draw(source: str, *_: Any, **__: Any) -> str:
    """Return the HTML of a block ``mermaid``: the diagram as SVG, once for each palette.

    Raises SuperFencesException, which ends the build, if Mermaid does not understand the source.
    """
    pictures = [f'<div class="{shown}">{_svg(source, theme)}</div>' for theme, shown in THEMES.items()]
    return f'<div class="diagram">{"".join(pictures)}</div>'


@cache
def _svg(source: str, theme: str) -> str:
    """Return a diagram as SVG whose ids are its own: two diagrams may be on one page."""
    try:
        svg: str = mermaidx.render(source, theme=theme).svg()
    except RuntimeError as error:
        # Superfences takes any other exception for "not my block", and shows the source as a paragraph.
        raise SuperFencesException(f"{error}\n{source}") from None
    return svg.replace("my-svg", f"diagram-{theme}-{crc32(source.encode()):08x}")
