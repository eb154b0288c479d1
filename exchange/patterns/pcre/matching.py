"""Search for an expression in a name, in bounded time.

For most expressions, a small upper bound of the steps of any backtracking matcher can be computed. These are matched
by Python's `re`, in bytes; the others by a machine that remembers failures (`exchange.patterns.pcre.machine`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from exchange.limits import SHORTSTR_BYTES
from exchange.patterns.pcre.machine import COST, Machine
from exchange.patterns.pcre.nodes import (
    ALL_BYTES,
    ASCII_BYTES,
    Assertion,
    Atomic,
    Branches,
    Bytes,
    Node,
    Repeat,
    Sequence,
    UnknownMatch,
    can_be_empty,
)

LENGTHS: Final = (SHORTSTR_BYTES, 128, 64, 32, 16)
"""Lengths of names, in bytes, for which the bound is computed. `re` matches names up to the longest one whose bound is
small; the machine matches longer names."""
MAX_STEPS: Final = 1_000_000
"""Maximum of the bound: steps that `re` may take for one name."""


class PcreMatcher:
    """An expression ready to be searched for. Raises UnknownMatch if it is too large."""

    __slots__ = ("_longest", "_machine", "_search", "prefix", "source_for_ascii")

    def __init__(self, node: Node) -> None:
        self.source_for_ascii: Final = _source(node, ASCII_BYTES)
        self.prefix: Final = _prefix(node)
        self._longest: Final = next((length for length in LENGTHS if _is_simple(node, length)), -1)
        self._search: Final = re.compile(_source(node, ALL_BYTES), re.DOTALL).search if self._longest >= 0 else None
        self._machine: Machine | None = None
        if self._longest < SHORTSTR_BYTES:
            try:
                self._machine = Machine(node)
            except UnknownMatch:
                if self._search is None:
                    raise

    def is_found_in(self, data: bytes) -> bool | None:
        """Return whether the expression is found in the bytes; None if the broker may give up before."""
        if self._search is not None and len(data) <= self._longest:
            return self._search(data) is not None
        return None if self._machine is None else self._machine.is_found_in(data)


def find_common_prefix(texts: list[bytes]) -> bytes:
    """Return the longest beginning that all texts have; empty for none."""
    first, last = min(texts, default=b""), max(texts, default=b"")
    length = next((at for at, byte in enumerate(first) if byte != last[at]), len(first))
    return first[:length]


def _prefix(node: Node) -> bytes:
    """Return the bytes with which each name begins in which the node is found, as far as single bytes follow ``^``."""
    if isinstance(node, Branches):
        return find_common_prefix([_prefix(branch) for branch in node.branches])
    if not isinstance(node, Sequence) or not node.parts or node.parts[0] != Assertion("^"):
        return b""
    prefix = bytearray()
    for part in node.parts[1:]:
        if not isinstance(part, Bytes) or part.mask.bit_count() != 1:
            break
        prefix.append(part.mask.bit_length() - 1)
    return bytes(prefix)


def _is_simple(node: Node, length: int) -> bool:
    """Return whether neither the broker nor `re` can take many steps in a name of this length."""
    ways = _ways(node, length)
    starts = 1 if _is_anchored(node) else length + 1
    return ways <= COST and ways * starts * _size(node) <= MAX_STEPS


def _ways(node: Node, length: int) -> float:
    """Return an upper bound of the number of ways to match the node at one position; infinite if none is known."""
    if isinstance(node, (Bytes, Assertion)):
        return 1
    if isinstance(node, Sequence):
        ways = 1.0
        for part in node.parts:
            ways *= _ways(part, length)
        return ways
    if isinstance(node, Branches):
        return sum([_ways(branch, length) for branch in node.branches])
    if isinstance(node, Repeat):
        most = length if node.most is None else min(node.most, length)
        if isinstance(node.part, Bytes):
            return max(1, most - node.least + 1)
        inner = _ways(node.part, length)
        # The sum of inner**n for n up to most is below inner**most * 2. With one way for the part, the number of rounds
        # decides, unless rounds can be empty.
        if inner > 1:
            return inner**most * 2 if most <= 4 else float("inf")
        return float("inf") if can_be_empty(node.part) else 1 + most
    return _ways(node.part, length)


def _is_anchored(node: Node) -> bool:
    """Return whether the node is known to match at the start of the name only."""
    if isinstance(node, Sequence):
        return bool(node.parts) and _is_anchored(node.parts[0])
    if isinstance(node, Branches):
        return all(map(_is_anchored, node.branches))
    return isinstance(node, Assertion) and node.sign == "^"


def _size(node: Node) -> int:
    if isinstance(node, (Bytes, Assertion)):
        return 1
    if isinstance(node, Sequence):
        return 1 + sum(map(_size, node.parts))
    if isinstance(node, Branches):
        return 1 + sum(map(_size, node.branches))
    if isinstance(node, Repeat):
        return 1 + _size(node.part) * max(1, node.least)
    return 1 + _size(node.part)


def _source(node: Node, within: int) -> bytes:
    """Return the expression in the notation of `re`, for names whose bytes are all in the set ``within``."""
    if isinstance(node, Bytes):
        return _set(node.mask & within)
    if isinstance(node, Assertion):
        return _assertion(node, within)
    if isinstance(node, Sequence):
        return b"".join([_source(part, within) for part in node.parts])
    if isinstance(node, Branches):
        return b"(?:" + b"|".join([_source(branch, within) for branch in node.branches]) + b")"
    if isinstance(node, Atomic):
        return b"(?>" + _source(node.part, within) + b")"
    if isinstance(node, Repeat):
        most = "" if node.most is None else str(node.most)
        return b"(?:%s){%d,%s}%s" % (
            _source(node.part, within),
            node.least,
            most.encode(),
            b"" if node.greedy else b"?",
        )
    if node.widths is None:
        return (b"(?!" if node.negative else b"(?=") + _source(node.part, within) + b")"
    # In Python, all branches of a lookbehind must have one width: so each branch becomes a lookbehind.
    sign = b"(?<!" if node.negative else b"(?<="
    branches = [sign + _source(branch, within) + b")" for branch in node.part.branches]
    return b"".join(branches) if node.negative else b"(?:" + b"|".join(branches) + b")"


def _assertion(node: Assertion, within: int) -> bytes:
    if node.sign in (r"\b", r"\B"):
        word = _set(node.word & within)
        inner, outer = b"(?<=%s)(?=%s)" % (word, word), b"(?<!%s)(?!%s)" % (word, word)
        begin, end = b"(?<!%s)(?=%s)" % (word, word), b"(?<=%s)(?!%s)" % (word, word)
        return b"(?:" + b"|".join((begin, end) if node.sign == r"\b" else (inner, outer)) + b")"
    return {"^": rb"\A", "^m": rb"(?:\A|(?<=\n)(?!\Z))", "$": rb"(?=\n?\Z)", "$m": rb"(?=\n|\Z)", r"\z": rb"\Z"}[
        node.sign
    ]


@lru_cache(maxsize=1024)  # few classes recur, such as one byte, a digit or any byte
def _set(mask: int) -> bytes:
    """Return a class of exactly these bytes."""
    if mask == ALL_BYTES:
        return b"."
    spans: list[bytes] = []
    byte = 0
    while mask >> byte:
        if not mask >> byte & 1:
            byte += 1
            continue
        first = byte
        while mask >> byte & 1:
            byte += 1
        spans.append(b"\\x%02x" % first if byte - first == 1 else b"\\x%02x-\\x%02x" % (first, byte - 1))
    return b"[" + b"".join(spans) + b"]" if spans else b"(?!)"
