"""What is wrong where a SQL92 filter cannot be read on, in the words of whoever wrote it for another SQL."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["advice", "word_at"]

NAMES: Final = "a name has letters, digits, _ and $, and nothing else"

ADVICE: Final = tuple([
    (re.compile(begins, re.IGNORECASE | re.ASCII), told)
    for begins, told in (
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
"""What the text looks like from the place on -> what to say; the first that fits."""


def advice(text: str, at: int) -> str:
    """What is wrong at this place."""
    for begins, told in ADVICE:
        if begins.match(text, at):
            return told
    return "this is not expected here"


def word_at(text: str, at: int) -> tuple[int, int]:
    """The word that begins at this place, or the character."""
    found = re.compile(r"[A-Za-z0-9_$]+|<>|[<>=!]=|&&|\|\|").match(text, at)
    return found.span() if found else (at, at + 1)
