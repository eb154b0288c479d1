"""The JSON text of definitions: parsed, written, and where each entry stands in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from json import JSONDecodeError
from typing import Any, Final, NamedTuple

from bindings.sources.definitions.entries import ENCODE, SECTIONS, Compactor, Object, expand
from bindings.sources.language.errors import LanguageError
from exchange.errors import InputError
from exchange.values.json_text import JsonFault, parse_objects, scan_value

BLANK: Final = re.compile(r"[ \t\r\n]*")


def parse_text(text: str, name: str) -> Object:
    """Return the document of a text, with bindings as entries. Raises InputError, which names the position."""
    try:
        document = parse_objects(text, Compactor())
    except JSONDecodeError as error:
        place, reason = _explain(text, error)
        raise LanguageError.at(place, f"not JSON: {reason}", name, text) from None
    except JsonFault as error:
        raise LanguageError.at(error.fault.place, str(error), name, text) from None
    if not isinstance(document, dict):
        raise InputError(f'{name}: not definitions, which are an object: {{"exchanges": [...], "queues": [...], ...}}')
    return document


def _explain(text: str, error: JSONDecodeError) -> tuple[int, str]:
    """Return the place of the error, and what is wrong there."""
    place = error.pos
    if text.startswith(",", place):  # where Python reports it from 3.13 on; before, at the bracket
        place = len(text) - len(text[place + 1 :].lstrip())
    before = text[max(0, place - 1000) : place].rstrip()
    if before.endswith(",") and text[place : place + 1] in ("]", "}"):
        return place, "a comma with nothing behind it"
    return error.pos, error.msg


def write_text(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pieces of a document's text: every entry of a section is on its own line."""
    comma = "{"
    for key, section in document.items():
        yield f"{comma}\n {ENCODE(key)}: "
        comma = ","
        if isinstance(section, list) and section:
            for number, item in enumerate(section):
                yield f"{',' if number else '['}\n  {ENCODE(expand(item))}"
            yield "\n ]"
        else:
            yield ENCODE(section)
    yield "\n}\n" if document else "{}\n"


class PlacedObject(NamedTuple):
    """An object of a section, as the half-open range of characters of the text."""

    section: str
    value: dict[str, Any]
    begin: int
    end: int


def find_objects(text: str) -> Iterator[PlacedObject]:
    """Yield the objects in the sections that make topologies, in the order of the text, which is known to be right.

    Raises ValueError or IndexError if the text is no definitions after all.
    """

    def after(at: int) -> int:
        return BLANK.match(text, at).end()  # type: ignore[union-attr]  # BLANK also matches the empty text, so never None

    at = after(text.index("{") + 1)
    while text[at] == '"':
        key, at = scan_value(text, at)
        at = after(after(at) + 1)
        if key in SECTIONS:
            at = after(at + 1)
            while text[at] != "]":
                begin = at
                value, at = scan_value(text, begin)
                yield PlacedObject(key, value, begin, at)
                at = after(at)
                at = after(at + 1) if text[at] == "," else at
            at += 1
        else:
            _, at = scan_value(text, at)
        at = after(at)
        at = after(at + 1) if text[at] == "," else at
