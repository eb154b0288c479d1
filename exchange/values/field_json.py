"""AMQP field values and messages in JSON: plain JSON where it determines the type, else ``{"!type": ...}``.

Plain JSON has the types that RabbitMQ's import of definitions gives it (`rabbit_misc:to_amqp_table`): an integer is a
long, a float a double, a string a longstr, an object a table; and null, which that import refuses, is a void. An object
whose only key starts with ``!`` is a typed value, so a real table of that shape is written ``{"!table": {...}}``. Where
only a table is possible (headers, arguments), an object is never read as a typed value. `encode` writes plain JSON
wherever that means the same type, and `decode` restores types, values and order.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from json import dumps
from typing import Any, Final, TypeAlias

from exchange.errors import InputError
from exchange.limits import NESTING, SHORTSTR_BYTES
from exchange.text.display import clip_line
from exchange.values.documents import write_as
from exchange.values.field_values import RANGES, FieldTable, Typed, resolve_type, round_to_float32, to_bytes
from exchange.values.json_text import parse_line
from exchange.values.json_types import BytesJson, FieldJson, MessageJson
from exchange.values.message import Message, assemble_message

SAME: Final = frozenset({str, bool, type(None)})
"""Types of JSON values that are field values as they are. Float is missing: Python's parser reads 1e999 as infinity."""

LOWEST, HIGHEST = RANGES["long"]
LONGEST_PLACE: Final = 200
"""Maximum number of characters of a place in an error: publishers choose the names of fields."""
NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


def decode(value: Any, place: str = "value") -> Any:
    """Return the field value that a value parsed from JSON stands for.

    Raises InputError for integers beyond 64 bits, for typed values that are unknown or do not fit their type, and for
    arrays and tables deeper than `exchange.limits.NESTING`. The error calls the value ``place``.
    """
    return value if type(value) in SAME else _decode(value, (None, place), 0)


def decode_table(value: Any, place: str = "value") -> dict[str, Any]:
    """Return the table that an object stands for; here a key that starts with ``!`` has no special meaning.

    Raises InputError as `decode`, and for what is no object.
    """
    return _decode_table(value, (None, place), 0)


Place: TypeAlias = tuple[Any, str | int]
"""The path to a value: the place of what contains it (None at the top), and its name or index there.

A linked list, which costs nothing to extend: its text is built for errors only.
"""


def _format_place(place: Place) -> str:
    steps: list[str] = []
    while place[0] is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return clip_line("".join((str(place[1]), *reversed(steps))), LONGEST_PLACE)


def _check_depth(place: Place, depth: int) -> None:
    if depth >= NESTING:
        raise InputError(f"{_format_place(place)}: nested too deeply, beyond {NESTING} arrays and tables")


def _decode(value: Any, place: Place, depth: int) -> Any:
    """Return the field value of a value whose type is not in `SAME`."""
    kind = type(value)
    if kind is int:
        if LOWEST <= value <= HIGHEST:
            return value
        shown = clip_line(str(value), 60)
        raise InputError(
            f"{_format_place(place)}: {shown} does not fit in a long, AMQP's largest integer: 64 bits, signed"
        )
    if kind is list:
        _check_depth(place, depth)
        return [item if type(item) in SAME else _decode(item, (place, n), depth + 1) for n, item in enumerate(value)]
    if kind is dict:
        if len(value) == 1:
            (key,) = value
            if key.startswith("!"):
                _check_depth(place, depth)
                return _decode_typed(key, value[key], place, depth)
        return _decode_table(value, place, depth)
    if kind is float:
        if math.isfinite(value):
            return value
        text = _encode_float(value)
        raise InputError(
            f'{_format_place(place)}: a number that JSON does not have; it is written {{"!double": "{text}"}}'
        )
    if kind in SAME:
        return value
    raise InputError(f"{_format_place(place)}: {value!r} is not a JSON value")


def _decode_table(value: Any, place: Place, depth: int) -> dict[str, Any]:
    if type(value) is not dict:
        raise InputError(f"{_format_place(place)}: {_clip_json(value)} is not an object")
    _check_depth(place, depth)
    return {key: item if type(item) in SAME else _decode(item, (place, key), depth + 1) for key, item in value.items()}


