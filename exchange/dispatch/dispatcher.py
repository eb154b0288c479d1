"""Dispatch the messages of a consumer to handlers, by patterns of routing keys.

No message is lost silently: all handlers whose patterns match are called, or an exception is raised because one failed
or there is none, unless the owner chose otherwise. A delivery is acknowledged only after its handlers have returned. A
handler is called, not awaited or iterated: if it returns an awaitable or a generator, its code has not run, which
counts as a failure.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Generator, Hashable, Sequence
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Generic, Literal, TypeVar, overload

from exchange.errors import HashstarError
from exchange.forks import DISPATCHERS, lock_at_forks
from exchange.message import BASIC_PROPERTIES, Message
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import AMQP, Dialect, Pattern, dialect_named

__all__ = ["Dispatcher", "NoHandler", "OnError", "message_from_pika"]

M = TypeVar("M")
R = TypeVar("R")

OnError = Literal["raise", "dead-letter", "requeue"]
"""What is done with a delivery that was not handled: see `Dispatcher.consume`."""


class NoHandler(HashstarError):
    """A message whose key matches no handler's pattern."""

    def __init__(self, key: str) -> None:
        super().__init__(f"no handler for key {key!r}")
        self.key = key


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
            _check_runs_when_called(no_handler)
        self.dialect: Final = dialect_named(dialect)
        self._key: Final[Callable[[M], str]] = key or attrgetter("routing_key")
        self._first_only: Final = matching == "first"
        self._no_handler: Final = no_handler
        self._lock: Final = lock_at_forks(DISPATCHERS)
        self._matcher: Final[Matcher[tuple[int, Callable[[M], object]]]] = Matcher(self.dialect, cache=cache)
        # Handler -> its position in the order of calls, and its patterns (a dict, which keeps their order).
        self._handlers: Final[dict[Callable[[M], object], tuple[int, dict[Pattern, None]]]] = {}
        self._next_position = 0

    def on(self, pattern: str | Pattern) -> Callable[[Callable[[M], R]], Callable[[M], R]]:
        """Register the decorated function for a pattern; use several decorators for several. Raises as `add`."""
        parsed = self._parse(pattern)

        def register(handler: Callable[[M], R]) -> Callable[[M], R]:
            self.add(parsed, handler)
            return handler

        return register

    def add(self, pattern: str | Pattern, handler: Callable[[M], object]) -> bool:
        """Register a handler for a pattern; return False if it is registered already.

        Raises `PatternError`, with a caret, when the dialect does not allow the pattern; ValueError when the pattern is
        in another dialect; TypeError when the handler is not callable, not hashable, or a coroutine or generator
        function, which a call would not run.
        """
        parsed = self._parse(pattern)
        _check_runs_when_called(handler)
        if not isinstance(handler, Hashable):
            raise TypeError(f"{handler!r} cannot be a handler: it has no hash, so it could not be found again")
        with self._lock:
            position, patterns = self._handlers.get(handler, (self._next_position, {}))
            if parsed in patterns:
                return False
            self._matcher.bind(parsed, (position, handler))
            patterns[parsed] = None
            if len(patterns) == 1:
                self._handlers[handler] = position, patterns
                self._next_position += 1
            return True

    def remove(self, pattern: str | Pattern, handler: Callable[[M], object]) -> bool:
        """Remove a handler from a pattern; return False if it is not registered. Raises as `add`."""
        parsed = self._parse(pattern)
        with self._lock:
            position, patterns = self._handlers.get(handler, (0, {}))
            if parsed not in patterns:
                return False
            self._matcher.unbind(parsed, (position, handler))
            del patterns[parsed]
            if not patterns:
                del self._handlers[handler]
            return True

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """All patterns without repeats, grouped by handler: a queue with these bindings feeds this dispatcher."""
        with self._lock:
            return tuple(dict.fromkeys(chain.from_iterable(patterns for _, patterns in self._handlers.values())))

    def handlers(self, key: str) -> Sequence[Callable[[M], object]]:
        """Return the handlers that a message with this key goes to, in the order of their calls."""
        if not isinstance(key, str):
            raise TypeError(f"the key of a message is a str, not {key!r}: see key= of Dispatcher")
        matching: Collection[tuple[int, Callable[[M], object]]] = self._matcher.match(key)
        if len(matching) > 1:
            matching = (min(matching),) if self._first_only else sorted(matching)  # by position, which is unique
        return [handler for _, handler in matching]

    def dispatch(self, message: M) -> int:
        """Call the message's handlers; return their number, a callable ``no_handler`` included.

        Raises what a handler raises, `NoHandler`, and TypeError when a handler returns an awaitable or a generator,
        which nothing would run.
        """
        handlers = self._find_handlers(message)
        for handler in handlers:
            if (result := handler(message)) is not None:
                _check_has_run(handler, result)
        return len(handlers)

    def _find_handlers(self, message: M) -> Sequence[Callable[[M], object]]:
        key = self._key(message)
        handlers = self.handlers(key)
        if handlers or self._no_handler == "ignore":
            return handlers
        if not callable(self._no_handler):
            raise NoHandler(key)
        return (self._no_handler,)

    def consume(
        self: Dispatcher[Message],
        channel: Any,
        queue: str,
        *,
        on_error: OnError = "raise",
        prefetch: int | None = 100,
        **options: Any,
    ) -> str:
        """Dispatch the deliveries of a queue from now on; return the consumer tag.

        ``channel`` is pika's, of a BlockingConnection or of one of its asynchronous connections; the handlers run in
        the thread that runs the connection. Each delivery becomes a `Message` (see `message_from_pika`) and is
        acknowledged after its handlers have returned. ``on_error`` decides what happens when a handler raises, or when
        there is none and ``no_handler`` is "error". In each case the exchange, the key and the handler are logged to
        the logger ``exchange.dispatch.dispatcher`` as an error:

        * ``"raise"``: the exception leaves ``start_consuming``; an asynchronous connection is lost by it. The
          delivery stays unacknowledged: the broker delivers it again once the channel is closed.
        * ``"dead-letter"``: rejected for good. The queue's dead-letter exchange gets it; without one the broker
          drops it, and the log is all that remains.
        * ``"requeue"``: put back, and delivered again at once. A message that fails each time goes round for ever, as
          fast as it can. The delivery limit of a quorum queue ends that in RabbitMQ 3.10 to 4.0; 4.3 no longer
          counts what a consumer puts back, and classic queues never did.

        "raise" is the default because only this loses nothing and loops nowhere with every kind of queue. Close the
        channel or the connection after it: on the same channel the delivery does not return.

        ``prefetch`` is the maximum number of unacknowledged deliveries; None leaves the channel's setting. ``options``
        are passed to ``basic_consume`` (``consumer_tag``, ``exclusive``, ``arguments`` ...).
        """
        if on_error not in ("raise", "dead-letter", "requeue"):
            raise ValueError(f'on_error is "raise", "dead-letter" or "requeue", not {on_error!r}')
        from logging import getLogger  # not at the top: only this needs it

        log = getLogger(__name__)

        def receive(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            message = message_from_pika(method, properties, body)
            handler: object = None
            try:
                for handler in self._find_handlers(message):
                    if (result := handler(message)) is not None:
                        _check_has_run(handler, result)
            except Exception:
                where = "before any handler" if handler is None else f"in {_name(handler)}"
                text = "exchange %r, key %r, failed %s: %s"
                log.exception(text, message.exchange, message.routing_key, where, _DONE[on_error])
                if on_error == "raise":
                    raise
                channel.basic_nack(delivery_tag=method.delivery_tag, requeue=on_error == "requeue")
            else:
                channel.basic_ack(delivery_tag=method.delivery_tag)

        if prefetch is not None:
            channel.basic_qos(prefetch_count=prefetch)
        tag: str = channel.basic_consume(queue, receive, auto_ack=False, **options)
        return tag

    def _parse(self, pattern: str | Pattern) -> Pattern:
        if not isinstance(pattern, (str, Pattern)):
            raise TypeError(f'a pattern is a str or a Pattern, not {pattern!r}: write @dispatcher.on("order.#")')
        if isinstance(pattern, Pattern):
            if pattern.dialect is not self.dialect:
                raise ValueError(f"a pattern in {pattern.dialect.name} for keys in {self.dialect.name}: see Pattern.to")
            return pattern
        return Pattern.of_binding_key(pattern) if self.dialect is AMQP else Pattern(pattern, self.dialect)


def message_from_pika(method: Any, properties: Any, body: bytes) -> Message:
    """Build the message of a delivery of pika: a Basic.Deliver (or GetOk, or Return), BasicProperties and a body.

    Properties that are not set are left out. Headers are as pika decoded them, which is not always as they were sent:
    pika 1.x truncates floats and doubles to integers, and bytes may have been a long string that is not UTF-8. An
    exchange or key that is not UTF-8 has surrogate escapes, as everywhere in this package.
    """
    values = {name: getattr(properties, name) for name in BASIC_PROPERTIES}
    return Message(
        exchange=_decode(method.exchange),
        routing_key=_decode(method.routing_key),
        headers=properties.headers or {},
        properties={name: value for name, value in values.items() if value is not None},
        body=body,
    )


_DONE: Final = {"raise": "not acknowledged", "dead-letter": "rejected", "requeue": "requeued"}


def _decode(name: str | bytes) -> str:
    # pika decodes UTF-8, and leaves all else as bytes.
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name


def _name(handler: object) -> str:
    return getattr(handler, "__qualname__", None) or repr(handler)


def _check_runs_when_called(handler: Callable[..., object]) -> None:
    # Calling such a function only makes an object that nothing awaits or iterates: the message would count as handled.
    if not callable(handler):
        raise TypeError(f"{handler!r} cannot be a handler: it cannot be called")
    for function in (handler, type(handler).__call__):
        if iscoroutinefunction(function):
            raise TypeError(f"{_name(handler)} is a coroutine function; a handler is called, not awaited")
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            raise TypeError(f"{_name(handler)} is a generator function; a handler is called, not iterated")


def _check_has_run(handler: object, result: object) -> None:
    if isinstance(result, (Awaitable, Generator, AsyncGenerator)):
        if isinstance(result, (Coroutine, Generator)):
            result.close()  # else Python warns of a coroutine that was never awaited
        raise TypeError(
            f"{_name(handler)} returned {type(result).__name__!r}, which nobody awaits or iterates: "
            "the message was not handled"
        )
