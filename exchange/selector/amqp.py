"""The properties of an AMQP message as a selector sees them: texts by name, as RocketMQ's are.

==================  ==================================================================================================
name                text
==================  ==================================================================================================
a header's          longstr as it is, bool ``true`` or ``false``, integers and timestamps (seconds) in digits, float and
                    double as ``repr`` has them, decimal in digits, binary as UTF-8, array and table as JSON; void is
                    no property
``routing_key``     the routing key
``exchange``        the exchange that it was published to
``message_id`` ...  each basic property under its AMQP name
==================  ==================================================================================================

A header has precedence over a property of the same name. Names in SQL92 have letters, digits, ``_`` and ``$``. A header
with other characters is found by the name with ``_`` in their place if nothing has exactly that name: ``x_tenant``
finds ``x-tenant``. An empty text counts as no property, since RocketMQ drops empty properties.

A message that the bridge brought from RocketMQ has some properties in headers of other names. The caller of
`properties_of` supplies these names, with `bridge.interop.find_headers_for_property`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from exchange.values.field_json import encode
from exchange.values.field_values import Typed, resolve_type
from exchange.values.message import Message

NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_$]")
"""A character that no name in SQL92 has."""


def _no_headers(name: str) -> tuple[str, ...]:
    return ()


def properties_of(
    message: Message, names: Iterable[str], headers_for: Callable[[str], Iterable[str]] = _no_headers
) -> dict[str, str]:
    """Return the properties that the message has of these names: a selector's ``names``, or ``("TAGS",)``.

    ``headers_for`` returns the names of further headers that hold the property of a name.
    """
    properties = {}
    for name in names:
        text = _read_property(message, name, headers_for)
        if text:
            properties[name] = text
    return properties


def _read_property(message: Message, name: str, headers_for: Callable[[str], Iterable[str]]) -> str | None:
    headers = message.headers
    if name in headers:
        return to_text(headers[name])
    for header in headers_for(name):
        if header in headers:
            return to_text(headers[header])
    if name == "routing_key":
        return message.routing_key
    if name == "exchange":
        return message.exchange
    if name in message.properties:
        return to_text(message.properties[name])
    if "_" in name:
        for header, value in headers.items():
            if len(header) == len(name) and NOT_IN_NAMES.sub("_", header) == name:
                return to_text(value)
    return None


def to_text(value: Any) -> str | None:
    """Return a field value as the text of a property, None for void. Invalid UTF-8 is replaced, as Java does."""
    if type(value) is str:
        return value
    kind, plain = resolve_type(value)
    if kind == "void":
        return None
    if kind in ("longstr", "binary"):
        return str(plain, "utf-8", "replace")
    if kind == "bool":
        return "true" if plain else "false"
    if kind in ("array", "table"):
        return json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"))
    if kind == "decimal":
        return str(value.value if isinstance(value, Typed) else value)
    return repr(plain) if kind in ("float", "double") else str(plain)
