"""Explain what is wrong at the position where parsing a SQL92 filter stops, for authors who know another SQL."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["find_advice", "find_word"]

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
