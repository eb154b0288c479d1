"""AMQP and Kafka, in both directions: a guest is unwrapped, every other message or record is wrapped.

`to_kafka` and `to_amqp` decide which it is; the rest wraps a record of Kafka for AMQP, and unwraps it, as
`bridge.interop.amqp_guest` does with a message of AMQP. Both raise `Unmappable` and `exchange.amqp.MalformedHeader` for
what the other system cannot hold.
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import pairwise
from struct import Struct
from typing import Any, Final

from bridge.interop import amqp_guest
from bridge.interop.amqp_guest import format_properties
from bridge.interop.record import NAME_LIMIT, Header, Record, Unmappable, build_routing_key, check_key, compute_digest
from bridge.interop.texts import format_wire
from exchange.amqp import ContentHeader, LazyHeaders, MalformedHeader, build_lazy_message, get_content
from exchange.amqp.fields import KINDS, PACK, SIZE, encode_short_string
from exchange.values.json_text import parse_leniently
from exchange.values.message import Message

PREFIX: Final = "x-kafka-"
MARK: Final = "x-kafka-topic"
PARTITION: Final = "x-kafka-partition"
OFFSET: Final = "x-kafka-offset"
TIMESTAMP: Final = "x-kafka-timestamp"
TIMESTAMP_TYPE: Final = "x-kafka-timestamp-type"
KEY: Final = "x-kafka-key"
TOMBSTONE: Final = "x-kafka-tombstone"
ORDER: Final = "x-kafka-order"
ESCAPED: Final = "x-kafka-header-"
EARLIER: Final = "x-kafka-earlier-"
LONG_NAME_PREFIX: Final = "x-kafka-name-"
"""Prefix of a header whose value is a header's name that is too long for AMQP; the digest of that name follows."""
DIGEST: Final = "~"
"""Prefix of a digest that stands for a name."""

OURS: Final = {
    MARK: "longstr", PARTITION: "signedint", OFFSET: "long", TIMESTAMP: "long", TIMESTAMP_TYPE: "longstr",
    KEY: "longstr", TOMBSTONE: "bool", ORDER: "longstr", LONG_NAME_PREFIX: "longstr",
}  # fmt: skip
"""Headers that describe the record, and their types."""

TIMES: Final = ("CreateTime", "LogAppendTime")


def _longstr(raw: bytes) -> bytes:
    """Return these bytes as a field value."""
    return b"S" + SIZE.pack(len(raw)) + raw


BROKER_HEADERS: Final = frozenset({
    "CC", "BCC", "x-death", "x-delay", "x-delivery-count", "x-stream-offset", "x-stream-filter-value",
    "x-received-from", "x-shovelled",
})  # fmt: skip
"""Headers that RabbitMQ and its plugins read or write; text in CC, for example, makes it close the channel.

The message that carries a record has none of them: a record's header of such a name gets another name (`ESCAPED`).
"""

EMPTY: Final = ContentHeader.from_parts({"delivery_mode": b"\x02"}, b"")
FLAGS, MODE = EMPTY.raw[: EMPTY.table[0] - SIZE.size], EMPTY.raw[EMPTY.table[1] :]
"""The bytes before and after the table of headers, in a content header whose only property is delivery_mode."""

REMEMBERED: Final = 1_024
"""Maximum number of lists of headers whose fields are cached."""
REMEMBERED_BYTES: Final = 512
"""Maximum size of the fields of a cached list, in bytes."""

NAMES: Final = {name: encode_short_string(name) for name in OURS}
"""Name -> the name as it is on the wire."""

# Headers on the wire: the name, and the tag or all of the value.
AT_OFFSET: Final = NAMES[OFFSET] + b"l"
AT_TIME: Final = NAMES[TIMESTAMP] + b"l"
KINDS_OF_TIME: Final = tuple([NAMES[TIMESTAMP_TYPE] + _longstr(each.encode()) for each in TIMES])
NO_KEY: Final = NAMES[KEY] + b"V"
WITH_KEY: Final = NAMES[KEY] + b"S"
NO_VALUE: Final = NAMES[TOMBSTONE] + b"t\x01"
LONG_BYTES: Final = Struct(">q").pack
OFFSET_AND_TIME: Final = Struct(f">{len(AT_OFFSET)}sq{len(AT_TIME)}sq").pack


