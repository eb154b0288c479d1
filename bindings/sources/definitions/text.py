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
            raise LanguageError.at(error.pos, f"not JSON: {_reason(text, error)}", name, text) from None
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


def _reason(text: str, error: json.JSONDecodeError) -> str:
    before = text[max(0, error.pos - 1000) : error.pos].rstrip()
    if before.endswith(",") and text[error.pos : error.pos + 1] in ("]", "}"):
        return "a comma with nothing behind it"
    return error.msg


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
