"""How the clients read a key: as the bytes that Kafka's serializers make of it."""

from __future__ import annotations

from struct import pack
from typing import Any, Final

from exchange.errors import InputError
from exchange.values import Typed, type_and_value

__all__ = ["serialized"]

FORMATS: Final = {
    "bool": ">?", "byte": ">b", "short": ">h", "signedint": ">i", "long": ">q", "float": ">f", "double": ">d",
}  # fmt: skip
"""AMQP type -> what Kafka's Boolean-, Short-, Integer-, Long-, Float- and DoubleSerializer write."""


def serialized(key: Any) -> bytes | None:
    """The key's bytes, as Kafka's serializer for its type writes them; None is no key.

    A str is what StringSerializer writes, UTF-8, and a plain int what LongSerializer writes. Raises InputError for
    values no serializer of Kafka's takes.
    """
    if key is None or type(key) is bytes:
        return key
    if type(key) is str:
        # String.getBytes replaces a lone surrogate, which UTF-8 has no place for, with a question mark.
        return key.encode("utf-8", "replace")
    try:
        kind, value = type_and_value(key)
    except (TypeError, ValueError) as error:
        raise InputError(f"not a key: {error}") from None
    if kind in ("longstr", "binary"):
        return bytes(value)
    if kind in FORMATS:
        return pack(FORMATS[kind], value)
    shown = kind if isinstance(key, Typed) else type(key).__name__
    raise InputError(f"a key of type {shown} has no bytes: give a string, bytes or a number")
