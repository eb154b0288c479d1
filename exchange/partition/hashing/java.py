"""Java's own functions of values: hashCode by declared type, java.util.Random, the order of strings.

The type of a key decides its hash: ``"5"``, an Integer 5 and a Double 5.0 have three different ones. A plain int is a
Long, as everywhere here; an Integer is ``Typed("signedint", 5)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from struct import pack, unpack
from typing import Any, Final, NamedTuple, TypeVar

from exchange.errors import InputError
from exchange.partition.hashing.hashes import to_signed
from exchange.partition.hashing.keys import describe_key, resolve_key_type
from exchange.values.field_values import Typed

Key = TypeVar("Key", str, int)

LEAST_INT: Final = -0x8000_0000
"""``Integer.MIN_VALUE``, which ``Math.abs`` leaves as it is."""

MASK_48: Final = (1 << 48) - 1
WAY_OUT: Final = "give what the Java program passes as a string, an integer, a float or true or false"


def hash_code(key: Any) -> int:
    """Return ``key.hashCode()``, a signed 32-bit integer, of the Java type that the key's type stands for.

    str is String, bool Boolean, int Long, float Double; use `Typed` for Byte, Short, Integer (``signedint``), Long and
    Float. Raises InputError for null, for bytes (the hash of an array is its address) and for other types.
    """
    if type(key) is str:
        return string_hash(key)
    if key is None:
        raise InputError("null has no hashCode")
    kind, value = resolve_key_type(key)
    if kind in ("byte", "short", "signedint"):
        return int(value)
    if kind == "long":
        if not -(1 << 63) <= value < 1 << 63:
            raise InputError(f"{describe_key(value)} does not fit Java's long of 64 bits: pass its digits, a string")
        return fold(value)
    if kind == "bool":
        return 1231 if value else 1237
    if kind == "double":
        return fold(0x7FF8 << 48 if isnan(value) else _reinterpret(">d", ">q", value))
    if kind == "float":
        return 0x7FC0 << 16 if isnan(value) else _reinterpret(">f", ">i", value)
    if kind == "longstr":
        return string_hash(decode_string(value))
    if kind == "binary":
        raise InputError(f"a byte[] has no hashCode of its content; {WAY_OUT}")
    type_name = kind if isinstance(key, Typed) else type(key).__name__
    raise InputError(f"no hashCode for a key of type {type_name}; {WAY_OUT}")


DIGITS: Final = b"0123456789abcdefghijklmnopqrstu"
"""The digits of base 31, as ``int`` reads them."""
HIGH: Final = bytes(DIGITS[byte // 31] for byte in range(256))
"""Byte -> the first digit of its two digits in base 31, for ``bytes.translate``."""
LOW: Final = bytes(DIGITS[byte % 31] for byte in range(256))
PIECE: Final = 256
"""Bytes that are read at once: longer ones make the integer long, and 640 digits is the least limit of ``int``."""
PIECE_FACTOR: Final = 31**PIECE & 0xFFFFFFFF


def string_hash(text: str) -> int:
    """Return ``String.hashCode``, computed on UTF-16 code units: a character outside the BMP counts as two."""
    if text.isascii():
        h = _polynomial(text.encode())
    else:
        units = encode_code_units(text)
        h = (_polynomial(units[::2]) << 8) + _polynomial(units[1::2])
    return (h & 0xFFFFFFFF ^ 0x80000000) - 0x80000000  # `to_signed`, without a call


def _polynomial(data: bytes) -> int:
    """Return the value of the polynomial whose coefficients are the bytes, at 31, right in its 32 low bits.

    A text in base 31 is such a polynomial, and ``int`` reads it in C; so each byte is written as two digits.
    """
    if len(data) <= PIECE:
        return int(data.translate(HIGH), 31) * 31 + int(data.translate(LOW), 31) if data else 0
    start = len(data) % PIECE
    h = _polynomial(data[:start])
    for at in range(start, len(data), PIECE):
        h = (h * PIECE_FACTOR + _polynomial(data[at : at + PIECE])) & 0xFFFFFFFF
    return h


def order_as_hash_map(hashes: Mapping[Key, int]) -> list[Key]:
    """Return the keys, given with their hashes, in the order of a ``HashMap`` that is copied for each new key.

    They were put in this order; so Kafka's ``CopyOnWriteMap`` iterates over them.
    """
    copied = int((len(hashes) - 1) / 0.75 + 1)
    size = 1 << (copied - 1).bit_length() if copied > 0 else 1
    if len(hashes) > int(size * 0.75):
        size *= 2
    return sorted(hashes, key=lambda key: ((hashes[key] & 0xFFFFFFFF) >> 16 ^ hashes[key]) & size - 1)


def decode_string(data: bytes) -> str:
    """Decode the bytes of a longstr to a Java String. Raises InputError if they are not UTF-8."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise InputError(f"a longstr that is not UTF-8 is no Java String; {WAY_OUT}") from None


def encode_code_units(text: str) -> bytes:
    """Return the UTF-16 code units, big endian: texts sort by them as by ``String.compareTo``."""
    return text.encode("utf-16-be", "surrogatepass")


def compute_remainder(dividend: int, divisor: int) -> int:
    """Return the result of Java's ``%``, which has the sign of the dividend."""
    return dividend % divisor if dividend >= 0 else -(-dividend % divisor)


class JavaRandom(NamedTuple):
    """The state of a ``java.util.Random``: 48 bits."""

    state: int

    @classmethod
    def seeded(cls, seed: int) -> JavaRandom:
        """Return the state of ``new Random(seed)``."""
        return cls((seed ^ 0x5DEECE66D) & MASK_48)

    def next(self, bits: int) -> tuple[int, JavaRandom]:
        """Return the result of ``next(bits)``, the top bits of the next state as a signed integer, and that state."""
        state = self.state * 0x5DEECE66D + 0xB & MASK_48
        return to_signed(state >> 48 - bits), JavaRandom(state)

    def next_int(self, bound: int) -> tuple[int, JavaRandom]:
        """Return the result of ``nextInt(bound)``, an integer from 0 to ``bound`` - 1, and the state after it."""
        value, after = self.next(31)
        if bound & bound - 1 == 0:
            return bound * value >> 31, after
        while value - value % bound + bound - 1 >= 1 << 31:  # reject values of the last, incomplete run of ``bound``
            value, after = after.next(31)
        return value % bound, after


def fold(value: int) -> int:
    """Return ``(int) (value ^ value >>> 32)`` of 64 bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return to_signed(value ^ value >> 32)


def _reinterpret(from_format: str, to_format: str, value: float) -> int:
    return int(unpack(to_format, pack(from_format, value))[0])
