"""What a pull is answered with, read quickly, is what reading it field by field gives."""

from __future__ import annotations

import struct
import time
import zlib
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import Pulled, PullStatus
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage, encode_batch
from bridge.rocketmq.remoting.stored import parse_stored_messages
from exchange.errors import InputError
from exchange.limits import BODY_BYTES
from exchange.rocketmq.stored_record import BATCH, PACKED, V1, V2, unpack_body
from tests.support.tiers import examples

BORN_V6: Final = 0x10
STORED_V6: Final = 0x20
ZLIB: Final = 0x300
"""The flag's bits that say how a body is packed."""

texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=9)
longs = st.integers(-(2**63), 2**63 - 1)
integers = st.integers(-(2**31), 2**31 - 1)


class Reader:
    """Takes one field after another, as Java's `ByteBuffer`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        assert 0 <= count <= len(self.data) - self.at
        self.at += count
        return self.data[self.at - count : self.at]

    def int(self, count: int = 4, *, signed: bool = True) -> int:
        return int.from_bytes(self.take(count), "big", signed=signed)


def slowly(data: bytes, broker: str) -> list[StoredMessage]:
    """Decode a record that is not damaged field by field, as `MessageDecoder.decode` does."""
    reader, found = Reader(data), []
    while reader.at < len(data):
        began = reader.at
        size, magic, _ = reader.int(), reader.int(signed=False), reader.int()
        queue, flag, offset, place, system_flag = [reader.int(count) for count in (4, 4, 8, 8, 4)]
        born = reader.int(8), reader.take(16 if system_flag & BORN_V6 else 4) + reader.take(4)
        stored = reader.int(8), reader.take(16 if system_flag & STORED_V6 else 4) + reader.take(4)
        reconsumed, prepared = reader.int(), reader.int(8)
        body = reader.take(reader.int())
        topic = reader.take(reader.int({V1: 1, V2: 2}[magic], signed=False)).decode()
        properties = reader.take(reader.int(2)).decode()
        assert reader.at == began + size
        if body and system_flag & PACKED:
            body, system_flag = zlib.decompress(body), system_flag - PACKED
        told = {}
        for entry in properties.split("\x02"):
            name, _, value = entry.partition("\x01")
            if name and value:
                told[name] = value
        found.append(
            StoredMessage(
                topic, body, told, flag, broker, queue, offset, place, system_flag, *born, *stored, reconsumed,
                prepared, size,
            )
        )  # fmt: skip
    return found


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Return a record with IPv4 or IPv6 hosts, of either magic code, packed or not."""
    magic = draw(st.sampled_from([V1, V2]))
    system_flag = draw(st.sampled_from([0, 4, 8, PACKED, PACKED | ZLIB])) | draw(st.sampled_from([0, 16, 32, 48]))
    body = draw(st.binary(max_size=50))
    if body and system_flag & PACKED:
        body = zlib.compress(body)
    topic = draw(st.sampled_from(["t", "orders", "größe"])).encode()
    rows = draw(st.lists(st.tuples(texts | st.just(""), texts | st.just("") | st.just("a\x01b")), max_size=5))
    properties = "".join([f"{name}\x01{value}\x02" for name, value in rows]) + draw(
        st.sampled_from(["", "x", "x\x01y"])
    )
    return record(magic, system_flag, body, topic, properties.encode(), draw=draw)


def record(
    magic: int, system_flag: int, body: bytes, topic: bytes, properties: bytes, *, draw: Any = lambda _: 0
) -> bytes:
    """Return a record whose other fields are drawn."""

    def host(flag: int) -> bytes:
        return bytes(draw(st.binary(min_size=20, max_size=20)) or 20)[: 20 if system_flag & flag else 8]

    rest = b"".join([
        struct.pack(">Iiiiqqi", magic, draw(integers), draw(integers), draw(integers), draw(longs), draw(longs),
                    system_flag),
        struct.pack(">q", draw(longs)), host(BORN_V6), struct.pack(">q", draw(longs)), host(STORED_V6),
        struct.pack(">iqi", draw(integers), draw(longs), len(body)), body,
        len(topic).to_bytes({V1: 1, V2: 2}[magic], "big"), topic, struct.pack(">h", len(properties)), properties,
    ])  # fmt: skip
    return struct.pack(">i", 4 + len(rest)) + rest


