"""Held messages: they wait, so that messages of one key stay in order while the first of them is tried again.

Of each held key, only the first message is under way: the one with the lowest `Outgoing.number`, which was routed
first, not the one that failed first. Messages of other keys do not wait.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Hashable
from operator import attrgetter

from bridge.endpoint import Outgoing

by_number = attrgetter("number")


class Held:
    """The held keys and their messages; the target defines the keys (`bridge.endpoint.Target.key_of`)."""

    def __init__(self, key_of: Callable[[Outgoing], Hashable]) -> None:
        self._key_of = key_of
        self._lines: dict[Hashable, list[Outgoing]] = {}
        """Key -> its messages by number; never empty."""
        self._all: set[Outgoing] = set()
        """All messages of ``_lines``, for a quick test of membership."""

    def __len__(self) -> int:
        """Return the number of held messages, including the first ones of their keys."""
        return len(self._all)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def holds(self, outgoing: Outgoing) -> bool:
        """Return whether the key of a message is held."""
        return self._key_of(outgoing) in self._lines

    def add(self, outgoing: Outgoing) -> None:
        """Hold a message, and with it its key."""
        if outgoing not in self._all:
            self._all.add(outgoing)
            insort(self._lines.setdefault(self._key_of(outgoing), []), outgoing, key=by_number)

    def is_first(self, outgoing: Outgoing) -> bool:
        """Return whether a message is held and the first of its key, so that it may be sent."""
        line = self._lines.get(self._key_of(outgoing))
        return line is not None and line[0] is outgoing

    def remove(self, outgoing: Outgoing) -> Outgoing | None:
        """Stop holding a message. If it was the first of its key, return the next one, which is now the first.

        A key is released with its last message.
        """
        if outgoing not in self._all:
            return None
        self._all.remove(outgoing)
        key = self._key_of(outgoing)
        line = self._lines[key]
        was_first = line[0] is outgoing
        line.remove(outgoing)
        if not line:
            del self._lines[key]
            return None
        return line[0] if was_first else None

    def discard(self, unwanted: Callable[[Outgoing], bool]) -> list[Outgoing]:
        """Forget messages, and keys without messages. Return those that have become the first of their keys."""
        firsts = []
        for key, line in list(self._lines.items()):
            kept = [outgoing for outgoing in line if not unwanted(outgoing)]
            if not kept:
                del self._lines[key]
                continue
            if kept[0] is not line[0]:
                firsts.append(kept[0])
            self._lines[key] = kept
        self._all = {outgoing for line in self._lines.values() for outgoing in line}
        return firsts

    def all(self) -> Collection[Outgoing]:
        """Return all held messages, in no order."""
        return self._all

    def firsts(self) -> list[Outgoing]:
        """Return the first message of each held key."""
        return [line[0] for line in self._lines.values()]
