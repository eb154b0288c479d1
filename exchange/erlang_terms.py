"""Print values as Erlang's ``~p`` does: so RabbitMQ's error texts quote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["show_json", "show_string"]

_ESCAPES: Final = {
    "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\b": r"\b", "\f": r"\f", "\x1b": r"\e",
    '"': r"\"", "\\": r"\\",
}  # fmt: skip


def show_string(text: str) -> str:
    """Print a list of characters: in quotes if all are printable in Latin-1, else as numbers."""
    if all("\x20" <= sign < "\x7f" or "\xa0" <= sign <= "\xff" or sign in _ESCAPES for sign in text):
        return '"' + "".join([_ESCAPES.get(sign, sign) for sign in text]) + '"'
    return f"[{','.join([str(ord(sign)) for sign in text])}]"


def show_json(value: Any) -> str:
    """Print a value read from JSON: strings are binaries, objects maps."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, str):
        utf8 = "" if value.isascii() else "/utf8"
        return f"<<{show_string(value)}{utf8}>>" if value else "<<>>"
    if isinstance(value, Mapping):
        return "#{" + ",".join([f"{show_json(key)} => {show_json(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(show_json, value))}]"
    return str(value)
