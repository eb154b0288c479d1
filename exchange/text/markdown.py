"""Write Markdown as code hosts show it: tables, folds and fences, with text from outside escaped.

Authors of topologies choose names, routing keys and values. Unescaped, these could end a table, mention users, or hide
what stands below them. `quote_code` is for names and keys, `escape_text` for sentences that quote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from exchange.text.display import clip_line, escape_line

MARKUP: Final = re.compile(r"[\\`*_\[\]|#~]")
SENTENCE: Final = 480
"""Maximum number of characters of a sentence, and of code in one."""
BACKQUOTES: Final = re.compile("`+")


def quote_code(text: str, most: int = SENTENCE, *, in_cell: bool = True) -> str:
    """Return a text as code of at most ``most`` characters, whatever backquotes it contains.

    In the cell of a table, bars are escaped; elsewhere a backslash would be shown.
    """
    code = clip_line(text, most)
    if in_cell:
        code = code.replace("|", "\\|")
    fence = "`"
    while fence in code:
        fence += "`"
    space = " " if code[:1] in ("`", " ", "") or code[-1:] in ("`", " ") else ""
    return f"{fence}{space}{code}{space}{fence}"


def escape_text(text: str, most: int = SENTENCE) -> str:
    """Return a sentence of at most ``most`` characters, escaped: no name in it is markup, or mentions a user."""
    plain = clip_line(text, most).replace("&", "&amp;").replace("<", "&lt;")
    return MARKUP.sub(r"\\\g<0>", plain).replace("@", "@&#8203;")


def write_rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table of cells that are Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def fold(summary: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines below a summary that shows them when it is clicked; the summary is HTML."""
    yield f"<details><summary>{summary}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"
    yield ""


def quote_block(lines: Sequence[str], language: str = "") -> Iterator[str]:
    """Yield lines as a block of code, whatever backquotes they contain."""
    shown = list(map(escape_line, lines))
    longest = max((len(run) for line in shown for run in BACKQUOTES.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield from shown
    yield fence