def encode(value: Any) -> Any:
    """Return a field value as a JSON value, which `json.dumps` accepts.

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
        resolve_type(value)  # raises ValueError when AMQP cannot hold it
        return {"!decimal": str(value)}
    if isinstance(value, datetime):
        return {"!timestamp": Typed("timestamp", resolve_type(value)[1]).value}
    if isinstance(value, Mapping):
        table = encode_table(value)
        return {"!table": table} if len(table) == 1 and next(iter(table)).startswith("!") else table
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    raise TypeError(f"no AMQP field type for {value!r}")


def encode_table(table: Mapping[str, Any]) -> dict[str, FieldJson]:
    """Return the JSON object of a table, for a position where only a table is possible; `decode_table` reads it."""
    for key in table:
        if not isinstance(key, str):
            raise TypeError(f"{key!r} is not a string, as the keys of an AMQP table are")
    return {key: encode(value) for key, value in table.items()}


def decode_message(value: Any, *, any_length: bool = False) -> Message:
    """Build the message that an object describes. Each field may be absent; other fields are ignored.

    ``exchange`` and ``routing_key`` are strings, ``headers`` and ``properties`` objects of field values, ``body`` a
    string (standing for its UTF-8 bytes) or ``{"!bytes": "<base64>"}``. Null means absent, but for the routing key.
    Raises InputError naming the field that is wrong; a name or key that is too long for AMQP is wrong, too, unless
    ``any_length`` allows those of other systems.
    """
    # Each message of an archive passes here: the common case makes few calls.
    if type(value) is not dict:
        raise InputError(f"{_clip_json(value)} is not a message: an object with exchange, routing_key, headers ...")
    get = value.get
    exchange = get("exchange", "")
    if type(exchange) is not str:
        exchange = "" if exchange is None else _refuse_non_string(exchange, "exchange")
    routing_key = get("routing_key", "")
    if type(routing_key) is not str:
        _refuse_non_string(routing_key, "routing_key")
    headers = get("headers")
    headers = {} if headers is None or headers == {} else _decode_table(headers, HEADERS, 0)
    properties = get("properties")
    properties = {} if properties is None or properties == {} else _decode_table(properties, PROPERTIES, 0)
    body = get("body")
    body = b"" if body is None else _decode_body(body)
    if not any_length:
        if len(exchange) > SURELY_SHORT or len(routing_key) > SURELY_SHORT:
            _check_length(exchange, "exchange")
            _check_length(routing_key, "routing_key")
        for name in headers:
            if len(name) > SURELY_SHORT:
                _check_length(name, "headers")
    return assemble_message(exchange, routing_key, headers, properties, body)


def decode_message_line(raw: bytes, *, any_length: bool = False) -> Message:
    """Build the message that a line of JSON in UTF-8 describes, with or without its line end: see `decode_message`.

    Raises InputError with the reason.
    """
    return decode_message(parse_line(raw), any_length=any_length)


HEADERS: Final = (None, "headers")
PROPERTIES: Final = (None, "properties")


def encode_message(message: Message) -> MessageJson:
    """Return the object that `decode_message` reads; headers, properties and body only if they are not empty.

    The body is a string when it is UTF-8, else ``{"!bytes": "<base64>"}``.
    """
    fields: MessageJson = {"exchange": message.exchange, "routing_key": message.routing_key}
    if message.headers:
        fields["headers"] = encode_table(message.headers)
    if message.properties:
        fields["properties"] = encode_table(message.properties)
    if message.body:
        fields["body"] = _encode_body(message.body)
    return fields


def encode_fields(fields: Mapping[str, Any]) -> bytes:
    """Encode an object as a line of JSON in UTF-8; lone surrogates, which only escapes can bring, stay escapes."""
    try:
        return dumps(fields, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return dumps(fields).encode() + b"\n"


def _decode_body(value: Any) -> bytes:
    if type(value) is str:
        return to_bytes(value)
    body = decode(value, "body") if type(value) is dict else value
    if not isinstance(body, bytes):
        raise InputError(f'body: {_clip_json(value)} is neither a string nor {{"!bytes": "<base64>"}}')
    return body


def _check_length(text: str, place: str) -> None:
    size = len(text.encode("utf-8", "replace"))  # "replace": the lone surrogates of a line stand for one byte each
    if size > SHORTSTR_BYTES:
        raise InputError(f"{place}: '{clip_line(text, 60)}' has {size} bytes; AMQP allows {SHORTSTR_BYTES}")


SURELY_SHORT: Final = SHORTSTR_BYTES // 4
"""Number of characters up to which every text has at most `SHORTSTR_BYTES` bytes in UTF-8."""


def _refuse_non_string(value: Any, place: str) -> str:
    raise InputError(f"{place}: {_clip_json(value)} is not a string")


def _clip_json(value: Any) -> str:
    try:
        text = dumps(value, default=repr)
    except RecursionError:
        return "a value nested too deeply"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _encode_body(value: bytes) -> BytesJson:
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
        round_to_float32(inner)  # raises OverflowError when 32 bits do not hold it
        return {"!float": _encode_float(inner)}
    if kind == "longstr" and isinstance(inner, bytes):
        text = _encode_body(inner)
        return text if isinstance(text, str) else {"!longstr": text}
    # The other types have a plain Python value. `Typed` checks some of them loosely: one that does not fit its type is
    # another value after the conversion.
    plain = PLAIN_PYTHON[kind](inner)
    if resolve_type(plain) != resolve_type(value):
        raise ValueError(f"{inner!r} is not of the type {kind}")
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
"""Type that plain Python has, too -> function that converts the value of a `Typed` to the plain value."""


def _decode_typed(key: str, item: Any, place: Place, depth: int) -> Any:
    reader = READERS.get(key)
    if reader is None:
        table = f'{{"!table": {{{_clip_json(key)}: ...}}}}'
        raise InputError(
            f"{_format_place(place)}: {_clip_json(key)} is not an AMQP type; there are {', '.join(READERS)}. "
            f"A table with this only key is written {table}"
        )
    try:
        return reader(item, (place, key), depth)
    except (ValueError, ArithmeticError) as error:
        raise InputError(f"{_format_place((place, key))}: {_clip_json(item)} does not fit: {error}") from None


Reader = Callable[[Any, Place, int], Any]
"""Value of the only key of a typed value, its place, its depth -> the field value."""


def _require(fits: bool, wanted: str) -> None:
    if not fits:
        raise ValueError(f"it must be {wanted}")


def _read_void(item: Any, *_: Any) -> None:
    _require(item is None, "null")


def _read_bool(item: Any, *_: Any) -> bool:
    _require(isinstance(item, bool), "true or false")
    return bool(item)


def _read_float(item: Any, *_: Any) -> float:
    is_named = item in ("NaN", "Infinity", "-Infinity")
    _require(
        is_named or (isinstance(item, (int, float)) and not isinstance(item, bool)), 'a number, "NaN" or "±Infinity"'
    )
    return float(item)


def _read_single(item: Any, *_: Any) -> Typed:
    number = _read_float(item)
    round_to_float32(number)  # raises OverflowError when 32 bits do not hold it
    return Typed("float", number)


def _read_decimal(item: Any, *_: Any) -> Decimal:
    _require(isinstance(item, str) and NUMBER.fullmatch(item) is not None, 'a number in a string, such as "1.25"')
    value = Decimal(item)
    resolve_type(value)  # raises ValueError when AMQP cannot hold it
    return value


def _read_bytes(item: Any, *_: Any) -> bytes:
    _require(isinstance(item, str), "a string in base64")
    return b64decode(item, validate=True)


def _read_longstr(item: Any, place: Place, depth: int) -> str | Typed:
    if isinstance(item, str):
        return item
    inner = _decode(item, place, depth + 1) if type(item) is dict else None
    _require(isinstance(inner, bytes), 'a string, or {"!bytes": "<base64>"} when it is not UTF-8')
    return Typed("longstr", inner)


def _read_array(item: Any, place: Place, depth: int) -> Any:
    _require(isinstance(item, list), "an array")
    return _decode(item, place, depth)


def _read_integer(kind: str) -> Reader:
    return lambda item, *_: Typed(kind, item)


READERS: Final[Mapping[str, Reader]] = {
    **{f"!{kind}": _read_integer(kind) for kind in RANGES},
    "!long": lambda item, *_: Typed("long", item).value,
    "!void": _read_void,
    "!bool": _read_bool,
    "!float": _read_single,
    "!double": _read_float,
    "!decimal": _read_decimal,
    "!longstr": _read_longstr,
    "!bytes": _read_bytes,
    "!binary": _read_bytes,
    "!array": _read_array,
    "!table": _decode_table,
}
"""The only key of a typed value -> its reader: one for every type in `field_values.TYPES`, and ``!bytes``."""


write_as(FieldTable, encode_table, dict[str, FieldJson])
write_as(Message, encode_message, MessageJson)
