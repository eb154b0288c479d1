"""Targets: what comes over connections, AMQP 0-9-1, RocketMQ's remoting and JSON of both management APIs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import pika.exceptions

from bindings.sources.definitions import Definitions
from bindings.sources.management import Management, build_unread_queues
from bridge.interop.texts import format_wire as text_of_field
from bridge.interop.texts import parse_wire
from bridge.rocketmq.consumer.offsets import format_table, parse_table
from bridge.rocketmq.remoting.command import Command, Decoder, SerializeType, encode, load_json
from bridge.rocketmq.remoting.errors import CommandError
from bridge.rocketmq.remoting.ids import UniqueId
from bridge.rocketmq.remoting.message import decode_batch, encode_batch
from bridge.rocketmq.remoting.properties import decode_properties, encode_properties
from bridge.rocketmq.remoting.stored import parse_stored_records
from exchange.amqp import ContentHeader, MalformedHeader, build_lazy_message, decode_table, encode_table, get_content
from exchange.amqp.content import WIDTHS
from exchange.amqp.fields import decode_value, encode_value
from exchange.errors import HashstarError, InputError
from exchange.partition.clients.rocketmq.queues import TopicRoute, publish_queues, subscribe_queues
from exchange.rocketmq.offset_id import OffsetId
from exchange.values.field_values import resolve_type
from tests.fuzz.target import cut, is_same, text_of
from tests.support.bridge.unconnected import UnconnectedWire

ROOM: Final = 64 << 20
"""Size in bytes after which a client leaves the rest of an answer."""
SPREAD: Final = (1, 7, 64, 1000)


def field_table(data: bytes) -> None:
    """Decode a field table; what is decoded is encoded to the same bytes."""
    try:
        table = decode_table(data)
    except MalformedHeader as error:
        assert 0 <= error.position <= len(data)  # noqa: PT017  the place is what is tested
        return
    assert encode_table(table) == data


def field_value(data: bytes) -> None:
    """Decode one value; encoded it is the same bytes, and so it is from the text that a mapping makes of it."""
    value, end = decode_value(data)
    wire = data[:end]
    assert encode_value(value) == wire
    assert parse_wire(*text_of_field(wire)) == wire


def field_text(data: bytes) -> None:
    """Make a field of a type and a text, which another system may have changed."""
    kind, text = cut(data, 2)
    try:
        wire = parse_wire(text_of(kind), text)
    except ValueError:
        return
    try:
        value, end = decode_value(wire)
    except MalformedHeader:
        end, value = 0, None
    assert end == len(wire)
    resolve_type(value)


def content_header(data: bytes) -> None:
    """Read a content header in every way; taken apart and put together it is the same."""
    header, _ = ContentHeader.parse(data)
    parts = {name: raw if WIDTHS[name] else bytes([len(raw)]) + raw for name, raw in header.parts()}
    table = None
    if header.has_table:
        start, end = header.table
        table = header.raw[start:end]
    again = ContentHeader.from_parts(parts, table, header.unused_flags)
    assert again.parts() == header.parts()
    assert is_same(again.properties(), header.properties())
    fields = header.fields()
    for name, _ in fields[:5]:
        label = text_of(name)
        assert is_same(header.header(label), header.headers().get(label))
    other = header.with_property("message_id", "m").with_header("x-fuzz", 1)
    assert other.property("message_id") == "m"
    assert other.header("x-fuzz") == 1
    with suppress(HashstarError):
        build_lazy_message("e", "k", header, b"").routing_keys()
    assert get_content(build_lazy_message("e", "k", header, b"")).raw == header.raw


class Unconnected(UnconnectedWire):
    """A wire that ignores frames that are no content."""

    def _process_frame(self, frame: object) -> None:
        pass


def frames(data: bytes) -> None:
    """Read frames that come at once, most of them deliveries as a whole, and in pieces: the events are the same."""
    whole, pieces = Unconnected(), Unconnected()
    size = max(len(data) // 300, 1)
    with suppress(pika.exceptions.AMQPError):
        whole._on_data_available(data)
        for at in range(0, len(data), size):
            pieces._on_data_available(data[at : at + size])
        one, other = ([(type(event), *event) for event in wire.contents[1].events] for wire in (whole, pieces))
        assert one == other


def remoting(data: bytes) -> None:
    """Cut what came over a connection into commands, whole and in pieces; a command comes back from its frame."""
    whole = _commands(data, len(data) or 1)
    for size in SPREAD:
        assert _commands(data, max(size, len(data) // 200)) == whole
    for command in whole or ():
        for form in SerializeType:
            with suppress(CommandError):
                frame = encode(command, form)
                (again,) = Decoder().feed(frame)
                assert again.body == command.body
                assert again.code == command.code


def _commands(data: bytes, size: int) -> list[Command] | None:
    decoder, found = Decoder(), []
    try:
        for at in range(0, len(data), size):
            found += decoder.feed(data[at : at + size])
    except CommandError:
        return None
    return found


def answer_json(data: bytes) -> None:
    """Read the JSON of a name server, as a route too."""
    value = load_json(data)
    if isinstance(value, dict):
        with suppress(InputError):
            route = TopicRoute.from_json(value)
            publish_queues(route)
            subscribe_queues(route)


def stored(data: bytes) -> None:
    """Read the messages in the answer to a pull as the client does, as many at once as there is room for."""
    weight = 0
    for messages in parse_stored_records(data, "broker-a"):
        for message in messages:
            _ = message.message_id, message.keys, message.tags, message.delay_level, message.deliver_ms
            _ = message.born_host, message.to_send()
            weight += message.weight
        if weight > ROOM:
            return


def batch(data: bytes) -> None:
    """Read a batch of messages; those that can be sent come back from their batch."""
    found = decode_batch("t", data)
    with suppress(HashstarError):
        assert decode_batch("t", encode_batch(found)) == found


def properties(data: bytes) -> None:
    """Read properties; those that are text come back."""
    found = decode_properties(data)
    with suppress(UnicodeEncodeError):
        assert decode_properties(encode_properties(found)) == found


def offset_table(data: bytes) -> None:
    """Read a table of offsets; written it reads the same."""
    found = parse_table(data.decode("utf-8", "replace"))
    assert parse_table(format_table(found)) == found


def ids(data: bytes) -> None:
    """Read ids of messages, of brokers and of clients."""
    text = text_of(data)
    with suppress(HashstarError):
        assert OffsetId.parse(OffsetId.parse(text).text) == OffsetId.parse(text)
    UniqueId.parse(text)


class Answers(Management):
    """A management API whose answers are given."""

    __slots__ = ("given",)
    given: dict[str, bytes]

    def _bytes(self, method: str, path: str, body: Any = None) -> bytes:
        data: bytes = self.given.get(path, b"")
        if data.lstrip()[:1] not in (b"", b"{", b"["):
            raise InputError("not JSON")
        return data


def management(data: bytes) -> None:
    """Read a broker over its management API, whatever it answers."""
    exported, exchanges, overview = cut(data, 3)
    api = Answers("http://localhost:15672", "guest", "guest")
    object.__setattr__(api, "given", {
        "/api/definitions": exported, "/api/exchanges": exchanges, "/api/overview": overview,
        "/api/queues?disable_stats=true&columns=name,vhost,exclusive": exchanges,
    })  # fmt: skip
    with suppress(InputError):
        assert isinstance(api.version(), str)
    with suppress(InputError):
        assert all(build_unread_queues(vhost, names) for vhost, names in api.exclusive_queues().items())
    found: Definitions = api.definitions()
    for vhost in found.vhosts:
        found.topology(vhost)
