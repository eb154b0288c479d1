"""Exact routing in kombu's virtual transports: memory, Redis, SQS, filesystem and all others of `virtual.Channel`.

`install` replaces how exchanges of these transports find queues; nothing else changes, and what is stored (in Redis: a
set of routing key, kombu's expression and queue for each exchange) stays as kombu writes it. So a process with exact
routing shares brokers with processes without it, and also routes by the bindings of the others.

The routing that becomes exact:

* topic: the wildcards, matched by `Matcher` on the routing key of the binding; kombu's expression is not used;
* headers: kombu has no such exchanges. A binding is stored under a key that spells its arguments in JSON;
* alternate exchanges: that of the exchange's argument, if this process has declared the exchange;
* a rejected message goes back to the queue that it came from; kombu routes it again, to all queues;
* filesystem, fanout: one copy for each queue; kombu writes one for each binding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final

from kombu.transport import filesystem
from kombu.transport.virtual import base, exchange
from kombu.transport.virtual.exchange import TopicExchange

from exchange.entities.entities import Binding, Exchange, Queue
from exchange.errors import HashstarError, PatternError
from exchange.limits import NESTING
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import Pattern
from exchange.routing.router import Router
from exchange.topology.topology import Topology
from exchange.values.field_json import decode_table, encode_table
from exchange.values.json_text import parse_leniently
from exchange.values.message import Message

Row = tuple[str, Any, str]
"""A binding as the tables of virtual transports have it: routing key, kombu's expression or None, queue."""

TABLES: Final = 256
"""Maximum number of tables of bindings whose compiled form is kept."""

_queue_of_origin: ContextVar[str | None] = ContextVar("queue_of_origin", default=None)
"""The queue that a message which is being restored came from."""


@contextmanager
def route_exactly() -> Iterator[None]:
    """Route exactly in all virtual transports until the block ends; blocks may be nested."""
    installed_here = not _originals
    install()
    try:
        yield
    finally:
        if installed_here:
            uninstall()


def install() -> None:
    """Route exactly in all virtual transports of this process from now on; a second call does nothing.

    Connections that are open route exactly at once. Only headers exchanges need a channel that is opened afterwards.
    """
    if _originals:
        return
    for owner, name, replacement in [*_replacements()]:
        _originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, replacement)
    base.Channel.exchange_types.setdefault("headers", HeadersExchange)


def uninstall() -> None:
    """Restore kombu's own routing."""
    while _originals:
        owner, name, original = _originals.pop()
        setattr(owner, name, original)
    if base.Channel.exchange_types.get("headers") is HeadersExchange:
        del base.Channel.exchange_types["headers"]


_originals: Final[list[tuple[type, str, Callable[..., Any]]]] = []
"""Class, name and original function of what `install` has replaced."""


def _replacements() -> Iterable[tuple[type, str, Callable[..., Any]]]:
    yield TopicExchange, "lookup", _lookup_topic
    yield TopicExchange, "deliver", _deliver_to_queues
    yield exchange.DirectExchange, "deliver", _deliver_to_queues
    yield exchange.FanoutExchange, "deliver", _follow_alternates(exchange.FanoutExchange.deliver)
    yield base.Channel, "_lookup", _prefer_origin(base.Channel._lookup)
    yield base.Channel, "_restore", _remember_origin(base.Channel._restore, _origin_of_message)
    yield base.Channel, "queue_bind", _spell_arguments(base.Channel.queue_bind)
    yield base.Channel, "queue_unbind", _spell_arguments(base.Channel.queue_unbind)
    yield filesystem.Channel, "_put_fanout", _put_once_for_each_queue
    if find_spec("redis") is not None:  # without it, kombu's module cannot be imported
        from kombu.transport import redis

        restore = redis.Channel._do_restore_message
        yield redis.Channel, "_do_restore_message", _remember_origin(restore, _origin_of_payload)


# Topic exchanges


def _lookup_topic(self: Any, table: Iterable[Row], exchange: str, routing_key: str, default: Any) -> set[str]:
    """Return the queues whose pattern matches, in place of `TopicExchange.lookup`."""
    matcher, too_long = _compile(frozenset((key or "", expression, queue) for key, expression, queue in table))
    queues = set(matcher.match(routing_key or ""))
    # RabbitMQ has no keys of more than 255 bytes. kombu does: those are matched by kombu's expression.
    queues.update(queue for _, expression, queue in too_long if self._match(expression, routing_key))
    return queues


@lru_cache(TABLES)
def _compile(table: frozenset[Row]) -> tuple[Matcher[str], list[Row]]:
    """Return a matcher from keys to queues, and the rows whose keys are too long for AMQP."""
    matcher: Matcher[str] = Matcher()
    too_long = []
    for row in table:
        try:
            matcher.bind(Pattern.of_binding_key(row[0]), row[2])
        except PatternError:
            too_long.append(row)
    return matcher, too_long


# Headers exchanges


class HeadersExchange(exchange.ExchangeType):  # type: ignore[misc]  # kombu has no types
    """An exchange type that kombu does not have; the key of a row is the text of `_spell`."""

    type = "headers"

    def lookup(self, table: Iterable[Row], exchange: str, routing_key: str, default: Any) -> Collection[str]:
        return self.lookup_headers(table, {})

    def lookup_headers(self, table: Iterable[Row], headers: Mapping[str, Any]) -> Collection[str]:
        """Return the queues with a binding that these headers match."""
        router = _compile_headers(frozenset((key or "", queue) for key, _, queue in table))
        return router.route(Message("headers", "", dict(headers))).queues

    def deliver(self, message: Any, exchange: str, routing_key: str, **options: Any) -> None:
        _deliver_to_queues(self, message, exchange, routing_key, **options)