@examples(50)
@given(st.lists(records(), max_size=5))
@example([record(V1, 0, b"", b"", b"")])
@example([record(V2, 48, b"", b"", b"")])
@example([record(V2, 0, b"b", b"t" * 300, b"a\x01b\x02")])
def test_the_fast_decoder_agrees_with_one_that_reads_field_by_field(raw: list[bytes]) -> None:
    data = b"".join(raw)
    assert parse_stored_messages(data, "broker-a") == slowly(data, "broker-a")


@examples(50)
@given(st.lists(records(), min_size=1, max_size=3), st.data())
def test_an_answer_that_ends_early_is_an_error_unless_it_ends_with_a_record(raw: list[bytes], data: Any) -> None:
    whole = b"".join(raw)
    cut = data.draw(st.integers(0, len(whole) - 1))
    ends = [sum(map(len, raw[:count])) for count in range(len(raw))]
    if cut in ends:
        assert parse_stored_messages(whole[:cut], "b") == slowly(whole[:cut], "b")
    else:
        with pytest.raises(InputError, match=r"byte \d+ of an answer of b: "):
            parse_stored_messages(whole[:cut], "b")


SIZES: Final = {"body": 84, "topic": 88 + 4, "properties": 88 + 4 + 1 + 1}
"""Where the sizes stand in a record of IPv4 with a body of 4 bytes and a topic of 1."""


@pytest.mark.parametrize("change", [-128, -1, 1, 100])
@pytest.mark.parametrize("what", SIZES)
def test_a_record_whose_parts_exceed_it_is_an_error_even_with_another_record_behind_it(what: str, change: int) -> None:
    raw = bytearray(record(V1, 0, b"body", b"t", b"a\x01b\x02") * 2)
    width = {"body": 4, "topic": 1, "properties": 2}[what]
    at = SIZES[what]
    size = int.from_bytes(raw[at : at + width], "big")
    raw[at : at + width] = ((size + change) % (1 << 8 * width)).to_bytes(width, "big")
    with pytest.raises(InputError, match="byte 0 of an answer of b: a record whose parts do not fit in it"):
        parse_stored_messages(bytes(raw), "b")


def test_a_record_of_ipv6_is_longer_than_the_least_of_ipv4() -> None:
    raw = bytearray(record(V1, 0, b"", b"", b""))
    raw[39] |= BORN_V6 | STORED_V6
    with pytest.raises(InputError, match="a record whose parts do not fit in it"):
        parse_stored_messages(bytes(raw), "b")


def test_unpacking_a_body_clears_only_the_bit_for_packed_bodies() -> None:
    [packed] = parse_stored_messages(record(V1, PACKED | ZLIB, zlib.compress(b"body"), b"t", b""), "b")
    assert (packed.body, packed.system_flag) == (b"body", ZLIB)
    [empty] = parse_stored_messages(record(V1, PACKED | ZLIB, b"", b"t", b""), "b")
    assert (empty.body, empty.system_flag) == (b"", PACKED | ZLIB)


@pytest.mark.parametrize("how", [0, PACKED])
def test_a_batch_in_one_record_may_be_packed(how: int) -> None:
    batch = encode_batch([RocketMessage("t", b"1", {"a": "b"}, 7), RocketMessage("t", b"2")])
    body = zlib.compress(batch) if how else batch
    one, two = parse_stored_messages(record(V2, BATCH | how, body, b"t", b"INNER_NUM\x012\x02"), "b")
    assert (one.body, one.properties, one.flag, one.queue_offset) == (b"1", {"a": "b"}, 7, 0)
    assert (two.body, two.properties, two.flag, two.queue_offset) == (b"2", {}, 0, 1)
    assert one.system_flag == two.system_flag == BATCH


LZ4: Final = 0x100
ZSTD: Final = 0x200


