"""Where keys stand in a file of TOML, for errors about their values: Python's parser gives no positions."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Final, NamedTuple

from bindings.sources.files import open_file
from exchange.display import SECRETIVE, escape_line
from exchange.errors import InputError
from exchange.json_text import parse
from exchange.limits import CONFIG_BYTES

__all__ = ["Place", "find_places", "locate"]

TOKEN: Final = re.compile(
    r'''"""(?:[^"\\]|\\.|""?(?!"))*"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\[^\n])*"|'[^'\n]*'|#[^\n]*'''
    r"""|[\[\]{}=,.\n]|[^\s\[\]{}=,."'#]+""",
    re.DOTALL,
)
"""A string, a comment, a sign, or a bare key or value."""
SHOWN: Final = 120
"""Maximum number of characters of a line that are shown."""


class Place(NamedTuple):
    """A key or the heading of a table in a file."""

    line: int
    """Number of the line, from 1."""
    column: int
    """Number of characters before it in its line."""
    width: int
    """Number of its characters."""
    text: str
    """Its line, without what may be secret."""

    def caret(self) -> str:
        """Return two lines, each after a line break: the line of the key, and a caret under it."""
        before = escape_line(self.text[: self.column])
        under = escape_line(self.text[self.column : self.column + self.width])
        return f"\n    {escape_line(self.text)[:SHOWN]}\n    {' ' * len(before)}{'^' * len(under)}"


def locate(file: str, path: str, key: str) -> tuple[str, str]:
    """Return ``:LINE`` and the lines with the caret for a key of a table; two empty texts if they are not found.

    ``path`` is the table's, ``sources.orders``; "" for the top of the file. A key that is missing is located at the
    heading of its table. The file is read again: an error is the end of a command, and happens once.
    """
    try:
        with open_file(file) as opened:
            places = find_places(opened.read(CONFIG_BYTES).decode())
    except (OSError, ValueError):
        return "", ""
    place = places.get(f"{path}.{key}" if path else key) or places.get(path)
    return ("", "") if place is None else (f":{place.line}", place.caret())


def find_places(text: str) -> Mapping[str, Place]:
    """Return the place of each key and heading, by its path; of what occurs more than once, the first."""
    places: dict[str, Place] = {}
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    for path, start, end in _find_keys(text):
        line = bisect_right(starts, start) - 1
        column = start - starts[line]
        places.setdefault(".".join(path), Place(line + 1, column, end - start, _hide(lines[line], path[-1])))
    return places


def _hide(line: str, key: str) -> str:
    """Return a line with ``...`` for values, if one of them may be a secret or the address of a server."""
    name, equals, value = line.rstrip().partition("=")
    may_be_secret = SECRETIVE.search(line) or SECRETIVE.search(key) or "@" in value or "://" in value or '"""' in value
    return f"{name}{equals} ..." if equals and may_be_secret else line.rstrip()


def _find_keys(text: str) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """Yield the path of each heading and key, with its first character and the one behind its last."""
    table: tuple[str, ...] = ()
    frames: list[tuple[str, tuple[str, ...]]] = []  # brackets that are open in a value, each with the path of the value
    parts: list[str] = []
    path: tuple[str, ...] = ()
    start = end = 0
    is_heading, is_key = False, True
    for token in TOKEN.finditer(text):
        sign = token[0]
        if sign[0] == "#":
            continue
        if is_key:
            match sign:
                case "=":
                    path = (*(frames[-1][1] if frames else table), *parts)
                    if parts:
                        yield path, start, end
                    parts, is_key = [], False
                case "[" if not parts:
                    is_heading = True
                case "]" if is_heading and parts:
                    table = tuple(parts)
                    yield table, start, end
                    parts = []
                case "\n" if not frames:
                    parts, is_heading = [], False
                case "}" if frames:
                    _, path = frames.pop()
                    parts, is_key = [], False
                case "." | "\n" | "," | "[" | "]" | "{" | "}":
                    pass
                case _:
                    start = start if parts else token.start()
                    end = token.end()
                    parts.append(_unquote(sign))
            continue
        match sign:
            case "[" | "{":
                frames.append((sign, path))
                is_key = sign == "{"
            case "]" | "}" if frames:
                _, path = frames.pop()
            case "," if frames and frames[-1][0] == "{":
                is_key = True
            case "\n" if not frames:
                is_key, is_heading = True, False


def _unquote(part: str) -> str:
    r"""Return a part of a key; its escapes are those of JSON but for `\U`, which stays as it is written."""
    if part[0] == "'":
        return part[1:-1]
    if part[0] == '"':
        with suppress(ValueError, InputError):
            return str(parse(part))
    return part
