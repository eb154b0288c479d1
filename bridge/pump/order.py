"""Messages held back so that those of one key stay in order while the first of them is tried again.

Of a key that is held only the first message is under way; it is in the order in which messages were met, not in that in
which they failed. Other keys do not wait for it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Hashable
from operator import attrgetter

from bridge.endpoint import Outgoing

__all__ = ["Held", "in_order"]

in_order = attrgetter("number")


class Held:
    """The keys that are held, as a target tells them apart (`bridge.endpoint.Target.key_of`), and their messages."""

    def __init__(self, key_of: Callable[[Outgoing], Hashable]) -> None:
        self._key_of = key_of
        self._lines: dict[Hashable, list[Outgoing]] = {}
        self._all: set[Outgoing] = set()

    def __len__(self) -> int:
        """How many messages are held, the first ones of their keys included."""
        return len(self._all)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def holds(self, outgoing: Outgoing) -> bool:
        """Whether its key is held."""
        return self._key_of(outgoing) in self._lines

    def add(self, outgoing: Outgoing) -> None:
        """Hold its key, if it is not, and it."""
        if outgoing not in self._all:
            self._all.add(outgoing)
            insort(self._lines.setdefault(self._key_of(outgoing), []), outgoing, key=in_order)

    def is_first(self, outgoing: Outgoing) -> bool:
        """Whether it is the first of its key, which may be tried."""
        line = self._lines.get(self._key_of(outgoing))
        return line is not None and line[0] is outgoing

    def remove(self, outgoing: Outgoing) -> Outgoing | None:
        """It needs no holding any more: the message that is now the first of its key, if it was that; else None.

        With its last message the key is free.
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
        """Forget messages; keys of which none is left are free. Return those that are now the first of their keys."""
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
        """Return all messages that are held, in no order."""
        return self._all

    def firsts(self) -> list[Outgoing]:
        """Return the first message of each key."""
        return [line[0] for line in self._lines.values()]
