"""Partitions of keys computed by librdkafka: those of our hashes, which are used wherever its own are not as expected."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.partition.hashing import librdkafka
from exchange.partition.hashing.hashes import KEY_SIZE, fnv1a, murmur2, remember, to_positive, to_signed
from exchange.partition.hashing.librdkafka import (
    PYTHON,
    find_functions,
    fnv1a_hash,
    fnv1a_partition,
    murmur2_hash,
    murmur2_partition,
)

DATA = st.binary(max_size=90)
COUNTS = st.integers(1, 2**31 - 1)


@pytest.fixture
def not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which functions were found."""
    monkeypatch.setattr(librdkafka, "_found", None)


@pytest.fixture(params=["librdkafka", "in Python"])
def functions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have keys hashed with ``confluent_kafka``, and as in a program without it."""
    monkeypatch.setattr(librdkafka, "_found", None if request.param == "librdkafka" else PYTHON)


@pytest.mark.usefixtures("functions")
def test_partitions_and_hashes_are_those_of_the_slow_hashes() -> None:
    @given(DATA, COUNTS)
    def law(data: bytes, count: int) -> None:
        assert murmur2_partition(data, count) == to_positive(murmur2(data)) % count
        assert fnv1a_partition(data, count) == abs(to_signed(fnv1a(data))) % count
        assert murmur2_hash(data) == murmur2(data)
        assert fnv1a_hash(data) == fnv1a(data)

    law()


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"\x84#\x91$\xd5", 0), (b"\x7f_\xe3\x8aE", 1), (b"\xc6\xd5\xb2B%", 2**31 - 1), (b"\xd1!\x06k\x08", 2**31),
        (b"\xcd\xbfQ]\x88", 2**31 + 1), (b"\xce\x9b\xd8:]", 2**32 - 1),
        # With the byte that tells the sign, these have such hashes.
        (b"\xc2\x17\x82\x0e\x08", 0x359C449A), (b"GI\xe6\xa5\xae", 0xCA63BB66), (b"f\xd3-\x95\xf8", 0x4A63BB64),
        (b"D\x17\xbciO", 0xB59C449C),
    ],
)  # fmt: skip
def test_hashes_that_share_a_remainder_are_told_apart(key: bytes, hashed: int) -> None:
    """The functions take a C int for the number of partitions, so that 0 and 2**31 - 1 are alike, and 1 and 2**31."""
    assert fnv1a_hash(key) == fnv1a(key) == hashed


@pytest.mark.usefixtures("not_compared")
def test_librdkafka_is_used_where_it_is_loaded() -> None:
    assert find_functions() == (confluent_kafka.murmur2, confluent_kafka.fnv1a)


@pytest.mark.usefixtures("not_compared")
@pytest.mark.parametrize(
    "module",
    [
        None,
        SimpleNamespace(),
        SimpleNamespace(murmur2=confluent_kafka.murmur2),
        SimpleNamespace(murmur2=lambda data, count: 0, fnv1a=confluent_kafka.fnv1a),
        SimpleNamespace(murmur2=confluent_kafka.murmur2, fnv1a=lambda data, count: to_signed(fnv1a(data)) % count),
        SimpleNamespace(murmur2=confluent_kafka.murmur2, fnv1a=len),
    ],
    ids=["not loaded", "old", "half imported", "another murmur2", "another fnv1a", "another signature"],
)
def test_other_functions_than_expected_are_not_used(module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", module)
    assert find_functions() is PYTHON
    assert murmur2_partition(b"order-1", 12) == to_positive(murmur2(b"order-1")) % 12


@pytest.mark.usefixtures("not_compared")
def test_librdkafka_is_found_when_it_is_imported_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "confluent_kafka")
        assert find_functions() is PYTHON
    assert find_functions() is not PYTHON


@pytest.mark.parametrize("make", [lambda size: b"x" * size, lambda size: "x" * size], ids=["bytes", "str"])
def test_results_of_short_keys_are_kept(make: Callable[[int], bytes]) -> None:
    calls = []

    def count(data: bytes) -> int:
        calls.append(data)
        return len(data)

    hashed = remember(count)
    short, long = make(KEY_SIZE), make(KEY_SIZE + 1)
    assert [hashed(data) for data in (short, short, long, long)] == [len(data) for data in (short, short, long, long)]
    assert calls == [short, long, long]
