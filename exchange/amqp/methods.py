"""Frames of AMQP 0-9-1, and its methods with RabbitMQ's extensions: payloads of method frames <-> values.

A frame is a head, a payload and an end.

`TABLE` has one line for each method: its numbers, its name, and its arguments with their types. Bits that follow each
other share an octet, as in the specification.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from exchange.amqp.fields import MalformedHeader, decode_table, encode_short_string, encode_table

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8

HEAD: Final = struct.Struct(">BHI")
"""Type, channel and payload size of a frame."""
END: Final = 0xCE
"""The octet after its payload."""

PROTOCOL: Final = b"AMQP\x00\x00\x09\x01"
"""What a client sends before its first frame."""

TABLE: Final = """
10 10 connection.start major:octet minor:octet server_properties:table mechanisms:longstr locales:longstr
10 11 connection.start-ok client_properties:table mechanism:shortstr response:longstr locale:shortstr
10 30 connection.tune channel_max:short frame_max:long heartbeat:short
10 31 connection.tune-ok channel_max:short frame_max:long heartbeat:short
10 40 connection.open virtual_host:shortstr reserved_1:shortstr reserved_2:bit
10 41 connection.open-ok reserved_1:shortstr
10 50 connection.close reply_code:short reply_text:shortstr class_id:short method_id:short
10 51 connection.close-ok
10 70 connection.update-secret new_secret:longstr reason:shortstr
10 71 connection.update-secret-ok
20 10 channel.open reserved_1:shortstr
20 11 channel.open-ok reserved_1:longstr
20 20 channel.flow active:bit
20 21 channel.flow-ok active:bit
20 40 channel.close reply_code:short reply_text:shortstr class_id:short method_id:short
20 41 channel.close-ok
40 10 exchange.declare ticket:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit internal:bit nowait:bit arguments:table
40 11 exchange.declare-ok
40 20 exchange.delete ticket:short exchange:shortstr if_unused:bit nowait:bit
40 21 exchange.delete-ok
40 30 exchange.bind ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
40 31 exchange.bind-ok
40 40 exchange.unbind ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
40 51 exchange.unbind-ok
50 10 queue.declare ticket:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit nowait:bit arguments:table
50 11 queue.declare-ok queue:shortstr message_count:long consumer_count:long
50 20 queue.bind ticket:short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit arguments:table
50 21 queue.bind-ok
50 30 queue.purge ticket:short queue:shortstr nowait:bit
50 31 queue.purge-ok message_count:long
50 40 queue.delete ticket:short queue:shortstr if_unused:bit if_empty:bit nowait:bit
50 41 queue.delete-ok message_count:long
50 50 queue.unbind ticket:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
50 51 queue.unbind-ok
60 10 basic.qos prefetch_size:long prefetch_count:short global:bit
60 11 basic.qos-ok
60 20 basic.consume ticket:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit nowait:bit arguments:table
60 21 basic.consume-ok consumer_tag:shortstr
60 30 basic.cancel consumer_tag:shortstr nowait:bit
60 31 basic.cancel-ok consumer_tag:shortstr
60 40 basic.publish ticket:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
60 50 basic.return reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
60 60 basic.deliver consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
60 70 basic.get ticket:short queue:shortstr no_ack:bit
60 71 basic.get-ok delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long
60 72 basic.get-empty reserved_1:shortstr
60 80 basic.ack delivery_tag:longlong multiple:bit
60 90 basic.reject delivery_tag:longlong requeue:bit
60 100 basic.recover-async requeue:bit
60 110 basic.recover requeue:bit
60 111 basic.recover-ok
60 120 basic.nack delivery_tag:longlong multiple:bit requeue:bit
85 10 confirm.select nowait:bit
85 11 confirm.select-ok
90 10 tx.select
90 11 tx.select-ok
90 20 tx.commit
90 21 tx.commit-ok
90 30 tx.rollback
90 31 tx.rollback-ok
"""  # noqa: E501  one line for each method

NUMBERS: Final = {
    "octet": struct.Struct(">B"),
    "short": struct.Struct(">H"),
    "long": struct.Struct(">I"),
    "longlong": struct.Struct(">Q"),
}
EMPTY: Final[Mapping[str, Any]] = {"shortstr": "", "longstr": b"", "table": {}, "bit": False}
"""Type -> value of an argument that is not given; 0 for numbers."""
IDS: Final = struct.Struct(">HH")
SIZE: Final = NUMBERS["long"]


class MethodShape(NamedTuple):
    """A method as `TABLE` has it."""

    class_id: int
    method_id: int
    name: str
    arguments: tuple[tuple[str, str], ...]
    """Name and type of each argument."""


class Method(NamedTuple):
    """A method with its arguments; those that are not given have the value of `EMPTY`."""

    name: str
    """Such as ``queue.declare-ok``."""
    arguments: Mapping[str, Any]

    @property
    def ids(self) -> tuple[int, int]:
        """The numbers of its class and of itself."""
        shape = METHODS[self.name]
        return shape.class_id, shape.method_id


def _read_table() -> dict[str, MethodShape]:
    shapes = {}
    for line in TABLE.strip().splitlines():
        class_id, method_id, name, *arguments = line.split()
        pairs = [argument.partition(":") for argument in arguments]
        shapes[name] = MethodShape(int(class_id), int(method_id), name, tuple((each, kind) for each, _, kind in pairs))
    return shapes


METHODS: Final = _read_table()
"""Name -> method."""
_BY_IDS: Final = {(shape.class_id, shape.method_id): shape for shape in METHODS.values()}


def encode_method(name: str, **arguments: Any) -> bytes:
    """Return the payload of a method frame. Raises KeyError for a name, ValueError for a value, that AMQP lacks."""
    shape = METHODS[name]
    unknown = arguments.keys() - {argument for argument, _ in shape.arguments}
    if unknown:
        raise ValueError(f"{name} has no argument {min(unknown)}")
    parts = [IDS.pack(shape.class_id, shape.method_id)]
    bits: list[bool] = []
    for argument, kind in shape.arguments:
        value = arguments.get(argument, EMPTY.get(kind, 0))
        if kind == "bit":
            bits.append(value)
            continue
        parts.append(_pack_bits(bits))
        bits = []
        parts.append(_encode(kind, value))
    return b"".join((*parts, _pack_bits(bits)))


def _pack_bits(bits: list[bool]) -> bytes:
    return bytes((sum(bool(bit) << place for place, bit in enumerate(bits)),)) if bits else b""


def _encode(kind: str, value: Any) -> bytes:
    if kind == "shortstr":
        return encode_short_string(value)
    if kind == "table":
        fields = encode_table(value)
        return SIZE.pack(len(fields)) + fields
    if kind == "longstr":
        return SIZE.pack(len(value)) + bytes(value)
    try:
        return NUMBERS[kind].pack(value)
    except struct.error as error:
        raise ValueError(f"{value!r} is no {kind}: {error}") from None


def decode_method(payload: bytes) -> Method:
    """Return the method in the payload of a method frame. Raises MalformedHeader."""
    if len(payload) < IDS.size:
        raise MalformedHeader("there is no method", len(payload))
    shape = _BY_IDS.get(IDS.unpack_from(payload))
    if shape is None:
        raise MalformedHeader("no method of AMQP 0-9-1 has the numbers {} and {}".format(*IDS.unpack_from(payload)), 0)
    arguments: dict[str, Any] = {}
    at, bit = IDS.size, 0
    try:
        for name, kind in shape.arguments:
            if kind == "bit":
                arguments[name] = bool(payload[at] >> bit & 1)
                bit += 1
                continue
            at += bit > 0
            bit = 0
            arguments[name], at = _decode(kind, payload, at)
        at += bit > 0
    except (IndexError, struct.error):
        raise MalformedHeader(f"{shape.name} ends in the middle of an argument", len(payload)) from None
    if at != len(payload):
        raise MalformedHeader(f"{shape.name} has more bytes than arguments", at)
    return Method(shape.name, arguments)


def _decode(kind: str, payload: bytes, at: int) -> tuple[Any, int]:
    if kind in NUMBERS:
        number = NUMBERS[kind]
        return number.unpack_from(payload, at)[0], at + number.size
    size, start = (payload[at], at + 1) if kind == "shortstr" else (SIZE.unpack_from(payload, at)[0], at + SIZE.size)
    end = start + size
    if end > len(payload):
        raise IndexError
    if kind == "table":
        return decode_table(payload, start, end), end
    raw = payload[start:end]
    return (raw.decode("utf-8", "surrogateescape") if kind == "shortstr" else raw), end
