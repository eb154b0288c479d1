"""Received messages as a router reads them: fields are decoded and copied only when they are read.

A router that has seen an exchange and key before needs these two and whether there is a header CC or BCC. So a view
decodes no more: exchange and key come from a cache of addresses, as most messages have one that came before, and a
search in the bytes of the content header shows that neither CC nor BCC is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from exchange.amqp.content import ContentHeader
from exchange.amqp.fields import MalformedHeader
from exchange.amqp.lazy import LazyHeaders, Properties
from exchange.values.message import BASIC_PROPERTIES, Message

ADDRESSES: Final = 65_536
"""Maximum number of addresses in the cache."""

PUBLISH, RETURN, DELIVER, GET_OK = (b"\0\x3c\0" + bytes([method]) for method in (40, 50, 60, 71))
"""First bytes of the methods that carry content: class basic, and the method."""

_addresses: Final[dict[bytes, tuple[str, str]]] = {}


class MessageView(Message):
    """A message over what a client received. It is routed and read as a `Message`, and equals other views only.

    ``exchange``, ``routing_key`` and ``body`` are attributes; ``headers`` and ``properties`` are decoded when they are
    read first. Raises MalformedHeader there, for bytes that are no content header.
    """

    __slots__ = ("_given", "_headers", "_properties", "has_one_key")

    has_one_key: bool  # a property there, an attribute here
    _given: Any  # the bytes of a header, or the object with the properties
    _headers: Mapping[str, Any]
    _properties: Mapping[str, Any]

    def __init__(self, exchange: str, routing_key: str, header: bytes, body: bytes = b"") -> None:
        """Make the view of a message with this content header: the whole payload of its header frame."""
        _set_exchange(self, exchange)
        _set_routing_key(self, routing_key)
        _set_body(self, body)
        _set_given(self, header)
        _set_has_one_key(self, b"CC" not in header)  # BCC, too, has these bytes; that some other bytes do is rare

    @classmethod
    def of_frames(cls, method: bytes, header: bytes, body: bytes = b"") -> MessageView:
        """Return the view of the payloads of a method frame and its header frame, and the body.

        The method is basic.deliver, get-ok, return or publish. Raises MalformedHeader for other or broken methods.
        """
        tail = _find_address(method)
        exchange, routing_key = _addresses.get(tail) or _remember(tail)
        view = _new(cls)  # the constructor would be another call
        _set_exchange(view, exchange)
        _set_routing_key(view, routing_key)
        _set_body(view, body)
        _set_given(view, header)
        _set_has_one_key(view, b"CC" not in header)
        return view

    @classmethod
    def of_delivery(cls, delivery: Any, properties: Any, body: bytes = b"") -> MessageView:
        """Return the view of what pika or aio-pika hands to a consumer.

        ``delivery`` has ``exchange`` and ``routing_key``; ``properties`` has ``headers`` and the basic properties under
        their AMQP names, and None for those that are absent. A message of aio-pika is both.
        """
        view = _new(cls)
        _set_exchange(view, delivery.exchange or "")
        _set_routing_key(view, delivery.routing_key or "")
        _set_body(view, body)
        _set_given(view, properties)
        headers = properties.headers
        _set_has_one_key(view, not headers or ("CC" not in headers and "BCC" not in headers))
        return view

    @property
    def headers(self) -> Mapping[str, Any]:
        """Headers, decoded when they are read first."""
        try:
            return self._headers
        except AttributeError:
            self._decode()
            return self._headers

    @property
    def properties(self) -> Mapping[str, Any]:
        """Properties other than the headers, decoded when they are read first."""
        try:
            return self._properties
        except AttributeError:
            self._decode()
            return self._properties

    def _decode(self) -> None:
        headers: Mapping[str, Any]
        properties: Mapping[str, Any]
        if isinstance(self._given, bytes):
            content = ContentHeader.parse(self._given)[0]
            headers, properties = LazyHeaders(content), Properties(content)
        else:
            given = {name: getattr(self._given, name, None) for name in BASIC_PROPERTIES}
            headers = self._given.headers or {}
            properties = {name: value for name, value in given.items() if value is not None}
        _set_headers(self, headers)
        _set_properties(self, properties)

    def to_message(self) -> Message:
        """Return a message that is decoded and checked. Raises as `Message`."""
        return Message(self.exchange, self.routing_key, dict(self.headers), dict(self.properties), self.body)

    def __reduce__(self) -> tuple[type[Message], tuple[Any, ...]]:
        return Message, (self.exchange, self.routing_key, dict(self.headers), dict(self.properties), self.body)

    def __repr__(self) -> str:
        return f"MessageView(exchange={self.exchange!r}, routing_key={self.routing_key!r}, body={self.body!r:.60})"


_set_exchange, _set_routing_key, _set_body = (
    getattr(Message, name).__set__ for name in ("exchange", "routing_key", "body")
)
_new: Final = object.__new__
_set_given, _set_headers, _set_properties, _set_has_one_key = (
    getattr(MessageView, name).__set__ for name in ("_given", "_headers", "_properties", "has_one_key")
)


def _remember(tail: bytes) -> tuple[str, str]:
    """Return exchange and key from two short strings, and keep them in the cache."""
    try:
        middle = 1 + tail[0]
        end = middle + 1 + tail[middle]
    except IndexError:
        end = len(tail) + 1
    if end > len(tail):
        raise MalformedHeader("the method ends before its routing key", len(tail))
    address = (
        tail[1:middle].decode("utf-8", "surrogateescape"),
        tail[middle + 1 : end].decode("utf-8", "surrogateescape"),
    )
    if len(_addresses) >= ADDRESSES:
        _addresses.clear()
    _addresses[tail] = address
    return address


def _find_address(method: bytes) -> bytes:
    """Return the bytes from the name of the exchange on."""
    kind = method[:4]
    try:
        if kind == DELIVER:
            return method[14 + method[4] :]  # behind the consumer's tag, the delivery tag and a flag
        if kind == PUBLISH:
            return method[6:]
        if kind == RETURN:
            return method[7 + method[6] :]
        if kind == GET_OK:
            return method[13:]
    except IndexError:
        pass
    raise MalformedHeader("the method carries no message", 0)
