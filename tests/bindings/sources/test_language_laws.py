"""The language is lossless and its short ways are equal to the grammar: laws, on odd and random documents."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.sources.document_reader import read
from bindings.sources.language import tokens
from bindings.sources.language.errors import Mistake
from bindings.sources.language.formatter import format_text
from bindings.sources.language.syntax import Shapes, SyntaxNode, parse
from bindings.sources.language.tokens import Token, build_scanner, load_grammar, split_rows, split_statements
from bindings.sources.language.values import ExpansionBudget, Terms
from bindings.sources.section import Section
from exchange.entities.releases import PROFILES
from exchange.errors import InputError
from exchange.values.field_values import FieldTable
from exchange.values.notation import quote, write_value
from tests.bindings.sources.test_definitions import FILES, dumped, exactly, loads
from tests.support.bindings.documents import ARGUMENTS, ODD, TEXTS, documents
from tests.support.topologies import topology


def one_text(text: str) -> str:
    """Return the text as JSON would read it: two halves of a character are one."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@given(documents())
def test_reading_undoes_writing(document: Document) -> None:
    """Whatever a topology holds, its text means the same, and is ASCII control characters' and UTF-8's friend."""
    text = document.dump()
    text.encode()
    assert all(character.isprintable() or character == "\n" for character in text)
    assert Document.loads(text) == document


@given(documents())
def test_what_is_written_is_formatted(document: Document) -> None:
    """A converted file is not changed by ``hashstar fmt``."""
    assert format_text(document.dump()) == document.dump()


@given(documents())
def test_definitions_hold_the_whole_content_of_a_document(document: Document) -> None:
    """Lossless into definitions, expectations and partitions included."""
    definitions = Definitions.loads(document.definitions().dump())
    assert Document.of_definitions(definitions) == document


@given(FILES)
def test_definitions_survive_conversion_to_the_language_and_back(file: dict[str, Any]) -> None:
    """Definitions -> text -> definitions: every virtual host means the same, and put back nothing has changed."""
    definitions = loads(file)
    document = Document.loads(Document.of_definitions(definitions).dump())
    alone = document.definitions()
    for vhost in definitions.vhosts:
        assert alone.topology(vhost) == definitions.topology(vhost)
    if all(item["source"] for item in file.get("bindings", [])):  # others go with their queues
        assert exactly(dumped(document.definitions(definitions))) == exactly(file)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=str)
@given(seed=st.integers(0, 2**32))
def test_topologies_that_a_broker_accepts_survive(profile: Any, seed: int) -> None:
    """The topologies that live brokers are compared with."""
    document = Document({"/": Section(topology(Random(seed), profile))}, profile)
    assert Document.loads(document.dump()) == document


@given(TEXTS)
def test_a_text_in_quotes_means_itself(text: str) -> None:
    """Any text can be written, in spite of variables and escapes."""
    quoted = quote(text)
    (row,) = split_rows([quoted])
    assert Terms(row.tokens, {}, ExpansionBudget()).text(0) == one_text(text)
    assert [token.kind in ("STRING", "RAW") for token in row.tokens] == [True]


PIECES = (
    "vhost", "profile", "let", "for", "in", "exchange", "queue", "policy", "expect", "queues", "a", "b-{x}", "orders",
    "->", "- >", ":", ",", "=", "{", "}", "[", "]", "{x}", '"order.*"', "'^a'", '"', "'", "5", "-1.5e3", "0..7", "1x",
    "!short", "!", "with", "all", "unroutable", "partitioned", 'partitioned k over 3 by header "#" ', "# c", " ",
    "  ", "\t", "é", "*", "\\", "5->x", "queue-1", "for.x", "in{x}", '"\\""',
)  # fmt: skip
LINES = st.lists(st.sampled_from(PIECES), max_size=9).map("".join) | st.lists(st.sampled_from(PIECES), max_size=9).map(
    " ".join
)


