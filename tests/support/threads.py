"""Threads that read while a test writes, switched as often as Python can."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reading(read: Callable[[], object], threads: int = 3) -> Iterator[None]:
    """Call ``read`` again and again in some threads, until the block ends; an exception in it ends its thread."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            read()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    readers = [threading.Thread(target=run) for _ in range(threads)]
    try:
        for reader in readers:
            reader.start()
        yield
    finally:
        stop.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(interval)
