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
``TAGS`` ``KEYS``   and any other: the header ``x-rocketmq-TAGS``, of a message that a bridge brought from RocketMQ
==================  ==================================================================================================

A header goes before a property of its name. SQL92 has names of letters, digits, ``_`` and ``$``: a header with other
characters is meant by the name with ``_`` in their place, where nothing has that name: ``x_tenant`` is ``x-tenant``. An
empty text is no property, as RocketMQ drops those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from exchange.field_json import encode
from exchange.field_values import Typed, type_and_value
from exchange.message import Message

__all__ = ["properties_of", "text_of"]

ROCKETMQ: Final = ("x-rocketmq-", "x-rocketmq-property-")
"""What is before the names of some properties of a message that comes from RocketMQ."""
NO_PROPERTIES: Final = frozenset({"topic", "broker", "queue", "offset", "born", "stored", "flag"})
"""With ``x-rocketmq-`` before them, what else that message had."""

OTHERS: Final = re.compile(r"[^A-Za-z0-9_$]")


def properties_of(message: Message, names: Iterable[str]) -> dict[str, str]:
    """The properties of these names, those there are: a selector's ``names``, or ``("TAGS",)``."""
    found = {}
    for name in names:
        text = _text(message, name)
        if text:
            found[name] = text
    return found


def _text(message: Message, name: str) -> str | None:
    headers = message.headers
    if name in headers:
        return text_of(headers[name])
    for before in ROCKETMQ:
        if before + name in headers and name not in NO_PROPERTIES:
            return text_of(headers[before + name])
    if name == "routing_key":
        return message.routing_key
    if name == "exchange":
        return message.exchange
    if name in message.properties:
        return text_of(message.properties[name])
    if "_" in name:
        for header, value in headers.items():
            if len(header) == len(name) and OTHERS.sub("_", header) == name:
                return text_of(value)
    return None


def text_of(value: Any) -> str | None:
    """The text of a field value; None of void. What is not UTF-8 is replaced, as Java does."""
    if type(value) is str:
        return value
    kind, plain = type_and_value(value)
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
