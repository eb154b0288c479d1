"""The width of text, without a font: letters of a monospaced font are equally wide."""

from __future__ import annotations

from html import escape
from typing import Final
from unicodedata import combining, east_asian_width

__all__ = ["LINE", "measure", "write_text"]

LETTER: Final = 6.7
"""Width in px of a character of 11 px monospaced text; wide characters (CJK, emoji) count as two."""
LINE: Final = 14.0
"""Height in px of a line of text."""


def measure(text: str) -> float:
    """Return the width of a text in px."""
    if text.isascii():
        return LETTER * len(text)
    return LETTER * sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def write_text(text: str, x: float, y: float, style: str = "") -> str:
    """Return a text element whose text begins at ``x`` on the base line ``y``.

    A text that is not ASCII may come from another font, of any width: it is fitted to the width that is kept for it.
    """
    fitted = "" if text.isascii() else f' textLength="{measure(text):.1f}" lengthAdjust="spacingAndGlyphs"'
    class_ = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{class_}{fitted}>{escape(text, quote=False)}</text>'
