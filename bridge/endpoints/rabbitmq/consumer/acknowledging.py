"""When what is settled is acknowledged: all of a moment at once.

A channel of RabbitMQ passes on 32 acknowledgements to a quorum queue that has not written them yet, and gathers the
rest. When it closes, it forgets those, and what they were for comes again. So there are few: the next one waits a
moment, unless it is for many deliveries of the prefetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

SECONDS: Final = 0.005
"""Minimum time between two acknowledgements."""
MANY: Final = 8
"""Divisor of the prefetch: those of as many deliveries do not wait."""


class Acknowledging:
    """The next look at what is settled, one in each turn of the loop. `look` is called with it."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look: Final = look
        self._next: asyncio.Handle | None = None
        self._last_at = float("-inf")

    def look_soon(self) -> None:
        """Look at the end of this turn, if no other look is due."""
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._look)

    def is_due(self, count: int, prefetch: int) -> bool:
        """Return whether ``count`` deliveries of a prefetch are acknowledged now; if not, schedule another look."""
        loop, due = asyncio.get_running_loop(), self._last_at + SECONDS
        if count < prefetch // MANY and loop.time() < due:
            self._next = loop.call_at(due, self._look)
            return False
        self._next = None
        return True

    def note(self) -> None:
        """Take note that they are acknowledged now."""
        self._last_at = asyncio.get_running_loop().time()
