"""Which of the waiting items may start: a bounded number at a time, and those of one key one after another.

Without I/O, time and tasks: the consumer starts the items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class ConcurrentTurns(Generic[T]):
    """Items in the order of their arrival, at most ``concurrency`` of them started at a time.

    Items of one key are started one after another, in the order of their arrival; those of different keys, and items
    without a key (None), side by side. Not safe to use from several threads.

    >>> turns = ConcurrentTurns(concurrency=2)
    >>> turns.add("a1", "a"); turns.add("a2", "a"); turns.add("b1", "b")
    >>> turns.start(), turns.start(), turns.start()
    (('a1', 'a'), ('b1', 'b'), None)
    >>> turns.leave("a"); turns.start()
    ('a2', 'a')
    """

    def __init__(self, concurrency: int) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency is at least 1, not {concurrency}")
        self._concurrency: Final = concurrency
        # The first item of each key that has none started, and all items without a key.
        self._ready: deque[tuple[T, Hashable]] = deque()
        # Key -> the items behind its first one. A key is in here as long as one of its items waits or is started.
        self._behind: dict[Hashable, deque[T]] = {}
        self._waiting = 0
        self.at_work = 0
        """Number of items that were started and have not left."""

    @property
    def waiting(self) -> int:
        """Number of items that were not started."""
        return self._waiting

    def add(self, item: T, key: Hashable = None) -> None:
        """Add an item behind all others of its key."""
        self._waiting += 1
        if key is None:
            self._ready.append((item, None))
        elif key in self._behind:
            self._behind[key].append(item)
        else:
            self._behind[key] = deque()
            self._ready.append((item, key))

    def start(self) -> tuple[T, Hashable] | None:
        """Take the item that may start next, with its key; None if none may now. `leave` ends it."""
        if not self._ready or self.at_work >= self._concurrency:
            return None
        self._waiting -= 1
        self.at_work += 1
        return self._ready.popleft()

    def leave(self, key: Hashable) -> None:
        """Note that the started item of this key has ended."""
        self.at_work -= 1
        if key is None:
            return
        behind = self._behind[key]
        if behind:
            self._ready.append((behind.popleft(), key))
        else:
            del self._behind[key]

    def clear(self) -> list[T]:
        """Remove and return all items that were not started; within a key, in their order."""
        items = [item for item, _ in self._ready]
        at_work = self._behind.keys() - {key for _, key in self._ready}
        for behind in self._behind.values():
            items += behind
        self._ready.clear()
        self._behind = {key: deque() for key in at_work}
        self._waiting = 0
        return items
