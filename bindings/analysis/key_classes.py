"""One routing key for each subset of some patterns that a key can match: the key classes.

Two keys that match the same bindings of every exchange are routed alike, so what holds for one key of each class holds
for all keys. The classes are found by walking the automaton of all patterns at once, shortest keys first.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final

from bindings.analysis.crawl import Deadline, PatternAutomaton
from exchange.patterns.pattern import Word

MAX_KEY_BYTES: Final = 255


def find_key_classes(
    patterns: Iterable[tuple[Word, ...]], most: int, deadline: Deadline | None = None
) -> list[str] | None:
    """Return a shortest key of each class, including the class of keys that match nothing.

    Only keys that AMQP can carry count: those of up to 255 bytes. None if the automaton has more than ``most`` states,
    or if the deadline passes first.
    """
    automaton = PatternAutomaton(dict.fromkeys(patterns))
    fresh = next(word for word in map("z{}".format, count()) if word not in automaton.literals)
    start = automaton.start, False
    paths: dict[tuple[int, bool], tuple[str, ...]] = {start: ()}
    pending = [start]
    keys: dict[int, str] = {}
    for node in pending:  # grows meanwhile: breadth first, so the first path to a state is a shortest one
        if deadline is not None and deadline.has_passed():
            return None
        state, no_key = node
        path = paths[node]
        if not no_key:
            keys.setdefault(state & automaton.ends, ".".join(path))
        for word in (fresh, *automaton.words_at(state)):
            longer = (*path, word)
            following = automaton.after(state, word), longer == ("",)  # the key "" has no words: [""] is no key
            if following not in paths and len(".".join(longer).encode()) <= MAX_KEY_BYTES:
                if len(paths) == most:
                    return None
                paths[following] = longer
                pending.append(following)
    return list(keys.values())
