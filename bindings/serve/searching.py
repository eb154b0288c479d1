"""Find exchanges and queues by a part of their names."""

from __future__ import annotations

from heapq import nsmallest
from typing import Final, Literal

from bindings.serve.view import View
from exchange.entities.entities import Destination

__all__ = ["find_parts"]

SEPARATORS: Final = ".-_:/ "
"""Characters after which a word of a name begins."""


def find_parts(
    view: View, text: str, kind: Literal["exchange", "queue"] | None, most: int
) -> tuple[list[Destination], int]:
    """Return the ``most`` best parts whose names contain a text, and the number of the others.

    Capitals make no difference. Best is the whole name, then its beginning, then the beginning of one of its words,
    then the shorter name. ``kind`` restricts the search to exchanges or queues.
    """
    wanted = text.strip().lower()
    found = [
        (_rank(name, wanted), len(name), part)
        for name, part in view.names()
        if wanted in name and (kind is None or part.kind == kind)
    ]
    best = nsmallest(most, found) if wanted else found[:most]
    return [part for _, _, part in best], len(found) - len(best)


def _rank(name: str, wanted: str) -> int:
    if name == wanted:
        return 0
    if name.startswith(wanted):
        return 1
    return 2 if any(separator + wanted in name for separator in SEPARATORS) else 3
