"""Find the objects of a definitions file in its text: what an entry was read from, and where that stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from bindings.sources.definitions.entries import SECTIONS
from exchange.values.json_text import scan_value

__all__ = ["PlacedObject", "find_objects"]

BLANK: Final = re.compile(r"[ \t\r\n]*")


class PlacedObject(NamedTuple):
    """An object of a section, as the half-open range of characters of the text."""

    section: str
    value: dict[str, Any]
    begin: int
    end: int


def find_objects(text: str) -> Iterator[PlacedObject]:
    """Yield the objects in the sections that make topologies, in the order of the text, which is known to be right.

    Raises ValueError or IndexError if the text is no definitions after all.
    """

    def after(at: int) -> int:
        return BLANK.match(text, at).end()  # type: ignore[union-attr]  # BLANK also matches the empty text, so never None

    at = after(text.index("{") + 1)
    while text[at] == '"':
        key, at = scan_value(text, at)
        at = after(after(at) + 1)
        if key in SECTIONS:
            at = after(at + 1)
            while text[at] != "]":
                begin = at
                value, at = scan_value(text, begin)
                yield PlacedObject(key, value, begin, at)
                at = after(at)
                at = after(at + 1) if text[at] == "," else at
            at += 1
        else:
            _, at = scan_value(text, at)
        at = after(at)
        at = after(at + 1) if text[at] == "," else at
