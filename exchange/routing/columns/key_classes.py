"""Compute key classes: which patterns with wildcards match a key, and which literal key of a binding equals it.

Messages to one exchange whose keys agree in both are routed alike by every exchange that only compares keys, on all
hops. A key class packs three numbers into one integer: the exchange, the set of patterns, and the literal key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from exchange.arrays.columns import Column, column_of_bytes
from exchange.arrays.table import KeyArray
from exchange.kinds import Decider, kind_of
from exchange.patterns.columns.automaton import BEYOND, Automaton
from exchange.patterns.columns.literals import Literals
from exchange.patterns.columns.shapes import walk_keys
from exchange.patterns.columns.words import Vocabulary, split_words
from exchange.patterns.pattern import Pattern, ordered
from exchange.routing.columns.routing_inputs import RoutingInputs, inputs_from
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology

__all__ = ["NO_CLASS", "STATES", "Entry", "KeyClasses"]

STATES: Final = 1 << 17
"""Maximum number of states of an automaton, by default."""

MOST_STATES: Final = 1 << 19
"""Maximum number of states, and so of sets of patterns, for which a key class has enough bits."""

NO_CLASS: Final = 0
"""Stands for an unknown key class: the limits were exceeded, so the message itself must be routed."""

ENTRY_SHIFT: Final = np.uint64(44)
ACCEPTED_SHIFT: Final = np.uint64(24)
"""Layout of a key class: from bit 44 the exchange, from bit 24 the set of patterns plus 1, from bit 0 the literal key.

Plus 1, so that no key class is 0, which is ``NO_CLASS`` and not allowed as a key of a table.
"""


class Entry(NamedTuple):
    """An exchange that messages may be published to."""

    name: str
    state: int
    """State of the automaton before the first word of a key."""
    inputs: RoutingInputs


class KeyClasses:
    """The key classes of a topology, kept from batch to batch.

    ``encode`` returns a key or word as the bytes that stand for it in columns. ``states`` is the maximum number of
    states of the automaton, which bounds its memory.
    """

    def __init__(self, topology: Topology, encode: Callable[[str], bytes], states: int = STATES) -> None:
        self._encode: Final = encode
        self._automaton: Final = Automaton(min(states, MOST_STATES))
        self._vocabulary: Final = Vocabulary()
        roots, literals, patterns = {}, dict.fromkeys(topology.queues), dict[str, None]()
        for name, exchange in topology.exchanges.items():
            kind = kind_of(exchange)
            if kind.decider is not Decider.KEY:
                continue
            wild: dict[str, None] = {}
            for binding in topology.bindings_from(name):
                literal = kind.literal_key(binding)
                if literal is None:
                    wild[binding.routing_key] = None
                else:
                    literals[literal] = None
            if wild:
                roots[name] = self._automaton.tree([ordered(Pattern.of_binding_key(key).words) for key in wild])
                patterns |= wild
        self.entries: Final[list[Entry]] = []
        """Exchanges that accept messages from publishers."""
        graph = TopologyGraph(topology)
        for name, exchange in topology.exchanges.items():
            if not exchange.internal:
                inputs = inputs_from(graph, name)
                state = self._automaton.start([roots[topic] for topic in inputs.topics if topic in roots])
                self.entries.append(Entry(name, state, inputs))
        self._starts: Final = np.array([entry.state for entry in self.entries], np.int32)
        self._learn_words(list(literals))

    def _learn_words(self, literals: Sequence[str]) -> None:
        words = split_words(column_of_bytes(list(map(self._encode, literals))))
        self._vocabulary.add(words)
        columns = self._automaton.columns
        wild = list(map(self._encode, columns))
        self._vocabulary.add_each(wild)
        self._column_of = np.zeros(len(self._vocabulary), np.int32)  # number of a word -> column of the automaton
        if wild:
            self._column_of[self._vocabulary.numbers_of(wild)] = np.arange(1, len(wild) + 1, dtype=np.int32)
        self._literals = Literals(words, self._vocabulary.numbers(words))

    @property
    def states(self) -> int:
        """Number of states of the automaton so far."""
        return self._automaton.states

    def of(self, column: Column, entries: npt.NDArray[np.int64]) -> tuple[KeyArray, KeyArray]:
        """Return the key class of each key, published to its entry, and the hash of its shape.

        ``entries`` has for each key an index of ``self.entries``; where it is negative, the key class is ``NO_CLASS``.
        """
        words = split_words(column)
        numbers = self._vocabulary.numbers(words)
        states = self._starts[np.maximum(entries, 0)]
        columns = self._column_of.take(numbers)
        # walk_keys also moves ``states``, in place, to the states after the last words.
        shapes = walk_keys(self._automaton, states, columns, numbers, words.first, words.counts)
        literals = self._literals.find(shapes, words, numbers)
        unknown = (states == BEYOND) | (literals < 0) | (entries < 0)
        classes = (entries.astype(np.uint64) << ENTRY_SHIFT) | (
            (self._automaton.pattern_sets(states).astype(np.uint64) + np.uint64(1)) << ACCEPTED_SHIFT
        )
        classes |= literals.astype(np.uint64)
        if unknown.any():
            classes[unknown] = NO_CLASS
        return classes, shapes

    def shape(self, key: str) -> tuple[str | None, ...]:
        """Return the words of a key, with None for each word that no binding names."""
        words = key.split(".") if key else []
        if not words:
            return ()
        numbers = self._vocabulary.numbers_of(list(map(self._encode, words)))
        return tuple([word if number else None for word, number in zip(words, numbers.tolist(), strict=True)])
