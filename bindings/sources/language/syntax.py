"""Parse the tokens of a statement into a tree, by the grammar.

Statements with the same kinds of tokens have the same tree, except for the texts of the tokens. So a tree holds
positions of tokens, not tokens, and is parsed once for each *shape*: a file with a million statements has about ten of
these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from bindings.sources.language.errors import Mistake
from bindings.sources.language.tokens import KEYWORD_KINDS, Token, load_grammar
from exchange.text.display import suggest
from exchange.values.notation import KEYWORDS

REMEMBERED: Final = 10_000
"""Maximum number of shapes in the cache."""


class SyntaxNode(NamedTuple):
    """A rule of the grammar and its children: nodes, and positions of tokens."""

    rule: str
    children: tuple[Any, ...]

    def nodes(self, rule: str) -> list[SyntaxNode]:
        """Return the children that are nodes of this rule."""
        return [child for child in self.children if type(child) is SyntaxNode and child.rule == rule]


Shapes: TypeAlias = dict[tuple[str, ...], SyntaxNode]
"""Cache: kinds of tokens -> tree."""


def parse(tokens: Sequence[Token], shapes: Shapes) -> SyntaxNode:
    """Return the tree of a statement. Raises Mistake, which names what the grammar expects."""
    shape = tuple([token[0] for token in tokens])
    known = shapes.get(shape)
    if known is None:
        if len(shapes) >= REMEMBERED:
            shapes.clear()
        known = shapes[shape] = _parse_new(tokens)
    return known


def _parse_new(tokens: Sequence[Token]) -> SyntaxNode:
    from lark import Token as Leaf
    from lark import Tree, UnexpectedToken

    def node(tree: Tree[Leaf]) -> SyntaxNode:
        return SyntaxNode(
            str(tree.data),
            tuple([node(child) if isinstance(child, Tree) else child.start_pos for child in tree.children]),
        )

    parser = load_grammar().parse_interactive("")
    position = 0
    try:
        for position, token in enumerate(tokens):
            parser.feed_token(Leaf(token.kind, token.text, start_pos=position))
        position = len(tokens)
        return node(parser.feed_eof())  # type: ignore[no-untyped-call]
    except UnexpectedToken:
        accepted = parser.accepts()  # type: ignore[no-untyped-call]
        raise _mistake(tokens, position, accepted) from None


STATEMENTS: Final = {
    "VHOST": 'vhost "/shop"', "PROFILE": "profile rabbitmq-4.3", "LET": "let regions = eu, us",
    "FOR": "for region in regions:", "EXCHANGE": "exchange orders: topic, alternate unrouted",
    "QUEUE": "queue billing: quorum, x-max-length = 1000",
    "POLICY": 'policy ttl: "^orders", queues, priority 5, message-ttl = 60000',
    "EXPECT": 'expect orders "order.eu.created" -> billing, audit',
    "ARROW": 'orders -> billing: "order.*.created", "order.*.paid"',
}  # fmt: skip
"""Kind of token that marks a statement -> an example of the statement."""

WORDS: Final = {
    "NAME": "a name",
    "STRING": "a text in quotes",
    "RAW": None,  # named as STRING
    "NUMBER": "a number",
    "RANGE": None,
    "TYPE": None,
    "PARTITIONED": None,
    "ARROW": "'->'",
    "COLON": "':'",
    "COMMA": "','",
    "EQUAL": "'='",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LSQB": "'['",
    "RSQB": "']'",
    "IN": "'in'",
    "$END": "the end of the line",
} | dict.fromkeys(("EXCHANGE", "QUEUE"))
"""Kind of token -> its name in errors; None if another kind has the same name, so that errors list it once."""

IN_BRACKETS: Final = {"LBRACE": '{ format = "pdf", pages = 2 }', "LSQB": '["pdf", 2]'}
CLOSING: Final = {"LBRACE": "}", "LSQB": "]"}


def _mistake(tokens: Sequence[Token], position: int, accepted: Iterable[str]) -> Mistake:
    """Return the mistake at a position, where the grammar accepts only these kinds of tokens.

    The first case that applies counts: particular mistakes come before the list of what the grammar expects.
    """
    accepted = set(accepted)
    last = tokens[-1]
    end = Token("END", "", last.line, last.column + len(last.text))
    wrong = tokens[position] if position < len(tokens) else end
    opened = _find_unclosed(tokens[:position])
    if wrong.kind == "BAD":
        return Mistake(_bad(wrong), wrong)
    if opened is not None and wrong is end:
        return Mistake(f"{opened.text!r} is never closed; {CLOSING[opened.kind]!r} is missing", opened)
    if position == 0 and wrong.kind == "LBRACE":
        return Mistake("this is JSON and no .bindings file; hashstar convert makes one of definitions.json", wrong)
    if wrong.kind == "EQUAL" and "ARROW" in accepted:
        return Mistake("an arrow is written ->", wrong)
    if tokens[0].kind == "NAME" and (len(tokens) == 1 or tokens[1].kind not in ("ARROW", "EQUAL")):
        return Mistake(_no_statement(tokens), tokens[0])
    if tokens[0].kind == "POLICY" and wrong.kind in ("EXCHANGE", "QUEUE") and position > 1:
        return Mistake(f"a policy is for exchanges, queues or all: did you mean '{wrong.text}s'?", wrong)
    if wrong.kind in KEYWORD_KINDS and "NAME" in accepted:
        if wrong.line != tokens[0].line and position and tokens[position - 1].line != wrong.line:
            return Mistake(
                "an indented line continues the statement above it, and this one begins a new statement", wrong
            )
        return Mistake(f"{wrong.text} is a word of the language; as a name it is written {_quote(wrong.text)}", wrong)
    if wrong.line != tokens[0].line and wrong.kind in KEYWORD_KINDS:
        return Mistake("an indented line continues the statement above it, and this one begins a new statement", wrong)
    if _is_key(tokens, position, accepted):
        bare = tokens[position - 1]
        return Mistake(f"a routing key is written in quotes: {_quote(bare.text)}", bare)
    kind = next((token.kind for token in tokens if token.kind in STATEMENTS), "")
    example = f", as in: {STATEMENTS[kind]}" if kind else ""
    if opened is not None:
        example = f", as in: {IN_BRACKETS[opened.kind]}"
    elif wrong is end and tokens[-1].kind == "COLON" and kind == "ARROW":
        return Mistake(f"expected a routing key in quotes (a # without quotes begins a comment){example}", wrong)
    return Mistake(f"expected {_name_expected(accepted)}{example}", wrong)


def _quote(name: str) -> str:
    """Return a name in quotes."""
    return f'"{name}"'


def _is_key(tokens: Sequence[Token], position: int, accepted: set[str]) -> bool:
    """Return whether a name stands where a key or a condition is expected."""
    kinds = [token.kind for token in tokens[:position]]
    return "ARROW" in kinds and kinds[-2:] in (["COLON", "NAME"], ["COMMA", "NAME"]) and "LBRACE" in accepted


def _find_unclosed(tokens: Sequence[Token]) -> Token | None:
    opened: list[Token] = []
    for token in tokens:
        if token.kind in CLOSING:
            opened.append(token)
        elif token.kind in ("RBRACE", "RSQB") and opened:
            opened.pop()
    return opened[-1] if opened else None


def _bad(token: Token) -> str:
    if token.text in "\"'":
        return f"the text that begins here has no end in its line; it ends with another {token.text}"
    if token.text in "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}":
        return f"a text is in straight quotes, \" or ', and not in {token.text}"
    if token.text in "*#":
        return f'a routing key is written in quotes, and so is a name with {token.text} in it: "order.{token.text}"'
    return f"{token.text!r} means nothing here; a name with it in it is written in quotes"


def _no_statement(tokens: Sequence[Token]) -> str:
    word = tokens[0].text
    if len(tokens) > 1 and tokens[1].text == "-":
        return f"an arrow is written -> without a space: {STATEMENTS['ARROW']}"
    starts = [keyword for keyword in KEYWORDS if keyword != "in"]
    near = suggest(word, starts)
    if near:
        return f"no statement begins with {word}{near}"
    return f"a statement begins with {', '.join(starts)}, or it is a binding: {STATEMENTS['ARROW']}"


def _name_expected(accepted: set[str]) -> str:
    words = [word for kind, word in WORDS.items() if kind in accepted and word is not None]
    return " or ".join(", ".join(words).rsplit(", ", 1)) if words else "something else"
