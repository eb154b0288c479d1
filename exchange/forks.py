"""Locks that are free in a forked child.

A child has the memory of its parent and one of its threads. A lock that another thread held at the fork would be held
for ever there, and what it guards could be half changed. So a fork takes all of them first, as ``logging`` does with
its own, and both sides give them back.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Final
from weakref import WeakSet

__all__ = ["DISPATCHERS", "MATCHERS", "ROUTERS", "lock_at_forks"]

ROUTERS: Final = 0
DISPATCHERS: Final = 1
MATCHERS: Final = 2
"""The ranks of locks: a thread that holds one takes only those of higher ranks. A fork takes them in this order."""

_locks: Final[tuple[WeakSet[RLock], ...]] = (WeakSet(), WeakSet(), WeakSet())
_held: Final[list[RLock]] = []


def lock_at_forks(rank: int) -> RLock:
    """Return a new lock which no other thread holds while the process forks.

    The thread that holds it can take it again: to fork, or where a function that was given to a router calls it.
    """
    lock = RLock()
    _locks[rank].add(lock)
    return lock


def _take() -> None:
    for locks in _locks:
        for lock in tuple(locks):
            lock.acquire()
            _held.append(lock)


def _give_back() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_take, after_in_parent=_give_back, after_in_child=_give_back)
