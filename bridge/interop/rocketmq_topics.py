"""Names of other systems as names of RocketMQ's topics and groups, which have letters, digits and ``% | _ -`` only.

A name that RocketMQ allows is its own topic. In any other name, each byte of its UTF-8 that is not allowed, and each
``%``, is written as ``%`` and two hexadecimal digits, as in a URL: ``orders.eu`` has the topic ``orders%2Eeu``. Names
and topics correspond one to one: no two names have the same topic, and no two topics the same name. Therefore a name
that is allowed, but is already the topic of another name, has its ``%`` escaped as well: the topic of ``orders%2Eeu``
is ``orders%252Eeu``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from bridge.rocketmq.remoting.properties import GROUP_LENGTH, TOPIC_LENGTH, is_legal_name
from exchange.errors import InputError
from exchange.text.display import clip_line

PERCENT: Final = ord("%")


def build_topic(name: str) -> str:
    """Return the topic of a name. Raises InputError for an empty name, and where the topic would be too long."""
    return _encode_checked("topic", name, TOPIC_LENGTH)


def group_of(name: str) -> str:
    """Return the consumer group of a name. Raises as `build_topic`."""
    return _encode_checked("group", name, GROUP_LENGTH)


@lru_cache(4096)
def name_of(topic: str) -> str:
    """Return the name of a topic: the inverse of `build_topic`."""
    if "%" not in topic or len(topic) > TOPIC_LENGTH:
        return topic
    name = unquote_to_bytes(topic).decode("utf-8", "surrogateescape")
    return name if name != topic and _encode_name(name) == topic else topic


@lru_cache(4096)
def _encode_name(name: str) -> str:
    if is_legal_name(name) and name_of(name) == name:
        return name
    raw = name.encode("utf-8", "surrogateescape")
    return "".join([chr(byte) if byte != PERCENT and is_legal_name(chr(byte)) else f"%{byte:02X}" for byte in raw])


def _encode_checked(kind: str, name: str, longest: int) -> str:
    if len(name) > longest:  # an escaped name is not shorter; and each escape that is undone is a call in a call
        shown = clip_line(name, 2 * longest)
        raise InputError(f"{kind} {shown!r}: it has {len(name)} characters; RocketMQ allows {longest}")
    encoded = _encode_name(name)
    if not encoded:
        raise InputError(f"a {kind} has a name")
    if len(encoded) > longest:
        as_encoded = "" if encoded == name else f" as {encoded!r}"
        raise InputError(f"{kind} {name!r}: it has {len(encoded)} characters{as_encoded}; RocketMQ allows {longest}")
    return encoded
