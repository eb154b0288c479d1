"""A watchdog for event loops: how long a loop was blocked by a single call."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LONGEST = 1.0
"""Seconds for which no call may block a loop. Calls that do, block for minutes; a busy machine, for a moment."""

EVERY = 0.02


@asynccontextmanager
async def watched() -> AsyncIterator[None]:
    """Fail if the loop does not come to a callback within `LONGEST` seconds, at any moment in the block."""
    loop = asyncio.get_running_loop()
    gaps: list[float] = []
    over = threading.Event()

    def ping() -> None:
        while not over.is_set():
            came, sent = threading.Event(), time.monotonic()
            loop.call_soon_threadsafe(came.set)
            while not came.wait(EVERY) and not over.is_set():
                pass
            gaps.append(time.monotonic() - sent)
            over.wait(EVERY)

    thread = threading.Thread(target=ping, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        await asyncio.to_thread(thread.join)
    assert max(gaps, default=0.0) < LONGEST, f"a call blocked the loop for {max(gaps):.1f} s"
