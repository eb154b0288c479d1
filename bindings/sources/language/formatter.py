"""Format a .bindings file: the same lines, comments, ``let`` and ``for``, with uniform spaces.

The author's line breaks stay. The formatter changes the indentation, the space between tokens, repeated blank lines,
and the space before a comment. Invariants: formatting again changes nothing, and the meaning stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bindings.sources.language.blocks import find_levels
from bindings.sources.language.errors import Mistake
from bindings.sources.language.syntax import Shapes, parse
from bindings.sources.language.tokens import SourceLine, Statement, Token, split_rows, split_statements
from exchange.errors import InputError

STEP: Final = 4
OPENING, CLOSING = ("LBRACE", "LSQB"), ("RBRACE", "RSQB")


def format_text(text: str, name: str = "bindings") -> str:
    """Return the text, formatted. Raises LanguageError, which names the file, where it breaks the grammar."""
    lines = text.removeprefix("\ufeff").split("\n")
    try:
        return "".join(f"{line}\n" for line in _without_extra_blanks(_format_lines(lines)))
    except Mistake as mistake:
        raise mistake.in_file(name, lines) from None
    except RecursionError:
        raise InputError(f"{name}: nested too deeply") from None


def _format_lines(lines: Sequence[str]) -> Iterator[str]:
    shapes: Shapes = {}
    for level, statement in find_levels(split_statements(split_rows(lines))):
        tokens = statement.tokens
        if tokens:
            parse(tokens, shapes)
            yield from _statement(level * STEP, statement)
        else:
            (row,) = statement.rows
            yield " " * (level * STEP) + row.comment if row.comment else ""


def _statement(base: int, statement: Statement) -> Iterator[str]:
    opened: list[int] = []  # for each open bracket the indentation of its line
    for number, row in enumerate(statement.rows):
        if not row.tokens and not row.comment:
            continue
        indent = base if number == 0 else opened[-1] + STEP if opened else base + STEP
        leading = True
        for token in row.tokens:  # a line that begins with closing brackets is indented as the line that opened them
            leading = leading and token.kind in CLOSING
            if token.kind in CLOSING:
                of_opening = opened.pop()
                indent = of_opening if leading else indent
            elif token.kind in OPENING:
                opened.append(indent)
        yield " " * indent + _row(row)


def _row(row: SourceLine) -> str:
    text = ""
    before: Token | None = None
    for token in row.tokens:
        if before is not None and _has_space_between(before.kind, token.kind):
            text += " "
        text += token.text
        before = token
    if not row.comment:
        return text
    return f"{text}  {row.comment}" if text else row.comment


def _has_space_between(before: str, after: str) -> bool:
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
