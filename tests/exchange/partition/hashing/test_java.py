"""Java's hashCode, Random and string order: as Java answered, and as their definitions say."""

from __future__ import annotations

from struct import pack, unpack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition.hashing.guava import consistent_hash, sip_hash_24
from exchange.partition.hashing.hashes import to_signed
from exchange.partition.hashing.java import JavaRandom, compute_remainder, encode_code_units, hash_code, string_hash
from exchange.values.field_values import Typed
from tests.recorders import golden
from tests.recorders.keys import KEYS
from tests.recorders.rocketmq_select import TYPED

ANSWERED = [name for name in golden.names("rocketmq-select-") if "hashes" in golden.read(name)]
CLIENTS = [name for name in ANSWERED if "typed_hashes" in golden.read(name)]


def typed_value(kind: str, text: str) -> Any:
    """Return a case of ``TYPED`` as a key."""
    if kind == "bool":
        return text == "true"
    if kind == "float":
        return Typed("float", unpack(">f", pack(">i", int(text)))[0])
    if kind == "double":
        return unpack(">d", pack(">q", int(text)))[0]
    return int(text) if kind == "long" else Typed(kind, int(text))


def test_three_clients_were_asked() -> None:
    assert len(CLIENTS) == 3
    assert len(KEYS) >= 1000
    assert len(TYPED) >= 400


@pytest.mark.parametrize("name", CLIENTS)
def test_strings_hash_as_java_hashed_them(name: str) -> None:
    assert [hash_code(key) for key in KEYS] == golden.read(name)["hashes"]


@pytest.mark.parametrize("name", CLIENTS)
def test_numbers_hash_by_their_declared_type_as_java_hashed_them(name: str) -> None:
    assert [hash_code(typed_value(*case)) for case in TYPED] == golden.read(name)["typed_hashes"]


def test_the_type_of_a_key_decides_its_hash() -> None:
    assert hash_code("5") == 53
    assert hash_code(Typed("signedint", -5)) == -5
    assert hash_code(Typed("long", -5)) == hash_code(-5) == 4
    assert hash_code(5.0) == hash_code(Typed("double", 5)) == 1075052544
    assert hash_code(Typed("float", 5.0)) == 1084227584
    assert (hash_code(True), hash_code(False)) == (1231, 1237)
    assert hash_code(Typed("longstr", "5")) == hash_code(Typed("longstr", b"5")) == 53


def test_every_nan_is_the_same_to_java() -> None:
    payload = unpack(">d", b"\xff\xf8\x00\x00\x00\x00\x00\x01")[0]
    assert hash_code(payload) == hash_code(float("nan")) == 0x7FF80000
    assert hash_code(Typed("float", float("nan"))) == 0x7FC00000


def test_zero_has_a_sign() -> None:
    assert hash_code(0.0) == 0
    assert hash_code(-0.0) == -(2**31)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "null has no hashCode"),
        (b"x", "give what the Java program passes"),
        (Typed("binary", b"x"), "give what the Java program passes"),
        (Typed("unsignedint", 1), "type unsignedint"),
        (Typed("longstr", b"\xff"), "not UTF-8"),
        (2**63, "does not fit Java's long"),
        (-(2**63) - 1, "does not fit Java's long"),
        ([1], "type list"),
        (object(), "not a key"),
    ],
)
def test_a_key_without_a_hash_is_an_error_that_names_a_fix(key: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        hash_code(key)


TEXTS = st.text(st.characters(), max_size=20) | st.text(st.sampled_from("a\ud800\udc00\uffff\U0001f600"), max_size=9)


def units(text: str) -> list[int]:
    """Return the UTF-16 code units, one character after the other."""
    found: list[int] = []
    for character in text:
        point = ord(character)
        if point > 0xFFFF:
            found += [0xD800 + (point - 0x10000 >> 10), 0xDC00 + (point - 0x10000 & 0x3FF)]
        else:
            found.append(point)
    return found


@given(TEXTS)
def test_a_strings_hash_is_a_polynomial_in_31_of_its_code_units(text: str) -> None:
    expected = sum(unit * 31**power for power, unit in enumerate(reversed(units(text))))
    assert string_hash(text) == (expected + 2**31) % 2**32 - 2**31


@given(TEXTS, TEXTS)
def test_strings_compare_by_code_units(one: str, other: str) -> None:
    assert (encode_code_units(one) < encode_code_units(other)) == (units(one) < units(other))


def test_a_character_outside_the_bmp_comes_before_the_last_of_the_bmp() -> None:
    assert encode_code_units("\U0001f600") < encode_code_units("\uffee")


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 1000))
def test_a_remainder_has_the_sign_of_the_dividend(dividend: int, divisor: int) -> None:
    left = compute_remainder(dividend, divisor)
    assert (dividend - left) % divisor == 0
    assert abs(left) < divisor
    assert left * dividend >= 0


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**31 - 1))
def test_a_random_integer_is_below_its_bound(seed: int, bound: int) -> None:
    random = JavaRandom.seeded(seed)
    for _ in range(5):
        value, random = random.next_int(bound)
        assert 0 <= value < bound


def test_a_power_of_two_takes_the_high_bits() -> None:
    bits, after = JavaRandom.seeded(42).next(31)
    assert JavaRandom.seeded(42).next_int(16) == (bits >> 27, after)


def test_an_incomplete_run_is_drawn_anew() -> None:
    bound = 2**30 + 1  # of 2**31 values nearly a half is left over
    drawn_twice = 0
    for seed in range(50):
        first, after = JavaRandom.seeded(seed).next(31)
        value, after_it = JavaRandom.seeded(seed).next_int(bound)
        drawn_twice += after != after_it
        assert (value == first) == (first < bound)
    assert drawn_twice


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 200))
def test_one_bucket_more_takes_values_and_moves_none_else(value: int, buckets: int) -> None:
    before, after = consistent_hash(value, buckets), consistent_hash(value, buckets + 1)
    assert 0 <= before < buckets
    assert after in (before, buckets)


def test_a_jump_over_the_greatest_integer_ends_the_jumps() -> None:
    # A state whose top 31 bits are all ones after one step: (int) + 1 wraps in Java, and the quotient is negative.
    state = (2**64 - 1 - 1) * pow(2862933555777941757, -1, 2**64) % 2**64
    assert consistent_hash(state, 2**31 - 1) == 0


def test_sip_hash_has_the_values_of_its_authors() -> None:
    assert sip_hash_24(b"") == _signed_64(0x726FDB47DD0E0E31)
    assert sip_hash_24(bytes(range(15))) == _signed_64(0xA129CA6149BE45E5)


def test_sip_hashes_are_those_the_grpc_client_computes() -> None:
    recorded = golden.read("rocketmq-select-grpc")["hashes"]
    assert [sip_hash_24(key.encode()) for key in KEYS] == [int(number) for number in recorded]


def _signed_64(value: int) -> int:
    high = to_signed(value >> 32)
    return high << 32 | value & 0xFFFFFFFF
