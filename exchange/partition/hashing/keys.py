"""Keys as bytes, as Kafka's serializers write them."""

from __future__ import annotations

import struct
from typing import Any, Final

from exchange.errors import InputError
from exchange.values.field_values import Typed, resolve_type

FORMATS: Final = {
    "bool": ">?", "byte": ">b", "short": ">h", "signedint": ">i", "long": ">q", "float": ">f", "double": ">d",
}  # fmt: skip
"""AMQP type -> format that Kafka's Boolean-, Short-, Integer-, Long-, Float- or DoubleSerializer writes."""


def serialize_key(key: Any) -> bytes | None:
    """Encode a key as Kafka's serializer for its type does; None stands for no key.

    A str is encoded as by StringSerializer, in UTF-8, a plain int as by LongSerializer. Raises InputError for a value
    that no serializer of Kafka takes, such as an integer of more than 64 bits in a JSON body.
    """
    if key is None or type(key) is bytes:
        return key
    if type(key) is str:
        # String.getBytes replaces a lone surrogate, which UTF-8 cannot encode, by a question mark.
        return key.encode("utf-8", "replace")
    kind, value = resolve_key_type(key)
    if kind in ("longstr", "binary"):
        return bytes(value)
    if kind in FORMATS:
        try:
            return struct.pack(FORMATS[kind], value)
        except (struct.error, OverflowError):
            raise InputError(f"{describe_key(key)} does not fit Java's {kind}: pass its digits, a string") from None
    type_name = kind if isinstance(key, Typed) else type(key).__name__
    raise InputError(f"a key of type {type_name} has no bytes: give a string, bytes or a number")


def resolve_key_type(key: Any) -> tuple[str, Any]:
    """Return the AMQP type of a key and its value, as `resolve_type`. Raises InputError for what is no field value.

    Publishers choose the keys, so no key may raise any other error.
    """
    try:
        return resolve_type(key)
    except RecursionError:
        raise InputError("not a key: nested too deeply") from None
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise InputError(f"not a key: {_clip(str(error))}") from None


def describe_key(key: Any) -> str:
    """Return the key for an error, shortened; its type if it cannot be printed (deep nesting, too many digits)."""
    try:
        return _clip(repr(key))
    except (ValueError, RecursionError):
        return f"a value of type {type(key).__name__}"


MAX_QUOTED_CHARACTERS: Final = 80
"""Maximum number of characters of a key in an error."""


def _clip(text: str) -> str:
    return text if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[: MAX_QUOTED_CHARACTERS - 3]}..."
