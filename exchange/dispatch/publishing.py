"""Wait for a publish without ever cancelling it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

__all__ = ["finish"]

T = TypeVar("T")


async def finish(publish: Awaitable[T]) -> T:
    """Await a publish; if the caller is cancelled, the publish goes on by itself, and its error is dropped.

    A publish of aiormq must not be cancelled: if the broker's return of its message comes in that moment, aiormq's
    reader of the channel ends, and soon nothing is read from the whole connection any more.
    """
    publishing = asyncio.ensure_future(publish)
    try:
        return await asyncio.shield(publishing)
    except asyncio.CancelledError:
        publishing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        raise
