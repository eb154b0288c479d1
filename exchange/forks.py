"""Locks that are free in a forked child.

A forked child has the memory of its parent, but only one of its threads. A lock that another thread held at the fork
would stay locked in the child for ever, and the data it guards could be half changed. So a fork first takes all these
locks, as ``logging`` does with its own, and parent and child release them afterwards.
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
"""Ranks of locks. A thread that holds a lock takes only locks of higher ranks, and a fork takes them in this order: so
no two threads wait for each other."""

_locks: Final[tuple[WeakSet[RLock], ...]] = (WeakSet(), WeakSet(), WeakSet())
_held: Final[list[RLock]] = []


def lock_at_forks(rank: int) -> RLock:
    """Return a new lock that no other thread holds while the process forks.

    The thread that holds it can take it again, as it does to fork, and when a user's function calls the router back.
    """
    lock = RLock()
    _locks[rank].add(lock)
    return lock


def _acquire_all() -> None:
    for locks in _locks:
        for lock in tuple(locks):
            lock.acquire()
            _held.append(lock)


def _release_all() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all)
