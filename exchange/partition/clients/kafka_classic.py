"""The two partitioners that people write for Kafka's Java producer: by ``key.hashCode()``, and at random.

Kafka has neither. Unlike its own partitioners, which choose by the bytes of a key, the first depends on the key's type
in Java, and both choose among all partitions, with or without a leader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import copysign, inf, isnan
from struct import pack, unpack
from typing import Any, Final
from uuid import UUID

from exchange.errors import InputError
from exchange.partition.hashing.hashes import to_signed
from exchange.partition.hashing.java import (
    LEAST_INT,
    compute_remainder,
    decode_string,
    encode_code_units,
    fold,
    hash_code,
    string_hash,
)
from exchange.partition.hashing.keys import describe_key, resolve_key_type, serialize_key
from exchange.partition.partitioner import Choice, Inputs, Key, Partitioner, Strategy
from exchange.partition.partitions import Partitions
from exchange.values.field_values import Typed
from exchange.values.java_numbers import BLANK


@dataclass(frozen=True, slots=True)
class HashCode(Partitioner):
    """``Math.abs(key.hashCode()) % partitions.size()``.

    ``type`` is the type of the key in Java, into which a text is read: the text ``42`` as an Integer has another hash
    than as a String. Without it, the key's own type counts, as in `hash_code`.
    """

    type: str = ""

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        if key is None:
            raise InputError("null has no hashCode: the partitioner throws NullPointerException")
        value = hash_code(key) if not self.type else TYPES[self.type](key)
        # Java's Math.abs leaves the least int as it is, and the remainder of a negative number is negative or 0.
        number = compute_remainder(value if value == LEAST_INT else abs(value), partitions.count)
        if number < 0:
            raise InputError(
                f"{describe_key(key)} has the hashCode {LEAST_INT}, whose Math.abs is negative: the Java producer "
                "throws IllegalArgumentException"
            )
        return Choice(partitions.all[number].id, value, f"Math.abs(hash) % {partitions.count}")

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        if type(key) is not str or self.type not in ("", "string") or (value := string_hash(key)) == LEAST_INT:
            return self.choose(key, partitions).partition
        return partitions.all[abs(value) % partitions.count].id


@dataclass(frozen=True, slots=True)
class RandomOfAll(Partitioner):
    """``random.nextInt(partitions.size())``: any partition, with or without a leader; it ignores keys."""

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        return Choice(None, None, "a partition drawn at random")

    def choose_next(self, key: Key, partitions: Partitions, memory: None, inputs: Inputs) -> tuple[Choice, None]:
        return Choice(partitions.all[inputs.draw(partitions.count)].id, None, "drawn at random"), None


INTEGER: Final = re.compile("[+-]?[0-9]{1,20}")
DECIMAL: Final = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")
"""The decimal forms of ``Double.valueOf``; it also takes hexadecimal ones."""
TINY, HUGE = 1e-46, 1e39
"""Bounds beyond which a number of 32 bits is 0 or infinite."""
GREATEST, INFINITE = 0x7F7F_FFFF, 0x7F80_0000
"""Bits of the greatest number of 32 bits, and of infinity."""


def _text(key: Key, wanted: str) -> str:
    """Return the text of a key that is to be read as another type. Raises InputError for one that is no text."""
    kind, value = resolve_key_type(key)
    if kind not in ("longstr", "binary"):
        raise InputError(f"{describe_key(key)} is no text that Java could read as {wanted}")
    return decode_string(bytes(value))


def _hash_integer(amqp_type: str, bits: int) -> Callable[[Key], int]:
    def hash_key(key: Key) -> int:
        if isinstance(key, int) and not isinstance(key, bool):
            number = key
        else:
            text = _text(key, f"an integer of {bits} bits")
            if not INTEGER.fullmatch(text):
                raise InputError(f"{describe_key(text)} is no integer: Java throws NumberFormatException")
            number = int(text)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise InputError(f"{describe_key(number)} does not fit {bits} bits: Java throws NumberFormatException")
        return hash_code(Typed(amqp_type, number))

    return hash_key


def _read_decimal(key: Key, wanted: str) -> str:
    """Return the text of a decimal number, without a letter for its type."""
    if isinstance(key, (int, float)) and not isinstance(key, bool):
        return repr(key)
    text = _text(key, wanted).strip(BLANK)
    number = DECIMAL.fullmatch(text)
    if number is None:
        raise InputError(f"{describe_key(text)} is no decimal number: Java throws NumberFormatException")
    return number[1]


def _hash_double(key: Key) -> int:
    return hash_code(float(_read_decimal(key, "a Double")))


def _hash_float(key: Key) -> int:
    return hash_code(Typed("float", _round_to_float(_read_decimal(key, "a Float"))))


def _round_to_float(text: str) -> float:
    """Return the number of 32 bits that is nearest to a decimal number: by way of 64 bits it would be rounded twice."""
    number = float(text)
    size = abs(number)
    if isnan(size) or size in (0, inf):
        return number
    if not TINY < size < HUGE:
        return copysign(0.0 if size < 1 else inf, number)
    exact = abs(Fraction(text))
    try:
        bits: int = unpack(">I", pack(">f", size))[0]
    except OverflowError:
        bits = GREATEST
    near = [each for each in (bits - 1, bits, bits + 1) if 0 <= each <= INFINITE]
    # Beyond the greatest number comes 2**128, which stands for infinity; of two that are equally near, the even one.
    best = min(near, key=lambda each: (abs(_float_of(each) - exact), each & 1))
    return copysign(inf if best == INFINITE else float(_float_of(best)), number)


def _float_of(bits: int) -> Fraction:
    return Fraction(1 << 128) if bits == INFINITE else Fraction(unpack(">f", pack(">I", bits))[0])


def _hash_boolean(key: Key) -> int:
    return hash_code(key if isinstance(key, bool) else _text(key, "a Boolean").lower() == "true")


def _hash_character(key: Key) -> int:
    units = encode_code_units(_text(key, "a Character"))
    if len(units) != 2:
        raise InputError(f"{describe_key(key)} is no single char of Java")
    return int.from_bytes(units)


def _hash_uuid(key: Key) -> int:
    text = _text(key, "a UUID")
    try:
        number = UUID(text).int
    except ValueError:
        raise InputError(f"{describe_key(text)} is no UUID: Java throws IllegalArgumentException") from None
    return fold(number >> 64 ^ number)


def _hash_array(key: Key) -> int:
    """Return ``Arrays.hashCode(byte[])``, which is also that of Kafka's `Bytes`."""
    value = 1
    for byte in serialize_key(key) or b"":
        value = value * 31 + (byte ^ 0x80) - 0x80 & 0xFFFFFFFF  # Java's bytes are signed
    return to_signed(value)


