"""A consumer's options: policies for deliveries that were not handled, and `Retry`, which delivers them again later.

A delivery to be retried is published into a queue without consumers, whose messages expire after the delay; the broker
then dead-letters them back into the queue that they came from. For a queue ``billing`` and delays of 1 and 60 s::

    exchange billing.retry (headers)  --hashstar-delay: 1000-->   queue billing.retry.1000   (expires after 1 s)
                                      --hashstar-delay: 60000-->  queue billing.retry.60000  (expires after 60 s)
    exchange billing.retried (fanout) <-- dead letters of both; --> queue billing

So the routing key of a message stays as it is: handlers match it again, and so does the queue's own dead-letter
exchange. The message carries the table ``x-hashstar-retry``: ``count``, and the ``exchange`` of its first publish. Its
``expiration`` and ``user_id`` are left out: it would expire too early, and only its first publisher may name that user.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from exchange.dispatch.delivery import RETRY, Delivery
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.errors import HashstarError
from exchange.values.message import Message

OnError = Literal["raise", "dead-letter", "requeue"]
"""Policy for a delivery that was not handled: see `Dispatcher.consume`."""
POLICIES: Final = get_args(OnError)

DELAY: Final = "hashstar-delay"
"""Header that selects the delay queue. Headers exchanges do not look at headers whose names begin with ``x-``."""

LONGEST: Final = 2**32 // 1000 - 1
"""Maximum delay in seconds: brokers take the time to live of messages as milliseconds of 32 bits."""

MAX_DELAYS: Final = 100
"""Maximum number of delays."""


class NoHandler(HashstarError):
    """A message whose key matches no handler's pattern."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f'no handler for key {key!r}; Dispatcher(no_handler=...) takes one for all others, or "ignore"'
        )
        self.key = key


class Declarations(NamedTuple):
    """The exchanges, queues and bindings that a `Retry` needs on the broker, in the order of their declaration."""

    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]
    bindings: tuple[Binding, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed delivery is delivered again after each of these delays in turn; after the last one, ``then`` decides.

    >>> Retry((1, 10, 60))
    Retry(delays=(1, 10, 60), then='dead-letter', errors=(<class 'Exception'>,), queue_type='quorum', declare=True)
    >>> Retry.exponential(first=1, factor=4, times=5, longest=60).delays
    (1, 4, 16, 60, 60)

    The broker has taken the message into the delay queue before the delivery is acknowledged. Where that fails, it is
    put back instead. While a message waits, those behind it are handled: a retry gives up the order of its key.
    """

    delays: tuple[float, ...] = (1, 10, 60, 600)
    """Seconds before the first, the second ... retry; each different one is a queue on the broker."""
    then: OnError = "dead-letter"
    """What is done after the last retry, and with errors that are not retried."""
    errors: tuple[type[Exception], ...] = (Exception,)
    """Only these errors are retried, never `NoHandler`. A timeout is a TimeoutError."""
    queue_type: Literal["quorum", "classic"] = "quorum"
    """Type of the delay queues. Quorum queues dead-letter at least once; classic ones may lose messages on the way."""
    declare: bool = True
    """Whether a consumer declares the queues when it starts; if not, `declarations` must exist already."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delays", tuple(self.delays))
        if not 0 < len(self.delays) <= MAX_DELAYS:
            raise ValueError(f"delays are 1 to {MAX_DELAYS} numbers of seconds, not {len(self.delays)} of them")
        for delay in self.delays:
            if not (isinstance(delay, (int, float)) and 0.001 <= delay <= LONGEST):
                raise ValueError(f"a delay is 0.001 to {LONGEST} seconds, not {delay!r}")
        errors = self.errors if isinstance(self.errors, tuple) else (self.errors,)
        if not all(isinstance(error, type) and issubclass(error, Exception) for error in errors):
            raise TypeError(f"errors are classes of exceptions, not {self.errors!r}")
        object.__setattr__(self, "errors", errors)
        if self.then not in POLICIES:
            raise ValueError(f'then is "raise", "dead-letter" or "requeue", not {self.then!r}')
        if self.queue_type not in ("quorum", "classic"):
            raise ValueError(f'queue_type is "quorum" or "classic", not {self.queue_type!r}')

    @classmethod
    def exponential(cls, *, first: float, times: int, factor: float = 2, longest: float = 3600, **others: Any) -> Retry:
        """Build a retry whose delays grow by a factor from ``first`` to at most ``longest`` seconds."""
        return cls(tuple(min(first * factor**number, longest) for number in range(times)), **others)

    def delay_after(self, error: Exception, retries: int) -> float | None:
        """Return the seconds until the next retry of a delivery that has had ``retries``; None if there is none."""
        if isinstance(error, NoHandler) or not isinstance(error, self.errors) or retries >= len(self.delays):
            return None
        return self.delays[retries]

    def declarations(self, queue: str) -> Declarations:
        """Return what the broker needs for a queue of this name, to be declared by you or by `hashstar apply`."""
        delays = dict.fromkeys(_milliseconds(delay) for delay in self.delays)
        come_back = {"x-dead-letter-exchange": _return_exchange(queue)}
        if self.queue_type == "quorum":
            come_back |= {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once"}
            come_back |= {"x-overflow": "reject-publish"}
        return Declarations(
            (Exchange(f"{queue}.retry", "headers"), Exchange(_return_exchange(queue), "fanout")),
            tuple(Queue(f"{queue}.retry.{delay}", arguments={**come_back, "x-message-ttl": delay}) for delay in delays),
            (
                *(
                    Binding.to_queue(
                        f"{queue}.retry", f"{queue}.retry.{delay}", "", {"x-match": "all", DELAY: str(delay)}
                    )
                    for delay in delays
                ),
                Binding.to_queue(_return_exchange(queue), queue),
            ),
        )

    def delay(self, delivery: Delivery, seconds: float) -> Message:
        """Build the message to publish, so that this delivery comes back after ``seconds``, one of ``delays``."""
        table = {"count": delivery.retries + 1, "exchange": delivery.exchange}
        properties = {
            name: value for name, value in delivery.properties.items() if name not in ("expiration", "user_id")
        }
        headers = {**delivery.headers, RETRY: table, DELAY: str(_milliseconds(seconds))}
        return Message(f"{delivery.queue}.retry", delivery.routing_key, headers, properties, delivery.body)


def restore_exchange(delivery: Delivery) -> Delivery:
    """Return a delivery that comes back from a delay queue with its first exchange, any other one as it is."""
    if RETRY not in delivery.headers or delivery.exchange != _return_exchange(delivery.queue):
        return delivery
    table = delivery.headers[RETRY]
    first = table.get("exchange") if isinstance(table, Mapping) else None
    return delivery.with_exchange(first) if isinstance(first, str) else delivery


def _return_exchange(queue: str) -> str:
    return f"{queue}.retried"


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


Handle = Callable[[Delivery], Awaitable[object]]
"""All handlers of a delivery as one function."""

Middleware = Callable[[Handle], Handle]
"""A wrapper of such a function: it returns a function that may call the wrapped one."""


def wrap_handle(handle: Handle, middleware: Sequence[Middleware]) -> Handle:
    """Return a function in its wrappers, the first one outermost. Raises TypeError for one that returns no function."""
    for each in reversed(middleware):
        handle = each(handle)
        if not callable(handle):
            raise TypeError(f"middleware is a function that returns a function; {each!r} returned {handle!r}")
    return handle


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
