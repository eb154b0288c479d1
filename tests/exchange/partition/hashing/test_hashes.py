"""The hashes of single keys: published vectors, and the algorithms as their authors describe them, byte by byte."""

from __future__ import annotations

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.partition.hashing.hashes import fnv1a, murmur2, murmur3, to_absolute, to_positive, to_signed


def murmur2_in_java(data: bytes) -> int:
    """Hash as Kafka's `Utils.murmur2`: a port, with its switch that falls through and ``int`` for every step."""

    def int32(value: int) -> int:
        return (value + 2**31) % 2**32 - 2**31

    def shift(value: int, bits: int) -> int:
        return int32(value % 2**32 >> bits)

    m = 0x5BD1E995
    h = int32(0x9747B28C ^ len(data))
    for i in range(len(data) // 4):
        k = (
            (data[i * 4] & 0xFF)
            + ((data[i * 4 + 1] & 0xFF) << 8)
            + ((data[i * 4 + 2] & 0xFF) << 16)
            + ((data[i * 4 + 3] & 0xFF) << 24)
        )
        k = int32(int32(k) * m)
        k ^= shift(k, 24)
        k = int32(k * m)
        h = int32(h * m)
        h ^= k
    end = len(data) & ~3
    if len(data) % 4 == 3:
        h ^= int32(data[end + 2] << 16)
    if len(data) % 4 >= 2:
        h ^= int32(data[end + 1] << 8)
    if len(data) % 4 >= 1:
        h ^= data[end]
        h = int32(h * m)
    h ^= shift(h, 13)
    h = int32(h * m)
    return h ^ shift(h, 15)


def murmur3_by_bytes(data: bytes, seed: int) -> int:
    """MurmurHash3_x86_32 as its author's comments tell it, each step on 32 bits."""

    def rotated(value: int, bits: int) -> int:
        return (value << bits) % 2**32 + (value >> 32 - bits)

    def scrambled(k: int) -> int:
        return rotated(k * 0xCC9E2D51 % 2**32, 15) * 0x1B873593 % 2**32

    h = seed
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        h ^= scrambled(sum(data[i + j] << 8 * j for j in range(4)))
        h = (rotated(h, 13) * 5 + 0xE6546B64) % 2**32
    h ^= scrambled(sum(byte << 8 * j for j, byte in enumerate(data[whole:])))
    h ^= len(data)
    h ^= h >> 16
    h = h * 0x85EBCA6B % 2**32
    h ^= h >> 13
    h = h * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_murmur2_is_what_kafka_publishes(key: bytes, hashed: int) -> None:
    """`UtilsTest.testMurmur2` of kafka-clients, and its hash of the empty key."""
    assert to_signed(murmur2(key)) == hashed


@pytest.mark.parametrize(
    ("key", "seed", "hashed"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"", 0xFFFFFFFF, 0x81F16F39),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"!Ce\x87", 0, 0xF55B516B),
        (b"!Ce\x87", 0x5082EDEE, 0x2362F9DE),
        (b"!Ce", 0, 0x7E4A8634),
        (b"!C", 0, 0xA0F7B07A),
        (b"!", 0, 0x72661CF4),
        (b"\0\0\0\0", 0, 0x2362F9DE),
        (b"aaaa", 0x9747B28C, 0x5A97808A),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
        (b"hello", 104729, 1321743225),
    ],
)
def test_murmur3_is_what_others_publish(key: bytes, seed: int, hashed: int) -> None:
    """Vectors that implementations of MurmurHash3_x86_32 share; the last is the RabbitMQ stream client's."""
    assert murmur3(key, seed) == hashed


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"b", 0xE70C2DE5), (b"foobar", 0xBF9CF968), (b"\xff\0\0\1", 0xC48FB86D)],
)
def test_fnv1a_is_what_its_authors_publish(key: bytes, hashed: int) -> None:
    assert fnv1a(key) == hashed


@given(st.binary(max_size=70))
def test_murmur2_is_the_java_method(key: bytes) -> None:
    assert to_signed(murmur2(key)) == murmur2_in_java(key)


@given(st.binary(max_size=70), st.integers(1, 2**31 - 1))
def test_murmur2_and_fnv1a_are_what_librdkafka_computes(key: bytes, count: int) -> None:
    """Against librdkafka itself, which reads no key as the empty one."""
    assert to_positive(murmur2(key)) % count == confluent_kafka.murmur2(key, count)
    if key:
        assert abs(to_signed(fnv1a(key))) % count == confluent_kafka.fnv1a(key, count)


@given(st.binary(max_size=70), st.integers(0, 2**32 - 1))
def test_murmur3_is_the_algorithm_by_bytes(key: bytes, seed: int) -> None:
    assert murmur3(key, seed) == murmur3_by_bytes(key, seed)


def test_a_long_key_is_hashed_as_any_other() -> None:
    key = bytes(range(256)) * 40 + b"abc"
    assert to_signed(murmur2(key)) == murmur2_in_java(key)
    assert murmur3(key, 7) == murmur3_by_bytes(key, 7)


@pytest.mark.parametrize(
    ("value", "as_int", "as_positive", "as_absolute"),
    [(0, 0, 0, 0), (2**31, -(2**31), 0, -(2**31)), (2**32 - 1, -1, 2**31 - 1, 1), (2**31 - 1,) * 4],
)
def test_indexes_are_made_as_java_makes_them(value: int, as_int: int, as_positive: int, as_absolute: int) -> None:
    """``toPositive`` clears the sign, ``Math.abs`` leaves the least int negative."""
    assert to_signed(value) == as_int
    assert to_positive(as_int) == as_positive
    assert to_absolute(as_int) == as_absolute