def bomb(how: int, size: int) -> bytes:
    """Return this number of zero bytes, packed."""
    if how == ZLIB:
        stream = zlib.compressobj(9)
        piece = bytes(1 << 20)
        return b"".join([stream.compress(piece) for _ in range(size >> 20)]) + stream.flush()
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, {LZ4: "lz4", ZSTD: "zstd"}[how]) as stream:
        piece = bytes(1 << 20)
        for _ in range(size >> 20):
            stream.write(piece)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("how", [ZLIB, LZ4, ZSTD])
def test_a_body_that_unpacks_to_more_than_any_producer_sends_is_a_message_with_a_problem(how: int) -> None:
    raw = bomb(how, 8 * BODY_BYTES)
    assert len(raw) < 2 << 20
    began = time.process_time()
    whole, after = parse_stored_messages(
        record(V2, PACKED | how, raw, b"t", b"a\x01b\x02") + record(V2, 0, b"next", b"t", b""), "b"
    )
    assert time.process_time() - began < 20
    assert whole.body == raw
    assert whole.properties == {"a": "b"}
    assert whole.problem == f"a body that unpacks to more than {BODY_BYTES:,} bytes"
    assert (after.body, after.problem) == (b"next", "")


@pytest.mark.parametrize("how", [ZLIB, LZ4, ZSTD])
def test_a_body_of_the_greatest_size_is_unpacked(how: int) -> None:
    assert unpack_body(bomb(how, BODY_BYTES), PACKED | how) == bytes(BODY_BYTES)


def test_a_body_that_is_cut_off_is_a_message_with_a_problem() -> None:
    [cut] = parse_stored_messages(record(V1, PACKED | ZLIB, zlib.compress(b"body" * 99)[:-3], b"t", b""), "b")
    assert cut.problem == "a body that cannot be unpacked: it is incomplete"


@pytest.mark.parametrize("error", [MemoryError("x"), OverflowError("x"), struct.error("x"), RecursionError("x")])
def test_any_error_of_unpacking_is_the_problem_of_that_message(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(body: bytes, system_flag: int) -> bytes:
        raise error

    monkeypatch.setattr("bridge.rocketmq.remoting.stored.unpack_body", fails)
    one, two = parse_stored_messages(record(V1, PACKED, b"packed", b"t", b"") + record(V1, 0, b"2", b"t", b""), "b")
    assert (one.body, one.problem) == (b"packed", f"{type(error).__name__}: x")
    assert (two.body, two.problem) == (b"2", "")


def test_a_damaged_or_too_long_batch_is_one_message_with_a_problem() -> None:
    [broken] = parse_stored_messages(record(V2, BATCH, b"no batch at all", b"t", b""), "b")
    assert (broken.body, broken.problem) == (b"no batch at all", "a batch whose messages do not fit in it")
    small = encode_batch([RocketMessage("t", b"x")])
    [many] = parse_stored_messages(record(V2, BATCH | PACKED | ZLIB, zlib.compress(small * 40_000), b"t", b""), "b")
    assert many.problem == "a batch of more than 32,767 messages"


def pull_result(data: bytes, next_offset: int) -> Pulled:
    return Pulled(PullStatus.FOUND, next_offset, 0, next_offset, 0, 0, data)


def test_an_answer_is_unpacked_as_room_permits_and_the_rest_is_pulled_again() -> None:
    body = zlib.compress(bytes(1 << 20))
    data = b""
    for offset in range(7, 12):
        raw = bytearray(record(V1, PACKED | ZLIB, body, b"t", b""))
        raw[20:28] = struct.pack(">q", offset)
        data += raw
    queue, everything = TopicQueue("t", "b", 0), Subscription("t")
    some, goes_on = pull_result(data, 12).first_messages(queue, everything, 1.5 * (1 << 20))
    assert ([each.queue_offset for each in some], goes_on) == ([7, 8], 9)
    one, goes_on = pull_result(data, 12).first_messages(queue, everything, 1)
    assert ([each.queue_offset for each in one], goes_on) == ([7], 8)
    every, goes_on = pull_result(data, 12).first_messages(queue, everything, 1 << 30)
    assert (len(every), goes_on) == (5, 12)
