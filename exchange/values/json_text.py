"""The only reader of JSON in the product: ruff bans that of the standard library elsewhere, which has no bounds.

How deep Python's parser goes depends on its release, and on how much of the stack is in use: 1,000 levels in 3.11,
10,000 in 3.13. So each function here has a number of levels, which is the same everywhere.

Parsers differ in a name that is twice in one object, in ``NaN``, and in halves of surrogate pairs: some refuse these,
others drop or replace them. `parse` refuses what they read differently, with its position, which `find_fault` looks
for; users' files are read with it. `parse_leniently` reads what other programs write to each other.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from json import JSONDecodeError, JSONDecoder, detect_encoding
from typing import Any, Final, NamedTuple

from exchange.errors import InputError
from exchange.limits import INTEGER_DIGITS, NESTING
from exchange.text.display import clip_line
from exchange.text.faults import draw_fault
from exchange.text.numbers import is_digits

TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?+|[\[\]{}:]|[^\s"\[\]{}:,]++', re.DOTALL)
"""A string (terminated or not), a bracket, a colon, a number or a word. Possessive, so matching takes linear time."""
ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape, or the two escapes of a surrogate pair. The group matches an escape that is only half of such a pair."""
BYTES: Final = range(0xDC80, 0xDD00)
"""Lone surrogates that stand for the bytes 0x80 to 0xFF of a name that is not UTF-8, as `bindings.archive` writes them.
"""
MAX_QUOTED_CHARACTERS: Final = 40


class Fault(NamedTuple):
    """What is wrong with a text, and where."""

    place: int
    """Index of its first character."""
    reason: str
    """Kind of fault: the same words for all faults of one kind."""
    shown: str = ""
    """The name, number or escape that is at fault, clipped; empty where there is none."""

    def __str__(self) -> str:
        return f"{self.reason}: {self.shown}" if self.shown else self.reason