def wrap(record: Record, exchange: str | None, routing_key: str | None) -> Message:
    """Return the message that carries a record."""
    routing_key = build_routing_key(record.key) if routing_key is None else check_key(routing_key)
    content = ContentHeader(build_header(record))
    return build_lazy_message(record.topic if exchange is None else exchange, routing_key, content, record.value or b"")


def has_null_key(message: Message) -> bool:
    """Return whether a message carries a record that has no key: its routing key is empty for want of one."""
    headers = message.headers
    if message.routing_key or not headers:
        return False
    if not isinstance(headers, LazyHeaders):
        return headers.get(KEY, KEY) is None
    content = headers.content
    try:
        span = content.find(KEY)
    except MalformedHeader:
        return False
    return span is not None and content.raw[span[1] : span[2]] == b"V"


def build_header(record: Record) -> bytes:
    """Return the content header of the message that carries a record."""
    topic, key, value, headers, timestamp, is_append_time, partition, offset = record
    pieces = [_partition_fields(topic, partition)]
    if offset is not None and timestamp is not None:  # as of each record that was read
        pieces += OFFSET_AND_TIME(AT_OFFSET, offset, AT_TIME, timestamp), KINDS_OF_TIME[is_append_time]
    elif offset is not None:
        pieces += AT_OFFSET, LONG_BYTES(offset)
    elif timestamp is not None:
        pieces += AT_TIME, LONG_BYTES(timestamp), KINDS_OF_TIME[is_append_time]
    if key is None:
        pieces.append(NO_KEY)
    else:
        pieces += WITH_KEY, SIZE.pack(len(key)), key
    if value is None:
        pieces.append(NO_VALUE)
    if headers:
        held = tuple(headers)
        fields = _known_fields.get(held)
        pieces.append(_fields(held) if fields is None else fields)
    table = b"".join(pieces)
    return b"".join((FLAGS, SIZE.pack(len(table)), table, MODE))


@lru_cache(4096)
def _partition_fields(topic: str, partition: int | None) -> bytes:
    """Return the fields of a topic and a partition."""
    field = NAMES[MARK] + _longstr(topic.encode("utf-8", "surrogateescape"))
    return field if partition is None else field + NAMES[PARTITION] + PACK["signedint"](b"I", partition)


_known_fields: Final[dict[tuple[Header, ...], bytes]] = {}
"""Headers of a record -> their fields; many records have the same headers."""


def _fields(headers: tuple[Header, ...]) -> bytes:
    """Return the fields of headers, and of their order."""
    names = tuple([name for name, _ in headers])
    labels, others = (_known_layout if len(names) <= 32 else _layout)(names)
    pieces = [others]
    for label, (_, raw) in zip(labels, headers, strict=True):
        pieces += (label, b"V") if raw is None else (label, b"S", SIZE.pack(len(raw)), raw)
    fields = b"".join(pieces)
    if len(fields) <= REMEMBERED_BYTES:
        if len(_known_fields) >= REMEMBERED:
            _known_fields.clear()
        _known_fields[headers] = fields
    return fields


def _layout(names: tuple[str, ...]) -> tuple[list[bytes], bytes]:
    """Return the names of the fields for headers of these names, and additional fields for what those names cannot
    show: names that are too long, and the order of the headers, unless RabbitMQ 4 sorts them in the same order.
    """
    last = {name: index for index, name in enumerate(names)}
    earlier: dict[str, int] = {}
    long: dict[str, bytes] = {}
    labels = []
    for index, name in enumerate(names):
        if index == last[name]:
            prefix = ESCAPED if name in BROKER_HEADERS or name.startswith(PREFIX) else ""
        else:
            earlier[name] = earlier.get(name, 0) + 1
            prefix = f"{EARLIER}{earlier[name]}-"
        raw = name.encode("utf-8", "surrogateescape")
        if len(prefix) + len(raw) > NAME_LIMIT:
            digest = compute_digest(raw)
            long[digest] = raw
            labels.append(encode_short_string((prefix or ESCAPED) + DIGEST + digest))
        else:
            labels.append(encode_short_string(prefix + name))
    others = [encode_short_string(LONG_NAME_PREFIX + digest) + _longstr(raw) for digest, raw in long.items()]
    written = [label[1:] for label in labels]  # without the length before each
    if not all(one < other for one, other in pairwise(written)):
        order = [name.decode("utf-8", "surrogateescape") for name in written]
        others.append(NAMES[ORDER] + _longstr(json.dumps(order, separators=(",", ":")).encode()))
    return labels, b"".join(others)


