"""Erlang's hash of a term, its old random numbers, and the jump hash that RabbitMQ computes from them, bit for bit.

Terms are Python values: bytes are binaries, bool and `Atom` are atoms, tuples and lists are those of Erlang. Lists of
small integers, which Erlang hashes as texts, cannot come from AMQP and are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, cycle
from struct import pack, unpack
from typing import Any, Final

from exchange.values.erlang_terms import encode_binary

MASK: Final = 0xFFFFFFFF
MASK_64: Final = 0xFFFFFFFFFFFFFFFF
GOLDEN: Final = 0x9E3779B9
"""HCONST in ERTS; each kind of term uses its own multiple."""
NIL_ALONE: Final = 3468870702


@dataclass(frozen=True, slots=True)
class Atom:
    """An atom; true and false are Python's."""

    name: str


UNDEFINED: Final = Atom("undefined")


def encode_field_term(kind: str, value: Any) -> Any:
    """Return a field value as a term, as RabbitMQ holds it, from the result of `resolve_type`."""
    if kind == "void":
        return UNDEFINED
    if kind == "array":
        return [(Atom(inner), encode_field_term(inner, item)) for inner, item in value]
    if kind == "table":
        return [(encode_binary(key), Atom(inner), encode_field_term(inner, item)) for key, inner, item in value]
    return value


def phash2(term: Any, limit: int = 1 << 27) -> int:
    """Return ``erlang:phash2(Term, Range)``, from 0 to ``limit`` - 1; it is the same in all releases of Erlang/OTP."""
    h = 0
    pending = [term]
    while pending:
        term = pending.pop()
        if isinstance(term, bytes):
            h = _block(term, (13 * GOLDEN + h) & MASK)
        elif isinstance(term, list):
            if any(type(item) is int for item in term):
                raise TypeError("a list with integers: Erlang may hash it as a text, which is left out here")
            if term:
                pending += chain(([],), reversed(term))  # the empty list ends each list
            else:
                h = _mix2(2, 0, 2, h) if h else NIL_ALONE
        elif isinstance(term, tuple):
            h = _mix2(len(term), 0, 9, h)
            pending += reversed(term)
        elif isinstance(term, (bool, Atom)):
            name = term.name if isinstance(term, Atom) else str(term).lower()
            h = _mix2(_atom(name), 0, 3, h) if h else _atom(name)
        elif isinstance(term, int):
            h = _integer(term, h)
        elif isinstance(term, float):
            high, low = unpack(">II", pack(">d", term + 0.0))  # 0.0 and -0.0 are alike
            h = _mix2(high, low, 12, h)
        else:
            raise TypeError(f"no Erlang term: {term!r}")
    return h % limit


def jump(key: int, buckets: int) -> int:
    """Return a key's bucket below ``buckets`` (`rabbit_exchange_type_consistent_hash:jump_consistent_hash/2`).

    The jump consistent hash of Lamping and Veach, with the generator ``rand:uniform_s`` of the algorithm exs1024,
    seeded three times with the key. The time grows with the logarithm of ``buckets``.
    """
    bucket, after = -1, 0
    numbers = _exs1024(key)
    while after < buckets:
        bucket = after
        after = int((bucket + 1) / (next(numbers) / 2**64))
    return bucket


def jump_key(term: Any) -> int:
    """Return the key that RabbitMQ uses for a term: an integer itself, the phash2 of any other term."""
    return term if type(term) is int else phash2(term)


def _exs1024(key: int) -> Iterator[int]:
    """Yield the integers that ``rand:uniform_s`` divides by 2^64, after ``rand:seed_s(exs1024, {Key, Key, Key})``."""
    low, middle, high = ((key + 1) * factor & 0x1FFFFF for factor in (2097143, 2097133, 2097131))
    x = high << 43 | middle << 22 | low << 1 | 1
    state = []
    for _ in range(16):  # xorshift64*
        x ^= x >> 12
        x ^= x << 25 & MASK_64
        x ^= x >> 27
        state.append(x * 0x2545F4914F6CDD1D & MASK_64)
    state.reverse()
    for index in cycle(range(16)):  # xorshift1024*
        after = (index + 1) % 16
        s0, s1 = state[index], state[after]
        s1 ^= s1 << 31 & MASK_64
        s1 ^= s1 >> 11 ^ s0 ^ s0 >> 30
        state[after] = s1
        yield s1 * 0x106689D45497FDB5 & MASK_64


def _integer(value: int, h: int) -> int:
    if -(1 << 27) <= value < 1 << 27:
        if value < 0:
            h = _mix2(-value, 0, 1, h)
        return _mix2(value & MASK, 0, 1, h)
    kind, rest = (10, -value) if value < 0 else (11, value)
    while rest:
        h = _mix2(rest & MASK, rest >> 32 & MASK, kind, h)
        rest >>= 64
    return h


def _atom(name: str) -> int:
    """Return the hash of an atom's name (hashpjw), of characters up to U+00FF."""
    h = 0
    for character in name.encode("latin-1"):
        h = (h << 4) + character
        top = h & 0xF0000000
        h ^= top >> 24 ^ top
    return h


def _block(data: bytes, c: int) -> int:
    """Return Bob Jenkins's lookup2 of bytes (`block_hash` in ERTS); of no bytes it is ``c``."""
    length = len(data)
    if not length:
        return c
    a = b = GOLDEN
    rest = length % 12
    words = unpack(f"<{(length - rest) >> 2}I", data[: length - rest])
    for x, y, z in zip(words[::3], words[1::3], words[2::3], strict=True):
        a, b, c = _mix(a + x & MASK, b + y & MASK, c + z & MASK)
    # The lowest byte of the last word is reserved for the length.
    last = data[length - rest :].ljust(8, b"\0")
    x, y = unpack("<II", last[:8])
    z = int.from_bytes(last[8:], "little") << 8
    return _mix(a + x & MASK, b + y & MASK, c + z + length & MASK)[2]


def _mix2(x: int, y: int, kind: int, h: int) -> int:
    base = kind * GOLDEN
    return _mix(base + x & MASK, base + y & MASK, h)[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = (a - b - c & MASK) ^ c >> 13
    b = (b - c - a & MASK) ^ a << 8 & MASK
    c = (c - a - b & MASK) ^ b >> 13
    a = (a - b - c & MASK) ^ c >> 12
    b = (b - c - a & MASK) ^ a << 16 & MASK
    c = (c - a - b & MASK) ^ b >> 5
    a = (a - b - c & MASK) ^ c >> 3
    b = (b - c - a & MASK) ^ a << 10 & MASK
    c = (c - a - b & MASK) ^ b >> 15
    return a, b, c
