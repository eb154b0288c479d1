"""Where keys stand in a file of TOML, for errors about their values: Python's parser gives no positions."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Final, NamedTuple

from bindings.sources.files import open_file
from exchange.errors import InputError
from exchange.limits import CONFIG_BYTES, CONFIG_KEY_PARTS
from exchange.text.display import SECRETIVE, underline
from exchange.text.faults import MASK
from exchange.values.json_text import parse

TOKEN: Final = re.compile(
    r'''"""(?>(?:[^"\\]|\\.|""?(?!"))*)(?:"{3,5}|\\?\Z)''' + "|"
    r"'''.*?(?:'{3,5}|\Z)" + "|"
    r""""(?:[^"\\\n]|\\[^\n])*+"?""" + "|"
    r"'[^'\n]*'?" + "|"
    r"#[^\n]*" + "|"
    r"[.\[\]{}=,\n]" + "|"
    r"""[^\s\[\]{}=,."'#]+""",
    re.DOTALL,
)  # fmt: skip
"""A string of each kind, a comment, a character that begins or ends a key or a value, a bare key or value. Each
alternative matches to the end of its string or comment, even an unclosed one, so that the scan is linear; the parser
reports the error."""
MAX_LINE_CHARACTERS: Final = 120
"""Maximum number of characters of a line that are shown."""
UNSHOWN: Final = re.compile(r"@|://|\n")
"""What a value has that is not shown, as it may be a secret or the address of a server."""


class TomlPosition(NamedTuple):
    """A key or the heading of a table in a file."""

    line: int
    """Number of the line, from 1."""
    column: int
    """Number of characters before it in its line."""
    width: int
    """Number of its characters."""


class _Span(NamedTuple):
    """A key, a heading, a value that is neither table nor array, or a comment."""

    kind: str
    """``key``, ``value`` or ``comment``."""
    path: tuple[str, ...]
    """The path of the key, or of the key that has the value."""
    start: int
    end: int
    parts: int = 1
    """Number of parts of the path that are written here."""


def locate(file: str, path: str, key: str, *, masked: bool = False) -> tuple[str, str]:
    """Return ``:LINE`` and two lines, its text and a caret under a key of a table; "" and "" if it is not found.

    ``path`` is the table's, ``sources.orders``; "" for the top of the file. A key that is missing is located at the
    heading of its table. The value is not shown if it is ``masked`` or may be a secret, those of other keys and
    comments never are. The file is read again, once for all its mistakes.
    """
    try:
        layout = _read(file, Path(file).stat().st_mtime_ns)
    except (OSError, ValueError):
        return "", ""
    name = f"{path}.{key}" if path else key
    name = name if name in layout.places else path
    if name not in layout.places:
        return "", ""
    line, caret = layout.draw(name, is_masked=masked or bool(SECRETIVE.search(name)))
    return f":{layout.places[name].line}", f"\n    {line}\n    {caret}"


@lru_cache(maxsize=1)
def _read(file: str, changed: int) -> _TomlLayout:
    """Return the layout of a file as it is since it was ``changed``. Raises OSError, ValueError."""
    with open_file(file) as opened:
        return _TomlLayout(opened.read(CONFIG_BYTES).decode("utf-8-sig"))


class _TomlLayout:
    """The spans of a text, in order, and the places of its keys."""

    def __init__(self, text: str) -> None:
        self._text = text
        # A path that is deeper is refused, too: paths grow with the square of such a text.
        shallow = takewhile(lambda span: len(span.path) <= CONFIG_KEY_PARTS, _scan(text))
        self._spans = sorted(shallow, key=lambda span: span.start)
        self._lines = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        places: dict[str, TomlPosition] = {}
        implied: dict[str, TomlPosition] = {}
        for kind, path, start, end, parts in self._spans:
            if kind == "key":
                line = bisect_right(self._lines, start) - 1
                place = TomlPosition(line + 1, start - self._lines[line], end - start)
                places.setdefault(".".join(path), place)
                for count in range(len(path) - parts + 1, len(path)):
                    implied.setdefault(".".join(path[:count]), place)
        self.places: Mapping[str, TomlPosition] = implied | places

    def draw(self, name: str, *, is_masked: bool) -> tuple[str, str]:
        """Return the line of a key, with ``...`` for all values but that of this key, and a caret under it.

        If it ``is_masked``, its value, and the keys of a table that is its value, are not shown either.
        """
        place = self.places[name]
        begin = self._lines[place.line - 1]
        column, width = place.column, min(place.width, MAX_LINE_CHARACTERS)
        first = begin + max(0, column - MAX_LINE_CHARACTERS)
        line = self._text[first : begin + column + width + MAX_LINE_CHARACTERS].partition("\n")[0]
        column -= first - begin
        for span in reversed(self._between(first, first + len(line))):
            start, end, key = max(span.start - first, 0), min(span.end - first, len(line)), ".".join(span.path)
            if span.kind == "key":
                is_shown = not (is_masked and key.startswith(f"{name}.") and start > column)
            else:
                is_shown = key == name and not is_masked and not UNSHOWN.search(self._text, span.start, span.end)
            instead = line[start:end] if is_shown else "" if span.kind == "comment" else MASK
            line = line[:start] + instead + line[end:]
            column += len(instead) - (end - start) if end <= column else 0
        indent = len(line) - len(line.lstrip())
        line, column = line.replace("\t", " ").strip(), column - indent
        if first > begin or column + width > MAX_LINE_CHARACTERS:
            cut = max(0, column - MAX_LINE_CHARACTERS // 4)
            line, column = MASK + line[cut:], column - cut + len(MASK)
        return underline(line[:MAX_LINE_CHARACTERS], column, column + width)

    def _between(self, first: int, last: int) -> Sequence[_Span]:
        """Return the spans that have characters from ``first`` up to ``last``."""
        begin = bisect_right(self._spans, first, key=lambda span: span.end)
        return self._spans[begin : bisect_left(self._spans, last, key=lambda span: span.start)]


def _scan(text: str) -> Iterator[_Span]:
    """Yield keys, headings, values and comments, each with the first character and the one behind its last."""
    table: tuple[str, ...] = ()
    frames: list[tuple[str, tuple[str, ...]]] = []  # brackets that are open in a value, each with the path of the value
    parts: list[str] = []
    path: tuple[str, ...] = ()
    start = end = 0
    is_heading, is_key = False, True
    for token in TOKEN.finditer(text):
        sign = token[0]
        if sign[0] == "#":
            yield _Span("comment", (), *token.span())
            continue
        if is_key:
            match sign:
                case "=":
                    path = (*(frames[-1][1] if frames else table), *parts)
                    if parts:
                        yield _Span("key", path, start, end, len(parts))
                    parts, is_key = [], False
                case "[" if not parts:
                    is_heading = True
                case "]" if is_heading and parts:
                    table = tuple(parts)
                    yield _Span("key", table, start, end, len(parts))
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
            case "," | "\n" | "]" | "}" | "=":
                pass
            case _:
                yield _Span("value", path, *token.span())


def _unquote(part: str) -> str:
    r"""Return a part of a key; its escapes are those of JSON but for `\U`, which stays as it is written."""
    if part[0] == "'":
        return part[1:-1]
    if part[0] == '"':
        with suppress(ValueError, InputError):
            return str(parse(part))
    return part
