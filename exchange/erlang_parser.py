"""Erlang terms as ``~p`` and ``~tp`` print them: what the text logs of RabbitMQ's tracing plugin hold.

Lists are lists, tuples tuples, numbers numbers, binaries bytes, atoms `Atom`, strings in quotes the text.

What is printed is characters. Those of ``<<"ü">>`` are bytes, here 0xFC; those of ``<<"ü"/utf8>>``, which only ``~tp``
prints, are text, here the bytes 0xC3 0xBC. How the characters were written to a file is another matter, and for the
reader to know.
"""

from __future__ import annotations

import re
from typing import Any, Final

from exchange.errors import InputError
from exchange.limits import INTEGER_DIGITS, NESTING, TABLE_ITEMS

__all__ = ["Atom", "parse"]

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


class Atom(str):
    """An atom."""

    __slots__ = ()


def parse(text: str) -> Any:
    """Return the one term that a text holds, over however many lines. Raises InputError.

    The term is nested `NESTING` deep and has `TABLE_ITEMS` items at most, as no message has more.
    """
    stack: list[tuple[str, list[Any]]] = [("", [])]
    place, text = 0, text.rstrip()
    wants_value = True
    items_left = TABLE_ITEMS
    while place < len(text):
        found = TOKEN.match(text, place)
        if found is None:
            raise InputError("not an Erlang term")
        place = found.end()
        kind = str(found.lastgroup)
        if kind == "comma":
            if wants_value or len(stack) == 1:
                raise InputError("not an Erlang term: a comma that follows nothing")
            wants_value = True
            continue
        if kind == "close":
            opened, items = stack.pop()
            if ENDS.get(opened) != found["close"] or (wants_value and items):
                raise InputError("not an Erlang term: brackets that do not fit")
            stack[-1][1].append(items if opened == "[" else tuple(items))
        elif not wants_value:
            raise InputError("not an Erlang term: a comma is missing")
        elif kind == "open":
            stack.append((found["open"], []))
            if len(stack) > NESTING + 1:
                raise InputError("an Erlang term that is nested too deeply")
            continue
        else:
            stack[-1][1].append(_value(found))
        wants_value = False
        items_left -= 1
        if items_left < 0:
            raise InputError(f"an Erlang term of more than {TABLE_ITEMS:,} items")
    if len(stack) != 1 or len(stack[0][1]) != 1:
        raise InputError("not an Erlang term: it does not end")
    return stack[0][1][0]


def _value(found: re.Match[str]) -> Any:
    if found["text"] is not None:
        try:
            return _unescaped(found["text"]).encode("utf-8" if found["utf8"] else "latin-1")
        except UnicodeEncodeError:
            raise InputError("not an Erlang term: a binary with a character that is no byte") from None
    if found["bytes"] is not None:
        try:
            return bytes([int(number) for number in found["bytes"].split(",") if number.strip()])
        except ValueError:
            raise InputError("not an Erlang term: a binary with a number that is no byte") from None
    if found["int"] is not None:
        if len(found["int"]) > INTEGER_DIGITS:
            raise InputError(f"an Erlang term with a number of more than {INTEGER_DIGITS:,} digits")
        return int(found["int"])
    if found["float"] is not None:
        return float(found["float"])
    if found["string"] is not None:
        return _unescaped(found["string"])
    return Atom(_unescaped(found["quoted"]) if found["quoted"] is not None else found["atom"])


def _unescaped(raw: str) -> str:
    return ESCAPE.sub(_character, raw)


def _character(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    number = int(code, 16) if code else int(found[3], 8) if found[3] else None
    if number is None:
        return CONTROLS.get(found[4], found[4])
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise InputError("not an Erlang term: an escape that is no character")
    return chr(number)
