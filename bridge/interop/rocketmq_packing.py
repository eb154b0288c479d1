"""Headers, ordered and with any values, as properties of RocketMQ: texts by name, without order, never empty.

A header whose value is text is the property of its name. Two properties of JSON, which most messages do not need, hold
the rest: how values that are no such text are represented, and the order of the headers where it is not ascending.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from bridge.interop.record import Header, Unmappable
from bridge.rocketmq.remoting.properties import CONTROL
from exchange.values.json_text import parse_leniently

VALUES: Final = "amqp.values"
ORDER: Final = "amqp.order"
EARLIER: Final = "amqp.earlier-"

# How a value that is no text is represented, in `VALUES`: the first two have no property of their own.
NULL: Final = "null"
EMPTY: Final = "empty"
BASE64: Final = "base64"


def format_property(value: bytes) -> str | None:
    """Return a header's value as the value of a property; None if no property can hold it as it is."""
    if not value:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if CONTROL.search(text) else text


def pack_headers(own: Sequence[Header], headers: Sequence[Header]) -> dict[str, str]:
    """Return the properties of ``headers``, whose order is kept and whose names may repeat, and of ``own``, whose
    order is always the same.
    """
    properties: dict[str, str] = {}
    odd: dict[str, str] = {}
    names = tuple([name for name, _ in headers])
    labels, order = (_known_layout if len(names) <= 32 else _layout)(names)
    for label, value in [*own, *zip(labels, [value for _, value in headers], strict=True)]:
        text = None if value is None else format_property(value)
        if text is not None:
            properties[label] = text
        elif not value:
            odd[label] = NULL if value is None else EMPTY
        else:
            odd[label] = BASE64
            properties[label] = b64encode(value).decode()
    if odd:
        properties[VALUES] = _json(odd)
    if order is not None:
        properties[ORDER] = order
    return properties


def unpack_headers(properties: Mapping[str, str]) -> list[Header]:
    """Return the headers that properties were made of: first those in `ORDER`, then all others by name.

    Raises Unmappable.
    """
    odd: Mapping[str, str] = _read(VALUES, properties[VALUES]) if VALUES in properties else {}
    order: Sequence[str] = _read(ORDER, properties[ORDER]) if ORDER in properties else ()
    values: dict[str, bytes | None] = {}
    for label, text in properties.items():
        raw = text.encode("utf-8", "surrogateescape")
        values[label] = _decode_value(label, raw) if odd and odd.get(label) == BASE64 else raw
    values.pop(VALUES, None)
    values.pop(ORDER, None)
    for label, representation in odd.items():
        if label not in values and representation != BASE64:
            values[label] = None if representation == NULL else b""
    headers = [(_header_name(label), values.pop(label)) for label in order if label in values]
    headers += [(_header_name(label), value) for label, value in sorted(values.items())]
    return headers


def _layout(names: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Return the names of the properties for headers of these names, and as JSON their order, unless it is ascending.

    Of several headers with one name, the last gets a property of that name, so it is the one that selectors see.
    """
    last = {name: index for index, name in enumerate(names)}
    earlier: dict[str, int] = {}
    labels = []
    for index, name in enumerate(names):
        if index == last[name]:
            labels.append(name)
        else:
            earlier[name] = earlier.get(name, 0) + 1
            labels.append(f"{EARLIER}{earlier[name]}.{name}")
    is_ascending = all(one < other for one, other in pairwise(labels))
    return tuple(labels), None if is_ascending else _json(labels)


_known_layout: Final = lru_cache(256)(_layout)  # the messages of one publisher have few layouts


def _header_name(label: str) -> str:
    return label[len(EARLIER) :].partition(".")[2] if label.startswith(EARLIER) else label


def _decode_value(label: str, raw: bytes) -> bytes:
    try:
        return b64decode(raw, validate=True)
    except ValueError:
        shown = raw[:40].decode("utf-8", "replace")
        raise Unmappable(f"property {label!r}: {shown!r} is not base64, as {VALUES} says") from None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _read(name: str, text: str) -> Any:
    return (_known_json if len(text) <= 4096 else _read_json)(name, text)


def _read_json(name: str, text: str) -> Any:
    value: Any = None
    with suppress(ValueError):
        value = parse_leniently(text)
    texts = value.values() if isinstance(value, dict) else value
    if not isinstance(value, KINDS[name]) or not all(isinstance(each, str) for each in texts or ()):
        raise Unmappable(f"property {name}: {text[:40]!r} is not JSON of {FORMS[name]}")
    return value


_known_json: Final = lru_cache(256)(_read_json)

KINDS: Final[Mapping[str, type]] = {VALUES: dict, ORDER: list}
FORMS: Final[Mapping[str, str]] = {VALUES: "texts by name", ORDER: "names"}
