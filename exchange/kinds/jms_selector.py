"""Evaluate selectors of x-jms-topic, as `sjx_evaluator.erl` of RabbitMQ's rabbitmq_jms_topic_exchange does.

A JMS client compiles the SQL of a subscription to an Erlang term, and the broker evaluates this term with the message's
headers. So the values are Erlang's: atoms (`ParsedAtom`, true and false among them), integers, floats, binaries, lists
and tuples. There are three truth values; the third is the atom ``undefined``, which is also the value of an absent
header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from exchange.values.erlang_parser import ParsedAtom, parse
from exchange.values.field_values import resolve_type, to_bytes
from exchange.values.message import Message


class Crash(Exception):
    """A failure of the broker's evaluation, which closes the publisher's channel; the message has the reason."""


class NoText(Crash):
    """LIKE of a value that is no text. From 4.3 on the exchange matches nothing then; before, the channel crashes."""


class NotKnown(Exception):
    """An evaluation whose result is not known here; the message has the reason."""


TRUE: Final = ParsedAtom("true")
FALSE: Final = ParsedAtom("false")
UNDEFINED: Final = ParsedAtom("undefined")
ERROR: Final = ParsedAtom("error")

VALUES: Final = frozenset({"longstr", "signedint", "float", "double", "byte", "short", "long"})
"""Field types of headers that a selector may read, beside bool; the broker fails on others."""

MAX_STEPS: Final = 20_000
"""Maximum number of steps to match a LIKE pattern; beyond it, a limit of the broker may end the match early."""

WILDCARDS: Final = {b"_": b".", b"%": b".*"}
"""Wildcard of LIKE -> regular expression."""

MAX_BITS: Final = 65_536
"""Maximum number of bits of an integer that a selector calculates."""


def parse_selector(text: str) -> Any:
    """Return the term of a selector. Raises InputError if it cannot be parsed."""
    stripped = text.rstrip()
    return _expand_strings(parse(stripped.removesuffix(".")))


def _expand_strings(term: Any) -> Any:
    """Replace strings by lists of characters, as in Erlang, so that they equal no atom and no binary."""
    if isinstance(term, tuple):
        return tuple(map(_expand_strings, term))
    if isinstance(term, list):
        return [_expand_strings(item) for item in term]
    return [ord(character) for character in term] if type(term) is str else term


def list_identifiers(term: Any) -> Iterator[str]:
    """Yield the names of the headers that a selector reads."""
    if isinstance(term, tuple) and len(term) == 2 and term[0] == ParsedAtom("ident") and isinstance(term[1], bytes):
        yield term[1].decode("utf-8", "surrogateescape")
    elif isinstance(term, (tuple, list)):
        for part in term:
            yield from list_identifiers(part)


def list_headers(message: Message) -> dict[bytes, tuple[str, Any]]:
    """Return the headers of a message as a selector reads them: name -> type and value, without BCC."""
    return {to_bytes(name): resolve_type(value) for name, value in message.headers.items() if name != "BCC"}


def evaluate(term: Any, headers: Mapping[bytes, tuple[str, Any]], *, signed_zeros_differ: bool) -> Any:
    """Return the value of a term: true, false, undefined, or any other Erlang term. Raises Crash and NotKnown."""
    return _Evaluation(headers, signed_zeros_differ).value(term)


class _Evaluation:
    def __init__(self, headers: Mapping[bytes, tuple[str, Any]], signed_zeros_differ: bool) -> None:
        self._headers = headers
        self._signed_zeros_differ = signed_zeros_differ

    def value(self, term: Any) -> Any:
        if not isinstance(term, tuple):
            return term
        operator = str(term[0]) if term and isinstance(term[0], ParsedAtom) else ""
        if len(term) == 2:
            return self._evaluate_unary(operator, term[1])
        if len(term) == 3:
            is_range = isinstance(term[2], tuple) and len(term[2]) == 3 and term[2][0] == ParsedAtom("range")
            if is_range and operator not in ("and", "or"):
                return self.value((term[0], term[1], *term[2][1:]))
            return self._evaluate_binary(operator, term[1], term[2])
        if len(term) == 4:
            return self._evaluate_ternary(operator, term)
        return term

    def _evaluate_unary(self, operator: str, operand: Any) -> Any:
        if operator == "not":
            return _negate(self.value(operand))
        if operator == "ident":
            return self._read_header(operand)
        if operator in ("is_null", "not_null"):
            return _truth((self._raw(operand) == UNDEFINED) is (operator == "is_null"))
        value = self.value(operand)
        if value == UNDEFINED:
            return UNDEFINED
        if operator in ("-", "+"):
            return _number(value) if operator == "+" else -_number(value)
        return ERROR

    def _evaluate_binary(self, operator: str, left: Any, right: Any) -> Any:
        # The broker always evaluates both sides, so either can make it fail.
        one, other = self.value(left), self.value(right)
        if operator in ("and", "or"):
            ends = FALSE if operator == "and" else TRUE
            if ends in (one, other):
                return ends
            return _negate(ends) if one == other == _negate(ends) else UNDEFINED
        if UNDEFINED in (one, other):
            return UNDEFINED
        if operator in COMPARISONS:
            return _truth(COMPARISONS[operator](_compare(one, other)))
        if operator in ("in", "not_in"):
            if not isinstance(other, list):
                raise Crash(f"'{operator}' wants a list")
            return _truth(any(self._is_same(one, each) for each in other) is (operator == "in"))
        if operator in ARITHMETIC:
            return _calculate(lambda: ARITHMETIC[operator](_number(one), _number(other)))
        return _divide(one, other) if operator == "/" else ERROR

    def _evaluate_ternary(self, operator: str, term: tuple[Any, ...]) -> Any:
        if operator in ("like", "not_like"):
            result = self._like(self._raw(term[1]), term[2], term[3])
            return result if operator == "like" else _negate(result)
        if operator in ("between", "not_between"):
            value, low, high = map(self.value, term[1:])
            if UNDEFINED in (value, low, high):
                return UNDEFINED
            result = _truth(_compare(low, value) <= 0 and _compare(value, high) <= 0)
            return result if operator == "between" else _negate(result)
        return term

    def _raw(self, term: Any) -> Any:
        """Return the value of an identifier, and anything else without evaluating it."""
        is_identifier = isinstance(term, tuple) and len(term) == 2 and term[0] == ParsedAtom("ident")
        return self._read_header(term[1]) if is_identifier else term

    def _read_header(self, name: Any) -> Any:
        header = self._headers.get(name) if isinstance(name, bytes) else None
        if header is None:
            return UNDEFINED
        kind, value = header
        if kind == "bool":
            return _truth(value)
        if kind not in VALUES:
            raise Crash(f"header '{name.decode('utf-8', 'replace')}' is of the type {kind}")
        return value

    def _is_same(self, one: Any, other: Any) -> bool:
        """Return whether the terms are identical; 1 and 1.0 are not."""
        if type(one) is not type(other):
            return False
        if isinstance(one, (list, tuple)):
            return len(one) == len(other) and all(map(self._is_same, one, other))
        if isinstance(one, float) and self._signed_zeros_differ:
            return (one.hex(), type(one)) == (other.hex(), type(other))
        same: bool = one == other
        return same

    def _like(self, value: Any, pattern: Any, escape: Any) -> ParsedAtom:
        if value == UNDEFINED:
            return UNDEFINED
        if not isinstance(value, bytes):
            raise NoText("'like' wants a text")
        if pattern == ParsedAtom("regex"):
            return _match_regex(value, escape)
        no_escape = escape == ParsedAtom("no_escape")
        if not isinstance(pattern, bytes) or not (no_escape or (isinstance(escape, bytes) and len(escape) == 1)):
            raise NotKnown("a pattern of 'like' is malformed")
        return _truth(_is_like(value, pattern, None if no_escape else escape[0]))


def _match_regex(value: bytes, pattern: Any) -> ParsedAtom:
    """Return whether the first match of a regular expression in a text is the whole text. Raises NotKnown.

    If no match is the whole text, the answer is false. If a match is, the first match may still be another, so this is
    not known.
    """
    from exchange.patterns.pcre import parse_expression  # not at the top: few selectors need it

    if not isinstance(pattern, bytes):
        raise NotKnown("a regular expression of 'like' is malformed")
    whole = parse_expression(rf"\A(?:{pattern.decode('latin-1')})\z") if pattern.isascii() and value.isascii() else None
    if whole is not None and whole.is_found_in(value.decode()) is False and not whole.error:
        return FALSE
    raise NotKnown("a regular expression of 'like' may match")


def _is_like(value: bytes, pattern: bytes, escape: int | None) -> bool:
    """Return whether a text matches the pattern of LIKE, in bytes; ``%`` and ``_`` match no line feed.

    The broker searches for a greedy regular expression. If any match is the whole text, the first one is: each ``.*``
    extends as far as the rest of the pattern allows, and the rest can always match at the end of the text.
    """
    pieces = translate_like(pattern, escape)
    wild = pieces.count(b".*")
    if wild and (len(value) + 1) ** wild * len(pieces) > MAX_STEPS:
        raise NotKnown("a pattern of 'like' takes more steps than a broker may try")
    return re.fullmatch(b"".join(pieces), value) is not None


def translate_like(pattern: bytes, escape: int | None) -> list[bytes]:
    """Return a regular expression for each character of a pattern of LIKE."""
    pieces: list[bytes] = []
    position = 0
    while position < len(pattern):
        is_escape = pattern[position] == escape and position + 1 < len(pattern)
        position += is_escape
        byte = pattern[position : position + 1]
        pieces.append(WILDCARDS.get(byte, re.escape(byte)) if not is_escape else re.escape(byte))
        position += 1
    return pieces


def _truth(holds: bool) -> ParsedAtom:
    return TRUE if holds else FALSE


def _negate(value: Any) -> ParsedAtom:
    if value == TRUE:
        return FALSE
    return TRUE if value == FALSE else UNDEFINED


def _number(value: Any) -> Any:
    if isinstance(value, (int, float)):
        return value
    raise Crash("it calculates with what is no number")


def _calculate(calculate: Callable[[], Any]) -> Any:
    """Return the result of a calculation. Raises Crash where Erlang, which has no infinite floats, fails."""
    try:
        result = calculate()
    except OverflowError:
        result = float("inf")
    if isinstance(result, float) and result - result != 0:
        raise Crash("a number is too large")
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        raise NotKnown(f"a number has more than {MAX_BITS:,} bits")
    return result


def _divide(one: Any, other: Any) -> Any:
    if not (isinstance(other, (int, float)) and other == 0):
        return _calculate(lambda: float(_number(one)) / float(_number(other)))
    order = _compare(one, 0)
    return ParsedAtom("plus_infinity" if order > 0 else "minus_infinity" if order < 0 else "nan")


def _compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1 by Erlang's order of all terms, which compares integers and floats as numbers."""
    ranks = _rank(one), _rank(other)
    if ranks[0] != ranks[1]:
        return -1 if ranks[0] < ranks[1] else 1
    if isinstance(one, tuple) and len(one) != len(other):
        return -1 if len(one) < len(other) else 1
    if isinstance(one, (tuple, list)):
        for left, right in zip(one, other, strict=False):
            order = _compare(left, right)
            if order:
                return order
        one, other = len(one), len(other)
    return int(one > other) - int(one < other)


def _rank(term: Any) -> int:
    """Return the rank of a term's type in Erlang's order: number, atom, tuple, list, binary."""
    if isinstance(term, (int, float)):
        return 0
    if isinstance(term, ParsedAtom):
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
