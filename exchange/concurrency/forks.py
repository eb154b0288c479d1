"""Locks that are free in a forked child.

A forked child has the memory of its parent, but only one of its threads. A lock that another thread held at the fork
would stay locked in the child for ever, and the data it guards could be half changed. So a fork first takes all these
locks, as ``logging`` does with its own, and parent and child release them afterwards.

Other threads may make locks while a fork takes them. The registry has a lock of its own, the last that a fork takes: a
thread that holds any of the others may make a lock. If locks were made before the fork had the registry, it begins
again.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import Final
from weakref import ref

ROUTERS: Final = 0
DISPATCHERS: Final = 1
MATCHERS: Final = 2
"""Ranks of locks. A thread that holds a lock takes only locks of higher ranks, and a fork takes them in this order: so
no two threads wait for each other."""

_registry: Final = RLock()
"""Held while a lock is added; by the thread that forks, too. One thread may take it twice, as a collection of garbage
within it may run a finalizer that makes a lock."""
_locks: Final[tuple[set[ref[RLock]], ...]] = (set(), set(), set())
_held: Final[list[RLock]] = []


def lock_at_forks(rank: int) -> RLock:
    """Return a new lock that no other thread holds while the process forks.

    The thread that holds it can take it again, as it does to fork, and when a user's function calls the router back.
    """
    lock = RLock()
    locks = _locks[rank]
    with _registry:
        locks.add(ref(lock, locks.discard))  # not a WeakSet, which fails if it is iterated while a lock is freed
    return lock


def _acquire_all() -> None:
    while True:
        taken = [locks.copy() for locks in _locks]  # a copy of a set is atomic
        for locks in taken:
            for reference in locks:
                lock = reference()
                if lock is not None:
                    lock.acquire()
                    _held.append(lock)
        _registry.acquire()
        if all(now <= before for now, before in zip(_locks, taken, strict=True)):
            return
        _release_all()


def _release_all() -> None:
    _registry.release()
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all)
