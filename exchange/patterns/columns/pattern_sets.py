"""Number the sets of groups of patterns that match the keys of a column.

A group is a number: patterns in one group need not be distinguished. Keys are divided by their number of words; for
each such length there is a `BitPlanes`, built when the first key of that length comes. Where that would take too many
conjunctions, an `Automaton` matches the keys of the length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import DirectTable, IntArray, IntTable, Table
from exchange.patterns.columns.automaton import Automaton
from exchange.patterns.columns.bit_planes import BitPlanes, Codes
from exchange.patterns.columns.signatures import NO_SIGNATURE, NumberSets, Signatures
from exchange.patterns.columns.words import Words
from exchange.patterns.conjunctions import Conditions
from exchange.patterns.pattern import Word, normalise_wildcards
from exchange.patterns.wildcards import Wild

MAX_CONJUNCTIONS: Final = 4_096
"""Maximum number of conjunctions for keys of one length."""

MAX_PLACEMENTS: Final = 128
"""Maximum number of conjunctions of one pattern for keys of one length."""

MAX_WORDS: Final = 24
"""Maximum number of words of a key for which there are bit planes."""

STATES: Final = 1 << 17
"""Maximum number of states of the automaton, by default."""


class PatternSets:
    """The sets of groups that match the keys of columns, numbered by ``number``, see `NumberSets`.

    ``patterns`` are pairs of words, literals and wildcards, and a group. ``numbers_of`` gives the numbers of words,
    which are below ``vocabulary``. ``states`` is the maximum number of states of the automaton; the sets of keys that
    need more are ``UNKNOWN``.
    """

    def __init__(
        self,
        patterns: Iterable[tuple[Sequence[Word], int]],
        number: NumberSets,
        numbers_of: Codes,
        vocabulary: int,
        states: int = STATES,
    ) -> None:
        self._patterns: Final = [(Wild[int](normalise_wildcards(words)), group) for words, group in patterns]
        self._number: Final = number
        self._signatures: Final = Signatures(number)
        self._numbers_of: Final = numbers_of
        self._vocabulary: Final = vocabulary
        self._lengths: Final[dict[int, tuple[Table, BitPlanes] | None]] = {}
        """Number of words -> numbers of the signatures of such keys, and their planes."""
        self._states: Final = states
        self._automaton: _Walk | None = None

    def __len__(self) -> int:
        """Return the number of signatures so far."""
        return len(self._signatures)

    def find(self, words: Words, numbers: IntArray, rows: npt.NDArray[np.intp] | None = None) -> IntArray:
        """Return the number of each key's signature, from which `sets_of` finds its set of groups.

        ``numbers`` are the numbers of the words; ``rows`` selects keys, None stands for all.
        """
        counts = words.counts if rows is None else words.counts[rows]
        first = words.first if rows is None else words.first[rows]
        result = np.zeros(len(counts), np.int32)
        places = numbers.astype(np.int64)  # once, and not with each look-up
        lengths = np.minimum(counts, MAX_WORDS + 1).astype(np.uint8)
        for length in np.flatnonzero(np.bincount(lengths)).tolist():
            index = self._index(length)
            (of,) = (lengths == length).nonzero()
            if index is not None:
                table, planes = index
                result[of] = self._signatures.find(table, planes, planes.planes_of(places, first.take(of)))
            else:
                result[of] = self._walk(numbers, first.take(of), counts.take(of))
        return result

    def sets_of(self, signatures: IntArray) -> IntArray:
        """Return the number of the set that each signature stands for; ``UNKNOWN`` where a limit is exceeded.

        Best asked for many signatures at a time.
        """
        return self._signatures.sets_of(signatures)

    def _walk(self, numbers: IntArray, first: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> IntArray:
        if self._automaton is None:
            self._automaton = _Walk(self._patterns, self._numbers_of, self._vocabulary, self._states)
        return self._automaton.find(numbers, first, counts, self._signatures, self._number)

    def _index(self, length: int) -> tuple[Table, BitPlanes] | None:
        if length not in self._lengths:
            self._lengths[length] = self._build(length) if length <= MAX_WORDS else None
        return self._lengths[length]

    def _build(self, length: int) -> tuple[Table, BitPlanes] | None:
        conjunctions = self._conjunctions(length)
        if conjunctions is None:
            return None
        try:
            planes = BitPlanes(length, conjunctions, self._numbers_of, self._vocabulary)
            return DirectTable(planes.bound) if planes.bound else IntTable(), planes
        except MemoryError:
            return None

    def _conjunctions(self, length: int) -> list[tuple[Conditions, int]] | None:
        """Return the conjunctions for keys of this length, each with its group; None if they are too many."""
        conjunctions: list[tuple[Conditions, int]] = []
        for wild, group in self._patterns:
            if wild.fits(length):
                placed = wild.conjunctions(length, MAX_PLACEMENTS)
                if placed is None or len(conjunctions) + len(placed) > MAX_CONJUNCTIONS:
                    return None
                conjunctions += [(conditions, group) for conditions in placed]
        return conjunctions


class _Walk:
    """The automaton of the patterns, and the signatures that its states stand for."""

    def __init__(
        self, patterns: Iterable[tuple[Wild[int], int]], numbers_of: Codes, vocabulary: int, states: int
    ) -> None:
        self._automaton: Final = Automaton(states)
        root = self._automaton.tree([(wild.words, group) for wild, group in patterns])
        self._start: Final = self._automaton.start(root)
        self._columns: Final = np.zeros(vocabulary, np.int32)
        words = list(self._automaton.columns)
        self._columns[numbers_of(words)] = list(self._automaton.columns.values())
        self._numbers = np.full(2, NO_SIGNATURE, np.int32)
        """State -> number of its signature; ``NO_SIGNATURE`` for the states that are none."""

    def find(
        self,
        numbers: IntArray,
        first: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        signatures: Signatures,
        number: NumberSets,
    ) -> IntArray:
        automaton = self._automaton
        states = automaton.walk(self._start, self._columns.take(numbers), first, counts)
        new = range(len(self._numbers), automaton.states + 2)
        if new:
            accepted = [automaton.accepted(state) for state in new]
            which = np.repeat(np.arange(len(new)), list(map(len, accepted)))
            groups = np.fromiter(chain.from_iterable(accepted), np.int64, len(which))
            self._numbers = np.append(self._numbers, signatures.add(number(len(new), which, groups)))
        return self._numbers.take(states)
