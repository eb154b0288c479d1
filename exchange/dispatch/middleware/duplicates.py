"""Handle a message once, however often it is delivered: by its message id."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from exchange.dispatch.delivery import Delivery
from exchange.dispatch.middleware.observing import check_is_no_handler
from exchange.dispatch.policy import Handle

SIZE: Final = 100_000
"""Default maximum number of ids that are remembered."""


class SeenIds(Protocol):
    """The ids of messages that were handled: in memory, or where all consumers of a queue look, such as a database."""

    async def contains(self, message_id: str) -> bool:
        """Return whether the message was handled."""

    async def add(self, message_id: str) -> None:
        """Note that the message was handled."""


class SeenInMemory:
    """The last ids, in the memory of this process: not shared with other processes, and lost when this one ends."""

    def __init__(self, size: int = SIZE) -> None:
        if size < 1:
            raise ValueError(f"size is at least 1, not {size}")
        self._size: Final = size
        self._ids: Final[OrderedDict[str, None]] = OrderedDict()

    async def contains(self, message_id: str) -> bool:
        if message_id not in self._ids:
            return False
        self._ids.move_to_end(message_id)
        return True

    async def add(self, message_id: str) -> None:
        self._ids[message_id] = None
        if len(self._ids) > self._size:
            self._ids.popitem(last=False)


def deduplicate(seen: SeenIds | None = None) -> Callable[[Handle], Handle]:
    """Return a wrapper that skips deliveries whose message id was handled; they are acknowledged.

    An id counts once its handlers have returned: one that failed is handled again, and of two deliveries at the same
    time the second waits until the first one ends. A message without an id is always handled. Between the end of the
    handlers and `SeenIds.add` a process can still die: for "exactly once", write the id in the handler's transaction.
    """
    check_is_no_handler(seen, "deduplicated")
    known = seen if seen is not None else SeenInMemory()
    under_way: dict[str, asyncio.Future[None]] = {}

    def wrap(handle: Handle) -> Handle:
        async def handle_once(delivery: Delivery) -> object:
            message_id = delivery.properties.get("message_id")
            if not isinstance(message_id, str):
                return await handle(delivery)
            while message_id in under_way:
                await asyncio.wait([under_way[message_id]])
            if await known.contains(message_id):
                return None
            if message_id in under_way:  # another one began while the store was asked
                return await handle_once(delivery)
            ended = under_way[message_id] = asyncio.get_running_loop().create_future()
            try:
                result = await handle(delivery)
                await known.add(message_id)
                return result
            finally:
                del under_way[message_id]
                ended.set_result(None)

        return handle_once

    return wrap
