"""Decode AMQP field values from a type and a text, as archives hold them: `bindings.archive.fields` has the table."""

from __future__ import annotations

from base64 import b64decode
from decimal import Decimal
from typing import Any, Final

from exchange.errors import InputError
from exchange.limits import NESTING
from exchange.text.numbers import read_float, read_integer
from exchange.values.field_json import decode
from exchange.values.field_values import RANGES, Typed, resolve_type, round_to_float32
from exchange.values.json_text import parse_leniently

LOWEST, HIGHEST = RANGES["long"]
DIGITS: Final = 300
"""Number of digits that no AMQP decimal reaches before or after its point."""
MAX_QUOTED_CHARACTERS: Final = 60
"""Maximum number of characters of a wrong value that an error quotes."""


def decode_field(name: str, text: str | None) -> Any:
    """Return the field value with this type and unescaped text. Raises InputError if the text is not of the type."""
    if name == "longstr" and text is not None:
        try:
            text.encode()
        except UnicodeEncodeError:
            return Typed("longstr", text.encode("utf-8", "surrogateescape"))
        return text
    try:
        if name == "long" and text is not None:
            return _decode_long(text)
        return _decode_rare_field(name, text)
    except (ValueError, TypeError, ArithmeticError, KeyError, InputError, RecursionError) as error:
        raise InputError(f"{_shorten(text)} is not a {_shorten(name)} of AMQP: {_shorten(error)}") from None


def _shorten(value: Any) -> str:
    text = str(value) if isinstance(value, Exception) else repr(value)
    return text if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[:MAX_QUOTED_CHARACTERS]}..."


def _decode_long(text: str) -> int:
    number = read_integer(text)
    if not LOWEST <= number <= HIGHEST:
        raise ValueError("it has more than 64 bits")
    return number


def _decode_rare_field(name: str, text: str | None) -> Any:
    if name == "void":
        return None
    if text is None:
        raise ValueError("only a void has no value")
    if name in RANGES:
        return Typed(name, read_integer(text))
    if name == "bool":
        return {"true": True, "false": False}[text]
    if name == "double":
        return read_float(text)
    if name == "float":
        number = read_float(text)
        round_to_float32(number)  # raises OverflowError when 32 bits do not hold it
        return Typed("float", number)
    if name == "binary":
        return b64decode(text, validate=True)
    if name == "decimal":
        read_float(text)  # raises ValueError for what only Python takes
        decimal = Decimal(text)
        if not -DIGITS < decimal.adjusted() < DIGITS:  # checking a decimal of many zeros would take long
            raise ValueError("AMQP has ten digits")
        resolve_type(decimal)  # raises ValueError when AMQP cannot hold it
        return decimal
    if name in ("array", "table"):
        return decode(parse_leniently(text, 2 * NESTING))
    raise ValueError(f"there is no type {name!r}")
