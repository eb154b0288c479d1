"""Parse the text of a SQL92 filter; refuse what the broker refuses, with the position of the mistake.

The broker's parser does not read to the end of the text: it stops at the first token that does not fit and ignores the
rest, so that ``a LIKE 'x%'`` means ``a``. `parse_expression` returns the position of that token; its caller decides
whether the rest is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from exchange.errors import TextError
from exchange.selector.expression import (
    TRUTHS,
    And,
    ComparisonExpression,
    Constant,
    Expression,
    In,
    IsNull,
    Negative,
    Not,
    Or,
    Property,
    Span,
    TextTest,
    Truth,
    list_operands,
)
from exchange.selector.meaning import evaluate
from exchange.values.java_numbers import parse_double

if TYPE_CHECKING:
    from lark import Lark, Token, Tree, UnexpectedToken

MAX_LEVELS: Final = 200
"""Maximum depth of an expression. The broker's stack allows some thousands, depending on its settings."""

MAX_PARTS: Final = 1_000_000
"""Maximum number of parts to evaluate. BETWEEN evaluates its left side twice, so each nested level doubles it."""


class SelectorError(TextError):
    """A selector that the broker refuses or would read only in part."""


def parse_expression(text: str, *, text_operators: bool = True) -> tuple[Expression, int]:
    """Parse as ``SelectorParser.parse`` does; return the expression and the position from which the rest is ignored.

    With ``text_operators`` CONTAINS, STARTSWITH and ENDSWITH are operators; before 5.1.3 they are names. Raises
    SelectorError with a caret.
    """
    from lark import UnexpectedCharacters, UnexpectedToken

    grammar = _grammar(text_operators)
    end = len(text)
    try:
        tree = grammar.parse(text)
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise SelectorError(find_advice(text, at), text, find_word(text, at)) from None
    except UnexpectedToken as error:
        end = error.token.start_pos if error.token.type != "$END" else len(text)
        if error.token.type == "$END" or not _could_end(error):
            raise SelectorError(find_advice(text, end), text, find_word(text, end)) from None
        tree = grammar.parse(text[:end])  # the same tokens, since a token ends here
    return _ExpressionBuilder(text).build(tree), end


def _could_end(error: UnexpectedToken) -> bool:
    """Return whether the text before the token is an expression."""
    from lark import UnexpectedToken

    try:
        # feed_eof changes the parser, which is not needed any more; copying it would recurse once for each level.
        error.interactive_parser.feed_eof(error.token)  # type: ignore[no-untyped-call]
    except UnexpectedToken:
        return False
    return True


def build_ignored_error(text: str, at: int) -> SelectorError:
    """Build the error for a text that the broker ignores from this position on."""
    problem = f"{find_advice(text, at)}; the broker ignores the text from here on"
    return SelectorError(problem, text, find_word(text, at))


@cache
def _grammar(text_operators: bool) -> Lark:
    from importlib.resources import files  # not by path: the package may be in a zip, as Spark ships it

    from lark import Lark, Token  # only those who have a selector need it

    def as_name(token: Token) -> Token:
        return Token.new_borrow_pos("NAME", str(token), token)

    return Lark(
        files("exchange.selector").joinpath("sql92.lark").read_text("utf-8"),
        parser="lalr",
        lexer="basic",  # it does not consider which tokens the parser expects, and neither does JavaCC's
        propagate_positions=True,
        maybe_placeholders=True,
        regex=False,
        lexer_callbacks={} if text_operators else {"TEXT_OPERATOR": as_name},
    )


