"""Remove bindings and exchanges from the text of a definitions.json, and leave everything else as it is written."""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import groupby
from typing import Final, NamedTuple

from bindings.fix.candidates import Removal
from bindings.sources.definitions import Definitions
from bindings.sources.definitions.entries import SECTIONS
from bindings.sources.definitions.text import find_objects
from exchange.entities.entities import Binding

SHRUNK: Final = ("exchanges", "bindings")
"""Sections from which parts are removed."""


class _Item(NamedTuple):
    """One object of a list in the text."""

    begin: int
    end: int
    removal: Removal


class DefinitionsText:
    """A text, and where its exchanges and bindings are."""

    def __init__(self, text: str, name: str, vhost: str | None = None) -> None:
        """Read a text; ``vhost`` is the virtual host of an export that does not name its own. Raises InputError."""
        self._text: Final = text
        self._lists: Final = list(_read_lists(text, Definitions.loads(text, name, vhost).default_vhost))
        self._counts: Final = Counter(item.removal for items in self._lists for item in items)

    @property
    def repeated(self) -> frozenset[Removal]:
        """The bindings that are there several times."""
        return frozenset(
            removal for removal, count in self._counts.items() if count > 1 and isinstance(removal[1], Binding)
        )

    def line_of(self, removal: Removal) -> int | None:
        """Return the first line of a part."""
        begin = self._begins.get(removal)
        return None if begin is None else bisect(self._breaks, begin) + 1

    @cached_property
    def _begins(self) -> dict[Removal, int]:
        """Part -> position of its first object."""
        return {item.removal: item.begin for items in reversed(self._lists) for item in reversed(items)}

    @cached_property
    def _breaks(self) -> list[int]:
        """Positions of the line breaks."""
        return [match.start() for match in re.finditer("\n", self._text)]

    def why_kept(self, wanted: frozenset[Removal]) -> dict[Removal, str]:
        """Return the parts that cannot be removed although they are wanted to be, each with the reason."""
        return {removal: "the file does not have it" for removal in wanted if removal not in self._counts}

    def remove(self, wanted: frozenset[Removal], again: frozenset[Removal]) -> str:
        """Return the text without the wanted parts, and without second ones of the bindings in ``again``."""
        seen: set[Removal] = set()
        pieces: list[str] = []
        at = 0
        for items in self._lists:
            kept: list[_Item] = []
            for item in items:
                if item.removal not in wanted and not (item.removal in again and item.removal in seen):
                    kept.append(item)
                seen.add(item.removal)
            for begin, end in _cuts(self._text, items, kept):
                pieces.append(self._text[at:begin])
                at = end
        return "".join([*pieces, self._text[at:]])


def _cuts(text: str, items: list[_Item], kept: list[_Item]) -> Iterator[tuple[int, int]]:
    """Yield the ranges to cut out of a list: an item goes with the comma and the space before the next one."""
    if len(kept) == len(items):
        return
    if not kept:
        yield text.rindex("[", 0, items[0].begin) + 1, text.index("]", items[-1].end)
        return
    staying = {item.begin for item in kept}
    last = kept[-1]
    for item, following in zip(items, [*items[1:], None], strict=True):
        if item.begin not in staying and following is not None and item.begin < last.begin:
            yield item.begin, following.begin
    if last is not items[-1]:
        yield last.end, items[-1].end


def _read_lists(text: str, default_vhost: str) -> Iterator[list[_Item]]:
    """Yield the exchanges and the bindings of a text of definitions, each list with the positions of its objects."""
    shrunk = (each for each in find_objects(text) if each.section in SHRUNK)
    for section, objects in groupby(shrunk, key=lambda each: each.section):
        read = SECTIONS[section]
        yield [
            _Item(begin, end, (value.get("vhost", default_vhost), read(value, section)))
            for _, value, begin, end in objects
        ]
