"""One routing key for each way in which keys can match a set of patterns.

Two keys that match the same bindings of every exchange go the same way, so what holds for one key of each class holds
for all keys. The classes are found by walking the automaton of all patterns at once, shortest keys first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import count
from typing import Final

from bindings.analysis.crawl import Deadline
from exchange.patterns.pattern import MANY, ONE, Word

__all__ = ["key_classes"]

MOST_BYTES: Final = 255


def key_classes(patterns: Iterable[tuple[Word, ...]], most: int, deadline: Deadline | None = None) -> list[str] | None:
    """A shortest key of each class, that of keys that match nothing too; None if that takes more than ``most`` states.

    None, too, when the deadline passes before all are found.

    Only keys a broker can be sent: of up to 255 bytes.
    """
    automaton = _Automaton(dict.fromkeys(patterns))
    fresh = next(word for word in map("z{}".format, count()) if word not in automaton.literal)
    start = automaton.start, False
    paths: dict[tuple[int, bool], tuple[str, ...]] = {start: ()}
    pending = [start]
    keys: dict[int, str] = {}
    for node in pending:  # which grows: first in, first out
        if deadline is not None and deadline.passed():
            return None
        state, no_key = node
        path = paths[node]
        if not no_key:
            keys.setdefault(state & automaton.ends, ".".join(path))
        for word in (fresh, *automaton.words_at(state)):
            longer = (*path, word)
            following = automaton.after(state, word), longer == ("",)  # one empty word: no key is split so
            if following not in paths and len(".".join(longer).encode()) <= MOST_BYTES:
                if len(paths) == most:
                    return None
                paths[following] = longer
                pending.append(following)
    return list(keys.values())


class _Automaton:
    """All patterns side by side, a bit for each place in each; a state is the set of places that a key has come to."""

    def __init__(self, patterns: Collection[tuple[Word, ...]]) -> None:
        self.literal: Final[dict[str, int]] = {}
        self.one = self.many = self.ends = start = 0
        bit = 1
        for words in patterns:
            start |= bit
            for word in words:
                if word is MANY:
                    self.many |= bit
                elif word is ONE:
                    self.one |= bit
                elif isinstance(word, str):
                    self.literal[word] = self.literal.get(word, 0) | bit
                bit <<= 1
            self.ends |= bit
            bit <<= 1
        self.start: Final = self._closed(start)

    def words_at(self, state: int) -> list[str]:
        """The words that some pattern waits for."""
        return [word for word, places in self.literal.items() if places & state]

    def after(self, state: int, word: str) -> int:
        """The state one word later."""
        moved = (state & (self.literal.get(word, 0) | self.one)) << 1
        return self._closed(moved | (state & self.many))

    def _closed(self, state: int) -> int:
        while (skipped := state | (state & self.many) << 1) != state:
            state = skipped
        return state
