"""Arguments as they are to be on the wire, each with its AMQP type.

pika writes integers and floats of one width and decimals anew, and the type of an argument decides what a headers
binding matches and which binding is meant. So values are written here, and pika is taught to pass on what is written.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from exchange.field_values import type_and_value

__all__ = ["Written", "let_pika_write", "written"]

FIXED: Final = {
    "bool": ("t", "?"), "byte": ("b", "b"), "unsignedbyte": ("B", "B"), "short": ("s", "h"),
    "unsignedshort": ("u", "H"), "signedint": ("I", "i"), "unsignedint": ("i", "I"), "long": ("l", "q"),
    "float": ("f", "f"), "double": ("d", "d"), "timestamp": ("T", "Q"),
}  # fmt: skip
"""Type -> its tag and the format of its value, as in `rabbit_binary_generator.erl`."""

SIZED: Final = {"longstr": b"S", "binary": b"x", "array": b"A", "table": b"F"}


class Written(bytes):
    """A field value with its tag, ready to be sent."""

    __slots__ = ()


def written(arguments: Mapping[str, Any]) -> dict[str, Written]:
    """The arguments for pika, once `let_pika_write` was called. Raises ValueError where a name is too long."""
    return {name: Written(_field(*type_and_value(value))) for name, value in arguments.items()}


def let_pika_write() -> None:
    """Make pika send `Written` values as they are; all others it writes as before."""
    import pika.data  # only those who talk to a broker need it

    original = pika.data.encode_value
    if getattr(original, "passes_written", False):
        return

    def encode_value(pieces: list[bytes], value: Any) -> int:
        if isinstance(value, Written):
            pieces.append(value)
            return len(value)
        return int(original(pieces, value))

    encode_value.passes_written = True  # type: ignore[attr-defined]
    pika.data.encode_value = encode_value


def _field(kind: str, value: Any) -> bytes:
    if kind == "void":
        return b"V"
    if kind == "decimal":
        return struct.pack(">cBI", b"D", *value)
    if kind in FIXED:
        tag, form = FIXED[kind]
        return tag.encode() + struct.pack(f">{form}", value)
    if kind == "array":
        value = b"".join(_field(*item) for item in value)
    elif kind == "table":
        value = b"".join(_name(key) + _field(inner, item) for key, inner, item in value)
    return SIZED[kind] + struct.pack(">I", len(value)) + bytes(value)


def _name(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > 255:
        raise ValueError(f"the name {text[:20]!r}... has {len(data)} bytes; AMQP allows 255")
    return bytes([len(data)]) + data
