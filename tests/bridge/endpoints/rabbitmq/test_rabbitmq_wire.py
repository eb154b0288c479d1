"""A broker that breaks the protocol loses the connection, before it can fill the memory."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.frames import (
    ACK,
    CONTENT,
    DELIVER,
    METHOD_HEAD,
    RETURN,
    TAG,
    Acked,
    Arrived,
    Contents,
    Event,
    Returned,
)
from bridge.endpoints.rabbitmq.wire import Wire
from exchange.amqp.methods import BODY, HEAD, HEADER, METHOD
from exchange.limits import MESSAGE_BYTES
from tests.support.bridge.unconnected import UnconnectedWire
from tests.support.tiers import examples

FRAME_MAX = 131_072


def frame(kind: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return HEAD.pack(kind, 1, len(payload)) + payload + end


OPEN_OK = METHOD_HEAD.pack(20 << 16 | 11) + b"\0\0\0\0"
DELIVERY = METHOD_HEAD.pack(DELIVER) + b"\x01t" + TAG.pack(7, 0) + b"\x01e\x01k"


def header(size: int) -> bytes:
    return CONTENT.pack(60, 0, size) + b"\0\0"


def wire(frame_max: int = FRAME_MAX) -> tuple[Wire, Contents]:
    """Return a wire that is not connected, with the contents of its only channel."""
    made = UnconnectedWire(frame_max)
    return made, made.contents[1]


@pytest.mark.parametrize("pieces", [1, 2, 7, 1000])
def test_a_delivery_is_read_however_it_is_cut(pieces: int) -> None:
    data = (frame(METHOD, DELIVERY) + frame(HEADER, header(3)) + frame(BODY, b"abc")) * 2
    made, contents = wire()
    step = -(-len(data) // pieces)
    for at in range(0, len(data), step):
        made._on_data_available(data[at : at + step])
    assert contents.events == [Arrived(7, False, b"e", b"k", b"\0\0", b"abc")] * 2
    assert made._frame_buffer == b""


@pytest.mark.parametrize("wrong", range(3))
def test_a_frame_without_its_end_ends_the_connection(wrong: int) -> None:
    ends = [b"\xce", b"\xce", b"\xce"]
    ends[wrong] = b"\0"
    payloads = (METHOD, DELIVERY), (HEADER, header(3)), (BODY, b"abc")
    made, contents = wire()
    with pytest.raises(Disconnected, match="without its end"):
        made._on_data_available(b"".join(frame(*each, end) for each, end in zip(payloads, ends, strict=True)))
    assert contents.events == []


@pytest.mark.parametrize("frame_max", [FRAME_MAX, 0])
def test_a_frame_larger_than_agreed_on_is_refused_at_its_head(frame_max: int) -> None:
    made, _ = wire(frame_max)
    with pytest.raises(Disconnected, match=r"a frame of 4,294,967,295 bytes"):
        made._on_data_available(HEAD.pack(BODY, 1, 0xFFFFFFFF) + b"x")


def test_a_frame_of_the_size_agreed_on_is_read() -> None:
    body = bytes(FRAME_MAX - 8)
    made, contents = wire()
    made._on_data_available(frame(METHOD, DELIVERY) + frame(HEADER, header(len(body))) + frame(BODY, body))
    assert len(contents.events) == 1


def test_a_body_larger_than_any_message_is_refused_at_its_header() -> None:
    made, _ = wire()
    with pytest.raises(Disconnected, match="announced a body"):
        made._on_data_available(frame(METHOD, DELIVERY) + frame(HEADER, header(MESSAGE_BYTES + 1)))


PIECES = {
    "deliver": frame(METHOD, DELIVERY),
    "return": frame(METHOD, METHOD_HEAD.pack(RETURN) + struct.pack(">H", 312) + b"\x01t\x01e\x01k"),
    "ack": frame(METHOD, METHOD_HEAD.pack(ACK) + TAG.pack(9, 0)),
    "header 0": frame(HEADER, header(0)),
    "header 2": frame(HEADER, header(2)),
    "body 0": frame(BODY, b""),
    "body 1": frame(BODY, b"a"),
    "body 2": frame(BODY, b"ab"),
}


def read_slowly(names: list[str]) -> tuple[list[Event], bool]:
    """Return what a channel gives that sends these frames, and whether it breaks the protocol: the obvious way."""
    events: list[Event] = []
    method, missing, body = "", -1, b""
    for name in names:
        kind, _, size = name.partition(" ")
        if kind == "ack":
            events.append(Acked(9, False, False))
        elif kind in ("deliver", "return"):
            if method:
                return events, True
            method, missing, body = kind, -1, b""
        else:
            if not method or (kind == "header") != (missing < 0) or (kind == "body" and int(size) > missing):
                return events, True
            if kind == "header":
                missing = int(size)
            else:
                missing -= int(size)
                body += b"ab"[: int(size)]
            if not missing:
                whole = b"e", b"k", b"\0\0", body
                events.append(Arrived(7, False, *whole) if method == "deliver" else Returned(312, b"t", *whole))
                method = ""
    return events, False


@examples(500)
@given(st.lists(st.sampled_from(list(PIECES)), max_size=12), st.integers(1, 300))
@example(["deliver", "deliver", "header 2", "body 2"], 300)
@example(["deliver", "header 2", "deliver", "header 2", "body 2"], 300)
@example(["deliver", "header 2", "header 0"], 300)
@example(["deliver", "header 2", "body 2", "deliver", "body 0"], 300)
@example(["header 0"], 300)
def test_only_whole_contents_are_read_and_any_other_order_of_frames_ends_the_connection(
    names: list[str], step: int
) -> None:
    data = b"".join([PIECES[name] for name in names])
    events, breaks = read_slowly(names)
    made, contents = wire()
    try:
        for at in range(0, len(data), step):
            made._on_data_available(data[at : at + step])
        ended = False
    except Disconnected:
        ended = True
    assert (contents.events, ended) == (events, breaks)


@pytest.mark.parametrize("listens", [True, False], ids=["other channels have contents", "no channel has"])
@pytest.mark.parametrize(
    ("kind", "payload"), [(METHOD, OPEN_OK), (METHOD, DELIVERY), (HEADER, header(3)), (BODY, b"abc")]
)
def test_a_frame_for_a_channel_that_is_not_open_ends_the_connection_with_its_number(
    kind: int, payload: bytes, listens: bool
) -> None:
    made, _ = wire()
    if not listens:
        made.contents.clear()
    with pytest.raises(Disconnected, match="channel 9, which is not open"):
        made._on_data_available(HEAD.pack(kind, 9, len(payload)) + payload + b"\xce")
