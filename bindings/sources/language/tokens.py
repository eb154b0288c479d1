"""Split a text into statements: lines of tokens, and which lines belong together.

The terminals are those of ``grammar.lark``, tried at each position in the order of their priority. Each line is split
by itself, since no token spans lines. A statement is a line and the lines that continue it: while a bracket is open,
all lines up to the closing one; else the lines right below that are indented deeper. Lines indented below a ``for`` do
not continue it: they are statements themselves.

Bindings of the plainest form, one to a line, may come as *runs*: one row for many lines, of which only the first is
split into tokens. A file with a million bindings is little else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from exchange.values.notation import KEYWORDS

if TYPE_CHECKING:
    from lark import Lark

KEYWORD_KINDS: Final = frozenset(word.upper() for word in KEYWORDS)

PLAIN_NAME: Final = rf"(?!(?:partitioned|{'|'.join(KEYWORDS)})\b)([A-Za-z_][A-Za-z0-9_.-]*)"
PLAIN: Final = re.compile(rf'{PLAIN_NAME} -> {PLAIN_NAME}: "([^"\\{{\x00-\x1f]*)"').fullmatch
"""Matches a line with one binding to a queue, without variables, escapes and comment."""
RUN: Final = 1_000
"""Maximum number of lines in a run."""

TAB: Final = 4
"""Width of a tab in the indentation, in columns: a tab ends at the next multiple of this."""


class Token(NamedTuple):
    """A token as it is written; ``kind`` is a terminal of the grammar, or ``BAD`` where none matches."""

    kind: str
    text: str
    line: int  # from 1
    column: int  # from 0, in characters


class SourceLine(NamedTuple):
    """One line of the text; ``opens`` is the number of brackets that it opens less those that it closes."""

    number: int
    indent: int
    tokens: list[Token]
    comment: str
    opens: int
    run: Sequence[tuple[str, str, str]] = ()
    """Source, queue and key of this binding and of those in the lines below, if this row stands for several lines."""


class Statement(NamedTuple):
    """The rows of one statement; or a single row without tokens, blank or a comment."""

    rows: tuple[SourceLine, ...]

    @property
    def tokens(self) -> list[Token]:
        """All tokens, without the comments."""
        if len(self.rows) == 1:
            return self.rows[0].tokens
        return [token for row in self.rows for token in row.tokens]

    @property
    def indent(self) -> int:
        """Indentation of the first row."""
        return self.rows[0].indent


@cache
def load_grammar() -> Lark:
    """Return the grammar and its tables, made once."""
    from importlib.resources import files  # not by path: the package may be in a zip, as Spark ships it

    from lark import Lark  # only needed to read the language

    source = files("bindings.sources.language").joinpath("grammar.lark").read_text("utf-8")
    return Lark(source, parser="lalr", lexer="basic", maybe_placeholders=False, regex=False)


@cache
def build_scanner() -> Callable[[str, int], tuple[list[Token], str]]:
    """Return a function that splits a line, given with its number, into tokens and a comment, "" if it has none."""
    # A keyword is read as a NAME and then looked up: half the time of trying each keyword first.
    elsewhere = {*load_grammar().ignore_tokens, *KEYWORD_KINDS}
    terminals = sorted((t for t in load_grammar().terminals if t.name not in elsewhere), key=lambda t: -t.priority)
    keywords = dict(zip(KEYWORDS, map(str.upper, KEYWORDS), strict=True))
    known = "|".join(f"(?P<{terminal.name}>{terminal.pattern.to_regexp()})" for terminal in terminals)
    find = re.compile(rf"[ \t\r]*(?:{known}|(?P<COMMENT>#.*)|(?P<BAD>[^ \t\r]))").finditer

    def scan(line: str, number: int) -> tuple[list[Token], str]:
        tokens = []
        for match in find(line):
            kind = match.lastgroup or ""
            text = match[kind]
            if kind == "NAME" and text in keywords:
                kind = keywords[text]
            tokens.append(Token(kind, text, number, match.start(match.lastindex or 0)))
            if kind == "BAD":
                break  # stop: an unterminated text would be scanned again from each quote in it
        if tokens and tokens[-1].kind == "COMMENT":
            return tokens, tokens.pop().text.rstrip()
        return tokens, ""

    return scan


def split_rows(lines: Iterable[str], first: int = 1) -> Iterator[SourceLine]:
    """Yield a row for each line; ``first`` is the number of the first one."""
    scan = build_scanner()
    for number, line in enumerate(lines, first):
        tokens, comment = scan(line, number)
        indent = 0
        if line[:1] in (" ", "\t"):
            blank = len(line) - len(line.lstrip(" \t"))
            indent = len(line[:blank].expandtabs(TAB))
        opens = 0
        if "{" in line or "[" in line or "}" in line or "]" in line:
            opens = sum((kind in ("LBRACE", "LSQB")) - (kind in ("RBRACE", "RSQB")) for kind, *_ in tokens)
        yield SourceLine(number, indent, tokens, comment, opens)


def split_runs(lines: Iterable[str]) -> Iterator[SourceLine]:
    """Yield the rows of `split_rows`, with runs of plain bindings as one row each.

    The last line of a run is a row of its own, since the line below may continue it. In an open bracket a run is as
    wrong as its first line: no arrow is in brackets.
    """
    scan = build_scanner()
    run: list[tuple[str, str, str]] = []
    begun = 1  # line of the run
    waiting = ""  # the last plain line, not in the run yet

    def finish() -> Iterator[SourceLine]:
        if run:
            source, queue, key = run[0]
            yield SourceLine(begun, 0, scan(f'{source} -> {queue}: "{key}"', begun)[0], "", 0, tuple(run))
        if waiting:
            yield SourceLine(begun + len(run), 0, scan(waiting, begun + len(run))[0], "", 0)
        run.clear()

    last: tuple[str, str, str] = "", "", ""
    for number, line in enumerate(lines, 1):
        match = PLAIN(line)
        if match is None or len(run) == RUN:
            yield from finish()
            waiting = ""
        if match is None:
            yield from split_rows((line,), number)
            continue
        if waiting:
            run.append(last)
        else:
            begun = number
        waiting, last = line, match.groups()  # type: ignore[assignment]
    yield from finish()


def split_statements(lines: Iterable[SourceLine]) -> Iterator[Statement]:
    """Yield, in order, the statements and the rows between them, which are blank or comments."""
    current: list[SourceLine] = []
    comments: list[SourceLine] = []  # below the current statement; they belong to it if a later row continues it
    depth = 0
    for row in lines:
        if current and _continues(current[0], depth, row):
            current += comments
            comments = []
            current.append(row)
            depth += row.opens
        elif current and depth <= 0 and not row.tokens and row.comment:
            comments.append(row)
        else:
            if current:
                yield Statement(tuple(current))
            yield from (Statement((comment,)) for comment in comments)
            comments = []
            if row.tokens:
                current, depth = [row], row.opens
            else:
                current = []
                yield Statement((row,))
    if current:
        yield Statement(tuple(current))
    yield from (Statement((comment,)) for comment in comments)


def _continues(first: SourceLine, depth: int, row: SourceLine) -> bool:
    if depth > 0:
        # No line in brackets begins with a keyword, so an unclosed bracket is reported here and not at the end of the
        # file.
        return not row.tokens or row.tokens[0].kind not in KEYWORD_KINDS
    return bool(row.tokens) and row.indent > first.indent and first.tokens[0].kind != "FOR"
