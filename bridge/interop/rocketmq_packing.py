"""Headers, in their order and of any value, as RocketMQ's properties: texts by name, in no order, and never empty.

A header whose value is text stands under its own name. What else there is to tell is in two properties of JSON, which
most messages do without: what stands for values that are no such text, and the order where it is not ascending.
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

__all__ = ["ORDER", "VALUES", "held_text", "packed", "unpacked"]

VALUES: Final = "amqp.values"
ORDER: Final = "amqp.order"
EARLIER: Final = "amqp.earlier-"

NULL: Final = "null"
EMPTY: Final = "empty"
BASE64: Final = "base64"


def held_text(value: bytes) -> str | None:
    """The value as a property's, if it can be one as it is."""
    if not value:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if CONTROL.search(text) else text


def packed(own: Sequence[Header], headers: Sequence[Header]) -> dict[str, str]:
    """The properties of headers in order, whose names may come several times, and of others whose order is told."""
    properties: dict[str, str] = {}
    odd: dict[str, str] = {}
    names = tuple([name for name, _ in headers])
    labels, order = (_known_layout if len(names) <= 32 else _layout)(names)
    for label, value in [*own, *zip(labels, [value for _, value in headers], strict=True)]:
        text = None if value is None else held_text(value)
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


def unpacked(properties: Mapping[str, str]) -> list[Header]:
    """The headers, those whose order was not told among them. Raises Unmappable."""
    odd: Mapping[str, str] = _read(VALUES, properties[VALUES]) if VALUES in properties else {}
    order: Sequence[str] = _read(ORDER, properties[ORDER]) if ORDER in properties else ()
    found: dict[str, bytes | None] = {}
    for label, text in properties.items():
        raw = text.encode("utf-8", "surrogateescape")
        found[label] = _value(label, raw) if odd and odd.get(label) == BASE64 else raw
    found.pop(VALUES, None)
    found.pop(ORDER, None)
    for label, what in odd.items():
        if label not in found and what != BASE64:
            found[label] = None if what == NULL else b""
    headers = [(_name(label), found.pop(label)) for label in order if label in found]
    headers += [(_name(label), value) for label, value in sorted(found.items())]
    return headers


def _layout(names: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """The names of properties for headers of these names, and their order, unless it is ascending."""
    last = {name: place for place, name in enumerate(names)}
    earlier: dict[str, int] = {}
    labels = []
    for place, name in enumerate(names):
        if place == last[name]:
            labels.append(name)
        else:
            earlier[name] = earlier.get(name, 0) + 1
            labels.append(f"{EARLIER}{earlier[name]}.{name}")
    is_ascending = all(one < other for one, other in pairwise(labels))
    return tuple(labels), None if is_ascending else _json(labels)


_known_layout: Final = lru_cache(256)(_layout)  # the messages of one publisher have few


def _name(label: str) -> str:
    return label[len(EARLIER) :].partition(".")[2] if label.startswith(EARLIER) else label


def _value(label: str, raw: bytes) -> bytes:
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
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    texts = value.values() if isinstance(value, dict) else value
    if not isinstance(value, KINDS[name]) or not all(isinstance(each, str) for each in texts or ()):
        raise Unmappable(f"property {name}: {text[:40]!r} is not JSON of what it tells")
    return value


_known_json: Final = lru_cache(256)(_read_json)

KINDS: Final[Mapping[str, type]] = {VALUES: dict, ORDER: list}
