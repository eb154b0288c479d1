"""AMQP field values and messages in JSON: plain where JSON can say the type, ``{"!type": ...}`` where it cannot.

Plain JSON means what RabbitMQ's definitions import makes of it (`rabbit_misc:to_amqp_table`): an integer is a long, a
float a double, a string a longstr, an object a table, and null, which that import refuses, a void. An object whose only
key starts with ``!`` is a typed value, so a real table of that shape is written ``{"!table": {...}}``; a table that
stands where only a table can (headers, arguments) is never read as a typed value. `encode` writes plain JSON wherever
it means the same type, and `decode` undoes it: types, values and order come back.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from json import JSONDecodeError, JSONDecoder, dumps
from typing import Any, Final

from exchange.errors import InputError
from exchange.message import Message
from exchange.values import RANGES, Typed, float32, to_bytes, type_and_value

__all__ = [
    "decode",
    "decode_table",
    "encode",
    "encode_table",
    "json_line",
    "message_from_json",
    "message_from_line",
    "message_to_json",
]

SAME: Final = frozenset({str, float, bool, type(None)})
"""The types of JSON values that are field values as they stand."""

LOWEST, HIGHEST = RANGES["long"]
NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


def decode(value: Any, place: str = "value") -> Any:
    """The field value that a value parsed from JSON stands for.

    Raises InputError, which calls the value ``place``, for integers beyond 64 bits and for typed values that are
    unknown or do not fit their type.
    """
    kind = type(value)
    if kind in SAME:
        return value
    if kind is int:
        if LOWEST <= value <= HIGHEST:
            return value
        raise InputError(f"{place}: {value} does not fit in a long, AMQP's largest integer: 64 bits, signed")
    if kind is list:
        return [item if type(item) in SAME else decode(item, f"{place}[{n}]") for n, item in enumerate(value)]
    if kind is dict:
        if len(value) == 1:
            (key,) = value
            if key.startswith("!"):
                return _decode_typed(key, value[key], place)
        return decode_table(value, place)
    raise InputError(f"{place}: {value!r} is not a JSON value")


def decode_table(value: Any, place: str = "value") -> dict[str, Any]:
    """The table that an object stands for, whatever its keys; raises InputError as `decode`, or if it is no object."""
    if type(value) is not dict:
        raise InputError(f"{place}: {_shown(value)} is not an object")
    return {key: item if type(item) in SAME else decode(item, f"{place}.{key}") for key, item in value.items()}


def encode(value: Any) -> Any:
    """The JSON for a field value, in values that `json.dumps` takes.

    Raises TypeError for what is no field value, ValueError or OverflowError for one that does not fit its type.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if isinstance(value, Typed):
        return _encode_typed(value)
    if isinstance(value, int):
        return Typed("long", int(value)).value
    if isinstance(value, float):
        number = _encode_float(value)
        return number if isinstance(number, float) else {"!double": number}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"!bytes": b64encode(value).decode()}
    if isinstance(value, Decimal):
        type_and_value(value)  # raises ValueError when AMQP cannot hold it
        return {"!decimal": str(value)}
    if isinstance(value, datetime):
        return {"!timestamp": Typed("timestamp", type_and_value(value)[1]).value}
    if isinstance(value, Mapping):
        table = encode_table(value)
        return {"!table": table} if len(table) == 1 and next(iter(table)).startswith("!") else table
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    raise TypeError(f"no AMQP field type for {value!r}")


