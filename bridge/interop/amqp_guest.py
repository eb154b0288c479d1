"""A message of AMQP wrapped for Kafka, and unwrapped. Most headers are copied as bytes, without being decoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from bridge.interop.record import Header, Record, Unmappable, check_key
from bridge.interop.texts import format_wire, parse_wire
from exchange.amqp import ContentHeader, build_lazy_message
from exchange.amqp.content import PROPERTIES, UNUSED, WIDTHS
from exchange.amqp.fields import SIZE, encode_short_string
from exchange.values.json_text import parse_leniently
from exchange.values.message import BASIC_PROPERTIES, Message

PREFIX: Final = "amqp."
MARK: Final = "amqp.routing_key"
EXCHANGE: Final = "amqp.exchange"
TYPES: Final = "amqp.types"
TABLE: Final = "amqp.headers"
EMPTY: Final = b"empty"
FLAGS: Final = "amqp.flags"
ESCAPED: Final = "amqp.header."
HEX: Final = "amqp.header-hex."

NAMES: Final[Mapping[str, str]] = {name: PREFIX + name for name in BASIC_PROPERTIES}
"""Property -> the header of Kafka that has it."""
PROPERTY_OF: Final[Mapping[str, str]] = {header: name for name, header in NAMES.items()}

REMEMBERED_BYTES: Final = 512
"""Maximum size of a content header whose headers are cached, in bytes; a longer one hardly ever comes twice."""

NUMBERS: Final = frozenset({name for name, kind in PROPERTIES.items() if kind in {"octet", "timestamp"}})

Types = Mapping[str, str | list[str | None] | None]
"""Name -> the type of its header; of several headers of one name, their types in order."""


@lru_cache(4096)
def format_kafka_name(raw: bytes) -> str:
    """Return the name in Kafka of an AMQP header of this name."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return HEX + raw.hex()
    if not name or "\0" in name:
        return HEX + raw.hex()
    return ESCAPED + name if name.startswith(PREFIX) else name


def wrap(
    content: ContentHeader, exchange: str, routing_key: str, name_of: Callable[[bytes], str] = format_kafka_name
) -> list[Header]:
    """Return the headers of the record that carries a message; ``name_of`` maps an AMQP header's name to its own."""
    raw = content.raw
    return [
        (EXCHANGE, exchange.encode("utf-8", "surrogateescape")),
        (MARK, routing_key.encode("utf-8", "surrogateescape")),
        *(_known_headers if len(raw) <= REMEMBERED_BYTES else _headers)(raw, name_of),
    ]


def _headers(raw: bytes, name_of: Callable[[bytes], str]) -> tuple[Header, ...]:
    """Return the headers of a record for a content header."""
    content = ContentHeader(raw)
    headers = format_properties(content)
    if content.unused_flags:
        headers.append((FLAGS, b"%d" % content.unused_flags))
    if not content.has_table:
        return tuple(headers)
    first = len(headers)
    kinds: list[tuple[str, str | None]] = []
    plain = True  # whether no header so far has a type that must be kept in `TYPES`
    for raw_name, wire in content.fields():
        name = name_of(raw_name)
        if wire[0] == 83:  # S, a longstr: what text_of returns, without the call
            kinds.append((name, None))
            headers.append((name, wire[5:]))
            continue
        kind, text = format_wire(wire)
        plain = plain and kind is None
        kinds.append((name, kind))
        headers.append((name, text))
    if len(headers) == first:
        headers.append((TABLE, EMPTY))
    if not plain:
        # Only short lists of short types are cached: a type may contain a whole field, see `format_wire`.
        write = _types_text if len(kinds) <= 64 and all(not kind or len(kind) < 32 for _, kind in kinds) else _new_types
        headers.append((TYPES, write(tuple(kinds))))
    return tuple(headers)


_known_headers: Final = lru_cache(1024)(_headers)  # where messages have no id or time, many have the same


def format_properties(content: ContentHeader) -> list[Header]:
    """Return the properties of a message as headers of Kafka."""
    return [(NAMES[name], b"%d" % int.from_bytes(raw) if name in NUMBERS else raw) for name, raw in content.parts()]


def _new_types(kinds: tuple[tuple[str, str | None], ...]) -> bytes:
    of_names: dict[str, list[str | None]] = {}
    for name, kind in kinds:
        of_names.setdefault(name, []).append(kind)
    types = {name: several if len(several) > 1 else several[0] for name, several in of_names.items() if any(several)}
    return json.dumps(types, ensure_ascii=False, separators=(",", ":")).encode()


