"""Match whole columns of keys: see `exchange.patterns.matcher.Matcher.match_many`."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from exchange.arrays.arrow import read_texts
from exchange.arrays.columns import Column
from exchange.arrays.grouping import decode_dictionary, group_keys, split_pieces
from exchange.arrays.table import IntArray, IntTable, pack_pairs
from exchange.patterns.columns.pattern_sets import PatternSets
from exchange.patterns.columns.set_numbers import UNKNOWN, SetNumbers
from exchange.patterns.columns.words import Vocabulary, split_words
from exchange.patterns.pattern import Word
from exchange.text.display import count_noun
from exchange.values.field_values import to_bytes

V = TypeVar("V", bound=Hashable)

SETS: Final = 1 << 19
"""Maximum number of sets of patterns, and number of answers from which on nothing is kept for the next call."""

SIGNATURES: Final = 1 << 20
"""Number of signatures above which nothing is kept for the next call."""


@dataclass(frozen=True, eq=False, repr=False)
class Matches(Generic[V]):
    """The values of the patterns that match each key of a column. As a sequence it has the values of each row."""

    answers: tuple[tuple[V, ...], ...]
    """Each distinct set of values once, in no particular order."""
    index: npt.NDArray[np.int32]
    """Row -> index of its values in ``answers``."""

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, row: int) -> tuple[V, ...]:
        return self.answers[self.index[row]]

    def __iter__(self) -> Iterator[tuple[V, ...]]:
        return map(self.answers.__getitem__, self.index.tolist())

    def __repr__(self) -> str:
        return f"<Matches of {count_noun(len(self), 'key')}: {count_noun(len(self.answers), 'answer')}>"


class ColumnMatcher(Generic[V]):
    """Matches columns of AMQP keys. Safe to use from several threads; sets of patterns are kept for the next call.

    ``literal`` maps keys to values; ``wild`` has the words of each pattern with wildcards, and its values.
    """

    def __init__(
        self, literal: Mapping[str, Collection[V]], wild: Sequence[tuple[Sequence[Word], Collection[V]]]
    ) -> None:
        self._lock: Final = Lock()
        self._literal: Final = [(), *map(tuple, literal.values())]
        self._literal_keys: Final = pa.array(list(map(to_bytes, literal)), pa.large_binary())
        self._wild: Final = [tuple(values) for _, values in wild]
        self._patterns: Final = [(words, number) for number, (words, _) in enumerate(wild)]
        self._begin()

    def _begin(self) -> None:
        self._vocabulary = Vocabulary()
        named = {word for words, _ in self._patterns for word in words if isinstance(word, str)}
        self._vocabulary.add_each(list(map(to_bytes, sorted(named))))
        self._members = SetNumbers(SETS)
        self._sets = PatternSets(self._patterns, self._members.number, self._numbers_of, len(self._vocabulary), SETS)
        self._answers: list[tuple[V, ...]] = []
        self._numbers: dict[tuple[V, ...], int] = {}
        self._answer_of = IntTable()
        """Pair of a set of patterns and a literal key -> number of the answer, from 1."""

    def _numbers_of(self, words: Sequence[str]) -> IntArray:
        return self._vocabulary.numbers_of(list(map(to_bytes, words)))

    def match(self, keys: Any, match_one: Any) -> Matches[V]:
        """Return the values for each key; ``match_one`` is asked about the keys for which there are too many sets."""
        chunks = read_texts(keys, "key")
        with self._lock:
            parts = [self._match_chunk(chunk, match_one) for chunk in chunks]
            index = np.concatenate(parts) if parts else np.zeros(0, np.int32)
            used = np.flatnonzero(np.bincount(index, minlength=len(self._answers)))
            numbers = np.zeros(len(self._answers), np.int32)
            numbers[used] = np.arange(len(used), dtype=np.int32)
            answers = tuple([self._answers[number] for number in used.tolist()])
            if len(self._answers) >= SETS or len(self._sets) > SIGNATURES:
                self._begin()
        return Matches(answers, numbers.take(index))

    def _match_chunk(self, chunk: pa.Array, match_one: Any) -> IntArray:
        grouped = group_keys(chunk, None, 1)
        keys, of = (decode_dictionary(chunk), None) if grouped is None else (grouped[0], grouped[2])
        literals = np.zeros(len(keys), np.int64)
        if len(self._literal_keys):
            found = pc.index_in(keys.cast(pa.large_binary()), value_set=self._literal_keys)
            literals = np.asarray(found.fill_null(-1)).astype(np.int64) + 1
        result = np.empty(len(keys), np.int32)
        at = 0
        for column in split_pieces(keys):
            piece = slice(at, at + column.size)
            result[piece] = self._match_piece(column, literals[piece], match_one)
            at += column.size
        return result if of is None else result.take(of)

    def _match_piece(self, column: Column, literals: npt.NDArray[np.int64], match_one: Any) -> IntArray:
        words = split_words(column)
        sets = self._sets.sets_of(self._sets.find(words, self._vocabulary.numbers(words)))
        pairs = pack_pairs(sets, literals)
        result = self._answer_of.find(pairs)
        missing = np.flatnonzero((result == 0) & (sets != UNKNOWN))
        if len(missing):
            new, first = np.unique(pairs[missing], return_index=True)
            rows = missing[first]
            listed = zip(sets[rows].tolist(), literals[rows].tolist(), strict=True)
            numbers = [self._number(self._values(members, literal)) for members, literal in listed]
            self._answer_of.put(new, np.array(numbers, np.int32))
            result[missing] = self._answer_of.find(pairs[missing])
        for row in np.flatnonzero(sets == UNKNOWN).tolist():
            result[row] = self._number(match_one(column.key(row).decode("utf-8", "surrogateescape")))
        return result - np.int32(1)

    def _values(self, members: int, literal: int) -> tuple[V, ...]:
        wild = [self._wild[member] for member in self._members.elements(members).tolist()]
        return tuple(dict.fromkeys(chain(self._literal[literal], *wild)))

    def _number(self, values: tuple[V, ...]) -> int:
        """Return the number of an answer, from 1."""
        number = self._numbers.get(values)
        if number is None:
            self._answers.append(values)
            number = self._numbers[values] = len(self._answers)
        return number
