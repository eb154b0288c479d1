"""The text of a file as all should write it: the same lines, comments, ``let`` and ``for``, with even spaces.

Lines stay lines, as whoever wrote them saw fit; what changes is the indentation, the space between tokens, blank lines
in a row, and the space before a comment. Invariants: a formatted text is formatted, and means what it meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bindings.sources.language.blocks import levels
from bindings.sources.language.errors import LanguageError, Mistake
from bindings.sources.language.syntax import Shapes, parse
from bindings.sources.language.tokens import Row, Statement, Token, rows, statements
from exchange.errors import InputError

__all__ = ["formatted"]

STEP: Final = 4
OPENING, CLOSING = ("LBRACE", "LSQB"), ("RBRACE", "RSQB")


def formatted(text: str, name: str = "bindings") -> str:
    """The text, formatted. Raises LanguageError, which calls it ``name``, when it does not follow the grammar."""
    lines = text.removeprefix("\ufeff").split("\n")
    try:
        return "".join(f"{line}\n" for line in _without_extra_blanks(_formatted(lines)))
    except Mistake as mistake:
        line = mistake.first.line
        raise LanguageError(mistake.message, name, line, lines[line - 1], mistake.columns) from None
    except RecursionError:
        raise InputError(f"{name}: nested too deeply") from None


def _formatted(lines: Sequence[str]) -> Iterator[str]:
    shapes: Shapes = {}
    for level, statement in levels(statements(rows(lines))):
        tokens = statement.tokens
        if tokens:
            parse(tokens, shapes)
            yield from _statement(level * STEP, statement)
        else:
            (row,) = statement.rows
            yield " " * (level * STEP) + row.comment if row.comment else ""


def _statement(base: int, statement: Statement) -> Iterator[str]:
    opened: list[int] = []  # the indentation of the lines that opened the brackets that are open
    for number, row in enumerate(statement.rows):
        if not row.tokens and not row.comment:
            continue
        indent = base if number == 0 else opened[-1] + STEP if opened else base + STEP
        leading = True
        for token in row.tokens:
            leading = leading and token.kind in CLOSING
            if token.kind in CLOSING:
                of_opening = opened.pop()
                indent = of_opening if leading else indent
            elif token.kind in OPENING:
                opened.append(indent)
        yield " " * indent + _row(row)


def _row(row: Row) -> str:
    text = ""
    before: Token | None = None
    for token in row.tokens:
        if before is not None and _apart(before.kind, token.kind):
            text += " "
        text += token.text
        before = token
    if not row.comment:
        return text
    return f"{text}  {row.comment}" if text else row.comment


def _apart(before: str, after: str) -> bool:
    if after in ("COMMA", "COLON", "RSQB") or before == "LSQB":
        return False
    return (before, after) != ("LBRACE", "RBRACE")


def _without_extra_blanks(lines: Iterator[str]) -> Iterator[str]:
    blank = started = False
    for line in lines:
        if not line:
            blank = started
            continue
        if blank:
            yield ""
        yield line
        blank, started = False, True
