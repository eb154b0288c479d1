"""The nodes of a parsed regular expression, and the sets of bytes that PCRE's classes stand for."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

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

ALL_BYTES: Final = (1 << 256) - 1
ASCII_BYTES: Final = (1 << 128) - 1
NEWLINE: Final = 1 << 10


def build_byte_set(members: Iterable[int]) -> int:
    """Return the set of these bytes."""
    mask = 0
    for byte in members:
        mask |= 1 << byte
    return mask


def _where(*conditions: str) -> int:
    return build_byte_set(byte for byte in range(256) if unicodedata.category(chr(byte)) in conditions)


# The tables of Erlang's PCRE 8 are those of ISO Latin-1 (recorded from OTP 25 and 27), those of its PCRE2 are ASCII.
_LETTERS: Final = _where("Lu", "Ll", "Lo") & ~build_byte_set([0xB5])
_UPPER: Final = _where("Lu")
_LOWER: Final = _LETTERS & ~_UPPER
_DIGITS: Final = build_byte_set(range(48, 58))
_PRINTED: Final = ALL_BYTES & ~build_byte_set([*range(32), *range(127, 160)])
_CLASSES: Final = {
    "alpha": _LETTERS,
    "upper": _UPPER,
    "lower": _LOWER,
    "digit": _DIGITS,
    "alnum": _LETTERS | _DIGITS,
    "word": _LETTERS | _DIGITS | build_byte_set(b"_"),
    "space": build_byte_set([9, 10, 11, 12, 13, 32]),
    "blank": build_byte_set(b"\t "),
    "xdigit": build_byte_set(b"0123456789abcdefABCDEF"),
    "cntrl": ALL_BYTES & ~_PRINTED,
    "print": _PRINTED,
    "graph": _PRINTED & ~build_byte_set(b" "),
    "punct": _PRINTED & ~build_byte_set(b" ") & ~_LETTERS & ~_DIGITS,
}
_HORIZONTAL: Final = build_byte_set([9, 32, 160])
_VERTICAL: Final = build_byte_set([10, 11, 12, 13, 133])


def parse_shorthand(name: str, dialect: Dialect) -> int | None:
    r"""Return the set of a POSIX class, or of ``\d``, ``\h`` and others by their letter; None when there is none."""
    letters = {"d": "digit", "w": "word", "s": "space"}
    if name in ("h", "v"):
        return _HORIZONTAL if name == "h" else _VERTICAL
    if name == "N":
        return ALL_BYTES & ~NEWLINE
    if len(name) == 1 and name.lower() in ("d", "w", "s", "h", "v"):
        if name.islower():
            return parse_shorthand(letters[name], dialect)
        inner = parse_shorthand(name.lower(), dialect)
        return None if inner is None else ALL_BYTES & ~inner
    if name == "ascii":
        return ALL_BYTES if dialect == "pcre8" else ASCII_BYTES
    found = _CLASSES.get(name)
    return found if found is None or dialect == "pcre8" else found & ASCII_BYTES


_CATEGORIES: Final = frozenset(
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()  # noqa: SIM905
)
"""General categories of Unicode."""


def with_property(name: str) -> int | None:
    r"""Return the set of ``\p{name}`` for a general category; None for another property."""
    if name == "Any":
        return ALL_BYTES
    if name == "L&":
        return _where("Lu", "Ll", "Lt")
    if name in _CATEGORIES:
        return _where(name)
    if name in {category[0] for category in _CATEGORIES}:
        return _where(*[category for category in _CATEGORIES if category[0] == name])
    return None


def with_both_cases(mask: int, dialect: Dialect) -> int:
    """Return the set with the other case of each of its letters."""
    pairs = _UPPER & ASCII_BYTES if dialect == "pcre2" else _UPPER
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
