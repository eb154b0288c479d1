"""The part of a message that is a partitioner's key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from exchange.errors import InputError
from exchange.values.json_text import parse_leniently
from exchange.values.message import BASIC_PROPERTIES, Message

INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")
"""Index of an element of an array, in a JSON Pointer."""


class EncodedBody(bytes):
    """A body that is no JSON: the same bytes, with what finds a field in them.

    >>> body = EncodedBody(b"id=7")
    >>> body.find_field = lambda body, steps: body.removeprefix(b"id=") if steps == ["id"] else None
    >>> KeySource("body", "/id").read(Message(body=body)), KeySource("body", "/name").read(Message(body=body))
    (b'7', None)
    """

    find_field: Callable[[bytes, Sequence[str]], Any]
    """Function of the body and the steps of a JSON Pointer, which returns the value there; None if there is none.
    Raises ValueError for a body that cannot be read."""


@dataclass(frozen=True, slots=True)
class KeySource:
    """A part of a message: the routing key, a word of it, a header, a property, or a field of the body.

    The body is JSON, or an `EncodedBody`.
    """

    part: Literal["routing_key", "word", "header", "property", "body"] = "routing_key"
    name: str = ""
    """Name of the header or property; for a field of the body a JSON Pointer (RFC 6901), ``/customer/id``."""
    word: int = 0
    """Position of the word in the routing key: 1 is the first, -1 the last one."""

    def __post_init__(self) -> None:
        if self.part == "property" and self.name not in BASIC_PROPERTIES:
            raise InputError(f"no property {self.name!r}; there are {', '.join(sorted(BASIC_PROPERTIES))}")
        if self.part == "word" and not self.word:
            raise InputError("words of a routing key are counted from 1, or from -1 backwards")
        if self.part == "body" and self.name and not self.name.startswith("/"):
            raise InputError(f"{self.name!r} is no JSON Pointer: write /customer/id")

    def read(self, message: Message) -> Any:
        """Return the key: a field value, with JSON's integers as ``int`` and floats as ``float``; None for no key.

        There is no key if the part is missing or JSON null, or if the body is nested too deeply or has a number of
        thousands of digits. The key of an object or array is its JSON text, without white space, in its order.
        """
        if self.part == "routing_key":
            return message.routing_key
        if self.part == "word":
            words = message.routing_key.split(".") if message.routing_key else []
            at = self.word - 1 if self.word > 0 else self.word
            return words[at] if -len(words) <= at < len(words) else None
        if self.part == "body":
            return _read_field(message.body, self.name)
        return (message.headers if self.part == "header" else message.properties).get(self.name)

    @property
    def by_routing_key(self) -> bool:
        """Whether messages of equal routing keys have equal keys."""
        return self.part in ("routing_key", "word")

    def __str__(self) -> str:
        if self.part == "routing_key":
            return "routing_key"
        if self.part == "word":
            return f"word {self.word}"
        return f"{self.part} {self.name if self.part == 'property' else json.dumps(self.name, ensure_ascii=False)}"


ROUTING_KEY: Final = KeySource()


def _read_field(body: bytes, pointer: str) -> Any:
    steps = [text.replace("~1", "/").replace("~0", "~") for text in pointer.split("/")[1:]]
    try:
        value = body.find_field(body, steps) if isinstance(body, EncodedBody) else find_in_json(body, steps)
    except (ValueError, MemoryError):
        return None
    if not isinstance(value, (dict, list)):
        return value
    # Bytes within are written as Avro writes them in JSON.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=lambda raw: raw.decode("latin-1"))


def find_in_json(body: bytes, steps: Sequence[str]) -> Any:
    """Return the value at the steps of a JSON Pointer; None if there is none. Raises ValueError for what is no JSON."""
    value = parse_leniently(body, finite=False)
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
