"""A message of AMQP wrapped for RocketMQ, and unwrapped: the headers that it has in Kafka, as RocketMQ's properties."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from bridge.interop import amqp_guest
from bridge.interop.amqp_guest import ESCAPED, EXCHANGE, HEX, MARK, PREFIX
from bridge.interop.record import Record
from bridge.interop.rocketmq_packing import VALUES, pack_headers, unpack_headers
from bridge.rocketmq.remoting.message import StoredMessage
from bridge.rocketmq.remoting.properties import SYSTEM, TRANSIENT
from exchange.amqp import ContentHeader
from exchange.values.message import Message

__all__ = ["is_guest", "property_name", "unwrap", "wrap"]

BODY: Final = "amqp.body"
EMPTY: Final = "empty"
NOTHING: Final = b"\0"
"""Body of a message whose own is empty, which brokers would refuse."""

OWN: Final = "x-rocketmq-"
KEPT: Final = ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "CLUSTER")
"""Properties of RocketMQ's own by which it finds who waits for a reply; see `bridge.interop.requests`."""


@lru_cache(4096)
def property_name(raw: bytes) -> str:
    """Return the name of the property for an AMQP header of this name."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return HEX + raw.hex()
    if not name or any(character in name for character in "\0\x01\x02"):
        return HEX + raw.hex()
    return ESCAPED + name if name.startswith((PREFIX, TRANSIENT)) or name in SYSTEM else name


def is_guest(properties: Mapping[str, str]) -> bool:
    """Return whether a message with these properties carries one of AMQP.

    Then it has the property of the routing key, or, as an empty key gives no property, `VALUES` with an entry for it.
    """
    return MARK in properties or VALUES in properties


def wrap(content: ContentHeader, message: Message) -> tuple[dict[str, str], bytes]:
    """Return the properties and the body of the message of RocketMQ that carries this one."""
    own, headers = [], []
    for header in amqp_guest.wrap(content, message.exchange, message.routing_key, property_name):
        name = header[0]
        if name.startswith((ESCAPED, HEX)) or not name.startswith(PREFIX):
            headers.append(header)
        elif name != EXCHANGE or header[1]:
            own.append(header)
    properties = pack_headers(own, headers)
    if message.body:
        return properties, message.body
    properties[BODY] = EMPTY
    return properties, NOTHING


def unwrap(message: StoredMessage, exchange: str | None, routing_key: str | None) -> Message:
    """Return the message of AMQP that a message of RocketMQ carries. Raises Unmappable."""
    properties = {name: value for name, value in message.properties.items() if not _is_own(name)}
    body = message.body
    if properties.pop(BODY, None) == EMPTY and body == NOTHING:
        body = b""
    headers = unpack_headers(properties)
    if "REPLY_TO_CLIENT" in message.properties:  # of a request or a reply, which is still one outside RocketMQ
        kept = {name: message.properties[name] for name in KEPT if name in message.properties}
        headers += [(OWN + name, text.encode("utf-8", "surrogateescape")) for name, text in kept.items()]
        headers.append((OWN + "broker", message.broker.encode()))
    return amqp_guest.unwrap(Record(message.topic, None, body, headers), exchange, routing_key)


@lru_cache(4096)
def _is_own(name: str) -> bool:
    """Return whether a property is RocketMQ's own: it describes the message's way there, and is left out."""
    return name in SYSTEM or name.startswith(TRANSIENT)
