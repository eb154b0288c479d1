"""Observe how long deliveries take and how they end; log it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import iscoroutinefunction
from time import perf_counter
from typing import Final

from exchange.dispatch.delivery import Delivery
from exchange.dispatch.policy import Handle

LOGGER: Final = logging.getLogger("exchange.dispatch.deliveries")


def check_is_no_handler(argument: object, name: str) -> None:
    """Raise TypeError if the maker of a wrapper was itself given to ``middleware``, and so is called with a handler."""
    if callable(argument):
        raise TypeError(f"middleware: write {name}(), with parentheses: {name} makes the wrapper")


def observe(observe: Callable[[Delivery, float, BaseException | None], object]) -> Callable[[Handle], Handle]:
    """Return a wrapper that calls ``observe`` after each delivery: with it, the seconds, and the error or None.

    The error is a CancelledError where the handling was cancelled.
    """
    if iscoroutinefunction(observe):
        raise TypeError(f"observe() takes a plain function, which nothing awaits: {observe!r} is a coroutine function")

    def wrap(handle: Handle) -> Handle:
        async def observe_handling(delivery: Delivery) -> object:
            start = perf_counter()
            try:
                result = await handle(delivery)
            except BaseException as error:
                observe(delivery, perf_counter() - start, error)
                raise
            observe(delivery, perf_counter() - start, None)
            return result

        return observe_handling

    return wrap


def log_deliveries(
    logger: logging.Logger = LOGGER, level: int = logging.INFO, *, slow: float | None = None
) -> Callable[[Handle], Handle]:
    """Return a wrapper that logs a line for each delivery: queue, exchange, key, message id, milliseconds, and the end.

    Those that take longer than ``slow`` seconds are warnings. Errors are named only: the consumer logs their traceback.
    """
    check_is_no_handler(logger, "logged")

    def log(delivery: Delivery, seconds: float, error: BaseException | None) -> None:
        is_slow = slow is not None and seconds > slow
        logger.log(
            max(level, logging.WARNING) if is_slow else level,
            "queue %r, exchange %r, key %r, message id %r: %s in %.1f ms",
            delivery.queue,
            delivery.exchange,
            delivery.routing_key,
            delivery.properties.get("message_id"),
            "handled" if error is None else type(error).__name__,
            seconds * 1000,
        )

    return observe(log)
