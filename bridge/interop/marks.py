"""Headers that bridges add to the messages that they pass on.

==========================  ===========================================================================================
``x-hashstar-id``           the message's identity, see `bridge.interop.identity`
``x-hashstar-hops``         how many bridges it has passed: an integer in AMQP, digits in Kafka and RocketMQ. Each
                            bridge adds one to every copy, dead letters included, so that a loop of bridges has an end
``x-hashstar-cc``           its headers CC and BCC, with the value and the type that they had. The topology has applied
``x-hashstar-bcc``          them; under their own names the target's broker, or a later bridge, would apply them again
``x-hashstar-exchange``     where it was published first, of a message that is written to a queue of RabbitMQ or with
``x-hashstar-routing-key``  a fixed routing key: a delivery from there no longer has them. Later bridges leave them as
                            they are, and do not route by them
``x-hashstar-user-id``      its property user_id, where that is not the user that the bridge logs in as: RabbitMQ would
                            refuse the message
==========================  ===========================================================================================

Dead letters name where they were published in headers of their own, see `bridge.pump.dead_letters`. Archives
keep messages as they were read.

The bytes of a content header are searched for ``x-hashstar-`` and ``CC``. Most have neither: then cached bytes of the
headers to add are appended to the table. `mark_header` and `mark_message` build at most one new content header, however
many headers are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from bridge.interop.identity import IDENTITY
from bridge.interop.record import Header
from exchange.amqp import ContentHeader, LazyHeaders, build_lazy_message, get_content
from exchange.amqp.content import BITS, HEADERS
from exchange.amqp.fields import SIZE, MalformedHeader, decode_value, encode_short_string, encode_value
from exchange.text.numbers import is_digits
from exchange.values.field_values import resolve_type
from exchange.values.message import Message

HOPS: Final = "x-hashstar-hops"
EXCHANGE: Final = "x-hashstar-exchange"
ROUTING_KEY: Final = "x-hashstar-routing-key"
USER_ID: Final = "x-hashstar-user-id"
REASON: Final = "hashstar-reason"
"""The header that makes a message a dead letter."""

RENAMED: Final = {b"CC": b"x-hashstar-cc", b"BCC": b"x-hashstar-bcc"}
SIGN: Final = b"x-hashstar-"
NAMED_HOPS: Final = HOPS.encode()
NAMED_IDENTITY: Final = IDENTITY.encode()
LABELLED_IDENTITY: Final = encode_short_string(IDENTITY) + b"S"
MAX_HOPS: Final = (1 << 31) - 1

USER_BIT: Final = BITS["user_id"]
MODE_BIT: Final = BITS["delivery_mode"]
HEADERS_AND_MODE: Final = HEADERS | MODE_BIT
LOOKED_AT: Final = HEADERS_AND_MODE | USER_BIT | BITS["content_type"] | BITS["content_encoding"]
FIRST_FIELD: Final = 6
"""Index of the first header if no property is before the table: after the flags (2 bytes) and the table's size (4)."""

_size: Final = SIZE.unpack_from
_pack_size: Final = SIZE.pack
PERSISTENT: Final = b"\x02"
"""The delivery mode of a message that does not say whether it is persistent."""


def _field(name: str, value: bytes) -> bytes:
    """Return a header whose value is the text of these bytes."""
    return encode_short_string(name) + b"S" + SIZE.pack(len(value)) + value


@lru_cache(256)
def _hops_field(hops: int) -> bytes:
    return encode_short_string(HOPS) + encode_value(min(hops, MAX_HOPS))


FIRST_HOP: Final = _hops_field(1)
"""The header, as it is in a table, of a message that passes its first bridge."""

HOP_TEXT: Final[Header] = (HOPS, b"1")
"""The header of a record that passes its first bridge."""


def may_have_hops(headers: Mapping[str, Any]) -> bool:
    """Return whether headers may have the number of bridges that their message has passed.

    Most messages have passed none; a search in the undecoded headers shows that.
    """
    if type(headers) is LazyHeaders:
        return NAMED_HOPS in headers.content.raw
    return getattr(headers, "may_have_marks", True)


def read_hops(message: Message) -> int:
    """Return the number of bridges that a message has passed. Nothing is decoded where the header is absent."""
    headers = message.headers
    if not may_have_hops(headers):
        return 0
    if not isinstance(headers, LazyHeaders):
        return _number(headers[HOPS]) if HOPS in headers else 0
    content = headers.content
    try:
        position = content.find(HOPS)
        return 0 if position is None else _number(decode_value(content.raw, position[1])[0])
    except MalformedHeader:  # routing and writing raise it, too
        return 0


def is_dead_letter(message: Message) -> bool:
    """Return whether a message was written as a dead letter, by this bridge or another one."""
    headers = message.headers
    try:
        return get_content(message).find(REASON) is not None if isinstance(headers, LazyHeaders) else REASON in headers
    except MalformedHeader:
        return False


def _number(value: object) -> int:
    """Return the number of hops in a header; 0 for a value that is no number of hops."""
    try:
        number = resolve_type(value)[1]
    except TypeError:
        return 0
    if isinstance(number, bytes):
        number = number.decode("ascii", "replace")
    if isinstance(number, str) and is_digits(number) and len(number) <= 10:
        number = int(number)
    return min(number, MAX_HOPS) if isinstance(number, int) and not isinstance(number, bool) and number > 0 else 0


