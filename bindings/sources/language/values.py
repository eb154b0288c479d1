"""The meaning of tokens: texts with variables in them, and values with or without an AMQP type."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from bindings.sources.language.errors import Mistake
from bindings.sources.language.syntax import SyntaxNode
from bindings.sources.language.tokens import Token
from exchange.errors import InputError
from exchange.limits import INTEGER_DIGITS, STATEMENTS, TEXT_BYTES
from exchange.text.display import suggest
from exchange.values.field_json import READERS, decode, decode_table
from exchange.values.json_text import parse_leniently
from exchange.values.notation import VARIABLE


class VariableValue(NamedTuple):
    """One value of a variable: as a text, and as the value of an argument."""

    text: str
    value: Any


Scope: TypeAlias = Mapping[str, tuple[VariableValue, ...]]
"""The variables, each with its values."""

ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/", "{": "{"}
HIGH, LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
SPECIAL: Final = re.compile(rf"{HIGH}{LOW}|\\u[0-9a-fA-F]{{4}}|\\.|\{{[^\W\d]\w*\}}")
CONSTANTS: Final = {"true": True, "false": False, "null": None}
TYPES: Final = tuple(name[1:] for name in READERS)


class ExpansionBudget:
    """The size to which a file may still expand: nothing else limits nested ``for`` and repeated ``let``."""

    __slots__ = ("_characters", "_statements")

    def __init__(self) -> None:
        self._statements = STATEMENTS
        self._characters = TEXT_BYTES

    def repeat(self, token: Token) -> None:
        """Count a statement of a loop, or one more binding of a list. Raises Mistake."""
        self._statements -= 1
        if self._statements < 0:
            raise Mistake(f"loops and lists expand to more than {STATEMENTS:,} statements; make fewer of them", token)

    def insert(self, text: str, token: Token) -> None:
        """Count the text that replaces a variable. Raises Mistake."""
        self._characters -= len(text)
        if self._characters < 0:
            raise Mistake(f"variables expand to more than {TEXT_BYTES >> 20} MiB in this file; shorten them", token)


class Terms(NamedTuple):
    """The tokens of a statement, the variables in scope, and the budget of the file."""

    tokens: Sequence[Token]
    scope: Scope
    budget: ExpansionBudget

    def text(self, position: int) -> str:
        """Return the text of a token, with variables and escapes replaced. Raises Mistake."""
        token = self.tokens[position]
        kind, text = token[0], token[1]
        if kind == "STRING":
            text = text[1:-1]
            return SPECIAL.sub(self._special(token, 1), text) if "\\" in text or "{" in text else text
        if kind == "NAME":
            return VARIABLE.sub(self._special(token, 0), text) if "{" in text else text
        return text[1:-1] if kind == "RAW" else text

    def fill(self, position: int, start: int) -> str:
        """Return the token from character ``start`` on, with variables replaced and escapes left as they are."""
        token = self.tokens[position]
        return VARIABLE.sub(self._special(token, start), token.text[start:])

    def is_bare(self, position: int) -> bool:
        """Return whether the token has no quotes, and so may be a word of the language."""
        return self.tokens[position].kind == "NAME"

    def value(self, node: SyntaxNode, *, typed: bool = True) -> Any:
        """Return the value as JSON; a typed one is ``{"!type": value}``, for `exchange.values.field_json.decode`."""
        if node.rule == "plain":
            return self._plain(node.children[0], typed=typed)
        if node.rule == "array":
            return [self.value(child, typed=typed) for child in node.children]
        if node.rule == "table":
            entries = self.table(node, typed=typed)
            # An only key that begins with "!" would be read as a type, so the table is marked as one.
            return {"!table": entries} if typed and len(entries) == 1 and next(iter(entries))[:1] == "!" else entries
        position, inner = node.children
        token = self.tokens[position]
        kind = token.text[1:]
        if not typed:
            raise Mistake("a policy's values have JSON's types only; AMQP's are for arguments and headers", token)
        if kind not in TYPES:
            raise Mistake(f"no AMQP type {token.text}{suggest(kind, TYPES, or_list=True)}", token)
        bare = self.value(inner)
        if kind == "decimal" and type(bare) in (int, float):
            bare = self.tokens[inner.children[0]].text  # all digits, which a float would lose
        if kind == "table" and type(bare) is dict and list(bare) == ["!table"]:
            bare = bare["!table"]
        value = {token.text: bare}
        try:
            decode(value)
        except InputError as error:
            raise Mistake(str(error).rpartition("does not fit: ")[2], token, self.last(inner, token)) from None
        return value

    def table(self, node: SyntaxNode, *, typed: bool = True) -> dict[str, Any]:
        """Return the entries of a table, each as `value`."""
        return self.entries(node.children, typed=typed)

    def entries(self, nodes: Sequence[SyntaxNode], *, typed: bool = True) -> dict[str, Any]:
        """Return the entries ``key = value``. Raises Mistake for a key that occurs twice."""
        entries: dict[str, Any] = {}
        for position, value in (node.children for node in nodes):
            key = self.text(position)
            if key in entries:
                raise Mistake(f"{key!r} is here twice", self.tokens[position])
            entries[key] = self.value(value, typed=typed)
        return entries

    def fields(self, node: SyntaxNode) -> dict[str, Any]:
        """Return the AMQP field values of a table."""
        return decode_table(self.table(node))

    def last(self, node: SyntaxNode, default: Token) -> Token:
        """Return the last token of a node, or ``default`` if it has none."""
        for child in reversed(node.children):
            return self.last(child, default) if type(child) is SyntaxNode else self.tokens[child]
        return default

    def variable(self, name: str, token: Token, within: tuple[int, int] | None = None) -> tuple[VariableValue, ...]:
        """Return the values of a variable. Raises Mistake when there is no such variable."""
        if name not in self.scope:
            itself = "" if within is None or token.kind == "NAME" else f"; the text itself is written \\{{{name}}}"
            raise Mistake(
                f"no variable {name!r}{suggest(name, self.scope, or_list=True)}{itself}", token, within=within
            )
        return self.scope[name]

    def _single(self, name: str, token: Token, within: tuple[int, int]) -> VariableValue:
        items = self.variable(name, token, within)
        if len(items) != 1:
            message = f"{name} has {len(items)} values; go through them with: for each in {name}:"
            raise Mistake(message, token, within=within)
        return items[0]

    def _special(self, token: Token, start: int) -> Callable[[re.Match[str]], str]:
        """Return the function that replaces a variable or an escape in a token whose text begins at ``start``."""

        def replace(match: re.Match[str]) -> str:
            written = match[0]
            within = (start + match.start(), start + match.end())
            if written[0] == "{":
                inserted = self._single(written[1:-1], token, within).text
                self.budget.insert(inserted, token)
                return inserted
            if len(written) > 2:
                return str(parse_leniently(f'"{written}"'))
            if written[1] not in ESCAPES:
                message = (
                    f"{written} is no escape; a backslash is written \\\\ in \"...\", and as it is in '...'"
                    if written[1] != "u"
                    else "\\u has four hexadecimal digits: \\u00e9"
                )
                raise Mistake(message, token, within=within)
            return ESCAPES[written[1]]

        return replace

    def _plain(self, position: int, *, typed: bool) -> Any:
        token = self.tokens[position]
        if token.kind == "NUMBER":
            if len(token.text) > INTEGER_DIGITS:
                raise Mistake(f"a number has {INTEGER_DIGITS:,} digits at most", token)
            number = read_number(token.text)
            if isinstance(number, float) and not math.isfinite(number):
                raise Mistake("too large for a number of 64 bits", token)
            if typed and isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise Mistake("an integer has at most 64 bits; others are !decimal or text", token)
            return number
        if token.kind != "NAME":
            return self.text(position)
        if token.text in CONSTANTS:
            return CONSTANTS[token.text]
        if VARIABLE.fullmatch(token.text):
            return self._single(token.text[1:-1], token, (0, len(token.text))).value
        raise Mistake(f'a text is written in quotes: "{token.text}"', token)


def read_number(text: str) -> int | float:
    """Return the number, an integer if it is written as one."""
    return float(text) if any(mark in text for mark in ".eE") else int(text)