class JsonFault(InputError):
    """A text that only some parsers take for JSON."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class JsonRefused(Exception):
    """A fault met while parsing; `find_fault` finds its position."""


def parse(text: str, *, halves: bool = False) -> Any:
    """Return the value of a JSON text, which may have white space around it; ``halves``: and halves of surrogate pairs.

    Raises JSONDecodeError for what is no JSON; JsonFault for what only some parsers accept, for numbers of more than
    `exchange.limits.INTEGER_DIGITS` digits and for nesting beyond `exchange.limits.NESTING`.
    """
    return _parse(text, _strict, halves)


def parse_objects(text: str, make_object: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    """Return the value of a JSON text as `parse`, with halves of surrogate pairs, and objects made by a function.

    The function gets the names and values of each object, and raises Refused for a name that is repeated.
    """
    return _parse(text, _make_decoder(make_object), halves=True)


def _parse(text: str, decoder: JSONDecoder, halves: bool) -> Any:
    try:
        try:
            value, end = decoder.raw_decode(text)
        except ValueError:
            value, end = None, 0
        # The fast path accepts a value at the beginning, with or without a line end, and nothing else.
        if text[end:] not in LINE_ENDS or not end:
            value = decoder.decode(text)  # accepts white space around the value, or raises an error with the position
        if not halves:
            check_text(text)
        if is_deep(text):
            raise JsonRefused  # noqa: TRY301
    except (JsonRefused, RecursionError):
        pass
    except JSONDecodeError as error:
        if not is_deep(text[: error.pos]):
            raise
    except ValueError:  # of a number that is too long
        pass
    else:
        return value
    raise JsonFault(find_fault(text) or Fault(0, NESTED_TOO_DEEPLY))


def parse_leniently(text: str | bytes, levels: int = NESTING, *, finite: bool = True) -> Any:
    """Return the value of a JSON text as most parsers read it: of repeated names the last counts, halves are kept.

    Bytes are decoded as `json.loads` does. Without ``finite``, ``NaN``, ``Infinity`` and numbers beyond a double are
    read, too; `int` of these raises OverflowError. Raises ValueError for what is no JSON, for numbers of more than
    `exchange.limits.INTEGER_DIGITS` digits, and for more than ``levels`` arrays and objects within each other.
    """
    if isinstance(text, bytes):
        text = text.decode(detect_encoding(text), "surrogatepass")
    try:
        value = (_lenient if finite else _most_lenient).decode(text)
    except JsonRefused:
        raise ValueError(NO_NUMBER) from None
    except RecursionError:
        raise ValueError(f"nested too deeply, beyond {levels} arrays and objects") from None
    if is_deep(text, levels):
        raise ValueError(f"nested too deeply, beyond {levels} arrays and objects")
    return value


def scan_value(text: str, at: int) -> tuple[Any, int]:
    """Return the JSON value that begins at an index, read as `parse_leniently` reads it, and the index of its end.

    Strings may have control characters in them. Raises ValueError.
    """
    try:
        value, end = _scanner.raw_decode(text, at)
    except JsonRefused:
        raise ValueError(NO_NUMBER) from None
    except RecursionError:
        raise ValueError(NESTED_TOO_DEEPLY) from None
    if is_deep(text[at:end]):
        raise ValueError(NESTED_TOO_DEEPLY)
    return value, end


def parse_line(raw: bytes, *, halves: bool = False) -> Any:
    """Return the value in a line of JSON in UTF-8, with or without its line end. Raises InputError with the reason."""
    try:
        return parse(text := raw.decode(), halves=halves)
    except JSONDecodeError as error:
        raise _locate(f"not JSON: {error.msg.removesuffix(' at')}", text.rstrip("\r\n"), error.pos) from None
    except JsonFault as error:
        raise _locate(str(error), text.rstrip("\r\n"), error.fault.place) from None
    except UnicodeDecodeError as error:
        if raw[:2] in UTF_16:
            raise InputError("UTF-16 and not UTF-8, in which JSON lines are written") from None
        raise InputError(f"not UTF-8: {error.reason} at byte {error.start}") from None


def _locate(reason: str, line: str, at: int) -> InputError:
    error = InputError(f"{reason} at column {min(at, len(line)) + 1}")
    error.drawing = draw_fault(line, min(at, len(line)))
    return error


NAME: Final = re.compile(r'"?([A-Za-z_][\w-]*)')


def draw_line(raw: bytes, reason: str) -> str:
    """Return two lines, a line of JSON and a caret under its fault, or under the field that a reason begins with.

    "" if neither is there.

    >>> print(draw_line(b'{"key": 5}', "key: 5 is not a string"))
    <BLANKLINE>
        {"key": 5}
         ^
    """
    try:
        parse_line(raw)
    except InputError as error:
        return error.drawing
    name = NAME.match(reason)
    line = raw.decode().rstrip("\r\n")
    at = -1 if name is None else line.find(f'"{name[1]}"')
    return "" if at < 0 else draw_fault(line, at)


UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


def check_text(text: str) -> None:
    """Raise JsonFault for half of a surrogate pair, unless it stands for a byte (see `BYTES`)."""
    if "\\ud" in text or "\\uD" in text:
        half = _find_lone_surrogate(text)
        if half is not None:
            raise JsonFault(half)


def is_deep(text: str, levels: int = NESTING) -> bool:
    """Return whether JSON, or the beginning of it, has more than ``levels`` arrays and objects within each other.

    This takes a twentieth of the time of Python's parser. At the end of a beginning, only arrays and objects that are
    open count.
    """
    if len(text) < SHORT_TEXT and text.count("[") + text.count("{") <= levels:
        return False
    data = text.encode("utf-8", "surrogatepass")
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # An odd number of quotes before a bracket means that it is in a string: pairs of quotes side by side do not matter.
    marks = data.translate(BRACKETS, NO_MARKS).replace(b'""', b"")
    brackets = QUOTED.sub(b"", marks)
    for _ in range(levels):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")  # the innermost level
    return len(brackets) > levels or b"]" in brackets


SHORT_TEXT: Final = 4096
"""Number of characters below which counting brackets takes less time than comparing them."""
BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
NO_MARKS: Final = bytes(set(range(256)) - set(b'[]{}"'))
QUOTED: Final = re.compile(b'"[^"]*"?')


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise JsonRefused
    return value


def _to_finite(text: str) -> float:
    """Return a number as `parse_float` of a decoder, which `parse_constant` calls for ``NaN`` and ``Infinity``, too."""
    number = float(text)
    if not math.isfinite(number):
        raise JsonRefused
    return number


def _make_decoder(
    make_object: Callable[[list[tuple[str, Any]]], Any] | None = None, *, strict: bool = True
) -> JSONDecoder:
    return JSONDecoder(object_pairs_hook=make_object, parse_float=_to_finite, parse_constant=_to_finite, strict=strict)


_strict: Final = _make_decoder(_refuse_repeated)
_lenient: Final = _make_decoder()
_most_lenient: Final = JSONDecoder()
_scanner: Final = _make_decoder(strict=False)

REPEATED: Final = "a name that is twice in one object"
NO_NUMBER: Final = "not JSON: a number that it does not have"
LONG_NUMBER: Final = f"a number of more than {INTEGER_DIGITS} digits; put it in quotes, or shorten it"
NESTED_TOO_DEEPLY: Final = f"nested too deeply, beyond {NESTING} arrays and objects"
LONE_SURROGATE: Final = "half of a surrogate pair, which no text in UTF-8 has"
LINE_ENDS: Final = ("\n", "", "\r\n")


def find_fault(text: str) -> Fault | None:
    """Return the first fault of a JSON text, or None. Takes time linear in its length.

    All strings, numbers and brackets are checked, even those that JSON's grammar does not allow in their position.
    """
    names: list[set[str] | None] = []  # for each open object the names met so far; None for each open array
    before = None  # the last string: a name, if a colon follows
    for token in TOKEN.finditer(text):
        first = token[0][0]
        if first == '"':
            before = token
            half = _find_lone_surrogate(token[0]) if "\\u" in token[0] else None
            if half is not None:
                return half._replace(place=token.start() + half.place)
        elif first == ":":
            known = names[-1] if names else None
            if known is not None and before is not None:
                name = _decode_name(before[0])
                if name in known:
                    return Fault(before.start(), REPEATED, clip_line(before[0], MAX_QUOTED_CHARACTERS))
                known.add(name)
        elif first in "{[":
            if len(names) == NESTING:
                return Fault(token.start(), NESTED_TOO_DEEPLY)
            names.append(set() if first == "{" else None)
        elif first in "}]":
            if names:
                names.pop()
        elif reason := _check_number(token[0]):
            return Fault(token.start(), reason, clip_line(token[0], MAX_QUOTED_CHARACTERS))
    return None


def find_scalar(text: str, name: str) -> Any:
    """Return the string, number or word that the outermost object has by a name; None where it has none.

    The text may be no JSON, may be nested too deeply or have halves of surrogate pairs, as long as it begins as an
    object. Of names that are repeated, the last counts, as in most parsers. Takes time linear in its length.
    """
    depth, found, before, by_name = 0, None, None, False
    for token in TOKEN.finditer(text):
        first = token[0][0]
        if first == ":":
            by_name = depth == 1 and before is not None and _decode_name(before) == name
            continue
        if first in "{[":
            if not depth and first == "[":
                return None
            depth, found = depth + 1, None if by_name else found
        elif first in "}]":
            depth -= 1
        elif by_name:
            found = _decode_scalar(token[0])
        before, by_name = token[0] if first == '"' else None, False
    return found


def _decode_scalar(text: str) -> Any:
    try:
        return _strict.decode(text)
    except (ValueError, JsonRefused):
        return None


def _find_lone_surrogate(text: str) -> Fault | None:
    for escape in ESCAPE.finditer(text):
        if escape[1] is not None and int(escape[1][1:], 16) not in BYTES:
            return Fault(escape.start(), LONE_SURROGATE, escape[0])
    return None


def _check_number(text: str) -> str:
    """Return what is wrong with a number; ``""`` if nothing is, or if the text is no number."""
    if text.lstrip("-") in ("NaN", "Infinity"):
        return NO_NUMBER
    if len(text) > INTEGER_DIGITS and is_digits(text.lstrip("-")):
        return LONG_NUMBER
    try:
        return "" if math.isfinite(float(text)) else NO_NUMBER
    except ValueError:  # true, null, or no JSON at all, which the parser has refused before
        return ""


def _decode_name(string: str) -> str:
    try:
        return str(_lenient.decode(string))
    except ValueError:
        return string


# Each match consumes all that it has looked at, even an unterminated string, so that no text takes quadratic time.
_TEXT: Final = r'"(?:[^"\\]|\\.)*+"'
BARE_NAME: Final = re.compile(rf'{_TEXT}?+|([{{,]\s*+)(-?[0-9]++|\{{(?:[^{{}}"]|{_TEXT})*+\}})(?=\s*+:)', re.DOTALL)


def parse_fastjson(text: str) -> Any:
    """Return the value of JSON as RocketMQ's servers write it, with fastjson: ``{0:"10.0.0.1"}``, ``{{"id":0}:4}``.

    Names that are bare numbers or objects become strings, an object its text. Raises ValueError for a text that is not
    JSON, is nested too deeply, or has a number beyond a double.
    """
    try:
        return parse_leniently(text)
    except ValueError:
        return parse_leniently(BARE_NAME.sub(_quote, text))


def _quote(match: re.Match[str]) -> str:
    return match[0] if match[2] is None else match[1] + json.dumps(match[2])
