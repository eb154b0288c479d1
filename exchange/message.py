"""A message as the router sees it: where it is published to, with which key, and what it carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from exchange.errors import PreconditionFailed
from exchange.field_values import FieldTable, check_fields, type_and_value

__all__ = ["Message"]

NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """What a publisher sends with basic.publish.

    ``exchange`` is a name, ``""`` the default exchange. ``headers`` map names to field values (see
    `exchange.field_values`); ``properties`` are the other basic properties under their AMQP names (``message_id``,
    ``timestamp`` ...). The mappings are kept, not copied. Raises TypeError when a part has another type: names and keys
    are str, also where a client library has bytes or None, and values of fields are those of `exchange.field_values`;
    InputError for an integer of more than 64 bits. Names and keys may be longer than AMQP allows, as those of other
    systems are.
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
        set_exchange(self, exchange)
        set_routing_key(self, routing_key)
        set_headers(self, headers)
        set_properties(self, properties)
        set_body(self, body)

    def __hash__(self) -> int:
        # Of the names alone: values may be lists, and equal ones of different types (1 and True) must hash alike.
        return hash((self.exchange, self.routing_key, frozenset(self.headers), frozenset(self.properties), self.body))

    def routing_keys(self) -> tuple[str, ...]:
        """The routing key, then those of the CC and the BCC header (RabbitMQ's sender-selected distribution).

        Elements that are not strings are ignored. Raises PreconditionFailed when a header is no array.
        """
        if not self.headers or ("CC" not in self.headers and "BCC" not in self.headers):
            return (self.routing_key,)
        return (self.routing_key, *self._keys_in("CC"), *self._keys_in("BCC"))

    def copied_to(self) -> list[tuple[str, str]]:
        """The header and the key of each further routing key: ``("CC", "a.b")``. Raises as `routing_keys`."""
        return [(header, key) for header in ("CC", "BCC") for key in self._keys_in(header)]

    def _keys_in(self, header: str) -> list[str]:
        if header not in self.headers:
            return []
        kind, items = type_and_value(self.headers[header])
        if kind != "array":
            raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}')
        return [value.decode("utf-8", "surrogateescape") for kind, value in items if kind == "longstr"]


# Setting the slots is a third of what the constructor of a frozen dataclass costs, which calls object.__setattr__.
set_exchange, set_routing_key, set_headers, set_properties, set_body = (
    getattr(Message, name).__set__ for name in ("exchange", "routing_key", "headers", "properties", "body")
)


def _require(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        wanted = "a mapping" if kind is Mapping else kind.__name__
        raise TypeError(f"Message: {name} must be {wanted}, not {type(value).__name__}: {value!r:.60}")
