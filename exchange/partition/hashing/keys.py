"""How the clients read a key: as the bytes that Kafka's serializers make of it."""

from __future__ import annotations

from struct import error as StructError  # noqa: N812  it is a class
from struct import pack
from typing import Any, Final

from exchange.errors import InputError
from exchange.field_values import Typed, type_and_value

__all__ = ["describe_key", "kind_and_value", "serialized"]

FORMATS: Final = {
    "bool": ">?", "byte": ">b", "short": ">h", "signedint": ">i", "long": ">q", "float": ">f", "double": ">d",
}  # fmt: skip
"""AMQP type -> what Kafka's Boolean-, Short-, Integer-, Long-, Float- and DoubleSerializer write."""


def serialized(key: Any) -> bytes | None:
    """The key's bytes, as Kafka's serializer for its type writes them; None is no key.

    A str is what StringSerializer writes, UTF-8, and a plain int what LongSerializer writes. Raises InputError for
    values no serializer of Kafka's takes: among them an integer of more than 64 bits, as a JSON body may have one.
    """
    if key is None or type(key) is bytes:
        return key
    if type(key) is str:
        # String.getBytes replaces a lone surrogate, which UTF-8 has no place for, with a question mark.
        return key.encode("utf-8", "replace")
    kind, value = kind_and_value(key)
    if kind in ("longstr", "binary"):
        return bytes(value)
    if kind in FORMATS:
        try:
            return pack(FORMATS[kind], value)
        except (StructError, OverflowError):
            raise InputError(f"{describe_key(key)} does not fit Java's {kind}: pass its digits, a string") from None
    shown = kind if isinstance(key, Typed) else type(key).__name__
    raise InputError(f"a key of type {shown} has no bytes: give a string, bytes or a number")


def kind_and_value(key: Any) -> tuple[str, Any]:
    """The AMQP type of a key and its value, as `type_and_value`. Raises InputError for what is no field value.

    Keys are taken from what publishers wrote, so nothing that they can write may raise anything else.
    """
    try:
        return type_and_value(key)
    except RecursionError:
        raise InputError("not a key: nested too deeply") from None
    except (TypeError, ValueError, OverflowError, StructError) as error:
        raise InputError(f"not a key: {_cut(str(error))}") from None


def describe_key(key: Any) -> str:
    """The key for an error message, shortened; its type where it cannot be written (deep nesting, endless digits)."""
    try:
        return _cut(repr(key))
    except (ValueError, RecursionError):
        return f"a value of type {type(key).__name__}"


MOST_SHOWN: Final = 80
"""Maximum number of characters of a key in an error message."""


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
