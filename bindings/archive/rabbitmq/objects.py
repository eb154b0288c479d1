"""Read consecutive JSON objects of a file, each parsed separately, so that damage affects one object only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from bindings.archive.nesting import parse_json, split_joined
from bindings.archive.places import AnyPath, Place, open_file, read_file_size, to_place
from bindings.archive.reading import Bad, Item, Skipped, Split, take_sample
from bindings.archive.record import Rows
from bindings.archive.unpacking import read_pieces
from exchange.errors import HashstarError, InputError
from exchange.limits import RECORD_BYTES

START: Final = re.compile(rb"^\{", re.MULTILINE)


class ReadValue(NamedTuple):
    """A JSON object of a file, or what else is a message there; or the reason why it cannot be read."""

    place: int
    """The byte of the unpacked file at which it begins; in an array, its index."""
    value: Any
    """The object, or the reason as a text."""
    sample: bytes


def is_whole(path: Place) -> bool:
    """Return whether a file ends with a whole object."""
    values = [isinstance(value, str) for _, value, _ in read_objects(path)]
    return bool(values) and not values[-1]


def read_objects(path: Place) -> Iterator[ReadValue]:
    """Yield the objects of a file: one begins at each line that begins with a brace.

    Raises InputError if the file cannot be opened.
    """
    data = bytearray()
    place, searched = 0, 1
    for piece in read_pieces(path, 0):
        if isinstance(piece, str):
            yield from _parse_objects(bytes(data), place)
            yield ReadValue(place + len(data), piece, b"")
            return
        data += piece
        # Each byte is searched once for the beginning of a line, however long an object is.
        starts = [match.start() for match in START.finditer(data, max(searched - 1, 1))]
        searched = len(data)
        if starts:
            yield from _split_at(bytes(data[: starts[-1]]), place, starts[:-1])
            place += starts[-1]
            del data[: starts[-1]]
            searched = 1
        if len(data) > RECORD_BYTES:
            yield ReadValue(place, f"an object of more than {RECORD_BYTES >> 20} MiB", take_sample(bytes(data[:200])))
            place += len(data)
            data.clear()
            searched = 1
    last = list(_parse_objects(bytes(data), place))
    if last and isinstance(last[-1].value, str):
        reason = f"the file ends in the middle of an object: {last[-1].value}"
        last[-1] = last[-1]._replace(value=reason)
    yield from last


def read_messages(
    split: Split,
    columns: Sequence[str] | None,
    values: Iterable[ReadValue],
    add: Callable[[Rows, Any, int], Skipped | None],
) -> Iterator[Item]:
    """Yield the records of a file, as `Format.read` does, given the values in it.

    ``add`` adds the message of a value, whose position it gets, to the rows, or returns why it is skipped. An error
    that it raises makes a bad record.
    """
    rows = Rows(split.source, columns)
    for place, value, sample in values:
        try:
            if isinstance(value, str):
                raise InputError(value)
            skipped = add(rows, value, place)
            if skipped is not None:
                yield skipped
        except HashstarError as error:
            yield Bad(split.source, place, str(error), sample)
        if rows.is_full:
            yield rows.batch()
    if len(rows):
        yield rows.batch()


def _split_at(data: bytes, place: int, starts: list[int]) -> Iterator[ReadValue]:
    """Yield the objects of whole lines; ``starts`` has the beginnings of all but the first, which begins at 0."""
    before = 0
    for start in [*starts, len(data)]:
        yield from _parse_objects(data[before:start], place + before)
        before = start


def _parse_objects(data: bytes, place: int) -> Iterator[ReadValue]:
    """Yield the object in these bytes, or several that follow each other on one line."""
    text = data.strip()
    if not text:
        return
    start = place + data.find(text[:1])
    try:
        value = parse_json(text)
    except InputError as error:
        joined = False
        for offset, each in split_joined(text):
            joined = True
            yield from _parse_objects(each, start + offset)
        if not joined:
            yield ReadValue(start, str(error), take_sample(text))
        return
    yield ReadValue(start, value if isinstance(value, dict) else "not an object", take_sample(text))


def read_body_beside(path: AnyPath) -> bytes | None:
    """Return the body that has its own file; None if there is no such file.

    Raises OSError if it cannot be read, InputError if it is too large.
    """
    if not path.is_file():
        return None
    if read_file_size(to_place(path)) > RECORD_BYTES:
        raise InputError(f"a body of more than {RECORD_BYTES >> 20} MiB")
    with open_file(path) as file:
        return file.read()
