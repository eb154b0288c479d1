"""Show the line of a file with a fault in its TOML, YAML or JSON, and a caret under it, without secrets."""

from __future__ import annotations

import re
from typing import Final

from exchange.text.display import SENSITIVE_WORDS, underline

WIDEST: Final = 160
"""Maximum number of characters shown of a line, around the mistake."""
LONGEST: Final = 2_000
"""Maximum number of characters of a line in which values are searched: the expressions take more than linear time."""
MASK: Final = "..."
"""What is shown in place of a value."""

_VALUE: Final = r"(?=\s*(?:[,;}\])#]|$))"
SECRET: Final = re.compile(
    rf"""(?:{SENSITIVE_WORDS}|_pem|\.pem|\.key)[\w.-]*["']?\s*[:=]\s*"""
    rf"""("(?:[^"\\]|\\.)*+"{_VALUE}|'[^']*'{_VALUE}|[^\s"',;{{}}\[\]()#]++{_VALUE}|.+)""",
    re.IGNORECASE,
)
"""The key of a secret, and its value; in doubt, the rest of the line belongs to the value."""
ADDRESS: Final = re.compile(r"""://([^\s"',}\]]+)|((?<![^\s"'=:,])[^\s"'=,]*@[^\s"',}\]]*)""")
"""An address, which may have a password in it."""
HINT: Final = re.compile(f"{SENSITIVE_WORDS}|pem|[.]key|://|@", re.IGNORECASE)
"""Matches in each line that may hold a secret."""
SEPARATOR: Final = re.compile(r"[:=]")


def find_position(text: str, line: int, column: int) -> int:
    """Return the index of a character by its line and column, both from 1; a position behind the end is the end."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            return len(text)
    return min(start + column - 1, len(text))


def show_line(text: str, position: int) -> tuple[str, int]:
    """Return the line of a character as it may be shown, and the column of the character in it, from 0.

    Values of keys that name a secret, and what stands behind the scheme of an address, are ``...``; a line that may go
    on with such a value is not shown at all.
    """
    start, end = text.rfind("\n", 0, position) + 1, text.find("\n", position)
    line, column = (text[start:] if end < 0 else text[start:end]).removesuffix("\r"), position - start
    is_long = len(line) > LONGEST
    if _continues_secret(text, start, line) or (is_long and HINT.search(line)):
        return MASK, 0
    if is_long:
        return line, column
    hidden = [found.span(1) for found in SECRET.finditer(line)]
    hidden += [found.span(found.lastindex or 0) for found in ADDRESS.finditer(line)]
    for first, last in sorted(hidden, reverse=True):
        if last > len(line) or MASK in line[first : first + len(MASK)]:
            continue
        if column >= last:
            column += len(MASK) - (last - first)
        elif column > first:
            column = first
        line = line[:first] + MASK + line[last:]
    return line, column


def _continues_secret(text: str, start: int, line: str) -> bool:
    """Return whether a line without a key of its own follows the key of a secret."""
    if not start or SEPARATOR.search(line):
        return False
    for above in reversed(text[max(0, start - 65_536) : start].split("\n")[:-1]):
        if SEPARATOR.search(above):
            return SECRET.search(f"{above[-LONGEST:]}{MASK}") is not None
    return False


def draw_fault(text: str, position: int) -> str:
    """Return the line of a character and a line with a caret under it, each after a line break and four blanks."""
    line, column = show_line(text, position)
    if len(line) > WIDEST:
        first = max(0, min(column - WIDEST // 2, len(line) - WIDEST))
        line, column = line[first : first + WIDEST], column - first
    shown, caret = underline(line.replace("\t", " "), column, column + 1)
    return f"\n    {shown}\n    {caret}"