_known_layout: Final = lru_cache(256)(_layout)  # the records of one producer have few layouts


def unwrap(content: ContentHeader, body: bytes, topic: str) -> Record:
    """Return the record that a message with our ``MARK`` carries, for a topic. Raises Unmappable."""
    ours: dict[str, Any] = {}
    fields: dict[str, Header] = {}
    long: dict[str, str] = {}
    for raw_name, wire in content.fields():
        name, header = _names(raw_name)
        if header is not None:
            fields[name] = (header, wire[5:] if wire[0] == 83 else format_wire(wire)[1])
        elif name.startswith(LONG_NAME_PREFIX):
            long[DIGEST + name[len(LONG_NAME_PREFIX) :]] = _own(LONG_NAME_PREFIX, wire).decode(
                "utf-8", "surrogateescape"
            )
        else:
            ours[name] = _own(name, wire)
    if long:
        fields = {name: (long.get(header, header), value) for name, (header, value) in fields.items()}
    order = ours.get(ORDER)
    headers = []
    if order is not None:
        names = (_known_order if len(order) <= 4096 else _order)(order)
        headers += [fields.pop(name) for name in names if name in fields]
    headers += fields.values()
    headers += [header for header in format_properties(content) if header[0] != "amqp.delivery_mode"]
    timestamp = ours.get(TIMESTAMP)
    kind = ours.get(TIMESTAMP_TYPE, b"CreateTime").decode("utf-8", "replace")
    if kind not in TIMES:
        raise Unmappable(f"header {TIMESTAMP_TYPE}: {kind!r} is not {' or '.join(TIMES)}")
    value = None if ours.get(TOMBSTONE) and not body else body
    return Record(topic, ours.get(KEY), value, headers, timestamp, timestamp is not None and kind == TIMES[1])


def _own(name: str, wire: bytes) -> Any:
    """Return the value of a header that describes the record. Raises Unmappable for a type other than in `OURS`."""
    kind = KINDS[wire[0]]
    if kind == OURS[name]:
        if kind == "longstr":
            return wire[5:]
        return wire[1] != 0 if kind == "bool" else int.from_bytes(wire[1:], signed=True)
    if name == KEY and kind == "void":
        return None
    raise Unmappable(f"header {name}: it is a {kind}, not a {OURS[name]}")


@lru_cache(4096)
def _names(raw: bytes) -> tuple[str, str | None]:
    """Return the name of an AMQP header, and the name of the record's header that it carries; None if it carries none,
    but describes the record.
    """
    name = raw.decode("utf-8", "surrogateescape")
    if name in OURS or name.startswith(LONG_NAME_PREFIX):
        return name, None
    if name.startswith(ESCAPED):
        return name, name[len(ESCAPED) :]
    if name.startswith(EARLIER):
        return name, name[len(EARLIER) :].partition("-")[2]
    return name, name


def _order(text: bytes) -> list[str]:
    try:
        names = parse_leniently(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unmappable(f"header {ORDER}: {text[:40]!r} is not JSON of names")
    return names


_known_order: Final = lru_cache(256)(_order)


def to_kafka(message: Message, topic: str, key: bytes | None = None) -> Record:
    """Return a message as a record: the one that it carries, if it is a record of Kafka, else one that carries it.

    ``key`` is the key of a record that carries a message of AMQP; a record that is unwrapped has its own.
    """
    content = get_content(message)
    if content.find(MARK) is not None:
        return unwrap(content, message.body, topic)
    headers = amqp_guest.wrap(content, message.exchange, message.routing_key)
    return Record(topic, key, message.body, headers)


def to_amqp(record: Record, exchange: str | None = None, routing_key: str | None = None) -> Message:
    """Return a record as a message: the one that it carries, if it is a message of AMQP, else one that carries it.

    Exchange and routing key are those given; else a message that is unwrapped has its own, and one that carries a
    record has the topic and the key (without a key, an empty one).
    """
    for name, _ in record.headers:
        if name == amqp_guest.MARK:
            return amqp_guest.unwrap(record, exchange, routing_key)
    return wrap(record, exchange, routing_key)
