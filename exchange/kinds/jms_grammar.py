"""Check a selector of x-jms-topic as RabbitMQ does since 4.2.6 (`sjx_parser.erl`, `sjx_evaluator.erl`).

Before, RabbitMQ accepted every Erlang term that ends with a full stop, and failed later when evaluating it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from exchange.errors import InputError
from exchange.kinds.jms_selector import parse_selector, translate_like

MAX_DEPTH: Final = 16
"""Maximum depth of nested tuples and lists."""

MAX_PATTERN_LENGTH: Final = 1_024
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


def find_refusal(selector: str, *, checks_patterns: bool) -> str:
    """Return why a broker refuses a selector, close to its text; ``""`` if it accepts it.

    ``checks_patterns`` says whether it looks at the patterns, too, as since 4.2.9 and 4.3.3.
    """
    fault = _find_grammar_fault(selector)
    if fault:
        return f"invalid JMS selector: {fault}"
    if not checks_patterns:
        return ""
    try:
        fault = _find_pattern_fault(parse_selector(selector))
    except InputError:  # a comma before a closing brace, which the broker accepts and `parse_selector` does not
        return ""
    return f"invalid JMS selector pattern: {fault}" if fault else ""


def _find_grammar_fault(text: str) -> str:
    """Return why a text is not one term with an optional full stop; ``""`` if it is."""
    stack: list[str] = []  # brackets that are open
    position = 0
    wants_term = True
    is_first = False  # whether the next term would be the first one in its tuple or list
    while stack or wants_term:
        token = TOKEN.match(text, position)
        if token is None:
            return "unexpected_end" if not text[position:].strip() else "unexpected_character"
        position = token.end()
        kind = str(token.lastgroup)
        if kind == "close":
            opened = stack.pop() if stack else ""
            if opened + token["close"] not in ("{}", "[]") or (opened == "[" and wants_term and not is_first):
                return "unexpected_character"
        elif kind == "comma":
            if wants_term:
                return "unexpected_character"
            wants_term, is_first = True, False
            continue
        elif not wants_term:
            return "expected_comma_or_closing_brace"
        elif len(stack) > MAX_DEPTH:
            return "max_depth_exceeded"
        elif kind == "open":
            stack.append(token["open"])
            is_first = True
            continue
        elif kind in ("quoted", "atom"):
            name = re.sub(r"\\(.)", r"\1", token[kind], flags=re.DOTALL)
            if name not in ATOMS:
                return f'{{disallowed_atom,"{name}"}}'
        wants_term = False
    return "" if END.fullmatch(text, position) else "trailing_characters"


def _find_pattern_fault(term: Any) -> str:
    """Return what is wrong with an invalid pattern anywhere in a term; ``""`` if all are valid."""
    pending = [term]
    while pending:
        inner = pending.pop()
        if isinstance(inner, tuple) and len(inner) == 4 and inner[0] in ("like", "not_like"):
            fault = _check_pattern(inner[2], inner[3])
            if fault:
                return fault
            pending.append(inner[1])
        elif isinstance(inner, (tuple, list)):
            pending += inner
    return ""


def _check_pattern(pattern: Any, escape: Any) -> str:
    if pattern == "regex":
        from exchange.patterns.pcre import parse_expression  # not at the top: few selectors need it

        text = escape.decode("latin-1") if isinstance(escape, bytes) else ""
        return f"{{invalid_regex,{parse_expression(text).error}}}" if parse_expression(text).error else ""
    if not isinstance(pattern, bytes):
        return "{invalid_like_pattern,not_a_binary_pattern}"
    if escape != "no_escape" and not (isinstance(escape, bytes) and len(escape) == 1):
        return "{invalid_like_pattern,invalid_escape}"
    pieces = translate_like(pattern, escape[0] if isinstance(escape, bytes) else None)
    return "{invalid_like_pattern,pattern_too_long}" if len(pieces) > MAX_PATTERN_LENGTH else ""