def encode_table(table: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object for a table that stands where only a table can: what `decode_table` reads."""
    for key in table:
        if not isinstance(key, str):
            raise TypeError(f"{key!r} is not a string, as the keys of an AMQP table are")
    return {key: encode(value) for key, value in table.items()}


def message_from_json(value: Any) -> Message:
    """The message that an object describes; each of its fields may be absent, and other fields are ignored.

    ``exchange`` and ``routing_key`` are strings, ``headers`` and ``properties`` objects of field values, ``body`` a
    string (its UTF-8 bytes are meant) or ``{"!bytes": "<base64>"}``; null means absent but for the routing key. Raises
    InputError naming the field that is wrong.
    """
    # On the way of every archived message: the common case is kept free of calls.
    if type(value) is not dict:
        raise InputError(f"{_shown(value)} is not a message: an object with exchange, routing_key, headers ...")
    get = value.get
    exchange = get("exchange", "")
    if type(exchange) is not str:
        exchange = "" if exchange is None else _not_a_string(exchange, "exchange")
    routing_key = get("routing_key", "")
    if type(routing_key) is not str:
        _not_a_string(routing_key, "routing_key")
    headers = get("headers")
    headers = {} if headers is None or headers == {} else _fields(headers, "headers")
    properties = get("properties")
    properties = {} if properties is None or properties == {} else _fields(properties, "properties")
    body = get("body")
    body = b"" if body is None else _body(body)
    message = new(Message)
    set_exchange(message, exchange)
    set_routing_key(message, routing_key)
    set_headers(message, headers)
    set_properties(message, properties)
    set_body(message, body)
    return message


def message_from_line(raw: bytes) -> Message:
    """The message that a line of JSON in UTF-8 describes, its line end included or not; as `message_from_json`.

    Raises InputError saying why it is none.
    """
    try:
        text = raw.decode()
        try:
            value, end = _raw_decode(text)
        except JSONDecodeError:
            value, end = None, 0
        if text[end:] not in LINE_ENDS or not end:
            value = _decode_all(text)  # white space around it, or an error that says where
    except JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} at column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise InputError("JSON nested too deeply") from None
    except ValueError as error:
        raise InputError(f"not JSON: {error}") from None
    return message_from_json(value)


LINE_ENDS: Final = ("\n", "", "\r\n")

_raw_decode: Final = JSONDecoder().raw_decode
_decode_all: Final = JSONDecoder().decode

# The constructor of a frozen dataclass takes three times as long as setting its slots, which is all that it does.
new: Final = object.__new__
set_exchange, set_routing_key, set_headers, set_properties, set_body = (
    getattr(Message, name).__set__ for name in ("exchange", "routing_key", "headers", "properties", "body")
)


def message_to_json(message: Message) -> dict[str, Any]:
    """The object that `message_from_json` reads; headers, properties and body only when there are any.

    The body is a string when it is UTF-8, else ``{"!bytes": "<base64>"}``.
    """
    written: dict[str, Any] = {"exchange": message.exchange, "routing_key": message.routing_key}
    if message.headers:
        written["headers"] = encode_table(message.headers)
    if message.properties:
        written["properties"] = encode_table(message.properties)
    if message.body:
        written["body"] = _text_or_bytes(message.body)
    return written


def json_line(fields: Mapping[str, Any]) -> bytes:
    """A line of JSON, in UTF-8; lone surrogates, which can only have come as escapes, leave as escapes."""
    try:
        return dumps(fields, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return dumps(fields).encode() + b"\n"


def _fields(value: Any, place: str) -> Mapping[str, Any]:
    try:
        return decode_table(value, place)
    except RecursionError:
        raise InputError(f"{place}: nested too deeply") from None


def _body(value: Any) -> bytes:
    if type(value) is str:
        return to_bytes(value)
    body = decode(value, "body") if type(value) is dict else value
    if not isinstance(body, bytes):
        raise InputError(f'body: {_shown(value)} is neither a string nor {{"!bytes": "<base64>"}}')
    return body


def _not_a_string(value: Any, place: str) -> str:
    raise InputError(f"{place}: {_shown(value)} is not a string")


def _shown(value: Any) -> str:
    text = dumps(value, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _text_or_bytes(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"!bytes": b64encode(value).decode()}


def _encode_float(value: float) -> float | str:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _encode_typed(value: Typed) -> Any:
    kind, inner = value.type, value.value
    if kind in RANGES:
        return int(inner) if kind == "long" else {f"!{kind}": int(inner)}
    if kind == "float":
        float32(inner)  # raises OverflowError when 32 bits do not hold it
        return {"!float": _encode_float(inner)}
    if kind == "longstr" and isinstance(inner, bytes):
        text = _text_or_bytes(inner)
        return text if isinstance(text, str) else {"!longstr": text}
    # The rest has plain Python; what the constructor let through although it does not fit shows by being different.
    plain = PLAIN_PYTHON[kind](inner)
    if type_and_value(plain) != type_and_value(value):
        raise ValueError(f"{inner!r} is not a {kind}")
    return encode(plain)


PLAIN_PYTHON: Final[Mapping[str, Callable[[Any], Any]]] = {
    "void": lambda _: None,
    "bool": bool,
    "double": float,
    "decimal": Decimal,
    "longstr": str,
    "binary": lambda inner: to_bytes(inner) if isinstance(inner, str) else bytes(inner),
    "array": list,
    "table": dict,
}
"""The types that plain Python has -> the plain value of a `Typed` one."""


def _decode_typed(key: str, item: Any, place: str) -> Any:
    reader = READERS.get(key)
    if reader is None:
        table = f'{{"!table": {{{dumps(key)}: ...}}}}'
        raise InputError(
            f"{place}: {dumps(key)} is not an AMQP type; there are {', '.join(READERS)}. "
            f"A table with this only key is written {table}"
        )
    try:
        return reader(item, f"{place}.{key}")
    except (ValueError, ArithmeticError) as error:
        raise InputError(f"{place}.{key}: {_shown(item)} does not fit: {error}") from None


def _must(fits: bool, wanted: str) -> None:
    if not fits:
        raise ValueError(f"it must be {wanted}")


def _void(item: Any, _: str) -> None:
    _must(item is None, "null")


def _bool(item: Any, _: str) -> bool:
    _must(isinstance(item, bool), "true or false")
    return bool(item)


def _float(item: Any, _: str) -> float:
    named = item in ("NaN", "Infinity", "-Infinity")
    _must(named or (isinstance(item, (int, float)) and not isinstance(item, bool)), 'a number, "NaN" or "±Infinity"')
    return float(item)


def _single(item: Any, place: str) -> Typed:
    number = _float(item, place)
    float32(number)  # raises OverflowError when 32 bits do not hold it
    return Typed("float", number)


def _decimal(item: Any, _: str) -> Decimal:
    _must(isinstance(item, str) and NUMBER.fullmatch(item) is not None, 'a number in a string, such as "1.25"')
    value = Decimal(item)
    type_and_value(value)  # raises ValueError when AMQP cannot hold it
    return value


def _bytes(item: Any, _: str) -> bytes:
    _must(isinstance(item, str), "a string in base64")
    return b64decode(item, validate=True)


def _longstr(item: Any, place: str) -> str | Typed:
    if isinstance(item, str):
        return item
    inner = decode(item, place) if type(item) is dict else None
    _must(isinstance(inner, bytes), 'a string, or {"!bytes": "<base64>"} when it is not UTF-8')
    return Typed("longstr", inner)


def _array(item: Any, place: str) -> Any:
    _must(isinstance(item, list), "an array")
    return decode(item, place)


def _integer(kind: str) -> Callable[[Any, str], Any]:
    return lambda item, _: Typed(kind, item)


READERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    **{f"!{kind}": _integer(kind) for kind in RANGES},
    "!long": lambda item, _: Typed("long", item).value,
    "!void": _void,
    "!bool": _bool,
    "!float": _single,
    "!double": _float,
    "!decimal": _decimal,
    "!longstr": _longstr,
    "!bytes": _bytes,
    "!binary": _bytes,
    "!array": _array,
    "!table": decode_table,
}
"""The only key of a typed value -> what reads it: one for every type in `exchange.values.TYPES`, and ``!bytes``."""
