"""The facts of many outcomes as columns: merging them makes no Python object for each outcome."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from bindings.counts.columnar.arrays.spans import SpanColumns
from bindings.counts.columnar.sketches.bottom_k import SampleColumns
from bindings.counts.columnar.sketches.hyperloglog import Registers
from bindings.counts.columnar.sketches.summaries import Summaries
from bindings.counts.outcome import Facts

Indices = npt.NDArray[np.int64]
K = TypeVar("K", bound=Hashable)


class FactColumns(NamedTuple):
    """`Facts` of many groups of messages, numbered from 0."""

    spans: SpanColumns
    registers: Registers
    samples: SampleColumns
    hot: Summaries
    shapes: Summaries

    @classmethod
    def from_values(cls, facts: Sequence[Facts]) -> FactColumns:
        """Return the columns of facts."""
        registers = Registers()
        for number, each in enumerate(facts):
            registers.put_bytes(number, each.keys)
        return cls(
            SpanColumns.from_values(each.span for each in facts),
            registers,
            SampleColumns.from_values(each.sample for each in facts),
            Summaries.from_values(each.hot for each in facts),
            Summaries.from_values(each.shapes for each in facts),
        )

    @property
    def number(self) -> int:
        """Number of groups."""
        return len(self.spans.messages)

    def get_group(self, group: int) -> Facts:
        """Return the facts of a group."""
        return Facts(
            self.spans.get_group(group), self.registers.get_group(group), self.samples.get_group(group),
            self.hot.get_group(group), self.shapes.get_group(group),
        )  # fmt: skip

    def merge(self, rows: Indices, groups: Indices, number: int) -> FactColumns:
        """Return the facts of ``number`` new groups: row ``rows[n]`` of these is added to the new group ``groups[n]``.

        The result is that of `Facts.__add__`; as all rows are added at once, the summaries lose less.
        """
        order = np.argsort(groups, kind="stable")
        rows, groups = rows[order], groups[order]
        return FactColumns(
            self.spans.merge(rows, groups, number),
            self.registers.merge(rows, groups),
            self.samples.merge(rows, groups, self.number),
            self.hot.merge(rows, groups, number),
            self.shapes.merge(rows, groups, number),
        )


class FactTable(Mapping[K, Facts]):
    """Name of a group of messages, such as their outcome -> its facts: columns; a value is made when asked for."""

    __slots__ = ("_numbers", "columns", "names")

    def __init__(self, names: Sequence[K], columns: FactColumns) -> None:
        self.names: Final = tuple(names)
        """What each group of ``columns`` is; no name occurs twice."""
        self.columns: Final = columns
        self._numbers: dict[K, int] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[K]:
        return iter(self.names)

    def __getitem__(self, name: K) -> Facts:
        return self.columns.get_group(self.numbers[name])

    @property
    def numbers(self) -> Mapping[K, int]:
        """Name of a group -> its number."""
        if self._numbers is None:
            self._numbers = {each: number for number, each in enumerate(self.names)}
        return self._numbers


def list_table(facts: Mapping[K, Facts]) -> FactTable[K]:
    """Return facts as columns; those that are columns already are not copied."""
    if isinstance(facts, FactTable):
        return facts
    return FactTable([*facts], FactColumns.from_values([*facts.values()]))


def list_spans(facts: Mapping[Any, Facts]) -> SpanColumns:
    """Return the spans of facts."""
    if isinstance(facts, FactTable):
        return facts.columns.spans
    return SpanColumns.from_values(each.span for each in facts.values())


def add_facts(one: Mapping[K, Facts], other: Mapping[K, Facts]) -> FactTable[K]:
    """Return name of a group -> the sum of its facts."""
    left, right = list_table(one), list_table(other)
    numbers = {name: number for number, name in enumerate(left.names)}
    groups = [numbers.setdefault(name, len(numbers)) for name in right.names]
    count = len(left)
    joined = FactColumns(
        left.columns.spans.join(right.columns.spans),
        left.columns.registers.join(right.columns.registers, count),
        left.columns.samples.join(right.columns.samples, count),
        left.columns.hot.join(right.columns.hot),
        left.columns.shapes.join(right.columns.shapes),
    )
    group_of_row = np.concatenate([np.arange(count), np.array(groups, np.int64)])
    return FactTable([*numbers], joined.merge(np.arange(len(group_of_row)), group_of_row, len(numbers)))
