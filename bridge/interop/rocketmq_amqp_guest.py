"""A message of AMQP in RocketMQ, and home again: the headers it has in Kafka, as RocketMQ's properties."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from bridge.interop import amqp_guest
from bridge.interop.amqp_guest import ESCAPED, EXCHANGE, HEX, MARK, PREFIX
from bridge.interop.record import Record
from bridge.interop.rocketmq_packing import VALUES, packed, unpacked
from bridge.rocketmq.remoting.message import StoredMessage
from bridge.rocketmq.remoting.properties import SYSTEM, TRANSIENT
from exchange.amqp import ContentHeader
from exchange.message import Message

__all__ = ["abroad", "home", "is_guest", "property_name"]

BODY: Final = "amqp.body"
EMPTY: Final = "empty"
NOTHING: Final = b"\0"
"""The body of a message that has none, which brokers refuse."""


@lru_cache(4096)
def property_name(raw: bytes) -> str:
    """The name in RocketMQ of a header with this name."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return HEX + raw.hex()
    if not name or any(character in name for character in "\0\x01\x02"):
        return HEX + raw.hex()
    return ESCAPED + name if name.startswith((PREFIX, TRANSIENT)) or name in SYSTEM else name


def is_guest(properties: Mapping[str, str]) -> bool:
    """Whether these are the properties of a message of AMQP: its routing key is there, or is told to be empty."""
    return MARK in properties or VALUES in properties


def abroad(content: ContentHeader, message: Message) -> tuple[dict[str, str], bytes]:
    """The properties and the body of the message in RocketMQ."""
    own, headers = [], []
    for header in amqp_guest.abroad(content, message.exchange, message.routing_key, property_name):
        name = header[0]
        if name.startswith((ESCAPED, HEX)) or not name.startswith(PREFIX):
            headers.append(header)
        elif name != EXCHANGE or header[1]:
            own.append(header)
    properties = packed(own, headers)
    if message.body:
        return properties, message.body
    properties[BODY] = EMPTY
    return properties, NOTHING


def home(message: StoredMessage, exchange: str | None, routing_key: str | None) -> Message:
    """The message of AMQP that a message of RocketMQ is. Raises Unmappable."""
    properties = {name: value for name, value in message.properties.items() if not _is_own(name)}
    body = message.body
    if properties.pop(BODY, None) == EMPTY and body == NOTHING:
        body = b""
    headers = unpacked(properties)
    return amqp_guest.home(Record(message.topic, None, body, headers), exchange, routing_key)


@lru_cache(4096)
def _is_own(name: str) -> bool:
    """Whether RocketMQ gave it: that is of its way, and stays behind."""
    return name in SYSTEM or name.startswith(TRANSIENT)
