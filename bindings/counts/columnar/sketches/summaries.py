"""The heavy hitters of many groups as columns, and their sum: `bindings.counts.sketch.merge_summaries`, vectorised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import escape, has_nul, unescape
from bindings.counts.columnar.arrays.ranges import compute_offsets, expand_ranges
from bindings.counts.sketch import FREQUENT, Frequent, FrequentItem

Indices = npt.NDArray[np.int64]

NO_TEXTS: Final = pa.array([], pa.string())


class Sums(NamedTuple):
    """What `sum_items` keeps, ordered by group."""

    groups: Indices
    rows: Indices
    """One of the rows whose counts were added."""
    counts: Indices
    errors: Indices
    """Group -> count by which the others may be too low."""


def sum_items(groups: Indices, codes: npt.NDArray[Any], counts: Indices, number: int, order: Indices) -> Sums:
    """Add the counts of equal codes in each group, and keep the `FREQUENT` greatest sums (Misra-Gries).

    ``order`` sorts rows by group and code; of equal rows, the first one is returned. Agarwal and others, Mergeable
    Summaries, 2012.
    """
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(groups[order]) != 0) | (codes[order[1:]] != codes[order[:-1]])
    begins = np.flatnonzero(new)
    sums = np.add.reduceat(counts[order], begins) if len(begins) else counts[:0]
    rows = order[begins]
    greatest = np.lexsort((-sums, groups[rows]))
    rows, sums = rows[greatest], sums[greatest]
    of = groups[rows]
    starts = np.flatnonzero(np.diff(of, prepend=-1))
    sizes = np.diff(starts, append=len(of))
    # The count of the first item that does not fit is subtracted from all: those that tie with it are dropped, too, so
    # their order does not matter.
    errors = np.zeros(number, np.int64)
    over = sizes > FREQUENT
    errors[of[starts[over]]] = sums[starts[over] + FREQUENT]
    kept = (np.arange(len(of)) - np.repeat(starts, sizes) < FREQUENT) & (sums > errors[of])
    return Sums(of[kept], rows[kept], sums[kept] - errors[of[kept]], errors)


class Summaries(NamedTuple):
    """A `Frequent` for each of many groups: one element per item, ordered by group; texts are escaped."""

    groups: Indices
    texts: pa.Array
    counts: Indices
    examples: pa.Array | None
    """Examples of shapes; None for keys, which need none."""
    errors: Indices
    """Group -> error of its summary."""

    @classmethod
    def none(cls, number: int) -> Summaries:
        """Return empty summaries of this many groups."""
        return cls(np.zeros(0, np.int64), NO_TEXTS, np.zeros(0, np.int64), None, np.zeros(number, np.int64))

    @classmethod
    def from_values(cls, summaries: Iterable[Frequent]) -> Summaries:
        """Return the columns of summaries."""
        listed = list(summaries)
        items = [item for each in listed for item in each.items]
        examples = [escape(item.example) for item in items]
        return cls(
            np.repeat(np.arange(len(listed)), [len(each.items) for each in listed]).astype(np.int64),
            pa.array([escape(item.text) for item in items], pa.string()),
            np.array([item.count for item in items], np.int64),
            pa.array(examples, pa.string()) if any(examples) else None,
            np.array([each.error for each in listed], np.int64),
        )

    def get_group(self, group: int) -> Frequent:
        """Return the summary of a group."""
        low, high = np.searchsorted(self.groups, [group, group + 1]).tolist()
        texts = map(unescape, self.texts.slice(low, high - low).to_pylist())
        none = [""] * (high - low)
        examples = none if self.examples is None else self.examples.slice(low, high - low).to_pylist()
        columns = zip(texts, self.counts[low:high].tolist(), map(unescape, examples), strict=True)
        items = sorted([FrequentItem(*each) for each in columns], key=lambda item: (-item.count, item.text))
        return Frequent(tuple(items), int(self.errors[group]))

    def merge(self, rows: Indices, groups: Indices, number: int) -> Summaries:
        """Return the summaries of ``number`` new groups: ``groups[n]``, which ascend, adds that of ``rows[n]``."""
        errors = np.zeros(number, np.int64)
        np.add.at(errors, groups, self.errors[rows])
        if not len(self.counts):
            return Summaries.none(number)._replace(errors=errors)
        coded = self.texts.dictionary_encode()
        codes, width = np.asarray(coded.indices).astype(np.int64), len(coded.dictionary)
        ranks = None if self.examples is None else rank_texts(self.examples)
        offsets = compute_offsets(self.groups, len(self.errors))
        parts = [(groups[:0], groups[:0], groups[:0])]
        for which, at in expand_ranges(offsets, rows, groups):
            of, code = groups[which], codes[at]
            keys = of * width + code  # fits: both are numbers of what is in memory
            order = np.argsort(keys) if ranks is None else np.lexsort((ranks[at], keys))
            sums = sum_items(of, code, self.counts[at], number, order)
            errors += sums.errors
            parts.append((sums.groups, at[sums.rows], sums.counts))
        of, at, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
        taken = pa.array(at)
        examples = None if self.examples is None else self.examples.take(taken)
        return Summaries(of, self.texts.take(taken), counts, examples, errors)

    def join(self, other: Summaries) -> Summaries:
        """Return these summaries, and those of more groups, numbered after them."""
        examples = None
        if self.examples is not None or other.examples is not None:
            examples = pa.concat_arrays([
                pa.array([""] * len(each.counts), pa.string()) if each.examples is None else each.examples
                for each in (self, other)
            ])  # fmt: skip
        return Summaries(
            np.append(self.groups, other.groups + len(self.errors)),
            pa.concat_arrays([self.texts, other.texts]),
            np.append(self.counts, other.counts),
            examples,
            np.append(self.errors, other.errors),
        )


def rank_texts(texts: pa.Array) -> Indices:
    """Return the rank of each text among the distinct ones, in the order of Python; texts are escaped."""
    if not has_nul(texts):
        ranks: Indices = np.asarray(pc.rank(texts, tiebreaker="dense")).astype(np.int64)
        return ranks
    coded = texts.dictionary_encode()
    plain = [unescape(text) for text in coded.dictionary.to_pylist()]
    rank: Mapping[str, int] = {text: number for number, text in enumerate(sorted(plain))}
    by_code = np.array([rank[text] for text in plain], np.int64)
    return by_code.take(np.asarray(coded.indices))
