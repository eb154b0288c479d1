"""A message as the router sees it: where it is published to, with which key, and what it carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from exchange.concurrency.threads import FREE_THREADED
from exchange.errors import PreconditionFailed
from exchange.values.field_values import FieldTable, check_fields, resolve_type

BASIC_PROPERTIES: Final = (
    "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration",
    "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
"""Names of the basic properties of AMQP 0-9-1 beside the headers, in their order on the wire."""

NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})
"""Default of headers and properties; each message gets an empty dict of its own instead."""


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """A message as basic.publish sends it.

    ``exchange`` is a name, ``""`` the default exchange. ``headers`` maps names to field values (see
    `exchange.values.field_values`); ``properties`` are the other basic properties under their AMQP names
    (``message_id``, ``timestamp`` ...). The mappings are kept, not copied. Names and keys may be longer than AMQP
    allows, as those of other systems can be.

    Raises TypeError for an argument of another type (a name or key must be str, even if a client library has bytes or
    None) and for a header or property that is no field value; InputError for an integer of more than 64 bits.
    """

    exchange: str
    routing_key: str
    headers: Mapping[str, Any]
    properties: Mapping[str, Any]
    body: bytes

    def __init__(
        self,
        exchange: str = "",
        routing_key: str = "",
        headers: Mapping[str, Any] = NO_FIELDS,
        properties: Mapping[str, Any] = NO_FIELDS,
        body: bytes = b"",
    ) -> None:
        if type(exchange) is not str or type(routing_key) is not str or type(body) is not bytes:
            _require(exchange, str, "exchange")
            _require(routing_key, str, "routing_key")
            _require(body, bytes, "body")
        if headers is NO_FIELDS:
            headers = {}
        else:
            if type(headers) is not dict:
                _require(headers, Mapping, "headers")
            if type(headers) is not FieldTable:
                check_fields(headers, "Message: headers")
        if properties is NO_FIELDS:
            properties = {}
        else:
            if type(properties) is not dict:
                _require(properties, Mapping, "properties")
            if type(properties) is not FieldTable:
                check_fields(properties, "Message: properties")
        _set_exchange(self, exchange)
        _set_routing_key(self, routing_key)
        _set_headers(self, headers)
        _set_properties(self, properties)
        _set_body(self, body)

    def __hash__(self) -> int:
        # Hash the names of fields only: values may be lists, and equal ones of different types (1 and True) must hash
        # alike.
        return hash((self.exchange, self.routing_key, frozenset(self.headers), frozenset(self.properties), self.body))

    @property
    def has_one_key(self) -> bool:
        """Whether the routing key is its only one: it has no header CC or BCC."""
        headers = self.headers
        return not headers or ("CC" not in headers and "BCC" not in headers)

    def routing_keys(self) -> tuple[str, ...]:
        """Return the routing key, then the keys in the headers CC and BCC (RabbitMQ's sender-selected distribution).

        Raises as `keys_in`.
        """
        if self.has_one_key:
            return (self.routing_key,)
        return (self.routing_key, *self.keys_in("CC"), *self.keys_in("BCC"))

    def further_keys(self) -> list[tuple[str, str]]:
        """Return header and key of each routing key in CC and BCC, as ``("CC", "a.b")``. Raises as `keys_in`."""
        return [(header, key) for header in ("CC", "BCC") for key in self.keys_in(header)]

    def keys_in(self, header: str) -> list[str]:
        """Return the routing keys in a header, CC or BCC; elements that are not strings are ignored.

        Raises PreconditionFailed when the header is no array, as RabbitMQ refuses the message then.
        """
        if header not in self.headers:
            return []
        kind, items = resolve_type(self.headers[header])
        if kind != "array":
            raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}')
        return [value.decode("utf-8", "surrogateescape") for kind, value in items if kind == "longstr"]


# A frozen dataclass sets its fields by object.__setattr__. Setting the slots directly takes a third of that time.
_set_exchange, _set_routing_key, _set_headers, _set_properties, _set_body = (
    getattr(Message, name).__set__ for name in ("exchange", "routing_key", "headers", "properties", "body")
)
_new: Final = object.__new__


class _UnfrozenMessage:
    """The slots of a message, open: what has them can become a `Message`."""

    __slots__ = Message.__slots__

    exchange: str
    routing_key: str
    headers: Mapping[str, Any]
    properties: Mapping[str, Any]
    body: bytes


def assemble_message(
    exchange: str, routing_key: str, headers: Mapping[str, Any], properties: Mapping[str, Any], body: bytes
) -> Message:
    """Build a message of values whose types are known to be right: nothing is checked. The fast constructor."""
    if not FREE_THREADED:  # where a change of class would stop all threads
        unfrozen: Any = _UnfrozenMessage()  # its slots are set by the interpreter itself, in a fifth of the time
        unfrozen.exchange = exchange
        unfrozen.routing_key = routing_key
        unfrozen.headers = headers
        unfrozen.properties = properties
        unfrozen.body = body
        unfrozen.__class__ = Message
        return unfrozen  # type: ignore[no-any-return]
    message = _new(Message)
    _set_exchange(message, exchange)
    _set_routing_key(message, routing_key)
    _set_headers(message, headers)
    _set_properties(message, properties)
    _set_body(message, body)
    return message


def _require(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        wanted = "a mapping" if kind is Mapping else kind.__name__
        hint = "; the body is body=..." if name == "headers" and isinstance(value, bytes) else ""
        raise TypeError(f"Message: {name} must be {wanted}, not {type(value).__name__}: {value!r:.60}{hint}")