def _hash_buffer(key: Key) -> int:
    """Return ``ByteBuffer.hashCode``, which goes from the last byte to the first."""
    return _hash_array(bytes(reversed(serialize_key(key) or b"")))


TYPES: Final[Mapping[str, Callable[[Key], int]]] = {
    "string": lambda key: hash_code(key if isinstance(key, str) else _text(key, "a String")),
    "integer": _hash_integer("signedint", 32),
    "long": _hash_integer("long", 64),
    "short": _hash_integer("short", 16),
    "byte": _hash_integer("byte", 8),
    "float": _hash_float,
    "double": _hash_double,
    "boolean": _hash_boolean,
    "character": _hash_character,
    "uuid": _hash_uuid,
    "bytes": _hash_array,
    "byte_buffer": _hash_buffer,
}
"""Name of a type of Java, without its package -> function from a key to its hashCode as that type."""


def _parse_type(text: str) -> Any:
    if text not in TYPES:
        raise ValueError(f"a type is one of {', '.join(TYPES)}; a byte[] has no hashCode of its content")
    return text


STRATEGIES: Final = (
    Strategy(
        "kafka.hash_code", HashCode, "a Partitioner of one's own for kafka-clients: Math.abs(key.hashCode()) % n",
        "a key goes to one partition, by its hashCode in Java, with or without a leader",
        "with other counts most keys move; a key of another type in Java moves; a hash of -2147483648 ends the send",
        parameters={"type": _parse_type},
    ),
    Strategy(
        "kafka.random_all", RandomOfAll, "a Partitioner of one's own for kafka-clients: random.nextInt(n)",
        "each partition is as likely as any other, also one without a leader",
        "no order by key; records wait for partitions without a leader",
    ),
)  # fmt: skip
