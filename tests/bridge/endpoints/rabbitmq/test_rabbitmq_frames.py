"""Frames are decoded alike however they are cut, and returns are matched with their messages."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.consumer.offsets import StreamOffsets
from bridge.endpoints.rabbitmq.frames import (
    Acked,
    Arrived,
    Contents,
    Event,
    NothingLeft,
    Returned,
    encode_cancel,
    encode_publish,
)
from bridge.endpoints.rabbitmq.unrouted import SentMessage, match_returns
from exchange.amqp import ContentHeader
from tests.support.bridge.unconnected import UnconnectedWire

FRAME_MAX = 4_096

names = st.binary(max_size=255)
bodies = st.one_of(st.binary(max_size=50), st.integers(0, 3 * FRAME_MAX).map(bytes))
raw_headers = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)).map(
    lambda each: ContentHeader.encode(each).raw
)
arrivals = st.builds(Arrived, st.integers(1, 2**64 - 1), st.booleans(), names, names, raw_headers, bodies)
returns = st.builds(Returned, st.just(312), st.just(b"NO_ROUTE"), names, names, raw_headers, bodies)
acks = st.builds(Acked, st.integers(1, 2**64 - 1), st.booleans(), st.booleans())


def short(name: bytes) -> bytes:
    return bytes([len(name)]) + name


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, 1, len(payload)) + payload + b"\xce"


def encode_event(event: Event) -> bytes:
    """Encode the frames of an event as a broker does."""
    if isinstance(event, Acked):
        method = 120 if event.nack else 80
        return frame(1, struct.pack(">HHQB", 60, method, event.number, event.multiple))
    if isinstance(event, NothingLeft):
        return frame(1, struct.pack(">HH", 60, 72) + short(b""))
    left = b""
    if isinstance(event, Returned):
        method_frame = struct.pack(">HHH", 60, 50, event.code) + short(event.text)
    elif event.tag % 2:  # the answer to basic.get
        method_frame = struct.pack(">HHQB", 60, 71, event.tag, event.redelivered)
        left = struct.pack(">I", 5)
    else:
        method_frame = struct.pack(">HH", 60, 60) + short(b"tag") + struct.pack(">QB", event.tag, event.redelivered)
    method_frame += short(event.exchange) + short(event.routing_key) + left
    frames = [frame(1, method_frame), frame(2, struct.pack(">HHQ", 60, 0, len(event.body)) + event.properties)]
    most = FRAME_MAX - 8
    frames += [frame(3, event.body[at : at + most]) for at in range(0, len(event.body), most)]
    return b"".join(frames)


@given(
    st.lists(st.one_of(arrivals, returns, acks, st.just(NothingLeft())), max_size=6),
    st.lists(st.integers(1, 5_000), max_size=20),
)
def test_events_are_the_same_however_their_bytes_are_cut(events: Sequence[Event], cuts: Sequence[int]) -> None:
    wire, data = UnconnectedWire(FRAME_MAX), b"".join(map(encode_event, events))
    for size in cuts:
        wire._on_data_available(data[:size])
        data = data[size:]
    wire._on_data_available(data)
    assert wire.contents[1].events == list(events)
    assert [type(each) for each in wire.contents[1].events] == [type(each) for each in events]


DELIVERY = encode_event(Arrived(1, False, b"e", b"k", b"\0\0", b"body"))
METHOD_BYTES = 8 + int.from_bytes(DELIVERY[3:7])
"""Size of the delivery's first frame."""


@pytest.mark.parametrize("whole", [True, False], ids=["at once", "byte by byte"])
@pytest.mark.parametrize(
    "damaged",
    [
        DELIVERY[: METHOD_BYTES - 1] + b"\0" + DELIVERY[METHOD_BYTES:],
        DELIVERY[:-1] + b"\0",
        DELIVERY.replace(b"\x01e\x01k", b"\x01e\x09k"),
        DELIVERY[:METHOD_BYTES] + frame(2, b"\0\x3c\0\0") + DELIVERY,
        frame(1, b"\0\x3c\0\x3c\xff"),
        struct.pack(">BHI", 3, 1, FRAME_MAX) + b"x",
    ],
    ids=[
        "no end of a method",
        "no end of a body",
        "a key beyond its frame",
        "half a header",
        "half a method",
        "too large",
    ],
)
def test_an_invalid_frame_ends_the_connection_and_makes_no_event(damaged: bytes, whole: bool) -> None:
    wire, size = UnconnectedWire(FRAME_MAX), len(damaged) if whole else 1

    def read() -> None:
        for at in range(0, len(damaged), size):
            wire._on_data_available(damaged[at : at + size])

    with pytest.raises(Disconnected):
        read()
    assert wire.contents[1].events == []


