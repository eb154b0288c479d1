"""A lazy subset automaton over words: which of many patterns with wildcards match each key of a column.

A state is a set of nodes of the patterns' trees. One step moves a whole column of keys by one word, with one lookup in
a grid or a table; only pairs of state and word that are new are computed, in Python. The number of states is bounded: a
key that would need more than ``limit`` states ends in ``BEYOND``, and the caller must ask the router about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from exchange.arrays.table import IntArray, IntTable, KeyArray, pack_pairs
from exchange.patterns.pattern import MANY, Wildcard, Word

__all__ = ["BEYOND", "Automaton", "Node"]

BEYOND: Final = 1
"""State of a key whose next state would exceed the limit; it is never left."""

OTHER: Final = 0
"""Column of all words that no pattern names."""

CELLS: Final = 1 << 24
"""Maximum number of elements of the grid (states times columns); beyond, a hash table replaces it, which is slower."""

TRANSITIONS: Final = 16
"""Maximum number of steps in the table per allowed state."""


class Node:
    """A node in a tree of patterns."""

    __slots__ = ("accepts", "loops", "many", "number", "one", "words")

    def __init__(self, number: int, *, loops: bool = False) -> None:
        self.number = number
        self.loops = loops
        """Whether any word leads from this node back to itself: it follows a MANY."""
        self.words: dict[int, Node] = {}
        """Column of a word -> next node."""
        self.one: Node | None = None
        """Next node by exactly one word, whichever (``*``)."""
        self.many: Node | None = None
        """Next node without reading a word: the node after a MANY (``#``)."""
        self.accepts: int | None = None
        """Number of the pattern that ends here."""


class Automaton:
    """Trees of patterns, and the states that keys have reached so far."""

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._nodes = 0
        self._patterns = 0
        self._columns: dict[str, int] = {}
        self._states: list[tuple[Node, ...]] = [(), ()]  # 0 is not a state, as in tables 0 means missing; 1 is BEYOND
        self._numbers: dict[tuple[int, ...], int] = {}
        self._grid: IntArray | None = np.zeros(0, np.int32)
        """Next states, flattened: one row per state, one element per column; 0 if not computed. None once too large."""
        self._steps = IntTable()
        """Pair of state and column -> next state; empty as long as there is a grid."""
        self._accepted: dict[tuple[int, ...], int] = {}
        """Numbers of the patterns that match -> number of this set."""
        self._accepts: list[int] = [0, 0]
        """State -> number of the set of patterns that match a key which ends there."""
        self._accept_array: IntArray = np.zeros(2, np.int32)

    @property
    def columns(self) -> dict[str, int]:
        """Words that patterns name -> their columns, from 1."""
        return self._columns

    @property
    def patterns(self) -> int:
        """Number of patterns."""
        return self._patterns

    @property
    def states(self) -> int:
        """Number of states until now."""
        return len(self._states) - 2

    def tree(self, patterns: Iterable[Sequence[Word]]) -> Node:
        """Add a tree of patterns whose wildcards are `exchange.patterns.pattern.ordered`, and return its root."""
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
        """Return the state of a key before its first word, for the patterns of these trees.

        No tree may be added afterwards: a new word would widen the rows of the grid.
        """
        return self._state(roots)

    def step(self, states: IntArray, columns: IntArray) -> IntArray:
        """Return the state of each key after its next word, given by the word's column."""
        if self._grid is not None and len(self._grid):
            cells = states.astype(np.int64)
            cells *= len(self._columns) + 1
            cells += columns
            following: IntArray = self._grid.take(cells)
        else:
            following = self._steps.find(pack_pairs(states, columns))
        if following.all():
            return following
        missing = np.flatnonzero(following == 0)
        new, which = np.unique(pack_pairs(states[missing], columns[missing]), return_inverse=True)
        ends = np.array([self._next(key >> 32, key & 0xFFFFFFFF) for key in new.tolist()], np.int32)
        self._remember(new, ends)
        following[missing] = ends[which]
        return following

    def _remember(self, steps: KeyArray, ends: IntArray) -> None:
        """Store computed steps in the grid, which grows to twice the states; if it gets too large, in the table."""
        width = len(self._columns) + 1
        if self._grid is not None and len(self._states) * width > len(self._grid):
            if 2 * len(self._states) * width <= CELLS:
                self._grid = np.concatenate(
                    [self._grid, np.zeros(2 * len(self._states) * width - len(self._grid), np.int32)]
                )
            else:
                taken = np.flatnonzero(self._grid)
                self._steps.put(pack_pairs(*np.divmod(taken, width)), self._grid[taken])
                self._grid = None
        if self._grid is not None:
            self._grid[(steps >> np.uint64(32)) * np.uint64(width) + (steps & np.uint64(0xFFFFFFFF))] = ends
            return
        room = max(self._limit * TRANSITIONS - len(self._steps), 0)
        # Steps from BEYOND lead to BEYOND again: no need to remember them.
        kept = np.flatnonzero(steps >> np.uint64(32) != BEYOND)[:room]
        self._steps.put(steps[kept], ends[kept])

    def pattern_sets(self, states: IntArray) -> IntArray:
        """Return for each state the number of the set of patterns that match a key which ends there.

        BEYOND also has the number 0, which may be that of any set: check for BEYOND first.
        """
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
        """Compute the state that a word of this column leads to from a state."""
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
        """Return the state of these nodes and all they reach by MANY without a word; ``BEYOND`` above the limit."""
        closure: dict[int, Node] = {}
        for each in nodes:
            node: Node | None = each
            while node is not None and node.number not in closure:
                closure[node.number] = node
                node = node.many
        numbers = tuple(sorted(closure))
        state = self._numbers.get(numbers)
        if state is None:
            if len(self._states) >= self._limit + 2:
                return BEYOND
            state = self._numbers[numbers] = len(self._states)
            self._states.append(tuple(closure.values()))
            matching = tuple(sorted([node.accepts for node in closure.values() if node.accepts is not None]))
            self._accepts.append(self._accepted.setdefault(matching, len(self._accepted)))
        return state
