"""Which selectors x-jms-topic takes since RabbitMQ 4.3, as `sjx_parser.erl` and `sjx_evaluator.erl` have it.

Before, every Erlang term was taken that ends with a full stop, and the broker failed on it later.
"""

from __future__ import annotations

import re
from typing import Any, Final

from exchange.errors import InputError
from exchange.kinds.jms_selector import parse_selector, parts_of

__all__ = ["refusal"]

DEPTH: Final = 16
"""Maximum depth of nested tuples and lists."""

PATTERN_LENGTH: Final = 1_024
"""Maximum number of characters of a pattern."""

ATOMS: Final = frozenset({
    "ident", "not", "and", "or", "is_null", "not_null", "like", "not_like", "between", "not_between", "range", "in",
    "not_in", "=", "<>", ">", "<", ">=", "<=", "+", "-", "*", "/", "true", "false", "no_escape", "regex",
})  # fmt: skip

TOKEN: Final = re.compile(
    r"""[ \t\n\r]*+(?:
      (?P<open>[\[{]) | (?P<close>[\]}]) | (?P<comma>,)
    | (?P<binary><<[ \t\n\r]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t\n\r]*+)?+>>)
    | (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")
    | (?P<number>(?:[-+][ \t\n\r]*+)?[0-9]++(?:\.[0-9]++(?:[eE][-+]?[0-9]++)?)?)
    | '(?P<quoted>[^'\\]*+(?:\\.[^'\\]*+)*+)' | (?P<atom>[a-z][a-zA-Z0-9_@]*+)
    )""",
    re.VERBOSE | re.DOTALL,
)
END: Final = re.compile(r"[ \t\n\r]*+\.?[ \t\n\r]*+")


def refusal(selector: str) -> str:
    """Return why a broker since 4.3 refuses a selector, much in its words; nothing when it takes it."""
    why = _fault(selector)
    if why:
        return f"invalid JMS selector: {why}"
    try:
        fault = _pattern_fault(parse_selector(selector))
    except InputError:  # a comma before a closing brace
        return ""
    return f"invalid JMS selector pattern: {fault}" if fault else ""


def _fault(text: str) -> str:
    """Return what the grammar has against a text: a term, and perhaps a full stop."""
    stack: list[str] = []
    place = 0
    wants_term = True
    is_first = False  # in its tuple or list
    while stack or wants_term:
        found = TOKEN.match(text, place)
        if found is None:
            return "unexpected_end" if not text[place:].strip() else "unexpected_character"
        place = found.end()
        kind = str(found.lastgroup)
        if kind == "close":
            opened = stack.pop() if stack else ""
            if opened + found["close"] not in ("{}", "[]") or (opened == "[" and wants_term and not is_first):
                return "unexpected_character"
        elif kind == "comma":
            if wants_term:
                return "unexpected_character"
            wants_term, is_first = True, False
            continue
        elif not wants_term:
            return "expected_comma_or_closing_brace"
        elif len(stack) > DEPTH:
            return "max_depth_exceeded"
        elif kind == "open":
            stack.append(found["open"])
            is_first = True
            continue
        elif kind in ("quoted", "atom"):
            name = re.sub(r"\\(.)", r"\1", found[kind], flags=re.DOTALL)
            if name not in ATOMS:
                return f'{{disallowed_atom,"{name}"}}'
        wants_term = False
    return "" if END.fullmatch(text, place) else "trailing_characters"


def _pattern_fault(term: Any) -> str:
    """Return what is wrong with the first pattern that is no good, anywhere in a term."""
    pending = [term]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple) and len(part) == 4 and part[0] in ("like", "not_like"):
            fault = _fault_of(part[2], part[3])
            if fault:
                return fault
            pending.append(part[1])
        elif isinstance(part, (tuple, list)):
            pending += part
    return ""


def _fault_of(pattern: Any, escape: Any) -> str:
    if pattern == "regex":
        from exchange.patterns.pcre import expression  # which few selectors need

        text = escape.decode("latin-1") if isinstance(escape, bytes) else ""
        return f"{{invalid_regex,{expression(text).error}}}" if expression(text).error else ""
    if not isinstance(pattern, bytes):
        return "{invalid_like_pattern,not_a_binary_pattern}"
    if escape != "no_escape" and not (isinstance(escape, bytes) and len(escape) == 1):
        return "{invalid_like_pattern,invalid_escape}"
    parts = parts_of(pattern, escape[0] if isinstance(escape, bytes) else None)
    return "{invalid_like_pattern,pattern_too_long}" if len(parts) > PATTERN_LENGTH else ""