_types_text: Final = lru_cache(256)(_new_types)  # the messages of one publisher have few shapes


def unwrap(record: Record, exchange: str | None, routing_key: str | None) -> Message:
    """Return the message that a record with our ``MARK`` carries. Raises Unmappable."""
    address: dict[str, str] = {}
    parts: dict[str, bytes] = {}
    types: Types = {}
    has_table = False
    flags = 0
    fields: list[tuple[bytes, str, bytes | None]] = []  # headers of the message, as `_table` takes them
    for name, value in record.headers:
        if not name.startswith(PREFIX):
            fields.append((_field_name(name), name, value))
        elif name in PROPERTY_OF:
            if value is not None:
                parts[PROPERTY_OF[name]] = _encode_property(name, value)
        elif name in {MARK, EXCHANGE}:
            address[name] = (value or b"").decode("utf-8", "surrogateescape")
        elif name == TYPES:
            types = _parse_types(value)
        elif name == TABLE and value == EMPTY:
            has_table = True
        elif name == FLAGS:
            flags = _parse_flags(value)
        else:
            fields.append((_field_name(name), name, value))
    content = ContentHeader.from_parts(parts, _table(fields, types) if fields or has_table else None, flags)
    return build_lazy_message(
        address.get(EXCHANGE, "") if exchange is None else exchange,
        check_key(address.get(MARK, "") if routing_key is None else routing_key),
        content,
        record.value or b"",
    )


def _table(fields: list[tuple[bytes, str, bytes | None]], types: Types) -> bytes:
    """Encode a table of headers, each given as its name in AMQP with its length first, its name in Kafka and its text.

    A header without a type is a longstr, or void for null. Raises Unmappable for a text that its type does not allow.
    """
    pieces: list[bytes] = []
    seen: dict[str, int] = {}
    for short, name, value in fields:
        pieces.append(short)
        kind = types.get(name) if types else None
        if kind is None and value is not None:
            pieces.append(b"S" + SIZE.pack(len(value)) + value)
            continue
        if isinstance(kind, list):
            index = seen[name] = seen.get(name, -1) + 1
            kind = kind[index] if index < len(kind) else None
        try:
            pieces.append(parse_wire(kind, value))
        except ValueError as error:
            raise Unmappable(f"header {name!r}: {error}") from None
    return b"".join(pieces)


@lru_cache(4096)
def _field_name(name: str) -> bytes:
    """Return the name in AMQP of a header of Kafka, as bytes with the length first. Raises Unmappable."""
    if name.startswith(HEX):
        try:
            raw = bytes.fromhex(name[len(HEX) :])
        except ValueError:
            raise Unmappable(f"header {name!r}: what follows {HEX} is not hexadecimal") from None
        text = raw.decode("utf-8", "surrogateescape")
    else:
        text = name.removeprefix(ESCAPED)
    try:
        return encode_short_string(text)
    except ValueError as error:
        raise Unmappable(f"header name {error}") from None


def _encode_property(name: str, value: bytes) -> bytes:
    """Return a property as it is on the wire. Raises Unmappable."""
    width = WIDTHS[PROPERTY_OF[name]]
    if not width:
        if len(value) > 255:
            raise Unmappable(f"header {name}: it has {len(value)} bytes; AMQP allows 255")
        return bytes((len(value),)) + value
    number = int(value) if value.isdigit() and len(value) <= 20 else -1
    if not 0 <= number < 1 << 8 * width:
        raise Unmappable(f"header {name}: {value[:40]!r} is not a whole number of {8 * width} bits")
    return number.to_bytes(width)


def _parse_flags(value: bytes | None) -> int:
    if value not in {b"1", b"2", b"3"}:
        raise Unmappable(f"header {FLAGS}: {value!r} is not 1, 2 or {UNUSED}")
    return int(value)


def _parse_types(text: bytes | None) -> Types:
    if text is None:
        return {}
    return _read_types(text) if len(text) > 4096 else _known_types(text)


def _read_types(text: bytes) -> Types:
    try:
        types = parse_leniently(text)
    except ValueError:
        types = None
    if not isinstance(types, dict) or not all(
        isinstance(kind, str | None) or (isinstance(kind, list) and all(isinstance(one, str | None) for one in kind))
        for kind in types.values()
    ):
        raise Unmappable(f"header {TYPES}: {text[:40]!r} is not JSON of types by name")
    return types


_known_types: Final = lru_cache(256)(_read_types)
