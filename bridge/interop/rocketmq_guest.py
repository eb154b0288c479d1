"""A message of RocketMQ wrapped for AMQP, and unwrapped."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final

from bridge.interop import kafka_guest
from bridge.interop.amqp_guest import ESCAPED as ADDED
from bridge.interop.amqp_guest import format_properties
from bridge.interop.kafka_guest import BROKER_HEADERS
from bridge.interop.record import Unmappable, check_key
from bridge.interop.rocketmq_packing import format_property
from bridge.interop.rocketmq_topics import name_of
from bridge.interop.texts import format_wire
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from bridge.rocketmq.remoting.properties import CONTROL, KEYS, SYSTEM, TAGS, TRANSIENT, UNIQ_KEY, WAIT
from exchange.amqp import ContentHeader, build_lazy_message
from exchange.amqp.fields import KINDS, PACK, SIZE, encode_short_string
from exchange.values.message import Message

PREFIX: Final = "x-rocketmq-"
MARK: Final = "x-rocketmq-topic"
BROKER: Final = "x-rocketmq-broker"
QUEUE: Final = "x-rocketmq-queue"
OFFSET: Final = "x-rocketmq-offset"
BORN: Final = "x-rocketmq-born"
STORED: Final = "x-rocketmq-stored"
FLAG: Final = "x-rocketmq-flag"
ESCAPED: Final = "x-rocketmq-property-"

OURS: Final = {
    MARK: "longstr", BROKER: "longstr", QUEUE: "signedint", OFFSET: "long", BORN: "long", STORED: "long",
    FLAG: "signedint",
}  # fmt: skip
"""Headers that describe the message of RocketMQ, and their types."""

PRODUCER_PROPERTIES: Final = frozenset({
    TAGS, KEYS, WAIT, UNIQ_KEY, "BUYER_ID", "CORRELATION_ID", "INNER_MULTI_DISPATCH", "REPLY_TO_CLIENT",
    "TRACE_CONTEXT", "TTL", "_SYS_MSG_PRIORITY_",
})  # fmt: skip
"""Properties of RocketMQ's own that producers give, and that a message has again when it is unwrapped. The others
describe its way: which broker stored it, which retry it was; or a delay, which is over."""

MODE: Final = {"delivery_mode": b"\x02"}
LITE_TOPIC: Final = PREFIX + "__LITE_TOPIC"
NAMES: Final = {name: encode_short_string(name) for name in OURS}


@cache  # of the few names that the selectors of sources read
def find_headers_for_property(name: str) -> tuple[str, ...]:
    """Return the headers that may hold a property of a guest from RocketMQ, where no header has the property's name."""
    return () if PREFIX + name in OURS else (PREFIX + name, ESCAPED + name)


def wrap(message: StoredMessage, exchange: str | None, routing_key: str | None) -> Message:
    """Return the message of AMQP that carries a message of RocketMQ. Raises Unmappable."""
    pieces = [
        NAMES[MARK], _longstr(message.topic),
        NAMES[BROKER], _longstr(message.broker),
        NAMES[QUEUE], PACK["signedint"](b"I", message.queue_id),
        NAMES[OFFSET], PACK["long"](b"l", message.queue_offset),
        NAMES[BORN], PACK["long"](b"l", message.born_time),
        NAMES[STORED], PACK["long"](b"l", message.store_time),
    ]  # fmt: skip
    if message.flag:
        pieces += NAMES[FLAG], PACK["signedint"](b"I", message.flag)
    for name, value in message.properties.items():
        pieces += _label(name), _longstr(value)
    if routing_key is None:
        routing_key = _key_of(message)
    content = ContentHeader.from_parts(MODE, b"".join(pieces))
    name = name_of(message.topic) if exchange is None else exchange
    return build_lazy_message(name, check_key(routing_key), content, message.body)


def _key_of(message: StoredMessage) -> str:
    """Return the message's first key as routing key; "" if AMQP cannot hold it. A header has all keys in any case."""
    try:
        return check_key(next(iter(message.keys), ""))
    except Unmappable:
        return ""


@lru_cache(4096)
def _label(name: str) -> bytes:
    """Return the name of the header for a property, as it is in a table. Raises Unmappable."""
    if is_own(name):
        label = PREFIX + name
    elif name in BROKER_HEADERS or name.startswith((PREFIX, kafka_guest.PREFIX)):
        label = ESCAPED + name
    else:
        label = name
    try:
        return encode_short_string(label)
    except ValueError as error:
        raise Unmappable(f"property name {error}") from None


def unwrap(content: ContentHeader, body: bytes, topic: str) -> RocketMessage:
    """Return the message of RocketMQ that a message with our ``MARK`` carries, for a topic. Raises Unmappable."""
    ours: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for raw_name, wire in content.fields():
        name, of_property = _names(raw_name)
        if of_property is not None:
            text = format_property(wire[5:] if wire[:1] == b"S" else format_wire(wire)[1] or b"")
            if text is not None:
                properties[of_property] = text
        elif name in OURS:
            ours[name] = _read_ours(name, wire)
        elif name == LITE_TOPIC:
            lite = (format_wire(wire)[1] or b"").decode("utf-8", "replace")
            raise Unmappable(
                f"it is of the lite topic {lite!r}: to write to lite topics takes RocketMQ's gRPC client, which the "
                f"bridge does not have; without the header {LITE_TOPIC} it is a message of no lite topic"
            )
    for name, raw in format_properties(content):
        text = None if name == "amqp.delivery_mode" else format_property(raw or b"")
        if text is not None:
            properties[name] = text
    return RocketMessage(topic, body, properties, ours.get(FLAG, 0))


def _read_ours(name: str, wire: bytes) -> Any:
    """Return the value of one of `OURS`. Raises Unmappable for another type."""
    kind = KINDS[wire[0]]
    if kind != OURS[name]:
        raise Unmappable(f"header {name}: it is a {kind}, not a {OURS[name]}")
    return wire[5:] if kind == "longstr" else int.from_bytes(wire[1:], signed=True)


@lru_cache(4096)
def _names(raw: bytes) -> tuple[str, str | None]:
    """Return the name of a header, and the name of the property that it becomes; None if it becomes no property."""
    name = raw.decode("utf-8", "surrogateescape")
    if name.startswith(ESCAPED):
        return name, _property(name[len(ESCAPED) :])
    if name.startswith(PREFIX):
        own = name[len(PREFIX) :]
        return name, own if own in PRODUCER_PROPERTIES else None
    return name, _property(ADDED + name if is_own(name) else name)


def _property(name: str) -> str | None:
    """Return the name if a property can have it, else None."""
    if not name or CONTROL.search(name):
        return None
    try:
        name.encode()
    except UnicodeEncodeError:
        return None
    return name


@lru_cache(4096)
def is_own(name: str) -> bool:
    """Return whether a property is RocketMQ's own: it describes the message's way there."""
    return name in SYSTEM or name.startswith(TRANSIENT)


def _longstr(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return b"S" + SIZE.pack(len(raw)) + raw
