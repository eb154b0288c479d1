"""Selectors of x-jms-topic: what `sjx_evaluator.erl` of RabbitMQ's rabbitmq_jms_topic_exchange makes of a message.

A JMS client compiles the SQL of a subscription to an Erlang term, and the broker evaluates the term on the message's
headers. So the values are Erlang's: atoms (`Atom`, true and false among them), integers, floats, binaries, lists and
tuples. Truth has three values; the atom ``undefined`` is the third one, and also a header that is not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from exchange.erlang_parser import Atom, parse
from exchange.field_values import to_bytes, type_and_value
from exchange.message import Message

__all__ = ["Crash", "NoText", "NotKnown", "evaluate", "headers_of", "identifiers", "parse_selector", "parts_of"]


class Crash(Exception):
    """The broker's evaluation fails, and the publisher's channel with it; the message says why."""


class NoText(Crash):
    """LIKE is asked of what is no text. From 4.3 on the exchange matches nothing then, where others crash."""


class NotKnown(Exception):
    """What the broker makes of it is not known here; the message says why."""


TRUE: Final = Atom("true")
FALSE: Final = Atom("false")
UNDEFINED: Final = Atom("undefined")
ERROR: Final = Atom("error")

VALUES: Final = frozenset({"longstr", "signedint", "float", "double", "byte", "short", "long"})
"""Field types that an identifier may name, beside bool; the broker fails on others."""

STEPS: Final = 20_000
"""Maximum number of ways to match a LIKE pattern; beyond them the broker's limit may end the match before its end."""

WILDCARDS: Final = {b"_": b".", b"%": b".*"}

BITS: Final = 65_536
"""Maximum number of bits of an integer that a selector calculates."""


def parse_selector(text: str) -> Any:
    """Return the term of a selector. Raises InputError when it is not understood here."""
    stripped = text.rstrip()
    return _with_lists(parse(stripped.removesuffix(".")))


def _with_lists(term: Any) -> Any:
    """Write strings as the lists of characters they are, so that they equal no atom and no binary."""
    if isinstance(term, tuple):
        return tuple(map(_with_lists, term))
    if isinstance(term, list):
        return [_with_lists(item) for item in term]
    return [ord(character) for character in term] if type(term) is str else term


def identifiers(term: Any) -> Iterator[str]:
    """Yield the names of the headers that a selector asks for."""
    if isinstance(term, tuple) and len(term) == 2 and term[0] == Atom("ident") and isinstance(term[1], bytes):
        yield term[1].decode("utf-8", "surrogateescape")
    elif isinstance(term, (tuple, list)):
        for part in term:
            yield from identifiers(part)


def headers_of(message: Message) -> dict[bytes, tuple[str, Any]]:
    """Return what a selector sees of a message: the types and values of its headers by name, without BCC."""
    return {to_bytes(name): type_and_value(value) for name, value in message.headers.items() if name != "BCC"}


def evaluate(term: Any, headers: Mapping[bytes, tuple[str, Any]], *, signed_zeros_differ: bool) -> Any:
    """Return the value of a term: true, false, undefined, or whatever else it is. Raises Crash and NotKnown."""
    return _Evaluation(headers, signed_zeros_differ).value(term)


