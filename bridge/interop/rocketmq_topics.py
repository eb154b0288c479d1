"""Names of other systems as names of RocketMQ's topics and groups, which have letters, digits and ``% | _ -`` only.

A name that RocketMQ allows is the topic of that name. In another, each byte of its UTF-8 that is not allowed, and each
``%``, is ``%`` and two hexadecimal digits, as in a URL: ``orders.eu`` is the topic ``orders%2Eeu``. This goes back for
every name and for every topic: no two names are one topic, and no two topics are one name. For that, a name that is
allowed and reads as another name's topic is written with its ``%`` escaped as well: the topic of ``orders%2Eeu`` is
``orders%252Eeu``.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote_to_bytes

from bridge.rocketmq.remoting.properties import GROUP_LENGTH, TOPIC_LENGTH, is_legal_name
from exchange.errors import InputError

__all__ = ["group_of", "name_of", "topic_of"]


def topic_of(name: str) -> str:
    """The topic that stands for a name. Raises InputError for one that would be too long, and for an empty one."""
    return _short_enough("topic", name, TOPIC_LENGTH)


def group_of(name: str) -> str:
    """The consumer group that stands for a name. Raises as `topic_of`."""
    return _short_enough("group", name, GROUP_LENGTH)


@lru_cache(4096)
def name_of(topic: str) -> str:
    """The name that a topic stands for."""
    if "%" not in topic:
        return topic
    name = unquote_to_bytes(topic).decode("utf-8", "surrogateescape")
    return name if name != topic and _written(name) == topic else topic


@lru_cache(4096)
def _written(name: str) -> str:
    if is_legal_name(name) and name_of(name) == name:
        return name
    raw = name.encode("utf-8", "surrogateescape")
    return "".join([chr(byte) if byte != 37 and is_legal_name(chr(byte)) else f"%{byte:02X}" for byte in raw])


def _short_enough(what: str, name: str, longest: int) -> str:
    written = _written(name)
    if not written:
        raise InputError(f"a {what} has a name")
    if len(written) > longest:
        as_topic = "" if written == name else f" as {written!r}"
        raise InputError(f"{what} {name!r}: it has {len(written)} characters{as_topic}; RocketMQ allows {longest}")
    return written
