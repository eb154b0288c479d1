"""Number the sets of groups of patterns that match the keys of a column.

A group is a number: patterns in one group need not be distinguished. Keys are divided by their number of words; for
each such length there is a `BitPlanes`, built when the first key of that length comes. Where that would take too many
conjunctions, an `Automaton` matches the keys of the length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import IntArray, IntTable, KeyArray
from exchange.patterns.columns.automaton import Automaton
from exchange.patterns.columns.bit_planes import BitPlanes, Codes, Grid
from exchange.patterns.columns.words import Words
from exchange.patterns.conjunctions import Conditions
from exchange.patterns.pattern import Word, ordered
from exchange.patterns.wildcards import Wild

__all__ = ["STATES", "UNKNOWN", "PatternSets"]

MOST_CONJUNCTIONS: Final = 4_096
"""Maximum number of conjunctions for keys of one length."""

MOST_PLACEMENTS: Final = 128
"""Maximum number of conjunctions of one pattern for keys of one length."""

MOST_WORDS: Final = 24
"""Maximum number of words of a key for which there are bit planes."""

STATES: Final = 1 << 17
"""Maximum number of states of the automaton, by default."""

UNKNOWN: Final = 0
"""Number of a set that is not computed: there are too many already, so the key must be matched by itself."""


ROOM: Final = 1_024
"""Number of signatures that there is room for at first, and whose sets are computed together."""

NumberOf = Callable[[npt.NDArray[np.int64], npt.NDArray[np.bool_]], IntArray]


class PatternSets:
    """The sets of groups that the keys of columns have matched so far, numbered from 1.

    ``patterns`` are pairs of words, literals and wildcards, and a group below ``groups``. ``numbers_of`` gives the
    numbers of words, which are below ``vocabulary``. ``states`` is the maximum number of sets, and of states of the
    automaton; the sets of further keys are ``UNKNOWN``.
    """

    def __init__(
        self,
        patterns: Iterable[tuple[Sequence[Word], int]],
        groups: int,
        numbers_of: Codes,
        vocabulary: int,
        states: int = STATES,
    ) -> None:
        self._patterns: Final = [(Wild[int](ordered(words)), group) for words, group in patterns]
        self._groups: Final = groups
        self._numbers_of: Final = numbers_of
        self._vocabulary: Final = vocabulary
        self._lengths: Final[dict[int, _Length | None]] = {}
        self._states: Final = states
        self._automaton: _Walk | None = None
        self._sets: Final[dict[tuple[int, ...], int]] = {}
        self._members: Final[list[tuple[int, ...]]] = [()]

    def __len__(self) -> int:
        """Return the number of sets so far."""
        return len(self._sets)

    def members(self, number: int) -> tuple[int, ...]:
        """Return the groups of a set, ascending."""
        return self._members[number]

    def find(self, words: Words, numbers: IntArray, rows: npt.NDArray[np.intp] | None = None) -> IntArray:
        """Return the number of the set of groups that match each key; ``UNKNOWN`` where a limit is exceeded.

        ``numbers`` are the numbers of the words; ``rows`` selects keys, None stands for all.
        """
        counts = words.counts if rows is None else words.counts[rows]
        first = words.first if rows is None else words.first[rows]
        result = np.zeros(len(counts), np.int32)
        lengths = np.minimum(counts, MOST_WORDS + 1).astype(np.uint8)
        for length in np.flatnonzero(np.bincount(lengths)).tolist():
            index = self._index(length)
            of = np.flatnonzero(lengths == length)
            if index is not None:
                result[of] = index.find(numbers, first.take(of), self._number_of)
            else:
                result[of] = self._walk(numbers, first.take(of), counts.take(of))
        return result

    def _walk(self, numbers: IntArray, first: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> IntArray:
        if self._automaton is None:
            self._automaton = _Walk(self._patterns, self._numbers_of, self._vocabulary, self._states)
        return self._automaton.find(numbers, first, counts, self._number_of_groups)

    def _number_of_groups(self, groups: Sequence[int]) -> int:
        members = np.zeros((1, self._groups), np.bool_)
        members[0, list(groups)] = True
        return int(self._number_of(np.arange(self._groups), members)[0])

    def _index(self, length: int) -> _Length | None:
        if length not in self._lengths:
            self._lengths[length] = self._build(length) if length <= MOST_WORDS else None
        return self._lengths[length]

    def _build(self, length: int) -> _Length | None:
        conjunctions = self._conjunctions(length)
        if conjunctions is None:
            return None
        try:
            return _Length(BitPlanes(length, conjunctions, self._numbers_of, self._vocabulary))
        except MemoryError:
            return None

    def _conjunctions(self, length: int) -> list[tuple[Conditions, int]] | None:
        """Return the conjunctions for keys of this length, each with its group; None if they are too many."""
        conjunctions: list[tuple[Conditions, int]] = []
        for wild, group in self._patterns:
            if wild.fits(length):
                placed = wild.conjunctions(length, MOST_PLACEMENTS)
                if placed is None or len(conjunctions) + len(placed) > MOST_CONJUNCTIONS:
                    return None
                conjunctions += [(conditions, group) for conditions in placed]
        return conjunctions

    def _number_of(self, groups: npt.NDArray[np.int64], members: npt.NDArray[np.bool_]) -> IntArray:
        """Return the numbers of sets, given as one row each; column i is about ``groups[i]``."""
        every = np.zeros((len(members), self._groups), np.bool_)
        every[:, groups] = members
        rows, columns = np.nonzero(every)
        ends = np.cumsum(np.bincount(rows, minlength=len(every))).tolist()
        listed, start, numbers = columns.tolist(), 0, []
        for end in ends:
            one = tuple(listed[start:end])
            number = self._sets.get(one)
            if number is None and len(self._sets) >= self._states:
                number = UNKNOWN
            elif number is None:
                number = self._sets[one] = len(self._members)
                self._members.append(one)
            numbers.append(number)
            start = end
        return np.array(numbers, np.int32)


class _Length:
    """The planes for keys of one length, and the signatures met so far."""

    def __init__(self, planes: BitPlanes) -> None:
        self._planes: Final = planes
        self._table: Final = IntTable()
        """Signature -> index in the two arrays below, from 1."""
        self._checks = np.zeros(ROOM, np.uint64)
        self._numbers = np.zeros(ROOM, np.int32)

    def find(self, numbers: IntArray, first: npt.NDArray[np.int64], number_of: NumberOf) -> IntArray:
        planes = self._planes.planes_of(numbers, first)
        keys, checks = self._planes.signatures_of(planes)
        found = self._table.find(keys)
        missing = np.flatnonzero(found == 0)
        if len(missing):
            new, at = np.unique(keys[missing], return_index=True)
            self._add(new, checks[missing[at]], self._number_rows(planes, missing[at], number_of))
            found[missing] = self._table.find(keys[missing])
        result = self._numbers.take(found)
        if not self._planes.exact:
            result[self._checks.take(found) != checks] = UNKNOWN
        return result

    def _add(self, keys: KeyArray, checks: KeyArray, numbers: IntArray) -> None:
        begin = len(self._table) + 1
        end = begin + len(keys)
        if end > len(self._numbers):
            self._checks = np.resize(self._checks, 2 * end)
            self._numbers = np.resize(self._numbers, 2 * end)
        self._checks[begin:end], self._numbers[begin:end] = checks, numbers
        self._table.put(keys, np.arange(begin, end, dtype=np.int32))

    def _number_rows(self, planes: Grid, rows: npt.NDArray[np.intp], number_of: NumberOf) -> IntArray:
        parts = [rows[start : start + ROOM] for start in range(0, len(rows), ROOM)]
        groups = self._planes.groups
        return np.concatenate([number_of(groups, self._planes.members_of(planes[:, part])) for part in parts])


class _Walk:
    """The automaton of the patterns, and the numbers of the sets that its states stand for."""

    def __init__(
        self, patterns: Iterable[tuple[Wild[int], int]], numbers_of: Codes, vocabulary: int, states: int
    ) -> None:
        self._automaton: Final = Automaton(states)
        root = self._automaton.tree([(wild.words, group) for wild, group in patterns])
        self._start: Final = self._automaton.start(root)
        self._columns: Final = np.zeros(vocabulary, np.int32)
        words = list(self._automaton.columns)
        self._columns[numbers_of(words)] = list(self._automaton.columns.values())
        self._numbers = np.zeros(2, np.int32)
        """State -> number of its set; ``UNKNOWN`` for the states that are none."""

    def find(
        self,
        numbers: IntArray,
        first: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        number_of: Callable[[Sequence[int]], int],
    ) -> IntArray:
        automaton = self._automaton
        states = automaton.walk(self._start, self._columns.take(numbers), first, counts)
        new = range(len(self._numbers), automaton.states + 2)
        if new:
            sets = np.array([number_of(automaton.accepted(state)) for state in new], np.int32)
            self._numbers = np.append(self._numbers, sets)
        return self._numbers.take(states)
