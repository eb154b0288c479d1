"""A value as notebooks show it: a line, and lists of which the first items are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from exchange.text.display import count_rest

MAX_SHOWN_ROWS: Final = 10
"""Maximum number of items of a list that a notebook shows."""


def write_html(headline: str, lists: Mapping[str, Sequence[str]]) -> str:
    """Return a line and lists as HTML: title -> items, each list with its number of items."""
    parts = [f"<p>{escape(headline)}</p>"]
    for title, items in lists.items():
        shown = [*items[:MAX_SHOWN_ROWS], *count_rest(len(items), MAX_SHOWN_ROWS, indent="")]
        listed = "".join([f"<li>{escape(item)}</li>" for item in shown])
        parts.append(f"<p>{escape(title)}: {len(items):,}</p><ul>{listed}</ul>")
    return "".join(parts)