@given(LINES)
@example("5->x")
@example("queue-1 -> in.x")
def test_lines_are_split_into_the_tokens_of_the_grammar(line: str) -> None:
    """The scanner and Lark's own lexer agree on every line that has no bad character."""
    tokens, _ = build_scanner()(line, 1)
    try:
        expected = [(token.type, str(token), token.start_pos) for token in load_grammar().lex(line)]
    except Exception:  # noqa: BLE001  any character that is none of the language's
        assert "BAD" in [token.kind for token in tokens]
        return
    assert [(token.kind, token.text, token.column) for token in tokens] == expected


def as_lists(node: SyntaxNode | int, tokens: list[Token]) -> Any:
    """Return a tree with texts in place of positions."""
    if isinstance(node, int):
        return tokens[node].text
    return [node.rule, *(as_lists(child, tokens) for child in node.children)]


SHAPES: Shapes = {}


@given(LINES | documents().map(lambda document: document.dump().replace(",\n", ",")).flatmap(
    lambda text: st.sampled_from(text.split("\n"))
))  # fmt: skip
def test_a_known_shape_gives_the_tree_that_parsing_gives(line: str) -> None:
    """Trees that are remembered by the kinds of tokens are those that Lark makes of the text."""
    tokens, _ = build_scanner()(line, 1)
    if not tokens:
        return
    try:
        tree = parse(tokens, SHAPES)
    except Mistake:
        with pytest.raises(Mistake):
            parse(tokens, {})
        return

    def lists(tree: Any) -> Any:
        return [str(tree.data), *map(lists, tree.children)] if hasattr(tree, "children") else str(tree)

    assert as_lists(tree, tokens) == lists(load_grammar().parse(line))


STATEMENTS = (
    ["exchange NEW:", " topic,", " alternate x"],
    ["queue NEW:", " quorum,", " x-max-length = 5,", ' partitioned kafka.murmur2 over 3 by header "#"'],
    ["orders -> q-{r},", " exchange x:", ' "order.{r}.#",', ' "b" with {', " a = [1,", " 2],", " b = {}", " }"],
    ['expect orders "a"', " -> q-{r}"],
    ["let LET = 1,", " 2"],
    ["orders -> audit"],
)
"""Statements and where they may be broken; NEW and LET are names that nothing else has."""


@st.composite
def untidy(draw: st.DrawFn) -> str:
    """Draw a valid, ugly text: spaces, line breaks, blank lines and comments anywhere, blocks of any indentation."""
    spaces = st.sampled_from(("", " ", "   ", "\t"))
    lines: list[str] = ["let r = x"]

    def gap(indent: str) -> None:
        rows_between = st.sampled_from(("", "  ", f"{indent}# about it", "# left", "        # right"))
        lines.extend(draw(st.lists(rows_between, max_size=2)))

    def statement(indent: str, variables: str) -> None:
        text = indent
        name, let = f"n{len(lines)}{variables}", f"v{len(lines)}"
        for place, piece in enumerate(draw(st.sampled_from(STATEMENTS))):
            if place and draw(st.integers(0, 3)) == 0:
                lines.append(text + draw(st.sampled_from(("", " ", " # why", "# so"))))
                if draw(st.booleans()):
                    lines.append(f"{indent}  # between")
                text = indent + draw(st.sampled_from(("  ", "\t", "          ")))
            text += (draw(spaces) if place else "") + piece.replace("NEW", name).replace("LET", let)
        lines.append(text + draw(st.sampled_from(("", " ", " # end", "\r"))))

    def block(indent: str, variables: str) -> None:
        for _ in range(draw(st.integers(1, 3))):
            gap(indent)
            if len(variables) < 12 and draw(st.booleans()):
                variable = f"r{len(variables)}"
                lines.append(f"{indent}for {variable} in  a ,b :{draw(st.sampled_from(('', ' # each')))}")
                gap(indent)
                block(indent + draw(st.sampled_from((" ", "   ", "\t", "      "))), variables + "{" + variable + "}")
            else:
                statement(indent, variables)
        gap(indent)

    block("", "")
    return "\n".join(lines) + draw(st.sampled_from(("", "\n", "\n\n")))


def comments(text: str) -> list[str]:
    """Return the comments of a text, in their order."""
    return [row.comment for row in split_rows(text.split("\n")) if row.comment]