class _Evaluation:
    def __init__(self, headers: Mapping[bytes, tuple[str, Any]], signed_zeros_differ: bool) -> None:
        self._headers = headers
        self._signed_zeros_differ = signed_zeros_differ

    def value(self, term: Any) -> Any:
        if not isinstance(term, tuple):
            return term
        operator = str(term[0]) if term and isinstance(term[0], Atom) else ""
        if len(term) == 2:
            return self._of_one(operator, term[1])
        if len(term) == 3:
            is_range = isinstance(term[2], tuple) and len(term[2]) == 3 and term[2][0] == Atom("range")
            if is_range and operator not in ("and", "or"):
                return self.value((term[0], term[1], *term[2][1:]))
            return self._of_two(operator, term[1], term[2])
        if len(term) == 4:
            return self._of_three(operator, term)
        return term

    def _of_one(self, operator: str, operand: Any) -> Any:
        if operator == "not":
            return _negated(self.value(operand))
        if operator == "ident":
            return self._header(operand)
        if operator in ("is_null", "not_null"):
            return _truth((self._raw(operand) == UNDEFINED) is (operator == "is_null"))
        value = self.value(operand)
        if value == UNDEFINED:
            return UNDEFINED
        if operator in ("-", "+"):
            return _number(value) if operator == "+" else -_number(value)
        return ERROR

    def _of_two(self, operator: str, left: Any, right: Any) -> Any:
        # Both are evaluated, whatever the first one is, so that either may make the broker fail.
        one, other = self.value(left), self.value(right)
        if operator in ("and", "or"):
            ends = FALSE if operator == "and" else TRUE
            if ends in (one, other):
                return ends
            return _negated(ends) if one == other == _negated(ends) else UNDEFINED
        if UNDEFINED in (one, other):
            return UNDEFINED
        if operator in COMPARISONS:
            return _truth(COMPARISONS[operator](_compare(one, other)))
        if operator in ("in", "not_in"):
            if not isinstance(other, list):
                raise Crash(f"'{operator}' wants a list")
            return _truth(any(self._is_same(one, each) for each in other) is (operator == "in"))
        if operator in ARITHMETIC:
            return _within_bounds(lambda: ARITHMETIC[operator](_number(one), _number(other)))
        return _divided(one, other) if operator == "/" else ERROR

    def _of_three(self, operator: str, term: tuple[Any, ...]) -> Any:
        if operator in ("like", "not_like"):
            found = self._like(self._raw(term[1]), term[2], term[3])
            return found if operator == "like" else _negated(found)
        if operator in ("between", "not_between"):
            value, low, high = map(self.value, term[1:])
            if UNDEFINED in (value, low, high):
                return UNDEFINED
            found = _truth(_compare(low, value) <= 0 and _compare(value, high) <= 0)
            return found if operator == "between" else _negated(found)
        return term

    def _raw(self, term: Any) -> Any:
        """Return the value of an identifier; anything else as it is, not evaluated."""
        is_identifier = isinstance(term, tuple) and len(term) == 2 and term[0] == Atom("ident")
        return self._header(term[1]) if is_identifier else term

    def _header(self, name: Any) -> Any:
        found = self._headers.get(name) if isinstance(name, bytes) else None
        if found is None:
            return UNDEFINED
        kind, value = found
        if kind == "bool":
            return _truth(value)
        if kind not in VALUES:
            raise Crash(f"header '{name.decode('utf-8', 'replace')}' is a {kind}")
        return value

    def _is_same(self, one: Any, other: Any) -> bool:
        """Return whether the terms are identical, as 1 and 1.0 are not."""
        if type(one) is not type(other):
            return False
        if isinstance(one, (list, tuple)):
            return len(one) == len(other) and all(map(self._is_same, one, other))
        if isinstance(one, float) and self._signed_zeros_differ:
            return (one.hex(), type(one)) == (other.hex(), type(other))
        same: bool = one == other
        return same

    def _like(self, value: Any, pattern: Any, escape: Any) -> Atom:
        if value == UNDEFINED:
            return UNDEFINED
        if not isinstance(value, bytes):
            raise NoText("'like' wants a text")
        if pattern == Atom("regex"):
            return _whole_match(value, escape)
        no_escape = escape == Atom("no_escape")
        if not isinstance(pattern, bytes) or not (no_escape or (isinstance(escape, bytes) and len(escape) == 1)):
            raise NotKnown("a pattern of 'like' is malformed")
        return _truth(_is_like(value, pattern, None if no_escape else escape[0]))


