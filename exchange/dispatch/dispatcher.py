"""Dispatch the messages of a consumer to handlers, by patterns of routing keys.

No message is lost silently: all handlers whose patterns match are called, or an exception is raised because one failed
or there is none, unless the owner chose otherwise. A delivery is acknowledged only after its handlers have returned.
Outside asyncio, an ``async def`` handler is refused: a call would not run its code, and its message would count as
handled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeVar, cast, overload

from exchange.concurrency.forks import DISPATCHERS, lock_at_forks
from exchange.concurrency.threads import defer_counting
from exchange.dispatch.blocking import consume_blocking
from exchange.dispatch.captures import NamedPattern, parse_named
from exchange.dispatch.clients.pika import message_from_pika
from exchange.dispatch.delivery import Delivery
from exchange.dispatch.policy import POLICIES, NoHandler, OnError, Retry
from exchange.dispatch.registration import Registration, check_has_run, check_is_handler, find_position, name_of
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import AMQP, Dialect, Pattern, find_dialect
from exchange.text.display import list_some
from exchange.values.message import Message

if TYPE_CHECKING:
    from exchange.dispatch.consumer import Consumer
    from exchange.dispatch.policy import Middleware
    from exchange.partition.partitioning.specification import Partitioning

__all__ = ["Dispatcher", "NoHandler", "OnError", "message_from_pika"]

M = TypeVar("M")
R = TypeVar("R")

ASYNCIO_OPTIONS: Final = ("concurrency", "order_by", "timeout", "middleware", "threads", "ack_by_hand")
"""Options of `Dispatcher.consume` that a consumer has only with asyncio."""


class Dispatcher(Generic[M]):
    """A dispatcher calls the handlers whose patterns match a message's key.

    >>> dispatcher = Dispatcher()
    >>> @dispatcher.on("order.*.created")
    ... @dispatcher.on("order.*.paid")
    ... def bill(message):
    ...     print("bill", message.routing_key)
    >>> dispatcher.dispatch(Message("orders", "order.eu.paid"))
    bill order.eu.paid
    1

    ``matching="all"`` calls every matching handler, ``"first"`` only the one registered first. Handlers are called in
    the order of their registration. One that is registered for several patterns is called once, in the position of its
    first registration, which it keeps until its last pattern is removed. An exception from a handler ends the dispatch:
    later handlers are not called, and if the message is delivered again, earlier ones are called again.

    ``no_handler`` decides about a message that no pattern matches: ``"error"`` raises `NoHandler`, ``"ignore"`` does
    nothing, a callable is called with the message. ``dialect`` is that of all patterns and keys: amqp, mqtt or nats.
    ``cache`` is the maximum number of keys kept with their handlers; 0 keeps none.

    ``key`` returns the key of a message, which may be anything; without it, messages are `Message` values, dispatched
    by their routing key. Records of other clients take one line::

        Dispatcher(key=lambda record: record.key().decode())  # Kafka, confluent_kafka.Message
        Dispatcher(key=lambda record: record.key.decode())  # Kafka, kafka-python and aiokafka: ConsumerRecord
        Dispatcher(key=lambda record: record.topic())  # by topic: the dots in its name separate words
        Dispatcher(key=lambda message: message.tag or "")  # RocketMQ 5, rocketmq-python-client: Message
        Dispatcher(key=lambda message: (message.tags or b"").decode())  # RocketMQ 4, rocketmq-client-python

    Safe to use from several threads; the handlers run in the thread that dispatches.
    """

    @overload
    def __init__(
        self: Dispatcher[Message],
        *,
        dialect: Dialect | str = ...,
        key: None = ...,
        matching: Literal["all", "first"] = ...,
        no_handler: Literal["error", "ignore"] | Callable[[Message], object] = ...,
        cache: int = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        *,
        dialect: Dialect | str = ...,
        key: Callable[[M], str],
        matching: Literal["all", "first"] = ...,
        no_handler: Literal["error", "ignore"] | Callable[[M], object] = ...,
        cache: int = ...,
    ) -> None: ...

    def __init__(
        self,
        *,
        dialect: Dialect | str = AMQP,
        key: Callable[[Any], str] | None = None,
        matching: Literal["all", "first"] = "all",
        no_handler: Literal["error", "ignore"] | Callable[[Any], object] = "error",
        cache: int = 65_536,
    ) -> None:
        if matching not in ("all", "first"):
            raise ValueError(f'matching is "all" or "first", not {matching!r}')
        if no_handler not in ("error", "ignore") and not callable(no_handler):
            raise ValueError(f'no_handler is "error", "ignore" or a callable, not {no_handler!r}')
        if callable(no_handler):
            check_is_handler(no_handler)
        self.dialect: Final = find_dialect(dialect)
        self._key: Final[Callable[[M], str]] = key or attrgetter("routing_key")
        self._first_only: Final = matching == "first"
        self._no_handler: Final[Registration[M] | None] = Registration(0, no_handler) if callable(no_handler) else None
        self._ignore: Final = no_handler == "ignore"
        self._has_key: Final = key is not None
        self._lock: Final = lock_at_forks(DISPATCHERS)
        self._matcher: Final[Matcher[Registration[M]]] = Matcher(self.dialect, cache=cache)
        self._handlers: Final[dict[Callable[[M], object], Registration[M]]] = {}
        self._next_position = 0
        for shared in (self, self._key):
            defer_counting(shared)

    def on(self, pattern: str | Pattern) -> _Register[M]:
        """Register the decorated function for a pattern; use several decorators for several. Raises as `add`."""
        parsed = self._parse(pattern)

        def register(handler: Callable[[Any], R]) -> Callable[[Any], R]:
            self._add(parsed, handler)
            return handler

        return register

    def add(self, pattern: str | Pattern, handler: Callable[[M], object] | Callable[[Delivery], object]) -> bool:
        """Register a handler for a pattern; return False if it is registered already.

        In a text, a word may be a name: ``order.{region}.created`` is the pattern ``order.*.created``, and the handler
        finds the word in ``delivery.words["region"]``; ``{rest:#}`` names a `#`. A handler with several patterns gets
        the words of the first one that matches.

        Raises `PatternError`, with a caret, when the dialect does not allow the pattern; ValueError when the pattern is
        in another dialect, or there already with other names, or has names although messages are not `Message` values;
        TypeError when the handler is not callable, not hashable, or a generator function, which a call would not run.
        """
        return self._add(self._parse(pattern), handler)

    def _add(self, named: NamedPattern, handler: Callable[[Any], object]) -> bool:
        check_is_handler(handler)
        if not isinstance(handler, Hashable):
            raise TypeError(f"{handler!r} cannot be a handler: it has no hash, so it could not be found again")
        if named.names and self._has_key:
            raise ValueError(
                "a pattern has names only where messages are `Message` values: other records have no words"
            )
        with self._lock:
            registration = self._handlers.get(handler) or Registration(self._next_position, handler)
            known = registration.patterns.get(named.pattern)
            if known is not None:
                if known.names != named.names:
                    raise ValueError(f"{name_of(handler)} is registered for {known.pattern} with other names")
                return False
            self._matcher.bind(named.pattern, registration)
            registration.patterns[named.pattern] = named
            registration.find_names()
            if len(registration.patterns) == 1:
                defer_counting(registration)
                self._handlers[handler] = registration
                self._next_position += 1
            return True

    def remove(self, pattern: str | Pattern, handler: Callable[[M], object] | Callable[[Delivery], object]) -> bool:
        """Remove a handler from a pattern; return False if it is not registered. Raises as `add`."""
        parsed = self._parse(pattern).pattern
        with self._lock:
            registration = self._handlers.get(cast("Callable[[M], object]", handler))
            if registration is None or parsed not in registration.patterns:
                return False
            self._matcher.unbind(parsed, registration)
            del registration.patterns[parsed]
            registration.find_names()
            if not registration.patterns:
                del self._handlers[registration.handler]
            return True

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """All patterns, without their names, each once, grouped by handler: bindings that feed this dispatcher."""
        with self._lock:
            return tuple(dict.fromkeys(chain.from_iterable(each.patterns for each in self._handlers.values())))

    def handlers(self, key: str) -> Sequence[Callable[[M], object]]:
        """Return the handlers that a message with this key goes to, in the order of their calls."""
        return [registration.handler for registration in self._find(key)]

    def dispatch(self, message: M) -> int:
        """Call the message's handlers; return their number, a callable ``no_handler`` included.

        Raises what a handler raises, `NoHandler`, and TypeError before any call if one of them is an ``async def``, or
        when one returns an awaitable or a generator, which would not run.
        """
        return self._dispatch(message, lambda _: None)

    async def dispatch_async(self, message: M) -> int:
        """Call or await the message's handlers, one after another, in this task; return their number.

        Raises as `dispatch`, but awaits what is to be awaited.
        """
        return await self._dispatch_async(message)

    def _dispatch(self, message: M, calling: Callable[[object], object]) -> int:
        registrations = self._find_for(message)
        for registration in registrations:
            if registration.is_async:
                raise TypeError(f"{name_of(registration.handler)} is a coroutine function, which is not awaited here")
        answer: object = None
        for registration in registrations:
            calling(registration.handler)
            result = registration.handler(registration.prepare(message) if registration.named else message)
            if result is not None:
                check_has_run(registration.handler, result)
                answer = result if answer is None else answer
        _answer(message, answer)
        return len(registrations)

    async def _dispatch_async(
        self, message: M, call: Callable[[Callable[[M], object], M], Awaitable[object]] | None = None
    ) -> int:
        """Dispatch; ``call`` calls the handlers that are no ``async def``, for example in a thread."""
        registrations = self._find_for(message)
        answer: object = None
        for registration in registrations:
            given = registration.prepare(message) if registration.named else message
            if call is not None and not registration.is_async:
                result = await call(registration.handler, given)
            else:
                result = registration.handler(given)
            if isinstance(result, Awaitable):
                result = await result
            if result is not None:
                check_has_run(registration.handler, result)
                answer = result if answer is None else answer
        _answer(message, answer)
        return len(registrations)

    def _find(self, key: str) -> Sequence[Registration[M]]:
        if not isinstance(key, str):
            raise TypeError(f"the key of a message is a str, not {key!r}: see key= of Dispatcher")
        matching = self._matcher.match(key)
        if len(matching) > 1:
            return (min(matching, key=find_position),) if self._first_only else sorted(matching, key=find_position)
        return matching

    def _find_for(self, message: M) -> Sequence[Registration[M]]:
        try:
            key = self._key(message)
        except AttributeError:
            if self._has_key:
                raise
            raise TypeError(f"a Message is dispatched, not {message!r:.200}: see key= of Dispatcher") from None
        registrations = self._find(key)
        if registrations or self._ignore:
            return registrations
        if self._no_handler is None:
            raise NoHandler(key)
        return (self._no_handler,)

    @overload
    def consume(
        self: Dispatcher[Message],
        channel: Any,
        queue: str,
        *,
        on_error: OnError = ...,
        prefetch: int | None = ...,
        **options: Any,
    ) -> str: ...

    @overload
    def consume(
        self: Dispatcher[Message],
        channel: Any,
        queue: None = ...,
        *,
        on_error: OnError | Retry = ...,
        prefetch: int | None = ...,
        concurrency: int | None = ...,
        order_by: str | Partitioning | Callable[[Message], Hashable] | None = ...,
        timeout: float | None = ...,
        middleware: Sequence[Middleware] = ...,
        threads: bool = ...,
        ack_by_hand: bool = ...,
        **options: Any,
    ) -> Consumer: ...

    def consume(
        self: Dispatcher[Message],
        channel: Any,
        queue: str | None = None,
        *,
        on_error: OnError | Retry = "raise",
        prefetch: int | None = 100,
        **options: Any,
    ) -> str | Consumer:
        """Dispatch the deliveries of a queue from now on. Handlers get each as a `Delivery`, which is a `Message`.

        **With asyncio**, ``consumer = await dispatcher.consume(queue)``, or ``async with``. ``queue`` is a queue of
        aio-pika, plain or robust, or `PikaQueue` on pika's AsyncioConnection, the fastest. Returns a `Consumer`.
        Handlers are ``async def`` or plain functions; those of one delivery run one after another, those of different
        deliveries side by side. Options:

        * ``concurrency``: maximum number of deliveries handled at once; by default as many as ``prefetch``.
        * ``order_by``: deliveries with the same key are handled one after another, in their order in the queue. A
          function of the message, the text of a key (``"word 2"``, ``'header "tenant"'``), or a `Partitioning`, also as
          text, whose partitions are the keys then. None, the key of a message that lacks it, means no order.
        * ``timeout``: maximum seconds for all handlers of a delivery together. After it, they are cancelled, and the
          delivery has failed with a TimeoutError. A plain handler in a thread runs on, as threads cannot be cancelled,
          and keeps its turn until it ends: those behind it wait.
        * ``middleware``: wrappers of the handling of a delivery, the outermost first: `exchange.dispatch.middleware`.
        * ``threads``: whether plain functions run in threads, where they may block. False calls them in the event loop.
        * ``ack_by_hand``: whether only `Delivery.ack` acknowledges, at any time, not the end of the handlers.

        **With pika's blocking connection**, ``dispatcher.consume(channel, "orders")`` registers the consumer and
        returns its tag. The handlers run in the thread that runs the connection; ``async def`` handlers are refused
        with a TypeError. It also takes channels of pika's asynchronous connections, and runs plain handlers in their
        loop.

        A delivery is acknowledged after its handlers have returned, unless one of them settled it. The first value that
        a handler returns is the reply, if the message has a ``reply_to``: see `Delivery.reply`. ``on_error`` decides
        what happens when a handler raises, or when there is none and ``no_handler`` is "error". In each case the
        exchange and the key are logged as an error, with the traceback:

        * ``"raise"``: the exception leaves ``start_consuming``, and an asynchronous connection of pika is lost by it;
          with asyncio, the consumer stops and `Consumer.wait` raises it. The delivery stays unacknowledged: the broker
          delivers it again once the channel is closed.
        * ``"dead-letter"``: rejected for good. The queue's dead-letter exchange gets it; without one the broker
          drops it, and the log is all that remains.
        * ``"requeue"``: put back, and delivered again at once. A message that fails each time is redelivered for ever,
          in a tight loop. The delivery limit of a quorum queue ends that in RabbitMQ 3.10 to 4.0; 4.3 no longer
          counts what a consumer puts back, and classic queues never did.
        * a `Retry`, with asyncio: delivered again after a delay, a limited number of times.

        "raise" is the default because only it neither loses messages nor loops, with every type of queue. Close the
        channel or the connection after it: on the same channel the delivery does not return.

        ``prefetch`` is the maximum number of unacknowledged deliveries; None leaves the channel's setting. Further
        options are passed to the client's method to consume (``consumer_tag``, ``exclusive``, ``arguments`` ...).
        """
        if queue is None:
            from exchange.dispatch.consuming import build_consumer  # not at the top: asyncio takes 50 ms to import

            return build_consumer(self._dispatch_async, channel, on_error=on_error, prefetch=prefetch, **options)
        if isinstance(on_error, Retry):
            raise TypeError("a Retry needs asyncio: await dispatcher.consume(PikaQueue(channel, queue))")
        if on_error not in POLICIES:
            raise ValueError(f'on_error is "raise", "dead-letter" or "requeue", not {on_error!r}')
        if of_asyncio := [name for name in ASYNCIO_OPTIONS if name in options]:
            raise TypeError(
                f"{list_some(of_asyncio, 9)}: only with asyncio: await dispatcher.consume(PikaQueue(channel, queue))"
            )
        if not hasattr(channel, "basic_consume"):
            raise TypeError(
                f"{type(channel).__name__} is no channel of pika; with aio-pika, give the queue alone: "
                f"await dispatcher.consume(await channel.get_queue({queue!r}))"
            )
        for registration in self._handlers.values():
            if registration.is_async:
                raise TypeError(
                    f"{name_of(registration.handler)} is a coroutine function, which is not awaited here: "
                    "await dispatcher.consume(PikaQueue(channel, queue)), on pika's AsyncioConnection"
                )
        return consume_blocking(self._dispatch, channel, queue, on_error, prefetch, options)

    def _parse(self, pattern: str | Pattern) -> NamedPattern:
        if not isinstance(pattern, (str, Pattern)):
            raise TypeError(f'a pattern is a str or a Pattern, not {pattern!r}: write @dispatcher.on("order.#")')
        if isinstance(pattern, Pattern):
            if pattern.dialect is not self.dialect:
                raise ValueError(f"a pattern in {pattern.dialect.name} for keys in {self.dialect.name}: see Pattern.to")
            return NamedPattern(pattern)
        return parse_named(pattern, self.dialect)


class _Register(Protocol[M]):
    """What `Dispatcher.on` returns: it takes a handler of messages, or of deliveries, and returns it."""

    @overload
    def __call__(self, handler: Callable[[M], R], /) -> Callable[[M], R]: ...

    @overload
    def __call__(self, handler: Callable[[Delivery], R], /) -> Callable[[Delivery], R]: ...


def _answer(message: object, answer: object) -> None:
    """Send the value of a handler as the reply, if the message asks for one and no handler has replied itself."""
    if answer is None or not isinstance(message, Delivery):
        return
    if message.properties.get("reply_to") and not message.replies:
        message.reply(answer)