def test_frames_of_other_channels_may_stand_between_those_of_a_delivery() -> None:
    wire = UnconnectedWire(FRAME_MAX)
    wire.contents[2] = Contents()
    elsewhere = DELIVERY.replace(b"\1\0\1", b"\1\0\2", 1).replace(b"\2\0\1", b"\2\0\2", 1)
    elsewhere = elsewhere.replace(b"\3\0\1", b"\3\0\2", 1).replace(b"body", b"else")
    at = METHOD_BYTES
    wire._on_data_available(DELIVERY[:at] + elsewhere + DELIVERY[at:])
    assert [event.body for event in wire.contents[1].events if isinstance(event, Arrived)] == [b"body"]
    wire._on_data_available(elsewhere[:at] + DELIVERY[:at] + elsewhere[at:] + DELIVERY[at:])
    assert [event.body for event in wire.contents[1].events if isinstance(event, Arrived)] == [b"body"] * 2
    assert [event.body for event in wire.contents[2].events if isinstance(event, Arrived)] == [b"else"] * 2


def test_a_body_is_read_only_from_body_frames() -> None:
    wire = UnconnectedWire(FRAME_MAX)
    at = len(DELIVERY) - len(frame(3, b"body"))
    mixed = DELIVERY[:at] + frame(1, b"\0\x3c\0\x50" + struct.pack(">QB", 7, 0)) + DELIVERY[at:]
    wire._on_data_available(mixed)
    assert wire.contents[1].events == [Acked(7, False, False), Arrived(1, False, b"e", b"k", b"\0\0", b"body")]


@given(names, names, raw_headers, bodies, st.booleans())
def test_a_publish_is_written_in_frames_that_fit(
    exchange: bytes, key: bytes, properties: bytes, body: bytes, mandatory: bool
) -> None:
    data = encode_publish(7, exchange, key, properties, body, FRAME_MAX, mandatory=mandatory)
    sizes, payloads = [], []
    while data:
        size = struct.unpack_from(">I", data, 3)[0] + 8
        sizes.append(size)
        payloads.append((data[0], int.from_bytes(data[1:3], "big"), data[7 : size - 1]))
        assert data[size - 1] == 0xCE
        data = data[size:]
    assert max(sizes) <= FRAME_MAX
    assert {channel for _, channel, _ in payloads} == {7}
    assert [kind for kind, _, _ in payloads] == [1, 2] + [3] * (len(payloads) - 2)
    assert payloads[0][2] == struct.pack(">HHH", 60, 40, 0) + short(exchange) + short(key) + bytes([mandatory])
    assert payloads[1][2] == struct.pack(">HHQ", 60, 0, len(body)) + properties
    assert b"".join(payload for _, _, payload in payloads[2:]) == body


def test_a_consumer_is_cancelled_without_an_answer() -> None:
    _, read = pika.frame.decode_frame(encode_cancel(7, b"12"))
    assert (read.channel_number, read.method.consumer_tag, read.method.nowait) == (7, "12", True)


def message(key: bytes, body: bytes = b"", **headers: object) -> SentMessage:
    content = ContentHeader.encode(headers or None)
    return SentMessage(b"x", key, body, lambda: content)


def make_return(sent: SentMessage, **shown: object) -> Returned:
    content = ContentHeader.encode(shown) if shown else sent.content()
    return Returned(312, b"NO_ROUTE", sent.exchange, sent.routing_key, content.raw, sent.body)


def test_a_return_is_matched_with_the_message_that_looks_the_same() -> None:
    sent = {1: message(b"a"), 2: message(b"b"), 3: message(b"b", b"other"), 4: message(b"b", kind=1)}
    events = [make_return(sent[4]), make_return(sent[2])]
    assert [numbers for _, numbers in match_returns(sent, events)] == [[4], [2]]


def test_of_equal_messages_each_return_takes_another_one() -> None:
    sent = dict.fromkeys(range(1, 6), message(b"a", kind=1))
    event = make_return(sent[1])
    assert [numbers for _, numbers in match_returns(sent, [event] * 3, known={2})] == [[1], [3], [4]]


def test_the_order_of_headers_does_not_matter() -> None:
    sent = {1: message(b"a", z=1, b=2), 2: message(b"a", z=2, b=2)}
    assert [numbers for _, numbers in match_returns(sent, [make_return(sent[1], b=2, z=1)])] == [[1]]


def test_a_return_that_may_be_about_several_messages_is_reported_for_all_of_them() -> None:
    sent = {1: message(b"a", BCC=["x"]), 2: message(b"a", BCC=["y"]), 3: message(b"a", kind=1)}
    event = Returned(312, b"NO_ROUTE", b"x", b"a", ContentHeader.encode({}).raw, b"")
    assert [numbers for _, numbers in match_returns(sent, [event, event])] == [[1, 2], []]


def test_a_return_of_an_unknown_message_is_matched_with_none() -> None:
    assert [numbers for _, numbers in match_returns({1: message(b"a")}, [make_return(message(b"b"))])] == [[]]


def test_without_a_file_offsets_are_forgotten_with_their_object() -> None:
    offsets = StreamOffsets(None)
    assert offsets.last is None
    offsets.settle(0, lambda: "")
    asyncio.run(offsets.write())
    assert offsets.last == 0
