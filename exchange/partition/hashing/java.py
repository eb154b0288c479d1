"""What Java's own classes make of a value: hashCode by declared type, java.util.Random, the order of strings.

The type of a key decides its hash: ``"5"``, an Integer 5 and a Double 5.0 have three. A plain int is a Long, as
everywhere here; an Integer is ``Typed("signedint", 5)``.
"""

from __future__ import annotations

from math import isnan
from struct import pack, unpack
from typing import Any, Final, NamedTuple

from exchange.errors import InputError
from exchange.field_values import Typed
from exchange.partition.hashing.hashes import signed
from exchange.partition.hashing.keys import describe_key, kind_and_value

__all__ = ["Random", "code_units", "decoded", "hash_code", "remainder", "string_hash"]

MASK_48: Final = (1 << 48) - 1
WAY_OUT: Final = "give what the Java program passes as a string, an integer, a float or true or false"


def hash_code(key: Any) -> int:
    """``key.hashCode()``, a signed 32-bit integer, of the Java type that the key's type stands for.

    str is String, bool Boolean, int Long, float Double; `Typed` says Byte, Short, Integer (``signedint``), Long and
    Float. Raises InputError for null, for bytes (an array's hash is its place in memory) and for other types.
    """
    if type(key) is str:
        return string_hash(key)
    if key is None:
        raise InputError("null has no hashCode")
    kind, value = kind_and_value(key)
    if kind in ("byte", "short", "signedint"):
        return int(value)
    if kind == "long":
        if not -(1 << 63) <= value < 1 << 63:
            raise InputError(f"{describe_key(value)} does not fit Java's long of 64 bits: pass its digits, a string")
        return _folded(value)
    if kind == "bool":
        return 1231 if value else 1237
    if kind == "double":
        return _folded(0x7FF8 << 48 if isnan(value) else _bits(">d", ">q", value))
    if kind == "float":
        return 0x7FC0 << 16 if isnan(value) else _bits(">f", ">i", value)
    if kind == "longstr":
        return string_hash(decoded(value))
    if kind == "binary":
        raise InputError(f"a byte[] has no hashCode of its content; {WAY_OUT}")
    shown = kind if isinstance(key, Typed) else type(key).__name__
    raise InputError(f"no hashCode for a key of type {shown}; {WAY_OUT}")


def string_hash(text: str) -> int:
    """``String.hashCode``: of the UTF-16 code units, so that a character outside the BMP counts as two."""
    h = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            h = h * 31 + unit & 0xFFFFFFFF
        return signed(h)
    units = code_units(text)
    for unit in unpack(f">{len(units) >> 1}H", units):
        h = h * 31 + unit & 0xFFFFFFFF
    return signed(h)


def decoded(data: bytes) -> str:
    """The String of a longstr's bytes. Raises InputError where they are not UTF-8."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise InputError(f"a longstr that is not UTF-8 is no Java String; {WAY_OUT}") from None


def code_units(text: str) -> bytes:
    """The UTF-16 code units, big endian: texts sort by them as by ``String.compareTo``."""
    return text.encode("utf-16-be", "surrogatepass")


def remainder(dividend: int, divisor: int) -> int:
    """Java's ``%``: it has the sign of the dividend."""
    return dividend % divisor if dividend >= 0 else -(-dividend % divisor)


class Random(NamedTuple):
    """The state of a ``java.util.Random``: 48 bits."""

    state: int

    @classmethod
    def seeded(cls, seed: int) -> Random:
        """``new Random(seed)``."""
        return cls((seed ^ 0x5DEECE66D) & MASK_48)

    def next(self, bits: int) -> tuple[int, Random]:
        """``next(bits)``: so many bits of the next state, as a signed integer, and that state."""
        state = self.state * 0x5DEECE66D + 0xB & MASK_48
        return signed(state >> 48 - bits), Random(state)

    def next_int(self, bound: int) -> tuple[int, Random]:
        """``nextInt(bound)``: an integer from 0 to ``bound`` - 1, and the state after it."""
        value, after = self.next(31)
        if bound & bound - 1 == 0:
            return bound * value >> 31, after
        while value - value % bound + bound - 1 >= 1 << 31:  # among the last, incomplete run of bound values
            value, after = after.next(31)
        return value % bound, after


def _folded(value: int) -> int:
    """``(int) (value ^ value >>> 32)`` of 64 bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return signed(value ^ value >> 32)


def _bits(written: str, read: str, value: float) -> int:
    return int(unpack(read, pack(written, value))[0])
