"""How an asyncio consumer works, as `Dispatcher.consume` was asked, and what it counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exchange.dispatch.delivery import Delivery
from exchange.dispatch.policy import OnError, Retry
from exchange.values.message import Message

__all__ = ["ConsumerCounts", "Handle", "Middleware", "ConsumeOptions"]

Handle = Callable[[Delivery], Awaitable[object]]
"""All handlers of a delivery as one function."""

Middleware = Callable[[Handle], Handle]
"""A wrapper of such a function: it returns a function that may call the wrapped one."""


@dataclass(slots=True)
class ConsumerCounts:
    """Number of deliveries of a consumer since it started, by outcome."""

    received: int = 0
    handled: int = 0
    """All handlers returned."""
    failed: int = 0
    """Not handled: a handler raised, took too long, or there was none. Retried ones are counted here, too."""
    retried: int = 0
    """Published into a delay queue."""
    released: int = 0
    """Put back when the consumer stopped: not started, or cancelled."""
    lost: int = 0
    """Given by a channel that was closed before they were answered: the broker delivers them again."""


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The options of `Dispatcher.consume` that decide how a consumer works."""

    on_error: OnError | Retry
    prefetch: int | None
    concurrency: int
    key_of: Callable[[Message], Hashable] | None
    timeout: float | None
    middleware: Sequence[Middleware]
    threads: bool
    ack_by_hand: bool
    options: Mapping[str, Any] = field(default_factory=dict)
