"""Parse Erlang terms as ``~p`` and ``~tp`` print them, for example in the text logs of RabbitMQ's tracing plugin.

Lists become lists, tuples tuples, numbers numbers, binaries bytes, atoms `ParsedAtom`, strings in quotes str.

The input is text, not bytes: the caller must know the encoding of a file and decode it first. Each character of
``<<"ü">>`` is one byte, here 0xFC; ``<<"ü"/utf8>>``, which only ``~tp`` prints, has the bytes of the text in UTF-8,
here 0xC3 0xBC.
"""

from __future__ import annotations

import re
from typing import Any, Final

from exchange.errors import InputError
from exchange.limits import INTEGER_DIGITS, NESTING, TABLE_ITEMS

TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<open>[\[{]) | (?P<close>[\]}]) | (?P<comma>,)
    | (?P<float>[-+]?[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?) | (?P<int>[-+]?[0-9]+)
    | <<\s*+"(?P<text>[^"\\]*+(?:\\.[^"\\]*+)*+)"(?P<utf8>\s*+/\s*+utf8)?\s*+>>
    | <<(?P<bytes>[0-9,\s]*+)>>
    | "(?P<string>[^"\\]*+(?:\\.[^"\\]*+)*+)"
    | '(?P<quoted>[^'\\]*+(?:\\.[^'\\]*+)*+)' | (?P<atom>[a-z][a-zA-Z0-9_@]*+)
    )""",
    re.VERBOSE | re.DOTALL,
)
ESCAPE: Final = re.compile(r"\\(?:x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|([0-7]{1,3})|(.))", re.DOTALL)
CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "s": " ", "d": "\x7f"}
ENDS: Final = {"[": "]", "{": "}"}


class ParsedAtom(str):
    """An atom."""

    __slots__ = ()


def parse(text: str) -> Any:
    """Return the one term in a text of one or more lines. Raises InputError.

    A term has at most `NESTING` levels and `TABLE_ITEMS` items, as messages do.
    """
    # Opening bracket and items of each open list or tuple; the first entry collects the term itself.
    stack: list[tuple[str, list[Any]]] = [("", [])]
    position, text = 0, text.rstrip()
    wants_value = True
    items_left = TABLE_ITEMS
    while position < len(text):
        token = TOKEN.match(text, position)
        if token is None:
            raise InputError("not an Erlang term")
        position = token.end()
        kind = str(token.lastgroup)
        if kind == "comma":
            if wants_value or len(stack) == 1:
                raise InputError("not an Erlang term: a comma that follows nothing")
            wants_value = True
            continue
        if kind == "close":
            opened, items = stack.pop()
            if ENDS.get(opened) != token["close"] or (wants_value and items):
                raise InputError("not an Erlang term: brackets that do not fit")
            stack[-1][1].append(items if opened == "[" else tuple(items))
        elif not wants_value:
            raise InputError("not an Erlang term: a comma is missing")
        elif kind == "open":
            stack.append((token["open"], []))
            if len(stack) > NESTING + 1:
                raise InputError("an Erlang term that is nested too deeply")
            continue
        else:
            stack[-1][1].append(_read_value(token))
        wants_value = False
        items_left -= 1
        if items_left < 0:
            raise InputError(f"an Erlang term of more than {TABLE_ITEMS:,} items")
    if len(stack) != 1 or len(stack[0][1]) != 1:
        raise InputError("not an Erlang term: it does not end")
    return stack[0][1][0]


def _read_value(token: re.Match[str]) -> Any:
    if token["text"] is not None:
        try:
            return _unescape(token["text"]).encode("utf-8" if token["utf8"] else "latin-1")
        except UnicodeEncodeError:
            raise InputError("not an Erlang term: a binary with a character that is no byte") from None
    if token["bytes"] is not None:
        try:
            return bytes([int(number) for number in token["bytes"].split(",") if number.strip()])
        except ValueError:
            raise InputError("not an Erlang term: a binary with a number that is no byte") from None
    if token["int"] is not None:
        if len(token["int"]) > INTEGER_DIGITS:
            raise InputError(f"an Erlang term with a number of more than {INTEGER_DIGITS:,} digits")
        return int(token["int"])
    if token["float"] is not None:
        return float(token["float"])
    if token["string"] is not None:
        return _unescape(token["string"])
    return ParsedAtom(_unescape(token["quoted"]) if token["quoted"] is not None else token["atom"])


def _unescape(raw: str) -> str:
    return ESCAPE.sub(_read_escape, raw)


def _read_escape(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    number = int(code, 16) if code else int(escape[3], 8) if escape[3] else None
    if number is None:
        return CONTROLS.get(escape[4], escape[4])
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise InputError("not an Erlang term: an escape that is no character")
    return chr(number)