@lru_cache(TABLES)
def _compile_headers(table: frozenset[tuple[str, str]]) -> Router:
    bindings = [Binding.to_queue("headers", queue, *_unspell(key)) for key, queue in table]
    return Router(Topology([Exchange("headers", "headers")], [Queue(queue) for _, queue in table], bindings))


def _spell(routing_key: str, arguments: Mapping[str, Any] | None) -> str:
    """Return key and arguments of a binding as one text, equal only for equal bindings."""
    return json.dumps([routing_key, encode_table(dict(arguments or {}))], sort_keys=True)


def _unspell(text: str) -> tuple[str, dict[str, Any]]:
    """Return key and arguments of a text of `_spell`; any other text is a key without arguments."""
    try:
        routing_key, arguments = parse_leniently(text, 2 * NESTING)
        return str(routing_key), dict(decode_table(arguments, "arguments"))
    except (ValueError, TypeError, HashstarError):
        return text, {}


def _spell_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap queue_bind or queue_unbind: a binding of a headers exchange gets its arguments into its key.

    Virtual transports know a binding by exchange, key and queue only, and store no arguments.
    """

    def bind(
        self: Any, queue: str, exchange: Any = None, routing_key: str = "", arguments: Any = None, **options: Any
    ) -> Any:
        is_headers = exchange in self.state.exchanges and self.state.exchanges[exchange]["type"] == "headers"
        key = _spell(routing_key or "", arguments) if is_headers else routing_key
        return original(self, queue, exchange, key, arguments, **options)

    return bind


# All types


def _deliver_to_queues(self: Any, message: Any, exchange: str, routing_key: str, **options: Any) -> None:
    """Put a message into the queues of an exchange that is no fanout, each copy with the name of its queue."""
    target = _find_exchange(self.channel, message, exchange, routing_key)
    if target != exchange:
        self.channel.typeof(target).deliver(message, target, routing_key, **options)
        return
    if isinstance(self, HeadersExchange):
        queues = self.lookup_headers(self.channel.get_table(exchange), message["headers"])
        queues = queues or self.channel._lookup(exchange, routing_key)  # for the queue of dead letters
    else:
        queues = self.channel._lookup(exchange, routing_key)
    if isinstance(self, TopicExchange):  # as kombu: only direct exchanges use the queue of dead letters
        queues = [queue for queue in queues if queue != self.channel.deadletter_queue]
    for queue in queues:
        if queue:
            self.channel._put(queue, _with_origin(message, queue), **options)


def _follow_alternates(original: Callable[..., Any]) -> Callable[..., Any]:
    def deliver(self: Any, message: Any, exchange: str, routing_key: str, **options: Any) -> None:
        target = _find_exchange(self.channel, message, exchange, routing_key)
        if target != exchange:
            self.channel.typeof(target).deliver(message, target, routing_key, **options)
        else:
            original(self, message, exchange, routing_key, **options)

    return deliver


def _find_exchange(channel: Any, message: Any, exchange: str, routing_key: str) -> str:
    """Return the exchange that routes a message: the one it is published to, or the first alternate that has a queue.

    It is the first one, too, if no alternate has a queue. An alternate counts if this process has declared the exchange
    with it.
    """
    exchanges = channel.state.exchanges
    seen: list[str] = []
    current: Any = exchange
    while isinstance(current, str) and current in exchanges and current not in seen:
        alternate = (exchanges[current].get("arguments") or {}).get("alternate-exchange")
        if alternate is None and not seen:
            return exchange  # the usual case: its bindings need not be read twice
        if _find_queues(channel, message, current, routing_key):
            return current
        seen.append(current)
        current = alternate
    return exchange


def _find_queues(channel: Any, message: Any, exchange: str, routing_key: str) -> Collection[str]:
    table, kind = channel.get_table(exchange), channel.typeof(exchange)
    if isinstance(kind, HeadersExchange):
        return kind.lookup_headers(table, message["headers"])
    queues: Collection[str] = kind.lookup(table, exchange, routing_key, None)
    return queues


def _with_origin(message: Any, queue: str) -> Any:
    """Return the copy of a message for a queue, which has the queue's name in its ``delivery_info``."""
    properties = message["properties"]
    info = {**properties["delivery_info"], "queue": queue}
    return {**message, "properties": {**properties, "delivery_info": info}}


def _origin_of_message(message: Any) -> Any:
    return (message.delivery_info or {}).get("queue")


def _origin_of_payload(payload: Any) -> Any:
    return payload.get("properties", {}).get("delivery_info", {}).get("queue")


def _remember_origin(original: Callable[..., Any], origin_of: Callable[[Any], Any]) -> Callable[..., Any]:
    def restore(self: Any, message: Any, *args: Any, **options: Any) -> Any:
        token = _queue_of_origin.set(origin_of(message))
        try:
            return original(self, message, *args, **options)
        finally:
            _queue_of_origin.reset(token)

    return restore


def _prefer_origin(original: Callable[..., Any]) -> Callable[..., Any]:
    def lookup(self: Any, exchange: str, routing_key: str, default: Any = None) -> Any:
        queue = _queue_of_origin.get()
        return original(self, exchange, routing_key, default) if queue is None else [queue]

    return lookup


def _put_once_for_each_queue(self: Any, exchange: str, payload: Any, routing_key: str, **options: Any) -> None:
    for queue in {row.queue for row in self.get_table(exchange)}:
        self._put(queue, payload, **options)