class _ExpressionBuilder:
    """A builder of expressions from a parse tree, leaves first; it checks what the broker's constructors check."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._built: dict[int, Expression] = {}
        self._sizes: dict[int, tuple[int, int]] = {}

    def build(self, tree: Tree[Token]) -> Expression:
        """Build the expression of a tree; it has a truth value. Raises SelectorError."""
        for node in tree.iter_subtrees():
            span = (node.meta.start_pos, node.meta.end_pos)
            parts = [self._built[id(child)] if hasattr(child, "data") else child for child in node.children]
            expression = BUILD[node.data](self, parts, span)
            self._built[id(node)] = expression
            levels, part_count = self._sizes[id(expression)] = self._size(expression)
            if levels > MAX_LEVELS:
                self._refuse(f"nested more than {MAX_LEVELS} levels deep", span)
            if part_count > MAX_PARTS:
                self._refuse(f"more than {MAX_PARTS:,} parts", span)
        return self._truth(self._built[id(tree)])

    def _size(self, expression: Expression) -> tuple[int, int]:
        """Return the number of levels and of parts. The operands have been built, and measured, before."""
        known = self._sizes.get(id(expression))
        if known is not None:
            return known
        sizes = [self._size(part) for part in list_operands(expression)]
        return 1 + max([levels for levels, _ in sizes], default=0), 1 + sum([parts for _, parts in sizes])

    def _refuse(self, problem: str, span: Span) -> NoReturn:
        raise SelectorError(problem, self._text, span)

    def _truth(self, expression: Expression) -> Expression:
        """Return the expression as a condition, as ``asBooleanExpression`` does. Raises SelectorError if it is none."""
        if isinstance(expression, TRUTHS) or _is_constant(expression, "Boolean", "null"):
            return expression
        if isinstance(expression, Property):
            return Truth(expression, expression.span)
        return self._refuse("this has no truth value; a comparison is wanted, as in: price > 10", expression.span)

    # Literals and names.

    def string(self, parts: list[Any], span: Span) -> Expression:
        return Constant(_unquote(parts[0]), "String", span)

    def decimal(self, parts: list[Any], span: Span) -> Expression:
        value = int(parts[0].rstrip("lL")[:20])
        if value >= 1 << 63:
            self._refuse("an integer has 64 bits, 9223372036854775807 at most; write it with a point: 1E19", span)
        return Constant(value, "Integer" if value < 1 << 31 else "Long", span)

    def float(self, parts: list[Any], span: Span) -> Expression:
        value = parse_double(parts[0])
        if value == float("inf"):
            self._refuse("more than a double holds, 1.7976931348623157E308", span)
        if value == 0:
            self._refuse("the broker takes no zero with a point; write 0", span)
        return Constant(value, "Double", span)

    def true(self, parts: list[Any], span: Span) -> Expression:
        return Constant(True, "Boolean", span)

    def false(self, parts: list[Any], span: Span) -> Expression:
        return Constant(False, "Boolean", span)

    def null(self, parts: list[Any], span: Span) -> Expression:
        return Constant(None, "null", span)

    def property(self, parts: list[Any], span: Span) -> Expression:
        return Property(str(parts[0]), span)

    # Operators.

    def disjunction(self, parts: list[Any], span: Span) -> Expression:
        return Or(tuple(map(self._truth, parts)), span)

    def conjunction(self, parts: list[Any], span: Span) -> Expression:
        return And(tuple(map(self._truth, parts)), span)

    def negation(self, parts: list[Any], span: Span) -> Expression:
        return Not(self._truth(parts[1]), span)

    def negative(self, parts: list[Any], span: Span) -> Expression:
        return Negative(parts[0], span)

    def equal(self, parts: list[Any], span: Span) -> Expression:
        left, right = parts
        for side in parts:
            if _is_constant(side, "null"):
                self._refuse("nothing equals NULL; write IS NULL or IS NOT NULL", side.span)
        if _is_constant(left, "Boolean") and isinstance(right, Constant) and right.type != "Boolean":
            self._refuse("a truth value cannot be compared with this", right.span)
        return ComparisonExpression(left, "=", right, span)

    def unequal(self, parts: list[Any], span: Span) -> Expression:
        return Not(self.equal(parts, span), span)

    def is_null(self, parts: list[Any], span: Span) -> Expression:
        return IsNull(parts[0], span)

    def is_not_null(self, parts: list[Any], span: Span) -> Expression:
        return Not(IsNull(parts[0], span), span)

    def ordered(self, parts: list[Any], span: Span) -> Expression:
        left, operator, right = parts
        return self._order(left, str(operator), right, span)

    def _order(self, left: Expression, operator: Any, right: Expression, span: Span) -> ComparisonExpression:
        for side in (left, right):
            if isinstance(side, Constant) and side.type not in ("Integer", "Long", "Double"):
                self._refuse(f"{operator} compares numbers, and this is none", side.span)
            if isinstance(side, TRUTHS):
                self._refuse(f"{operator} compares numbers, and this is a truth value{_not_first(side)}", side.span)
        return ComparisonExpression(left, operator, right, span)

    def between(self, parts: list[Any], span: Span) -> Expression:
        negated, value, low, high = parts[1], parts[0], *parts[2:]
        if negated is not None:
            return Or((self._order(value, "<", low, span), self._order(value, ">", high, span)), span)
        both = And((self._order(value, ">=", low, span), self._order(value, "<=", high, span)), span)
        constants = isinstance(low, Constant) and isinstance(high, Constant)
        if constants and evaluate(ComparisonExpression(low, ">", high), {}).value:
            self._refuse("the first bound is above the second", (low.span[0], high.span[1]))
        return both

    def within(self, parts: list[Any], span: Span) -> Expression:
        value, negated, *texts = parts
        if not isinstance(value, Property):
            self._refuse(f"IN takes a property on its left{_not_first(value)}", value.span)
        return In(value, frozenset(map(_unquote, texts)), negated is not None, span)

    def text_test(self, parts: list[Any], span: Span) -> Expression:
        value, negated, operator, search = parts
        return TextTest(value, operator.upper(), _unquote(search), negated is not None, span)


BUILD: Final[dict[str, Callable[[_ExpressionBuilder, list[Any], Span], Expression]]] = {
    name: getattr(_ExpressionBuilder, name)
    for name in (
        "string", "decimal", "float", "true", "false", "null", "property", "disjunction", "conjunction", "negation",
        "negative", "equal", "unequal", "is_null", "is_not_null", "ordered", "between", "within", "text_test",
    )
}  # fmt: skip
"""Rule of the grammar -> method that builds its expression."""


def _unquote(token: str) -> str:
    return token[1:-1].replace("''", "'")


def _is_constant(expression: Expression, *types: str) -> bool:
    return isinstance(expression, Constant) and expression.type in types


def _not_first(expression: Expression) -> str:
    return ": NOT goes with what is next to it; write NOT (...)" if isinstance(expression, Not) else ""


NAMES: Final = "a name has letters, digits, _ and $, and nothing else"

ADVICE: Final = tuple([
    (re.compile(pattern, re.IGNORECASE | re.ASCII), text)
    for pattern, text in (
        (r"\Z", "more is expected here"),
        (r"!=", "not equal is written <>"),
        (r"(?<==)=", "equal is written ="),
        (r"&&", "write AND"),
        (r"\|\|", "write OR; a || b is a subscription by tags, which is another kind of selector"),
        (r"'(''|[^'])*\Z", "this text has no end; a quote within one is doubled: 'it''s'"),
        (r'"', "texts stand in single quotes: 'eu'"),
        (r"LIKE\b", "there is no LIKE; there are STARTSWITH, ENDSWITH and CONTAINS, since RocketMQ 5.1.3"),
        (r"(CONTAINS|STARTSWITH|ENDSWITH)\b", "this operator is there since RocketMQ 5.1.3, and takes a text"),
        (r"(?<=0)[0-9]", "a number does not begin with 0"),
        (r"(?<=0)L\b", "a zero takes no L"),
        (r"-", f"there is no arithmetic, and {NAMES}"),
        (r"/\*", "this comment has no end"),
        (r"[+*/%]", "there is no arithmetic"),
        (r"(?<=[A-Za-z0-9_$])[^\x00-\x7f]", NAMES),
        (r"[.:@#]", NAMES),
        (r"\)", "there is no ( to this )"),
        (r";", "there is no ; at the end"),
        (r"(?<=NOT )(?!IN\b|BETWEEN\b)", "NOT behind a value goes with IN, BETWEEN, CONTAINS, STARTSWITH, ENDSWITH"),
    )
])  # fmt: skip
"""Pattern that the rest of the filter matches -> advice; the first match counts."""

WORD: Final = re.compile(r"[A-Za-z0-9_$]+|<>|[<>=!]=|&&|\|\|")


def find_advice(text: str, at: int) -> str:
    """Return what is wrong at this position."""
    for pattern, advice in ADVICE:
        if pattern.match(text, at):
            return advice
    return "this is not expected here"


def find_word(text: str, at: int) -> tuple[int, int]:
    """Return the span of the word or operator that begins at this position, else of the one character."""
    word = WORD.match(text, at)
    return word.span() if word else (at, at + 1)
