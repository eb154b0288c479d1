"""What a consumer, in threads or with asyncio, logs of a delivery that was not handled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from exchange.dispatch.delivery import Delivery
from exchange.dispatch.policy import NoHandler, OnError

if TYPE_CHECKING:  # only consumers log
    from logging import Logger

DONE: Final[Mapping[OnError, str]] = {"raise": "not acknowledged", "dead-letter": "rejected", "requeue": "requeued"}
"""Policy -> what it does with the delivery."""


def place_of(delivery: Delivery) -> str:
    """Return where a delivery was published."""
    return f"exchange {delivery.exchange!r}, key {delivery.routing_key!r}"


def log_failure(log: Logger, what: str, done: str, error: Exception) -> None:
    """Log what failed and how it ends; of `NoHandler` without the traceback, which shows our code only."""
    if isinstance(error, NoHandler):
        log.error("%s: %s: %s", what, done, error)
    else:
        log.error("%s: %s", what, done, exc_info=error)
