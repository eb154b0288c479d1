"""A delivery: the message that a handler gets, the broker's data about it, and the methods that answer it.

A delivery is a `Message`, so a handler that needs only the message takes either. It knows no client library:
its `Carrier` sends its answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeVar, overload

from exchange.concurrency.forks import DISPATCHERS, lock_at_forks
from exchange.errors import HashstarError, InputError
from exchange.values.field_values import Typed
from exchange.values.message import NO_FIELDS, Message, assemble_message

T = TypeVar("T")
D = TypeVar("D")

Answer = Literal["ack", "reject", "requeue"]
"""How a delivery is settled: taken, refused for good (its queue dead-letters it), or put back into its queue."""

RETRY: Final = "x-hashstar-retry"
"""Header of a message that waited in a delay queue: a table, see `exchange.dispatch.policy`."""


class _NoWords(dict[str, str]):
    """The words of a delivery that no dispatcher has looked at: there are none, and the error says who fills them."""

    def __missing__(self, name: str) -> str:
        raise KeyError(
            f"{name!r}: give Delivery(..., words={{{name!r}: ...}}), or call Dispatcher.deliver, which fills them"
        )


NO_WORDS: Final[Mapping[str, str]] = MappingProxyType(_NoWords())
MISSING: Final = object()


class Carrier(Protocol):
    """Sends the answers of deliveries to a broker."""

    def settle(self, ticket: Ticket, answer: Answer) -> None:
        """Send an answer. Called once for each ticket, in any thread."""

    def reply(self, ticket: Ticket, reply: Message) -> None:
        """Publish a reply. Called in any thread."""


class Unconnected:
    """The carrier of deliveries that did not come from a broker, as in tests: answers are only recorded."""

    def settle(self, ticket: Ticket, answer: Answer) -> None:
        """Send nothing."""

    def reply(self, ticket: Ticket, reply: Message) -> None:
        """Send nothing."""


UNCONNECTED: Final = Unconnected()

_settling: Final = lock_at_forks(DISPATCHERS)


class Ticket:
    """What all copies of a delivery share: its origin, and how it was answered."""

    __slots__ = ("answer", "carrier", "channel", "queue", "replies", "tag")

    def __init__(self, carrier: Carrier, channel: Any, tag: int, queue: str) -> None:
        self.carrier: Carrier = carrier
        self.channel: Any = channel
        """The channel it was delivered on, an object of the client library."""
        self.tag: int = tag
        """The delivery tag, which is valid on this channel only."""
        self.queue: str = queue
        self.answer: Answer | None = None
        self.replies: tuple[Message, ...] = ()

    def settle(self, answer: Answer) -> None:
        """Settle the delivery. Raises HashstarError if it is settled already."""
        if not self.try_to_settle(answer):
            raise HashstarError(f"this delivery is settled already: {self.answer}")

    def try_to_settle(self, answer: Answer) -> bool:
        """Settle the delivery unless it is settled already; return whether this call settled it."""
        with _settling:  # a handler in a thread may settle in the moment in which its time is over
            if self.answer is not None:
                return False
            self.answer = answer
        self.carrier.settle(self, answer)
        return True


class Delivery(Message):
    """A message that a broker delivered.

    To test a handler, construct one: nothing is sent, and `settled` and `replies` show what would have been sent:

    >>> delivery = Delivery("", "sum", properties={"reply_to": "answers", "correlation_id": "17"}, body=b"[1, 2]")
    >>> delivery.reply(3)
    >>> delivery.replies[0].body, delivery.replies[0].routing_key, delivery.settled
    (b'3', 'answers', None)

    It equals its message, has the same hash, and is pickled as a message: only its own process can settle it.
    """

    __slots__ = ("_ticket", "redelivered", "words")

    redelivered: bool
    """Whether the broker has delivered the message before, as far as it knows."""
    words: Mapping[str, str]
    """Words of the routing key by the names in the handler's pattern: ``order.{region}.created``."""
    _ticket: Ticket

    def __init__(
        self,
        exchange: str = "",
        routing_key: str = "",
        headers: Mapping[str, Any] = NO_FIELDS,
        properties: Mapping[str, Any] = NO_FIELDS,
        body: bytes = b"",
        *,
        redelivered: bool = False,
        words: Mapping[str, str] = NO_WORDS,
    ) -> None:
        super().__init__(exchange, routing_key, headers, properties, body)
        _set_redelivered(self, redelivered)
        _set_words(self, words)
        _set_ticket(self, Ticket(UNCONNECTED, None, 0, ""))

    @classmethod
    def from_message(cls, message: Message) -> Delivery:
        """Return a delivery of a message that did not come from a broker."""
        return cls(message.exchange, message.routing_key, message.headers, message.properties, message.body)

    @property
    def message(self) -> Message:
        """The message alone: a value to keep, to send elsewhere, to compare."""
        return assemble_message(self.exchange, self.routing_key, self.headers, self.properties, self.body)

    @property
    def queue(self) -> str:
        """Name of the queue that it was consumed from; "" if it did not come from a broker."""
        return self._ticket.queue

    @property
    def delivery_tag(self) -> int:
        """Number of the delivery on its channel, from 1."""
        return self._ticket.tag

    @property
    def delivery_count(self) -> int:
        """Number of earlier deliveries of the message, as far as the broker counts them; 0 at the first one.

        Quorum queues do: since RabbitMQ 4.3 in the header ``x-acquired-count``, before that in ``x-delivery-count``.
        For other queues it is 1 if the message is redelivered, however often.
        """
        for name in ("x-acquired-count", "x-delivery-count"):
            count = self.headers.get(name)
            if isinstance(count, int) and not isinstance(count, bool):
                return count
        return int(self.redelivered)

    @property
    def retries(self) -> int:
        """Number of times that the message waited in a delay queue and came back, by a `Retry`."""
        table = self.headers.get(RETRY)
        count = table.get("count") if isinstance(table, Mapping) else None
        return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0

    @property
    def settled(self) -> Answer | None:
        """How the delivery was settled; None as long as it is not."""
        return self._ticket.answer

    @property
    def replies(self) -> tuple[Message, ...]:
        """All replies so far."""
        return self._ticket.replies

    @overload
    def header(self, name: str, kind: type[T]) -> T: ...

    @overload
    def header(self, name: str, kind: type[T], default: D) -> T | D: ...

    def header(self, name: str, kind: type[Any], default: Any = MISSING) -> Any:
        """Return the value of a header, of this Python type: ``delivery.header("attempt", int, 0)``.

        Raises InputError when the value is of another type (a bool is no int, but an int is a float), and when there is
        no such header and no default.
        """
        if name not in self.headers:
            if default is MISSING:
                raise InputError(f"the message has no header {name!r}")
            return default
        value = self.headers[name]
        if isinstance(value, Typed):
            value = value.value
        if kind is float and type(value) is int:
            return float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool and kind is not object):
            raise InputError(f"header {name!r} is a {type(value).__name__}, not a {kind.__name__}: {value!r:.60}")
        return value

    def ack(self) -> None:
        """Acknowledge the delivery now, not after its handlers. Raises HashstarError if it is settled already."""
        self._ticket.settle("ack")

    def nack(self, *, requeue: bool = True) -> None:
        """Put the message back into its queue, or refuse it for good, which dead-letters it. Raises as `ack`."""
        self._ticket.settle("requeue" if requeue else "reject")

    def reject(self) -> None:
        """Refuse the message for good: its queue dead-letters it, or drops it. Raises as `ack`."""
        self._ticket.settle("reject")

    def reply(
        self, body: object, *, headers: Mapping[str, Any] = NO_FIELDS, properties: Mapping[str, Any] = NO_FIELDS
    ) -> None:
        """Send a reply to the address in ``reply_to``; the delivery is acknowledged only after the broker has it.

        Bytes are sent as they are, a str as UTF-8, a `Message` with its own headers and properties, all else as JSON.
        The correlation id is that of the request, else its message id. May be called several times. Raises
        HashstarError if the message has no ``reply_to``; TypeError or ValueError if JSON has no such value.
        """
        reply = build_reply(self, body, headers, properties)
        self._ticket.replies += (reply,)
        self._ticket.carrier.reply(self._ticket, reply)

    def with_words(self, words: Mapping[str, str]) -> Delivery:
        """Return this delivery as a handler with names in its pattern gets it. Both are settled together."""
        return self._replace(self.exchange, words)

    def with_exchange(self, exchange: str) -> Delivery:
        """Return this delivery as from another exchange. Both are settled together."""
        return self._replace(exchange, self.words)

    def _replace(self, exchange: str, words: Mapping[str, str]) -> Delivery:
        return assemble_delivery(
            exchange, self.routing_key, self.headers, self.properties, self.body, self.redelivered, self._ticket, words
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self.message == (other.message if isinstance(other, Delivery) else other)

    __hash__ = Message.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return assemble_message, (self.exchange, self.routing_key, self.headers, self.properties, self.body)


def build_reply(request: Message, body: object, headers: Mapping[str, Any], properties: Mapping[str, Any]) -> Message:
    """Build the reply to a request, as a message to the default exchange. Raises as `Delivery.reply`."""
    address = request.properties.get("reply_to")
    if not address:
        raise HashstarError("the message asks for no reply: it has no reply_to")
    own: dict[str, Any] = {}
    if isinstance(body, Message):
        own |= body.properties
        headers = {**body.headers, **headers}
        content = body.body
    elif isinstance(body, (bytes, bytearray, memoryview)):
        content = bytes(body)
    elif isinstance(body, str):
        own["content_type"] = "text/plain; charset=utf-8"
        content = body.encode()
    else:
        import json  # not at the top: `import exchange` stays light

        own["content_type"] = "application/json"
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    correlation = request.properties.get("correlation_id", request.properties.get("message_id"))
    if correlation is not None:
        own["correlation_id"] = correlation
    return Message("", address, dict(headers), {**own, **properties}, content)


_set_redelivered, _set_words, _set_ticket = (
    getattr(Delivery, name).__set__ for name in ("redelivered", "words", "_ticket")
)
_set_exchange, _set_routing_key, _set_headers, _set_properties, _set_body = (
    getattr(Message, name).__set__ for name in ("exchange", "routing_key", "headers", "properties", "body")
)
_new: Final = object.__new__


def assemble_delivery(
    exchange: str,
    routing_key: str,
    headers: Mapping[str, Any],
    properties: Mapping[str, Any],
    body: bytes,
    redelivered: bool,
    ticket: Ticket,
    words: Mapping[str, str] = NO_WORDS,
) -> Delivery:
    """Build a delivery of values whose types are known to be right: nothing is checked. The fast constructor."""
    delivery = _new(Delivery)
    _set_exchange(delivery, exchange)
    _set_routing_key(delivery, routing_key)
    _set_headers(delivery, headers)
    _set_properties(delivery, properties)
    _set_body(delivery, body)
    _set_redelivered(delivery, redelivered)
    _set_words(delivery, words)
    _set_ticket(delivery, ticket)
    return delivery
