"""A lazy subset automaton over words: which of many patterns with wildcards match each key of a column.

A state is a set of places in the patterns' tree. A step for a column of keys is one look into a grid or a table for all
of them, and only a pair of state and word that no key had before is worked out, in Python. States are bounded: keys
that would need more than ``limit`` end in ``BEYOND``, and it is for the caller to ask the engine about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from bindings.counts.columnar.arrays.table import IntArray, IntTable, KeyArray, pairs
from exchange.patterns.pattern import MANY, Wildcard, Word

__all__ = ["BEYOND", "Automaton", "Node"]

BEYOND: Final = 1
"""The state of a key that had no room in the automaton."""

OTHER: Final = 0
"""The column of every word that no pattern names."""

CELLS: Final = 1 << 24
"""Of a grid of states and columns, which is faster than a table as long as there are few of them."""

TRANSITIONS: Final = 16
"""For each state that is allowed, a table remembers so many steps at most."""


class Node:
    """A place in a tree of patterns."""

    __slots__ = ("accepts", "loops", "many", "number", "one", "words")

    def __init__(self, number: int, *, loops: bool = False) -> None:
        self.number = number
        self.loops = loops
        """Whether any word leads from here to here: it stands behind a MANY."""
        self.words: dict[int, Node] = {}
        """What each column leads to."""
        self.one: Node | None = None
        self.many: Node | None = None
        """Reached without a word."""
        self.accepts: int | None = None
        """The number of the pattern that ends here."""


class Automaton:
    """Trees of patterns, and the states that keys have led to."""

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._nodes = 0
        self._patterns = 0
        self._columns: dict[str, int] = {}
        self._states: list[tuple[Node, ...]] = [(), ()]  # 0 is no state, 1 is BEYOND
        self._numbers: dict[tuple[int, ...], int] = {}
        self._grid: IntArray | None = np.zeros(0, np.int32)
        """Row by row for each state where each column leads, 0 where nobody asked; None once that got too large."""
        self._steps = IntTable()
        self._accepted: dict[tuple[int, ...], int] = {}
        self._accepts: list[int] = [0, 0]
        self._accept_array: IntArray = np.zeros(2, np.int32)

    @property
    def columns(self) -> dict[str, int]:
        """The named words and their columns, from 1 on."""
        return self._columns

    @property
    def patterns(self) -> int:
        """How many there are."""
        return self._patterns

    @property
    def states(self) -> int:
        """How many there are now."""
        return len(self._states) - 2

    def tree(self, patterns: Iterable[Sequence[Word]]) -> Node:
        """The root of a tree of patterns whose wildcards are `exchange.patterns.pattern.ordered`."""
        root = self._node()
        for words in patterns:
            node = root
            for word in words:
                node = self._onward(node, word)
            if node.accepts is None:
                node.accepts = self._patterns
                self._patterns += 1
        return root

    def start(self, roots: Iterable[Node]) -> int:
        """The state of a key before its first word, for the patterns of these trees; there may come no tree after."""
        return self._state(roots)

    def step(self, states: IntArray, columns: IntArray) -> IntArray:
        """The states after the next words, which are in these columns."""
        if self._grid is not None and len(self._grid):
            places = states.astype(np.int64)
            places *= len(self._columns) + 1
            places += columns
            found: IntArray = self._grid.take(places)
        else:
            found = self._steps.find(pairs(states, columns))  # in which nothing is as long as there is a grid
        if found.all():
            return found
        missing = np.flatnonzero(found == 0)
        new, places = np.unique(pairs(states[missing], columns[missing]), return_inverse=True)
        ends = np.array([self._next(key >> 32, key & 0xFFFFFFFF) for key in new.tolist()], np.int32)
        self._remember(new, ends)
        found[missing] = ends[places]
        return found

    def _remember(self, steps: KeyArray, ends: IntArray) -> None:
        width = len(self._columns) + 1
        if self._grid is not None and len(self._states) * width > len(self._grid):
            if 2 * len(self._states) * width <= CELLS:
                self._grid = np.concatenate(
                    [self._grid, np.zeros(2 * len(self._states) * width - len(self._grid), np.int32)]
                )
            else:
                taken = np.flatnonzero(self._grid)
                self._steps.put(pairs(*np.divmod(taken, width)), self._grid[taken])
                self._grid = None
        if self._grid is not None:
            self._grid[(steps >> np.uint64(32)) * np.uint64(width) + (steps & np.uint64(0xFFFFFFFF))] = ends
            return
        room = max(self._limit * TRANSITIONS - len(self._steps), 0)
        kept = np.flatnonzero(steps >> np.uint64(32) != BEYOND)[:room]
        self._steps.put(steps[kept], ends[kept])

    def accepted(self, states: IntArray) -> IntArray:
        """For each end state the number of the set of patterns that match; of BEYOND, 0 as of no pattern."""
        if len(self._accept_array) != len(self._accepts):
            self._accept_array = np.array(self._accepts, np.int32)
        return self._accept_array.take(states)

    def _node(self, *, loops: bool = False) -> Node:
        self._nodes += 1
        return Node(self._nodes, loops=loops)

    def _onward(self, node: Node, word: Word) -> Node:
        if isinstance(word, Wildcard):
            if word is MANY:
                node.many = node.many or self._node(loops=True)
                return node.many
            node.one = node.one or self._node()
            return node.one
        column = self._columns.setdefault(word, len(self._columns) + 1)
        following = node.words.get(column)
        if following is None:
            following = node.words[column] = self._node()
        return following

    def _next(self, state: int, column: int) -> int:
        if state == BEYOND:
            return BEYOND
        reached: list[Node] = []
        for node in self._states[state]:
            if node.loops:
                reached.append(node)
            if node.one is not None:
                reached.append(node.one)
            following = node.words.get(column)
            if following is not None:
                reached.append(following)
        return self._state(reached)

    def _state(self, nodes: Iterable[Node]) -> int:
        found: dict[int, Node] = {}
        for each in nodes:
            node: Node | None = each
            while node is not None and node.number not in found:
                found[node.number] = node
                node = node.many
        numbers = tuple(sorted(found))
        state = self._numbers.get(numbers)
        if state is None:
            if len(self._states) >= self._limit + 2:
                return BEYOND
            state = self._numbers[numbers] = len(self._states)
            self._states.append(tuple(found.values()))
            matching = tuple(sorted([node.accepts for node in found.values() if node.accepts is not None]))
            self._accepts.append(self._accepted.setdefault(matching, len(self._accepted)))
        return state
