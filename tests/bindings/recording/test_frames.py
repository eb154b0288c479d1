"""Frames come out of a stream the same however it is cut, and what is no frame is noticed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.recording.frames import Frame, FrameFault, FrameReader
from exchange.limits import RECORDED_METHOD_BYTES
from tests.support.amqp_talk import PROTOCOL, frame

frames = st.builds(frame, st.sampled_from([1, 2, 3, 8]), st.integers(0, 0xFFFF), st.binary(min_size=12, max_size=400))
streams = st.lists(st.one_of(frames, st.binary(max_size=20)), max_size=8).map(b"".join)


def read(pieces: list[bytes], *, of_client: bool = False) -> tuple[list[Frame], str]:
    """Return the frames, and the fault that ends them, "" for none."""
    reader, found = FrameReader(of_client=of_client), list[Frame]()
    try:
        for piece in pieces:
            for each in reader.feed(piece):
                found.append(each)
    except FrameFault as fault:
        return found, str(fault)
    return found, ""


@given(streams, st.booleans(), st.booleans(), st.data())
def test_any_cut_of_a_stream_gives_the_same_frames_and_the_same_fault(
    stream: bytes, of_client: bool, begins_well: bool, data: st.DataObject
) -> None:
    if begins_well:
        stream = PROTOCOL + stream
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole = read([stream], of_client=of_client)
    assert read(pieces, of_client=of_client) == whole
    assert read([bytes([byte]) for byte in stream], of_client=of_client) == whole


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3, 8]), st.integers(0, 9), st.binary(min_size=12)), max_size=8))
def test_frames_come_back_as_they_were_made(made: list[tuple[int, int, bytes]]) -> None:
    found, fault = read([b"".join(frame(*each) for each in made)])
    kept = {1: slice(None), 2: slice(12), 3: slice(0), 8: slice(0)}
    assert not fault
    assert found == [Frame(kind, channel, len(payload), payload[kept[kind]]) for kind, channel, payload in made]


@pytest.mark.parametrize(
    ("sent", "of_client", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", True, "no frame of AMQP 0-9-1"),
        (b"AMQP\x00\x01\x00\x00", True, "another version of AMQP"),
        (b"AMQP\x00\x00\x09\x01", False, "another version of AMQP"),
        (b"\x16\x03\x01\x02\x00", True, "TLS"),
        (frame(7, 1, b"123456789012"), False, "no frame of AMQP 0-9-1"),
        (frame(3, 1, b"body")[:-1] + b"x", False, "a frame without its end"),
        (frame(1, 1, b"method")[:-1] + b"x", False, "a frame without its end"),
        (frame(2, 1, b"short"), False, "a content header without the size of its body"),
        (struct.pack(">BHI", 1, 1, RECORDED_METHOD_BYTES + 1), False, "a method of more than 1 MiB"),
    ],
)
def test_what_is_no_frame_is_a_fault(sent: bytes, of_client: bool, reason: str) -> None:
    assert read([sent], of_client=of_client)[1] == reason


def test_the_body_of_a_frame_is_never_kept() -> None:
    reader = FrameReader(of_client=False)
    assert [each.size for each in reader.feed(struct.pack(">BHI", 3, 1, 1 << 30))] == [1 << 30]
    for _ in range(1000):
        assert not [*reader.feed(b"x" * 10_000)]
        assert not reader._rest
