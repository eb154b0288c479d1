"""Objects of JSON that stand one after another in a text, each read by itself: one that is damaged hides no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from bindings.archive.nesting import parse_json
from bindings.archive.reading import take_sample
from bindings.archive.unpacking import read_pieces
from exchange.errors import InputError
from exchange.limits import RECORD_BYTES

__all__ = ["JsonItem", "read_body_beside", "read_objects"]

START: Final = re.compile(rb"^\{", re.MULTILINE)


class JsonItem(NamedTuple):
    """An object, or why there is none."""

    place: int
    """Where it begins, in bytes."""
    value: dict[str, Any] | str
    sample: bytes


def read_objects(path: str) -> Iterator[JsonItem]:
    """Yield the objects of a file, each of which begins a line, and no other line begins with a brace.

    Raises InputError when the file cannot be opened.
    """
    data = bytearray()
    place, searched = 0, 1
    for piece in read_pieces(path, 0):
        if isinstance(piece, str):
            yield from _parse_objects(bytes(data), place)
            yield JsonItem(place + len(data), piece, b"")
            return
        data += piece
        # Each byte is searched once for the beginning of a line, however long an object is.
        starts = [found.start() for found in START.finditer(data, max(searched - 1, 1))]
        searched = len(data)
        if starts:
            yield from _split_at(bytes(data[: starts[-1]]), place, starts[:-1])
            place += starts[-1]
            del data[: starts[-1]]
            searched = 1
        if len(data) > RECORD_BYTES:
            yield JsonItem(place, f"an object of more than {RECORD_BYTES >> 20} MiB", take_sample(bytes(data[:200])))
            place += len(data)
            data.clear()
            searched = 1
    last = list(_parse_objects(bytes(data), place))
    if last and isinstance(last[-1].value, str):
        reason = f"the file ends in the middle of an object: {last[-1].value}"
        last[-1] = last[-1]._replace(value=reason)
    yield from last


def _split_at(data: bytes, place: int, starts: list[int]) -> Iterator[JsonItem]:
    """Yield the objects of whole lines; ``starts`` are where they begin, but for the first."""
    before = 0
    for start in [*starts, len(data)]:
        yield from _parse_objects(data[before:start], place + before)
        before = start


def _parse_objects(data: bytes, place: int) -> Iterator[JsonItem]:
    """Yield the object that bytes hold, or several that follow each other without a line's end between them."""
    text = data.strip()
    if not text:
        return
    begins = place + data.find(text[:1])
    try:
        value = parse_json(text)
    except InputError as error:
        parts = _split_joined(text) if b"}{" in text or b"} {" in text else []
        if len(parts) < 2:
            yield JsonItem(begins, str(error), take_sample(text))
            return
        for at, part in parts:
            yield from _parse_objects(part, begins + at)
        return
    yield JsonItem(begins, value if isinstance(value, dict) else "not an object", take_sample(text))


def read_body_beside(path: Path) -> bytes | None:
    """Return the body that is in a file of its own, None if there is no such file. Raises OSError, InputError."""
    if not path.is_file():
        return None
    if path.stat().st_size > RECORD_BYTES:
        raise InputError(f"a body of more than {RECORD_BYTES >> 20} MiB")
    return path.read_bytes()


JOINT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|\}(\s*+)(?=\{)', re.DOTALL)
"""A string, or the end of an object that another one follows at once."""


def _split_joined(text: bytes) -> list[tuple[int, bytes]]:
    ends = [found.end() for found in JOINT.finditer(text) if found[1] is not None]
    return [
        (start, text[start:end]) for start, end in zip([0, *ends], [*ends, len(text)], strict=True) if text[start:end]
    ]
