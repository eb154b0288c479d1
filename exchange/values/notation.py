"""Write values in the notation of .bindings files, which all texts for people use.

In this notation, a number and a string of digits look different (``644`` and ``"644"``), as they differ for RabbitMQ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from exchange.values.field_json import encode, encode_table

KEYWORDS: Final = ("exchange", "queue", "policy", "expect", "let", "for", "vhost", "profile", "in")
"""Words that begin or join statements: as names they need quotes."""
MATCH_MODES: Final = ("all", "any", "all-with-x", "any-with-x")
"""The values of ``x-match``, which stand before the table of a headers binding."""

VARIABLE: Final = re.compile(r"\{[^\W\d]\w*\}")
_BARE: Final = re.compile(r"[^\W\d](?:[\w.@$/+~%]|-(?!>))*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PLAIN: Final = re.compile(r'[^"\\{\x00-\x1f]*')
_SPECIAL: Final = re.compile(r'["\\]|\{(?=[^\W\d]\w*\})')


def quote(text: str) -> str:
    """Return the text in double quotes; in single quotes if that avoids escapes."""
    if _PLAIN.fullmatch(text) and text.isprintable():
        return f'"{text}"'
    if "'" not in text and text.isprintable() and _SPECIAL.search(text):
        return f"'{text}'"
    escaped = _SPECIAL.sub(r"\\\g<0>", text)
    return f'"{"".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in escaped)}"'


def write_name(name: str, reserved: Iterable[str] = ()) -> str:
    """Return a name, in quotes if it needs them; ``reserved`` are more words with a meaning in the name's position."""
    bare = _BARE.fullmatch(name) and name not in KEYWORDS and name not in reserved
    return name if bare else quote(name)


def write_value(value: Any) -> str:
    """Return an AMQP field value (see `exchange.values.field_values`) in the notation."""
    return write_json(encode(value), typed=True)


def write_table(fields: Mapping[str, Any]) -> str:
    """Return a field table: ``{ mode = "644", size = !long 5 }``."""
    return _write_fields(encode_table(fields), typed=True)


def write_arguments(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a binding: ``all { mode = "644" }``, or ``with { ... }`` if ``x-match`` is missing."""
    return write_encoded_arguments(encode_table(arguments))


def write_encoded_arguments(fields: Mapping[str, Any]) -> str:
    """Return arguments that `exchange.values.field_json.encode_table` has encoded, as `write_arguments` does."""
    mode = fields.get("x-match")
    if isinstance(mode, str) and mode in MATCH_MODES:
        others = {key: value for key, value in fields.items() if key != "x-match"}
        return f"{mode} {_write_fields(others, typed=True)}"
    return f"with {_write_fields(fields, typed=True)}"


def write_json(value: Any, *, typed: bool) -> str:
    """Return a JSON value in the notation: of `exchange.values.field_json.encode` (``typed``), or plain JSON."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return f"[{', '.join(write_json(item, typed=typed) for item in value)}]"
    if not isinstance(value, dict):
        return json.dumps(value)
    if typed and len(value) == 1:
        ((key, inner),) = value.items()
        if key == "!table":
            return _write_fields(inner, typed=True)
        if key == "!decimal" and _NUMBER.fullmatch(inner):
            return f"{key} {inner}"
        if key.startswith("!"):
            return f"{key} {write_json(inner, typed=True)}"
    return _write_fields(value, typed=typed)


def _write_fields(fields: Mapping[str, Any], *, typed: bool) -> str:
    entries = [f"{write_name(key)} = {write_json(value, typed=typed)}" for key, value in fields.items()]
    return f"{{ {', '.join(entries)} }}" if entries else "{}"
