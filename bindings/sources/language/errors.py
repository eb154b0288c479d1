"""Errors in a text of the language: file, line, column, and a caret under the mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bindings.sources.language.tokens import Token
from exchange.errors import InputError, TextError
from exchange.text.faults import show_line

WIDEST: Final = 160
"""Maximum number of characters shown of a line, around the mistake."""


class Mistake(Exception):
    """A mistake in the tokens from ``first`` to ``last``; ``within`` is its range in one token, if not all of it."""

    def __init__(
        self, message: str, first: Token, last: Token | None = None, *, within: tuple[int, int] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.first = first
        self.last = first if last is None else last
        self.within = within

    @property
    def columns(self) -> tuple[int, int]:
        """Columns of the mistake in the line of the first token: a half-open range, from 0."""
        start = self.first.column
        if self.within is not None:
            return start + self.within[0], start + self.within[1]
        end = self.last if self.last.line == self.first.line else self.first
        return start, max(start + 1, end.column + len(end.text))

    def in_file(self, name: str, lines: Sequence[str]) -> LanguageError:
        """Return the error of a file with these lines."""
        line = self.first.line
        return LanguageError(self.message, name, line, lines[line - 1], self.columns)


class LanguageError(TextError, InputError):
    """A text in the language that cannot be read; ``place`` is ``name:line:column``, both from 1."""

    def __init__(self, message: str, name: str, line: int, source: str, span: tuple[int, int]) -> None:
        self.place = f"{name}:{line}:{span[0] + 1}"
        self.line = line
        self.column = span[0] + 1
        if len(source) > WIDEST:
            start = max(0, min(span[0] - WIDEST // 2, len(source) - WIDEST))
            source, span = source[start : start + WIDEST], (span[0] - start, min(span[1] - start, WIDEST))
        super().__init__(message, source, span)

    @classmethod
    def at(cls, position: int, message: str, name: str, text: str) -> LanguageError:
        """Return the error about one character of a text: of TOML, YAML or JSON, whose secrets are not shown."""
        line, column = show_line(text, position)
        error = cls(message, name, text.count("\n", 0, position) + 1, line, (column, column + 1))
        error.column = position - text.rfind("\n", 0, position)
        error.place = f"{name}:{error.line}:{error.column}"
        return error

    def __str__(self) -> str:
        return f"{self.place}: {super().__str__()}"
