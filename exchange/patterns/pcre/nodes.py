"""The nodes of a parsed regular expression, and the sets of bytes that PCRE's classes stand for."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

__all__ = [
    "ALL", "ASCII", "NEWLINE", "Assertion", "Atomic", "Branches", "Bytes", "Dialect", "Invalid", "Lookaround", "Node",
    "Repeat", "Sequence", "UnknownMatch", "can_be_empty", "of", "shorthand", "with_property", "with_both_cases",
]  # fmt: skip

Dialect = Literal["pcre8", "pcre2"]
"""PCRE 8 is the library of Erlang up to OTP 27, PCRE2 that of OTP 28 and later."""


class Invalid(Exception):
    """An expression that the library refuses."""


class UnknownMatch(Exception):
    """An expression that may be valid, but what it matches is unknown here."""


class Bytes(NamedTuple):
    """One byte of a set: bit n of ``mask`` is set when byte n belongs to it."""

    mask: int


class Assertion(NamedTuple):
    """A condition on a position, with PCRE's sign; ``^m`` and ``$m`` are those of the multiline option."""

    sign: Literal["^", "$", "^m", "$m", r"\z", r"\b", r"\B"]
    word: int = 0
    """Set of the bytes that words consist of."""


class Sequence(NamedTuple):
    """Nodes one after another."""

    parts: tuple[Node, ...]


class Branches(NamedTuple):
    """Alternatives, tried in this order."""

    branches: tuple[Node, ...]


class Repeat(NamedTuple):
    """A node several times; ``most`` is None if there is no upper limit."""

    part: Node
    least: int
    most: int | None
    greedy: bool


class Atomic(NamedTuple):
    """A node of which only the first match is tried: an atomic group or a possessive quantifier."""

    part: Node


class Lookaround(NamedTuple):
    """A lookaround. ``widths`` are the widths of the branches of a lookbehind, None for a lookahead."""

    part: Branches
    negative: bool
    widths: tuple[int, ...] | None


Node = Bytes | Assertion | Sequence | Branches | Repeat | Atomic | Lookaround

ALL: Final = (1 << 256) - 1
ASCII: Final = (1 << 128) - 1
NEWLINE: Final = 1 << 10


def of(members: Iterable[int]) -> int:
    """Return the set of these bytes."""
    mask = 0
    for byte in members:
        mask |= 1 << byte
    return mask


def _where(*conditions: str) -> int:
    return of(byte for byte in range(256) if unicodedata.category(chr(byte)) in conditions)


# The tables of Erlang's PCRE 8 are those of ISO Latin-1 (recorded from OTP 25 and 27), those of its PCRE2 are ASCII.
_LETTERS: Final = _where("Lu", "Ll", "Lo") & ~of([0xB5])
_UPPER: Final = _where("Lu")
_LOWER: Final = _LETTERS & ~_UPPER
_DIGITS: Final = of(range(48, 58))
_PRINTED: Final = ALL & ~of([*range(32), *range(127, 160)])
_CLASSES: Final = {
    "alpha": _LETTERS,
    "upper": _UPPER,
    "lower": _LOWER,
    "digit": _DIGITS,
    "alnum": _LETTERS | _DIGITS,
    "word": _LETTERS | _DIGITS | of(b"_"),
    "space": of([9, 10, 11, 12, 13, 32]),
    "blank": of(b"\t "),
    "xdigit": of(b"0123456789abcdefABCDEF"),
    "cntrl": ALL & ~_PRINTED,
    "print": _PRINTED,
    "graph": _PRINTED & ~of(b" "),
    "punct": _PRINTED & ~of(b" ") & ~_LETTERS & ~_DIGITS,
}
_HORIZONTAL: Final = of([9, 32, 160])
_VERTICAL: Final = of([10, 11, 12, 13, 133])


def shorthand(name: str, dialect: Dialect) -> int | None:
    r"""Return the set of a POSIX class, or of ``\d``, ``\h`` and others by their letter; None when there is none."""
    letters = {"d": "digit", "w": "word", "s": "space"}
    if name in ("h", "v"):
        return _HORIZONTAL if name == "h" else _VERTICAL
    if name == "N":
        return ALL & ~NEWLINE
    if len(name) == 1 and name.lower() in ("d", "w", "s", "h", "v"):
        if name.islower():
            return shorthand(letters[name], dialect)
        inner = shorthand(name.lower(), dialect)
        return None if inner is None else ALL & ~inner
    if name == "ascii":
        return ALL if dialect == "pcre8" else ASCII
    found = _CLASSES.get(name)
    return found if found is None or dialect == "pcre8" else found & ASCII


_CATEGORIES: Final = frozenset(
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()  # noqa: SIM905
)
"""General categories of Unicode."""


def with_property(name: str) -> int | None:
    r"""Return the set of ``\p{name}`` for a general category; None for another property."""
    if name == "Any":
        return ALL
    if name == "L&":
        return _where("Lu", "Ll", "Lt")
    if name in _CATEGORIES:
        return _where(name)
    if name in {category[0] for category in _CATEGORIES}:
        return _where(*[category for category in _CATEGORIES if category[0] == name])
    return None


def with_both_cases(mask: int, dialect: Dialect) -> int:
    """Return the set with the other case of each of its letters."""
    pairs = _UPPER & ASCII if dialect == "pcre2" else _UPPER
    lower = pairs << 32
    return mask | (mask & pairs) << 32 | (mask & lower) >> 32


def can_be_empty(node: Node) -> bool:
    """Return whether the node may match an empty text."""
    if isinstance(node, Bytes):
        return False
    if isinstance(node, Sequence):
        return all(map(can_be_empty, node.parts))
    if isinstance(node, Branches):
        return any(map(can_be_empty, node.branches))
    if isinstance(node, Repeat):
        return node.least == 0 or can_be_empty(node.part)
    return can_be_empty(node.part) if isinstance(node, Atomic) else True
