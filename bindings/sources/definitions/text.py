"""The JSON text of definitions, parsed and written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from bindings.sources.definitions.entries import ENCODE, Compactor, Object, expand
from bindings.sources.language.errors import LanguageError
from exchange.errors import InputError
from exchange.json_text import Refused, find_fault, is_deep, refuse_constant

__all__ = ["parse_text", "write_text"]


def parse_text(text: str, name: str) -> Object:
    """Return the document of a text, with bindings as entries. Raises InputError, which names the position."""
    try:
        document = json.loads(text, object_pairs_hook=Compactor(), parse_float=_finite, parse_constant=refuse_constant)
        if is_deep(text):
            raise Refused  # noqa: TRY301
    except (ValueError, Refused, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and not is_deep(text[: error.pos]):
            place, reason = _explain(text, error)
            raise LanguageError.at(place, f"not JSON: {reason}", name, text) from None
        fault = find_fault(text)
        if fault is None:
            raise InputError(f"{name}: not JSON: {error}") from None
        raise LanguageError.at(fault.place, str(fault), name, text) from None
    if not isinstance(document, dict):
        raise InputError(f'{name}: not definitions, which are an object: {{"exchanges": [...], "queues": [...], ...}}')
    return document


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Refused
    return number


def _explain(text: str, error: json.JSONDecodeError) -> tuple[int, str]:
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