def _whole_match(value: bytes, pattern: Any) -> Atom:
    """Look for a regular expression: the first match must be the whole text.

    Where no match is the whole text, the first one is not. Where some match is, the first one may be another.
    """
    from exchange.patterns.pcre import expression  # which few selectors need

    if not isinstance(pattern, bytes):
        raise NotKnown("a regular expression of 'like' is malformed")
    whole = expression(rf"\A(?:{pattern.decode('latin-1')})\z") if pattern.isascii() and value.isascii() else None
    if whole is not None and whole.found_in(value.decode()) is False and not whole.error:
        return FALSE
    raise NotKnown("a regular expression of 'like' may match")


def _is_like(value: bytes, pattern: bytes, escape: int | None) -> bool:
    """Return whether a text matches the pattern of LIKE, in bytes; ``%`` and ``_`` match no line feed.

    The broker's regular expression is greedy and looked for anywhere. Its first match is the whole text whenever some
    match is: each ``.*`` reaches as far as the rest allows, and the rest can always match at the end.
    """
    parts = parts_of(pattern, escape)
    wild = parts.count(b".*")
    if wild and (len(value) + 1) ** wild * len(parts) > STEPS:
        raise NotKnown("a pattern of 'like' takes so many steps that the broker may give up")
    return re.fullmatch(b"".join(parts), value) is not None


def parts_of(pattern: bytes, escape: int | None) -> list[bytes]:
    """Return a pattern of LIKE as regular expressions of its characters."""
    parts: list[bytes] = []
    place = 0
    while place < len(pattern):
        is_escape = pattern[place] == escape and place + 1 < len(pattern)
        place += is_escape
        byte = pattern[place : place + 1]
        parts.append(WILDCARDS.get(byte, re.escape(byte)) if not is_escape else re.escape(byte))
        place += 1
    return parts


def _truth(holds: bool) -> Atom:
    return TRUE if holds else FALSE


def _negated(value: Any) -> Atom:
    if value == TRUE:
        return FALSE
    return TRUE if value == FALSE else UNDEFINED


def _number(value: Any) -> Any:
    if isinstance(value, (int, float)):
        return value
    raise Crash("it calculates with what is no number")


def _within_bounds(calculate: Callable[[], Any]) -> Any:
    """Return a result; Erlang has no infinite floats and fails instead."""
    try:
        result = calculate()
    except OverflowError:
        result = float("inf")
    if isinstance(result, float) and result - result != 0:
        raise Crash("a number is too large")
    if isinstance(result, int) and result.bit_length() > BITS:
        raise NotKnown(f"a number has more than {BITS:,} bits")
    return result


def _divided(one: Any, other: Any) -> Any:
    if not (isinstance(other, (int, float)) and other == 0):
        return _within_bounds(lambda: float(_number(one)) / float(_number(other)))
    order = _compare(one, 0)
    return Atom("plus_infinity" if order > 0 else "minus_infinity" if order < 0 else "nan")


def _compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1 in Erlang's order of all terms, in which integers and floats are compared as numbers."""
    ranks = _rank(one), _rank(other)
    if ranks[0] != ranks[1]:
        return -1 if ranks[0] < ranks[1] else 1
    if isinstance(one, tuple) and len(one) != len(other):
        return -1 if len(one) < len(other) else 1
    if isinstance(one, (tuple, list)):
        for each, its in zip(one, other, strict=False):
            order = _compare(each, its)
            if order:
                return order
        one, other = len(one), len(other)
    return int(one > other) - int(one < other)


def _rank(term: Any) -> int:
    """Return the place of a type: number, atom, tuple, list, binary."""
    if isinstance(term, (int, float)):
        return 0
    if isinstance(term, Atom):
        return 1
    if isinstance(term, tuple):
        return 2
    return 3 if isinstance(term, list) else 4


COMPARISONS: Final[Mapping[str, Callable[[int], bool]]] = {
    "=": lambda order: order == 0, "<>": lambda order: order != 0, ">": lambda order: order > 0,
    "<": lambda order: order < 0, ">=": lambda order: order >= 0, "<=": lambda order: order <= 0,
}  # fmt: skip
ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": lambda one, other: one + other, "-": lambda one, other: one - other, "*": lambda one, other: one * other,
}  # fmt: skip