@given(untidy())
def test_formatting_keeps_meaning_and_comments(text: str) -> None:
    """Formatted twice is formatted once; statements, comments and what they mean stay."""
    before = Document.loads(text)
    after = format_text(text)
    assert format_text(after) == after
    assert Document.loads(after) == before
    assert comments(after) == comments(text)
    kinds = [[token[:2] for token in statement.tokens] for statement in split_statements(split_rows(text.split("\n")))]
    again = [[token[:2] for token in statement.tokens] for statement in split_statements(split_rows(after.split("\n")))]
    assert [tokens for tokens in again if tokens] == [tokens for tokens in kinds if tokens]


PLAIN = ('e -> q: "a.*"', 'e -> q: "a.*"', 'e -> r: "b"', 'x-2 -> q: ""', 'in2 -> queue.x: "{"')
NEAR = (
    "exchange e: topic", "queue q", 'e -> q, r: "a", "b"', 'e -> exchange e: "a"', 'for -> q: "a"', 'e -> in: "a"', "",
    'e -> q: "a" # why', ' e -> q: "a"', '    e -> q: "a"', '  , "c"', '  "c"', "  all { h = 1 }", "# why", "  # why",
    "e -> q: all {", "  h = 1", "}", "queue z: x = [", "]", "for n in 1..2:", '    e -> "q{n}": "a.{n}"', 'vhost "/v"',
    'let v = "k"', 'e -> q: "{v}"', "e -> q: 'a'", 'e -> q: "\\u0041"', 'e -> q: "a" \r', 'partitioned -> q: "a"',
    'e -> q: "', 'e ->q: "a"', 'expect e "a" -> q', 'e -> q: "\t"', 'é -> q: "a"', "profile rabbitmq-4.0",
)  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(PLAIN), st.sampled_from(PLAIN), st.sampled_from(NEAR)), max_size=12))
@example(['e -> q: "a"', 'e -> q: "a"', '  , "c"', 'e -> q: "a"', 'e -> q: "a"'])
@example(["e -> q: all {", 'e -> q: "a"', 'e -> q: "a"', "}"])
@example(["for n in 1..2:", '    e -> q: "a.{n}"', 'e -> q: "a.1"', 'e -> q: "b"', 'vhost "/v"', 'e -> q: "c"'])
def test_runs_of_plain_bindings_are_read_as_one_by_one(lines: list[str]) -> None:
    """The short way is equal to the grammar: parts, lines, what is there twice, each mistake with its place."""

    def outcome(run: int) -> Any:
        seen: list[tuple[Any, ...]] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokens, "RUN", run)
            if not run:
                patch.setattr(tokens, "PLAIN", lambda _: None)
            try:
                content = read("\n".join(lines), "file", lambda *part: seen.append(part))
            except InputError as error:
                return str(error)
        places = {vhost: (each, dict(each.lines), [*each.binding_lines.items()]) for vhost, each in content[0].items()}
        return places, content[1:], seen

    assert outcome(2) == outcome(1_000) == outcome(0)


def test_the_odd_texts_are_tried_at_every_position() -> None:
    """Each alone, as name, key, argument, value and pattern: what random documents may miss."""
    from exchange import Binding, Exchange, Policy, Queue, Topology

    for text in map(one_text, ODD):
        made = Topology(
            [Exchange(text or "x", text)],
            [Queue(text, arguments={text: text})],
            [Binding.to_queue(text or "x", text, text), Binding.to_exchange("x", text, text, {text: text})],
            [Policy(text, text, {text: text}, text)],
            vhost=text,
        )
        document = Document({text: Section(made)})
        assert Document.loads(document.dump()) == document


@given(ARGUMENTS)
def test_a_value_that_an_explanation_shows_can_be_pasted_into_the_language(fields: FieldTable) -> None:
    """The same types and values are read again."""
    text = f"exchange e: topic\nqueue q\ne -> q: with {write_value(fields)}\n"
    (binding,) = Document.loads(text, "pasted").topology().bindings
    assert binding.arguments == fields
