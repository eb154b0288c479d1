"""What many threads read without a lock: one cache for all where threads take turns, one for each where they do not.

On a free-threaded CPython, two threads that read one object slow each other down, although neither waits: reading it
counts a reference to it, and the cores that run the threads must agree on the count. Twice as many threads would do
less than one. So there each thread has a cache of its own, filled by itself, with values of its own. The holder of
the lock of the data can see all caches, to drop what a change makes wrong. For the few objects that all threads must
read, `defer_counting` has CPython count no references.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar
from weakref import ref

C = TypeVar("C")

FREE_THREADED: Final = not getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether threads run Python at the same time."""


class Caches(Generic[C]):
    """The caches of all threads, each made by ``make``; they must allow weak references.

    ``local.own`` is the cache of the thread that reads it. It raises AttributeError where the thread has none yet: call
    `make_own` then. CPython reads an attribute of a `threading.local`, but of no subclass, without counting references
    that threads share (from 3.14 on).
    """

    __slots__ = ("_known", "_make", "local")

    def __init__(self, make: Callable[[], C]) -> None:
        self._make: Final = make
        self._known: Final[dict[int, ref[C]]] = {}
        self.local: Final[Any] = threading.local() if FREE_THREADED else _Shared()
        self.make_own()

    def make_own(self) -> C:
        """Make and return the cache of this thread. It is freed when its thread ends."""
        own: C = self._make()
        known, number = self._known, id(own)
        known[number] = ref(own, lambda _: known.pop(number, None))
        self.local.own = own
        return own

    def all(self) -> list[C]:
        """Return the caches of all threads that have one."""
        # Copying a dict is atomic: other threads may begin and end meanwhile.
        return [cache for reference in self._known.copy().values() if (cache := reference()) is not None]


class _Shared:
    """One cache for all threads."""

    __slots__ = ("own",)


def _defer(shared: object) -> None:
    """Do nothing, where references are always counted."""


if FREE_THREADED:
    try:
        from ctypes import py_object, pythonapi

        _defer = pythonapi.PyUnstable_Object_EnableDeferredRefcount  # from 3.14 on
        _defer.argtypes = (py_object,)
    except (ImportError, AttributeError):
        pass


def defer_counting(shared: object) -> None:
    """Have CPython count no references to an object that many threads read, where it can: it is freed by the garbage
    collector then.
    """
    _defer(shared)