@lru_cache(4096)
def list_origin_fields(exchange: str, routing_key: str) -> bytes:
    """Return `FIRST_HOP` and the two headers that name where a message was published, as they are in a table."""
    names = ((EXCHANGE, exchange), (ROUTING_KEY, routing_key))
    return FIRST_HOP + b"".join([_field(name, text.encode("utf-8", "surrogateescape")) for name, text in names])


def mark_header(content: ContentHeader, identity: str | None, marks: bytes, user: str) -> bytes:
    """Return the content header with which a message is published to RabbitMQ: marked, and with a delivery mode.

    ``marks`` is from `list_origin_fields`, or `FIRST_HOP` alone; ``user`` is the user of the connection. Raises
    MalformedHeader, and ValueError for what a header cannot hold.
    """
    raw, flags = content.raw, content._flags
    # Most messages have headers, a delivery mode and no property before the table: it begins at a known index.
    if flags & LOOKED_AT == HEADERS_AND_MODE and len(raw) > FIRST_FIELD:
        end = FIRST_FIELD + _size(raw, 2)[0]
        start = FIRST_FIELD if end <= len(raw) else 0
    else:
        start = 0
    if b"-topic" in raw and (b"x-kafka-topic" in raw or b"x-rocketmq-topic" in raw):
        marks = FIRST_HOP  # a guest gets no origin headers: it has its own origin, and must come back unchanged
    is_marked = SIGN in raw or b"CC" in raw
    if start and not is_marked:
        if identity is not None:
            marks += _identity_field(identity)
        return b"".join((raw[:2], _pack_size(end - start + len(marks)), raw[start:end], marks, raw[end:]))
    start, end = content.table
    behind = raw[end:]
    if not is_marked and not flags & USER_BIT:
        table = raw[start:end] + marks
        if identity is not None:
            table += _identity_field(identity)
    else:
        origin = marks[len(FIRST_HOP) :]  # the header of hops is made anew below, with the hops that are there
        if flags & USER_BIT and (other := content.property("user_id")) != user:
            behind = content.with_property("user_id", None).raw[end:]
            flags &= ~USER_BIT
            origin += _field(USER_ID, other.encode("utf-8", "surrogateescape"))
        fields, hops = _rewrite(content, identity)
        names = {name for name, _ in fields}
        own = ContentHeader.from_parts({}, origin).fields()
        fields += [(name, _short_name(name) + value) for name, value in own if name not in names]
        table = b"".join([field for _, field in fields]) + _hops_field(hops + 1)
    front = start - 4 if flags & HEADERS else start
    if not flags & MODE_BIT:
        behind = PERSISTENT + behind
    return b"".join(((flags | HEADERS | MODE_BIT).to_bytes(2), raw[2:front], _pack_size(len(table)), table, behind))


def mark_message(message: Message, identity: str | None) -> tuple[Message, int]:
    """Return a message as it is written to Kafka or RocketMQ, and how many bridges it has passed, including this one.

    The message has its identity; its CC and BCC are renamed, and its header of hops is left out. Raises as
    `mark_header`.
    """
    content = get_content(message)
    raw = content.raw
    if SIGN not in raw and b"CC" not in raw:
        if identity is None:
            return message, 1
        content, hops = content.with_header(IDENTITY, identity), 0
    else:
        fields, hops = _rewrite(content, identity)
        if fields or content.has_table:
            content = content.with_table(b"".join([field for _, field in fields]))
    return build_lazy_message(message.exchange, message.routing_key, content, message.body), hops + 1


def build_hop_header(hops: int) -> Header:
    """Return the header of a record of Kafka that has passed this number of bridges."""
    return HOP_TEXT if hops == 1 else (HOPS, b"%d" % hops)


def _rewrite(content: ContentHeader, identity: str | None) -> tuple[list[tuple[bytes, bytes]], int]:
    """Return the headers in order, each as its name and its field in bytes, and the number of hops.

    CC and BCC are renamed, the header of hops is left out, and ``identity`` is the only one: a message has another one
    if its headers were copied from another message.
    """
    own = None if identity is None else _identity_field(identity)
    fields: list[tuple[bytes, bytes]] = []
    replaced: set[bytes] = set()
    hops = 0
    for name, value in content.fields():
        if name == NAMED_HOPS:
            hops = max(hops, _number(decode_value(value)[0]))
        elif name == NAMED_IDENTITY:
            if own is not None:
                fields.append((name, own))
                own = None
        elif name in RENAMED:
            replaced.add(RENAMED[name])
            fields.append((name, _short_name(RENAMED[name]) + value))
        else:
            fields.append((name, _short_name(name) + value))
    if replaced:  # CC and BCC of an earlier bridge give way to those of this one
        fields = [(RENAMED.get(name, name), field) for name, field in fields if name not in replaced]
    if own is not None:
        fields.append((NAMED_IDENTITY, own))
    return fields, hops


def _identity_field(identity: str) -> bytes:
    raw = identity.encode("utf-8", "surrogateescape")
    return LABELLED_IDENTITY + SIZE.pack(len(raw)) + raw


def _short_name(name: bytes) -> bytes:
    return bytes((len(name),)) + name
