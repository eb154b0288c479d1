"""Texts as RabbitMQ holds them, and values as Erlang's ``~p`` prints them in RabbitMQ's error texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ESCAPES: Final = {
    "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\b": r"\b", "\f": r"\f", "\x1b": r"\e",
    '"': r"\"", "\\": r"\\",
}  # fmt: skip
_ATOMS: Final = {"True": "true", "False": "false", "None": "undefined"}


def encode_binary(text: str) -> bytes:
    """Encode a name or routing key as RabbitMQ holds it: UTF-8, where surrogate escapes stand for other bytes.

    Other lone surrogates, which only JSON can bring, get bytes of their own.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def show_string(text: str) -> str:
    """Print a list of characters: in quotes if all are printable in Latin-1, else as numbers."""
    if all("\x20" <= sign < "\x7f" or "\xa0" <= sign <= "\xff" or sign in _ESCAPES for sign in text):
        return '"' + "".join([_ESCAPES.get(sign, sign) for sign in text]) + '"'
    return f"[{','.join([str(ord(sign)) for sign in text])}]"


def show_binary(data: bytes) -> str:
    """Print a binary: as text if it is printable in UTF-8 or Latin-1, else as numbers.

    3.10 prints characters beyond ASCII in another way.
    """
    try:
        text, encoding = data.decode(), "/utf8"
    except UnicodeDecodeError:
        text, encoding = data.decode("latin-1"), ""
    if not data or not all(sign in _ESCAPES or " " <= sign <= "~" or sign >= "\xa0" for sign in text):
        return f"<<{','.join(map(str, data))}>>"
    escaped = "".join([_ESCAPES.get(sign, sign) for sign in text])
    return f'<<"{escaped}">>' if text.isascii() else f'<<"{escaped}"{encoding}>>'


def show_field(value: Any) -> str:
    """Print a field value that is decoded as by `exchange.values.field_values.resolve_type`."""
    if isinstance(value, bytes):
        return show_binary(value)
    return _ATOMS.get(str(value), str(value))


def show_json(value: Any) -> str:
    """Print a value read from JSON: strings are binaries, objects maps."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, str):
        return show_binary(encode_binary(value))
    if isinstance(value, Mapping):
        return "#{" + ",".join([f"{show_json(key)} => {show_json(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(show_json, value))}]"
    return str(value)
