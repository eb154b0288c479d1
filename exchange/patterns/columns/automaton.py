"""A lazy subset automaton over words: which of many patterns with wildcards match each key of a column.

A state is a set of nodes of the patterns' trees. One step moves a whole column of keys by one word, with one lookup in
a grid or a table; only pairs of state and word that are new are computed, in Python. The number of states is bounded: a
key that would need more than ``limit`` states ends in ``BEYOND``, and the caller must ask the router about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import IntArray, IntTable, KeyArray, pack_pairs
from exchange.patterns.pattern import MANY, Wildcard, Word

BEYOND: Final = 1
"""State of a key whose next state would exceed the limit; it is never left."""

OTHER: Final = 0
"""Column of all words that no pattern names."""

CELLS: Final = 1 << 24
"""Maximum number of elements of the grid (states times columns); beyond, a hash table replaces it, which is slower."""

TRANSITIONS: Final = 16
"""Maximum number of steps in the table per allowed state."""


class TreeNode:
    """A node in a tree of patterns."""

    __slots__ = ("accepts", "loops", "many", "number", "one", "words")

    def __init__(self, number: int, *, loops: bool = False) -> None:
        self.number = number
        self.loops = loops
        """Whether any word leads from this node back to itself: it follows a MANY."""
        self.words: dict[int, TreeNode] = {}
        """Column of a word -> next node."""
        self.one: TreeNode | None = None
        """Next node by exactly one word, whichever (``*``)."""
        self.many: TreeNode | None = None
        """Next node without reading a word: the node after a MANY (``#``)."""
        self.accepts: set[int] = set()
        """Groups of the patterns that end here."""


class Automaton:
    """A tree of patterns, and the states that keys have reached so far."""

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._nodes = 0
        self._columns: dict[str, int] = {}
        self._states: list[tuple[TreeNode, ...]] = [
            (),
            (),
        ]  # 0 is not a state, as in tables 0 means missing; 1 is BEYOND
        self._numbers: dict[tuple[int, ...], int] = {}
        self._grid: IntArray | None = np.zeros(0, np.int32)
        """Next states, flattened: one row per state, one element per column; 0 if not computed. None once too large."""
        self._steps = IntTable()
        """Pair of state and column -> next state; empty as long as there is a grid."""
        self._accepts: list[tuple[int, ...]] = [(), ()]
        """State -> groups of the patterns that match a key which ends there."""

    @property
    def columns(self) -> dict[str, int]:
        """Words that patterns name -> their columns, from 1."""
        return self._columns

    @property
    def states(self) -> int:
        """Number of states so far."""
        return len(self._states) - 2

    def tree(self, patterns: Iterable[tuple[Sequence[Word], int]]) -> TreeNode:
        """Build a tree of patterns, each with the group that it belongs to, and return its root.

        Their wildcards must be `exchange.patterns.pattern.normalise_wildcards`.
        """
        root = self._node()
        for words, group in patterns:
            node = root
            for word in words:
                node = self._onward(node, word)
            node.accepts.add(group)
        return root

    def start(self, root: TreeNode) -> int:
        """Return the state of a key before its first word, for the patterns of this tree.

        No tree may be added afterwards: a new word would widen the rows of the grid.
        """
        return self._state([root])

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

    def walk(
        self, start: int, columns: IntArray, first: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> IntArray:
        """Return the states of keys after their last words.

        ``columns`` are those of all words, ``first`` is the index of each key's first word, ``counts`` its number of
        words. The keys are sorted by their number of words, most first: the keys with a word at ``position`` are then
        the first ``size`` keys, a slice.
        """
        order = np.argsort(counts, kind="stable")[::-1]
        ascending, starts = counts[order[::-1]], first[order]
        states = np.full(len(counts), start, np.int32)
        for position in range(int(ascending[-1]) if len(ascending) else 0):
            size = len(counts) - int(np.searchsorted(ascending, position, "right"))
            states[:size] = self.step(states[:size], columns[starts[:size] + position])
        result = np.empty(len(counts), np.int32)
        result[order] = states
        return result

    def accepted(self, state: int) -> tuple[int, ...]:
        """Return the groups of the patterns that match a key which ends in this state, not ``BEYOND``; ascending."""
        return self._accepts[state]

    def _node(self, *, loops: bool = False) -> TreeNode:
        self._nodes += 1
        return TreeNode(self._nodes, loops=loops)

    def _onward(self, node: TreeNode, word: Word) -> TreeNode:
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
        reached: list[TreeNode] = []
        for node in self._states[state]:
            if node.loops:
                reached.append(node)
            if node.one is not None:
                reached.append(node.one)
            following = node.words.get(column)
            if following is not None:
                reached.append(following)
        return self._state(reached)

    def _state(self, nodes: Iterable[TreeNode]) -> int:
        """Return the state of these nodes and all they reach by MANY without a word; ``BEYOND`` above the limit."""
        closure: dict[int, TreeNode] = {}
        for each in nodes:
            node: TreeNode | None = each
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
            matching = tuple(sorted(set().union(*[node.accepts for node in closure.values()])))
            self._accepts.append(matching)
        return state
