"""Escape text from outside for people: on a terminal, in a CI log, in a report.

Publishers and authors of topologies choose names, routing keys and values. Printed raw, a control character moves the
cursor over other lines, a newline forges a line (which a CI runner takes for a command when it begins with ``::``), and
a bidirectional mark makes a name look like another one. So each line that a command prints for people goes through
`escape_line`, and nothing else decides what can be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

OWN_BREAK: Final = re.compile(r"\n(?= {2}(?! *(?:::|##\[))|--)")
"""A line break that the error itself makes: before an indented text with its caret, or before an option. All others
come from names and are escaped; CI runners take a line that begins with :: or ##[ for a command."""

LOGIN: Final = re.compile(
    r"([A-Za-z][\w+.-]*:/{1,2}|(?<![^\s'\"=(,])//)[^\s'\"]*@"  # up to the last @: a password may hold / : and @
    r"|((?<![\w.+-])(?:amqps?|https?|kafka|rocketmq):)?[^\s'\"/@:]*:(?![^\s'\"@]*:/)[^\s'\"]*@(?=[\w\[.%-])"
)
"""User and password in an address, which may be quoted in an error; also in one whose scheme is not whole, or missing:
``USER:PASSWORD@HOST``. What only looks like one is hidden, too: better too much."""


def escape_line(text: str) -> str:
    r"""Return the text as one line, with escapes for what cannot be printed: ``\n``, ``\x1b``, ``\u202e``, ``\udcff``.

    `str.isprintable` decides: control, format, surrogate and unassigned characters are not printable, nor is white
    space except the blank. The result can be encoded in UTF-8 and shown by any markup.
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text])


def escape_lines(text: str) -> str:
    """Return a text of several lines, each escaped. A quoted name with a newline must have been escaped before."""
    return text if text.isprintable() else "\n".join(map(escape_line, text.split("\n")))


def hide_logins(text: str) -> str:
    """Return the text with ``***`` in place of the users and passwords of addresses in it."""
    return LOGIN.sub(lambda found: f"{found[1] or found[2] or ''}***@", text) if "@" in text else text


SENSITIVE_WORDS: Final = "pass|pwd|secret|token|credential|jaas|private"
"""What names of secrets have in them, as alternatives of an expression."""
SECRETIVE: Final = re.compile(rf"{SENSITIVE_WORDS}|pem$|\.key$", re.IGNORECASE)
"""Names whose values are secrets, such as librdkafka's ``sasl.password``."""


def split_error(text: str) -> list[str]:
    """Return the text of an error as the lines that it has itself, each escaped; without logins of addresses."""
    return [escape_line(line) for line in OWN_BREAK.split(hide_logins(text))]


def read_first_line(text: str) -> str:
    """Return the text of an error without the lines that it has below its first one, such as a caret; not escaped."""
    return OWN_BREAK.split(text, maxsplit=1)[0]


def underline(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the text as one line, and carets for under a half-open range of its characters on a terminal."""
    before, under = _count_cells(escape_line(text[:start])), _count_cells(escape_line(text[start:end]))
    return escape_line(text), " " * before + "^" * max(1, under)


def _count_cells(text: str) -> int:
    """Return the number of cells of a terminal that a text takes: two for a wide character, none for an accent."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width  # not at the top: almost all texts are ASCII

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def clip_line(text: str, most: int) -> str:
    """Return the text as one line of at most ``most`` characters, without its middle if it is longer."""
    line = escape_line(text)
    return line if len(line) <= most else f"{line[: most - most // 3 - 3]}...{line[-(most // 3) :]}"


def dump_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, in one line or indented, which escapes only what cannot be printed."""
    from json import dumps  # not at the top: every error imports this module, and the engine starts without JSON

    def escape(line: str) -> str:
        return line if line.isprintable() else "".join([c if c.isprintable() else dumps(c)[1:-1] for c in line])

    return "\n".join(map(escape, dumps(value, ensure_ascii=False, indent=indent).split("\n")))


def count_noun(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: ``1 queue``, ``2,000 queues``; ``nouns`` is a plural that is not ``noun`` + s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def describe_exchange(name: str) -> str:
    """Return an exchange for a sentence: ``exchange 'orders'``, or ``the default exchange``, whose name is empty."""
    return f"exchange '{name}'" if name else "the default exchange"


def write_milliseconds(number: int) -> str:
    """Return a number of milliseconds in the largest unit that it is a whole number of: ``90 s``, ``1,500 ms``."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if number and number % size == 0:
            return f"{number // size:,} {unit}"
    return f"{number:,} ms"


def count_rest(count: int, listed: int, what: str = "", *, indent: str = "  ") -> Iterator[str]:
    """Yield a line with the number of those that are not listed, ``  and 7 more``, and ``what``; none if all are."""
    if count > listed:
        yield f"{indent}and {count - listed:,} more{what}"


def list_some(texts: Sequence[str], most: int, last: str = "") -> str:
    """Return ``a, b, c``, or the first ``most`` texts and the number of the others: ``a, b and 7 more``.

    ``last`` joins the last text of a whole list, as in ``a, b or c``.
    """
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most:,} more"
    if last and len(texts) > 1:
        return f"{', '.join(texts[:-1])} {last} {texts[-1]}"
    return ", ".join(texts)


LIKENESS: Final = 0.6
"""Minimum likeness, from 0 to 1, of a name to the one that an error suggests in its place."""
LIKE_NAMES: Final = 0.75
"""Minimum likeness of names that people choose, where a wrong suggestion sounds like a claim."""


def find_alike(name: str, names: Iterable[str], likeness: float = LIKENESS) -> str | None:
    """Return the name that is most like this one, if at least ``likeness`` from 0 to 1; never an empty name."""
    from difflib import get_close_matches  # not at the top: only what is misspelt needs it

    return next(iter(get_close_matches(name, [each for each in names if each], 1, likeness)), None)


def suggest(name: str, names: Iterable[str], *, or_list: bool = False, likeness: float = LIKENESS) -> str:
    """Return the end of an error about an unknown name: the name that may be meant, "" if none is like it.

    With ``or_list`` all names are listed if none is like it; ``likeness`` is as that of `find_alike`.

    >>> suggest("queus", ["queues", "bindings"]), suggest("x", ["queues", "bindings"], or_list=True)
    ("; did you mean 'queues'?", '; known: queues, bindings')
    """
    known = list(names)
    alike = find_alike(name, known, likeness) or find_alike(name.lower(), known, likeness)
    if alike is not None:
        return f"; did you mean '{alike}'?"
    return f"; known: {', '.join(known)}" if or_list and known else ""
