"""Patterns, for keys of one length, as bit planes: which of them match each key, found by gathering and joining bits.

For keys of n words, a pattern is one or a few conjunctions: certain words at certain positions (see
`exchange.patterns.wildcards`). Each conjunction has a bit, 64 of them fill a plane. For each position a table has, for
every word, the planes of the conjunctions that allow it there, side by side. The planes of a key are those of its
words, joined by AND: the result has the conjunctions that the key satisfies. Neighbouring positions with few words
share a table, with one element for each combination; so where patterns name few words, a key needs a single lookup.

No step depends on how many patterns match halfway, and no state is kept for prefixes of keys. That is why dense
patterns, with which an automaton has a state for almost every prefix, are as fast as others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import IntArray, KeyArray
from exchange.patterns.conjunctions import Conditions

CELLS: Final = 1 << 12
"""Maximum number of combinations of words in the table of several positions: a plane of this table fits a CPU cache."""

BYTES: Final = 1 << 25
"""Maximum size of the tables for one length of keys, in bytes."""

OWN_PLANES: Final = 8
"""Maximum number of planes that may be added so that each group has planes of its own."""

FEW_PLANES: Final = 14
"""Maximum number of planes for which a table has room for every set of them: its 64 kB fit a CPU cache."""

MAX_OWN_PLANES: Final = 53
"""Maximum number of planes if each group has planes of its own: the bits of a float."""

WIDTH: Final = 64
"""Number of conjunctions in a plane."""

Codes = Callable[[Sequence[str]], IntArray]
"""Function from words to their numbers in the vocabulary."""

Grid = npt.NDArray[np.uint64]

Placed = Sequence[tuple[Any, Any]]
"""A conjunction: pairs of a position and the word required there."""


class _Table(NamedTuple):
    """The planes of one run of positions."""

    steps: list[tuple[int, npt.NDArray[np.int64]]]
    """Position, and number of a word -> what the word adds to the index of a cell."""
    planes: Grid
    """Of shape (cells, planes)."""


class BitPlanes:
    """The conjunctions for keys of ``length`` words, each with the number of the group it belongs to.

    ``numbers_of`` gives the numbers of words, which are below ``vocabulary``. Raises MemoryError if the tables would
    exceed `BYTES`.
    """

    def __init__(
        self, length: int, conjunctions: Sequence[tuple[Conditions, int]], numbers_of: Codes, vocabulary: int
    ) -> None:
        by_group: dict[int, list[Placed]] = {}
        for conditions, group in dict.fromkeys(conjunctions):
            by_group.setdefault(group, []).append(conditions)
        bits, groups, self._own = _arrange(by_group)
        self._groups: Final = np.array(groups, np.int64)
        """Bit -> its group."""
        self.width: Final = max(-(-len(bits) // WIDTH), 1)
        """Number of planes."""
        self.exact: Final = self._own or len(bits) < WIDTH
        """Whether no signature of a key stands for two sets of groups."""
        self.bound: Final = 1 << self.width if self._own and self.width <= FEW_PLANES else 0
        """Number that all signatures are below; 0 if they are any integers of 64 bits."""
        # As floats their sums are exact, too, up to 24 or 53 planes, and BLAS takes half the time for them.
        self._powers: Final = np.exp2(np.arange(self.width), dtype=np.float32 if self.width <= 24 else np.float64)
        # Odd, and others for each plane: differences of two planes must not cancel each other.
        self._factors: Final = np.random.default_rng(length).integers(
            0, 1 << 64, (2, self.width, 1), np.uint64
        ) | np.uint64(1)
        self._tables: Final = self._build(length, bits, numbers_of, vocabulary)

    def _build(self, length: int, bits: Sequence[Placed], numbers_of: Codes, vocabulary: int) -> list[_Table]:
        words: list[dict[str, int]] = [{} for _ in range(length)]  # per position: required word -> its code, from 1
        for conditions in bits:
            for position, word in conditions:
                words[position].setdefault(word, len(words[position]) + 1)
        positions = [position for position in range(length) if words[position]]
        if sum(len(words[position]) + 1 for position in positions) * self.width * 8 > BYTES:
            raise MemoryError
        allowed = {position: self._allow(position, bits, words[position]) for position in positions}
        tables: list[_Table] = []
        for position in positions:
            steps = np.zeros(vocabulary, np.int64)
            steps[numbers_of(list(words[position]))] = np.arange(1, len(words[position]) + 1)
            planes = allowed[position]
            if tables and len(tables[-1].planes) * len(planes) <= CELLS:
                before = tables.pop()
                joined = before.planes[:, None, :] & planes[None, :, :]
                wider = [(earlier, step * len(planes)) for earlier, step in before.steps]
                tables.append(_Table([*wider, (position, steps)], joined.reshape(-1, self.width)))
            else:
                tables.append(_Table([(position, steps)], planes))
        if not tables:  # no pattern names a word
            tables.append(_Table([], self._allow(0, bits, {})))
        return tables

    def _allow(self, position: int, bits: Sequence[Placed], codes: dict[str, int]) -> Grid:
        """Return the conjunctions that allow each word at this position, by the word's code; 0: all other words."""
        requires = np.zeros((self.width * WIDTH, len(codes) + 1), np.bool_)
        free = np.ones(self.width * WIDTH, np.bool_)
        free[len(bits) :] = False
        for bit, conditions in enumerate(bits):
            for asked, word in conditions:
                if asked == position:
                    requires[bit, codes[word]] = True
                    free[bit] = False
        requires[free] = True
        packed = np.packbits(requires, axis=0, bitorder="little")
        rows = packed.T.reshape(len(codes) + 1, self.width, 8).copy().view("<u8")[:, :, 0]
        return np.ascontiguousarray(rows).astype(np.uint64, copy=False)

    def planes_of(self, numbers: npt.NDArray[np.int64], first: npt.NDArray[np.int64]) -> Grid:
        """Return the planes of keys, of shape (keys, planes): the conjunctions that each key satisfies.

        ``numbers`` are the numbers of words, ``first`` the index of each key's first word among them.
        """
        result: Grid | None = None
        for table in self._tables:
            if not table.steps:
                return np.repeat(table.planes, len(first), axis=0)
            planes = table.planes.take(_cells_of(table, numbers, first), axis=0)
            if result is None:
                result = planes
            else:
                result &= planes
        assert result is not None  # noqa: S101  there is at least one table
        return result

    def signatures_of(self, planes: Grid) -> tuple[KeyArray, KeyArray]:
        """Return two signatures of each key; none of the first is 0, unless all are below `bound`.

        If they are `exact`, keys with equal first signatures match the same groups. Else they are hashes, and both must
        be equal: 127 bits. Keys that match the same groups may have several signatures.
        """
        if self.exact:  # one bit for each plane in which any conjunction is satisfied, or the only plane
            if self._own:
                with np.errstate(invalid="ignore"):  # OpenBLAS may set that flag by lanes that it does not use
                    sums = (planes != 0).astype(self._powers.dtype) @ self._powers
                keys = sums.astype(np.int64).view(np.uint64)
                if self.bound:
                    return keys, keys
            else:
                keys = planes[:, 0].copy()
            keys |= np.uint64(1 << 63)
            return keys, keys
        mixed = planes.T.copy()  # each plane in one stretch: reduced by far more quickly
        mixed *= self._factors[0]
        mixed ^= mixed >> np.uint64(32)
        mixed *= self._factors[1]
        keys = np.add.reduce(mixed, axis=0)
        keys |= np.uint64(1)
        return keys, np.bitwise_xor.reduce(mixed, axis=0)

    def members_of(self, planes: Grid) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return which groups match each key, as pairs of the index of the key and a group; a pair may come twice."""
        data = planes.astype("<u8", copy=False).view(np.uint8).ravel()
        some = np.flatnonzero(data)  # most bytes are 0
        bits = np.flatnonzero(np.unpackbits(data[some], bitorder="little").view(np.bool_))
        bits = some[bits >> 3] * 8 + (bits & 7)
        rows, columns = np.divmod(bits, self.width * WIDTH)
        return rows, self._groups[columns]


def _arrange(groups: Mapping[int, Sequence[Placed]]) -> tuple[list[Placed], list[int], bool]:
    """Arrange the conjunctions of groups in planes: return them in the order of bits, and the group of each.

    If that takes few more planes, each group has planes of its own, which it fills up with conjunctions that it has
    already; the third result is then True.
    """
    total = -(-sum(map(len, groups.values())) // WIDTH)
    own = {group: -(-len(placed) // WIDTH) for group, placed in groups.items()}
    alone = sum(own.values()) <= min(total + OWN_PLANES, MAX_OWN_PLANES)
    bits: list[Placed] = []
    owners: list[int] = []
    for group, placed in groups.items():
        filled = [*placed, *[placed[0]] * (own[group] * WIDTH - len(placed))] if alone else placed
        bits += filled
        owners += [group] * len(filled)
    return bits, owners, alone


def _cells_of(table: _Table, numbers: npt.NDArray[np.int64], first: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    cells: npt.NDArray[np.int64] | None = None
    for position, steps in table.steps:
        words = numbers.take(first + position if position else first)
        if cells is None:
            cells = steps.take(words)
        else:
            cells += steps.take(words)
    assert cells is not None  # noqa: S101  a table has at least one position
    return cells
