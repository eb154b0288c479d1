"""Build an asyncio consumer from the options of `Dispatcher.consume`: its client, order and policy for errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from inspect import iscoroutinefunction
from typing import Any, Final

from exchange.dispatch.clients.aio_pika import AioPikaQueue
from exchange.dispatch.consumer import Consumer
from exchange.dispatch.link import Link
from exchange.dispatch.policy import POLICIES, ConsumeOptions, Middleware, OnError, Retry
from exchange.partition.partitioning.specification import Partitioning, parse_key_source
from exchange.values.message import Message

CONCURRENCY: Final = 100
"""Default of ``concurrency`` where the prefetch is that of the channel."""

PREFETCH: Final = 65_535
"""Maximum prefetch: AMQP has 16 bits for it."""


def build_consumer(
    dispatch: Callable[..., Awaitable[object]],
    queue: Any,
    *,
    on_error: OnError | Retry,
    prefetch: int | None,
    concurrency: int | None = None,
    order_by: str | Partitioning | Callable[[Message], Hashable] | None = None,
    timeout: float | None = None,
    middleware: Sequence[Middleware] = (),
    threads: bool = True,
    ack_by_hand: bool = False,
    **options: Any,
) -> Consumer:
    """Build the consumer of a queue without starting it; ``dispatch`` is `Dispatcher._dispatch_async`.

    Raises ValueError and TypeError for wrong options.
    """
    if not isinstance(on_error, Retry) and on_error not in POLICIES:
        raise ValueError(f'on_error is "raise", "dead-letter", "requeue" or a Retry, not {on_error!r}')
    if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):
        raise ValueError(f"timeout is a number of seconds above 0, not {timeout!r}")
    if prefetch is not None and not (isinstance(prefetch, int) and 0 <= prefetch <= PREFETCH):
        raise ValueError(f"prefetch is 0 to {PREFETCH:,}, or None, not {prefetch!r}")
    if concurrency is not None and not (isinstance(concurrency, int) and concurrency >= 1):
        raise ValueError(f"concurrency is at least 1, not {concurrency!r}")
    if callable(middleware) or not all(map(callable, middleware)):
        raise TypeError(f"middleware is a list of functions, as [log_deliveries(), measure()], not {middleware!r}")
    if "no_ack" in options or "auto_ack" in options:
        raise TypeError("a dispatcher acknowledges after its handlers: no_ack and auto_ack are no options")
    settings = ConsumeOptions(
        on_error,
        prefetch,
        concurrency if concurrency is not None else prefetch or CONCURRENCY,
        build_key_function(order_by),
        timeout,
        tuple(middleware),
        threads,
        ack_by_hand,
        options,
    )
    return Consumer(_link_to(queue), dispatch, settings)


def _link_to(queue: Any) -> Link:
    if isinstance(queue, Link):
        return queue
    if hasattr(queue, "consume") and hasattr(queue, "channel") and isinstance(getattr(queue, "name", None), str):
        return AioPikaQueue(queue)
    raise TypeError(
        f"{type(queue).__name__} cannot be consumed: give a queue of aio-pika, PikaQueue(channel, name) of pika's "
        "asyncio connection, or a channel of pika's blocking connection and the name of a queue"
    )


def build_key_function(
    order_by: str | Partitioning | Callable[[Message], Hashable] | None,
) -> Callable[[Message], Hashable] | None:
    """Return the function that reads the key of a message. Raises TextError or InputError for a text that is none."""
    if order_by is None:
        return None
    if isinstance(order_by, str):
        if " over " not in order_by:
            return parse_key_source(order_by).read
        order_by = Partitioning.parse(order_by)
    if isinstance(order_by, Partitioning):
        return order_by.partition_of
    if not callable(order_by):
        raise TypeError(f"order_by is a function, a Partitioning, or the text of a key, not {order_by!r}")
    if iscoroutinefunction(order_by):
        raise TypeError(f"order_by is a plain function, as nothing awaits its key, not {order_by!r}")
    return order_by
