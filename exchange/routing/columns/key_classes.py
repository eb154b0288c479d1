"""Compute key classes: which patterns match a key, and which literal key of a binding equals it.

Messages to one exchange whose keys agree in both are routed alike by every exchange that only compares keys, on all
hops. A key class packs three numbers into one integer: the exchange, the set of patterns, and the literal key.

Where bindings need not be distinguished, because only their destinations count, fewer classes are enough: patterns with
equal destinations are one group, and so are literal keys. A few literal keys are then matched as patterns are; and if
the messages of an exchange take nothing but its bindings, the sets of patterns are the outcomes themselves.

One key of each new class is shown to a function, and the answer holds for the class (`KeyDecisions`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from exchange.arrays.columns import Column, build_bytes_column
from exchange.arrays.table import IntArray, IntTable, KeyArray
from exchange.entities.entities import Destination
from exchange.kinds import Decider, can_delay, find_kind
from exchange.patterns.columns.literals import Literals, hash_words
from exchange.patterns.columns.pattern_sets import STATES, PatternSets
from exchange.patterns.columns.set_numbers import UNKNOWN, SetNumbers
from exchange.patterns.columns.words import Vocabulary, Words, split_words
from exchange.patterns.pattern import AMQP, Pattern, Word
from exchange.routing.columns.outcomes import Outcomes
from exchange.routing.columns.routing_inputs import RoutingInputs, find_inputs
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology

__all__ = ["NO_CLASS", "STATES", "Decide", "KeyClasses", "KeyDecisions", "PublishedExchange", "list_words"]

MAX_PATTERN_SET: Final = 1 << 19
"""Highest number of a set of patterns for which a key class has enough bits."""

FEW_LITERALS: Final = 1_024
"""Maximum number of literal keys that are matched as patterns, where shapes are not needed."""

NO_CLASS: Final = 0
"""Stands for an unknown key class: the limits were exceeded, so the message itself must be routed."""

ENTRY_SHIFT: Final = np.uint64(44)
SET_SHIFT: Final = np.uint64(24)
"""Layout of a key class: from bit 44 the exchange, from bit 24 the set of patterns, from bit 0 the literal key.

Sets are numbered from 1, so no key class is 0, which is ``NO_CLASS`` and not allowed as a key of a table.
"""
PARTS: Final = ((ENTRY_SHIFT, 20), (SET_SHIFT, 20), (np.uint64(0), 24))
"""Where the parts of a key class begin, and their numbers of bits."""


class PublishedExchange(NamedTuple):
    """An exchange that messages may be published to."""

    name: str
    realm: int
    """Index of the patterns of the exchanges that can be reached."""
    reached: frozenset[str]
    """The exchanges that its messages may pass, with itself."""
    alone: bool
    """Whether its messages take its own bindings, by their keys, and nothing else."""
    direct: bool
    """Whether, moreover, its sets of patterns are outcomes: its literal keys are few, and matched as patterns are."""
    inputs: RoutingInputs


class KeyClasses:
    """The key classes of a topology, kept from batch to batch.

    ``encode`` returns a key or word as the bytes that stand for it in columns. ``states`` is the maximum number of sets
    of patterns for each exchange, and of states of an automaton; it bounds the memory. Bindings of one exchange are
    distinguished by their keys or, with ``outcomes``, only by their destinations: sets of patterns may then be numbered
    as outcomes, and shapes are computed only to find literal keys.
    """

    def __init__(
        self, topology: Topology, encode: Callable[[str], bytes], states: int = STATES, outcomes: Outcomes | None = None
    ) -> None:
        self._encode: Final = encode
        self._queues: Final = topology.queues
        self._outcomes: Final = outcomes
        self._states: Final = min(states, MAX_PATTERN_SET)
        self._vocabulary: Final = Vocabulary()
        self._conditions: Final = {
            name: _Conditions(topology, name, by_destination=outcomes is not None)
            for name, exchange in topology.exchanges.items()
            if find_kind(exchange).decider is Decider.KEY
        }
        self._literal_groups: Final[list[tuple[Any, ...]]] = [()]
        """Number of a literal key -> names of exchanges, each followed by the value of its group there."""
        literals = self._gather_literals()
        self._learn_words(list(literals))
        self._literal_classes: Final = np.array([0, *literals.values()], np.int64)
        self._realms: Final[list[_Realm]] = []
        self._realm_numbers: Final[dict[tuple[tuple[str, ...], bool, bool], int]] = {}
        self.entries: Final[list[PublishedExchange]] = []
        """Exchanges that accept messages from publishers."""
        graph = TopologyGraph(topology)
        for name, exchange in topology.exchanges.items():
            if not exchange.internal:
                reached = frozenset(graph.graph.downstream([name]))
                alone = len(reached) == 1 and name in self._conditions and name not in graph.unsure
                alone = alone and not can_delay(exchange)
                realm, direct = self._realm(name, reached, alone)
                self.entries.append(PublishedExchange(name, realm, reached, alone, direct, find_inputs(graph, name)))
        self._entry_realms: Final = np.array([entry.realm for entry in self.entries], np.int32)
        self._entry_compares: Final = np.array([self._realms[entry.realm].compares for entry in self.entries], np.bool_)

    def _gather_literals(self) -> dict[str, int]:
        """Return the literal keys of all bindings, each with a number from 1 that is equal for keys alike."""
        groups: dict[str, tuple[Hashable, ...]] = {}
        for name, conditions in self._conditions.items():
            for key, group in conditions.literal.items():
                groups[key] = (*groups.get(key, ()), name, group)
        numbers: dict[tuple[Any, ...], int] = {}
        literals = {key: numbers.setdefault(alike, len(numbers) + 1) for key, alike in groups.items()}
        self._literal_groups.extend(numbers)
        return literals

    def _learn_words(self, literals: Sequence[str]) -> None:
        words = split_words(build_bytes_column(list(map(self._encode, literals))))
        self._vocabulary.add(words)
        patterns = (words for each in self._conditions.values() for words, _ in each.patterns(literals=False))
        wild = {word for words in patterns for word in words if isinstance(word, str)}
        self._vocabulary.add_each(list(map(self._encode, sorted(wild))))
        self._literals = Literals(words, self._vocabulary.numbers(words))

    def _realm(self, start: str, reachable: Collection[str], alone: bool) -> tuple[int, bool]:
        """Return the number of the realm of all exchanges that messages to ``start`` reach, and whether it is direct.

        The sets of patterns of a direct one are outcomes.
        """
        # As an alternate exchange, the default exchange matches nothing.
        names = [name for name in sorted(reachable) if name or not start]
        conditions = {name: self._conditions[name] for name in names if name in self._conditions}
        few = self._outcomes is not None and sum(len(each.literal) for each in conditions.values()) <= FEW_LITERALS
        direct = alone and few
        reached = tuple([name for name, each in conditions.items() if each.wild or (few and each.literal)])
        if (reached, few, direct) not in self._realm_numbers:
            self._realm_numbers[reached, few, direct] = len(self._realms)
            groups: dict[tuple[str, Hashable], int] = {}
            patterns = [
                (words, groups.setdefault((name, group), len(groups)))
                for name in reached
                for words, group in conditions[name].patterns(literals=few)
            ]
            numbers = SetNumbers(self._states)
            queues = [self._queues_in(group) for _, group in groups]
            number = self._outcomes.numbering(queues) if self._outcomes is not None and direct else numbers.number
            sets = PatternSets(patterns, number, self._numbers_of, len(self._vocabulary), self._states)
            self._realms.append(_Realm(sets, numbers, list(groups), queues, not few))
        return self._realm_numbers[reached, few, direct], direct

    def _numbers_of(self, words: Sequence[str]) -> IntArray:
        return self._vocabulary.numbers_of(list(map(self._encode, words)))

    @property
    def sets(self) -> int:
        """Number of sets of patterns that keys have matched so far."""
        return sum(len(realm.numbers) for realm in self._realms)

    @property
    def signatures(self) -> int:
        """Number of signatures of keys so far; many may stand for one set of patterns."""
        return sum(len(realm.sets) for realm in self._realms)

    def classify(self, column: Column, entries: npt.NDArray[np.int64]) -> tuple[KeyArray, KeyArray]:
        """Return the key class of each key, published to its entry, and the hashes of shapes, if these are needed.

        ``entries`` has for each key an index of ``self.entries``; where it is negative, the key class is ``NO_CLASS``.
        """
        words = split_words(column)
        numbers = self._vocabulary.numbers(words)
        sets = self._sets_of(words, numbers, entries)
        # The sets of direct entries are outcomes, whose numbers have no limit where other exchanges give them.
        unknown = (sets == UNKNOWN) | (sets > MAX_PATTERN_SET) | (entries < 0)
        classes = (entries.astype(np.uint64) << ENTRY_SHIFT) | (sets.astype(np.uint64) << SET_SHIFT)
        shapes = np.zeros(0, np.uint64)
        compares = self._entry_compares.take(np.maximum(entries, 0)) if self.entries else np.zeros(len(sets), np.bool_)
        if compares.any() or self._outcomes is None:
            shapes = hash_words(numbers, words.first, words.counts)
            literals = np.where(compares, self._literals.find(shapes, words, numbers), 0)
            unknown |= literals < 0
            classes |= self._literal_classes.take(literals).astype(np.uint64)
        if unknown.any():
            classes[unknown] = NO_CLASS
        return classes, shapes

    def outcomes_of(self, columns: Iterable[Column], size: int, entry: PublishedExchange) -> IntArray:
        """Return the outcomes of ``size`` keys published to a direct entry; ``UNKNOWN`` where there are too many."""
        sets, signatures, start = self._realms[entry.realm].sets, np.empty(size, np.int32), 0
        for column in columns:
            words = split_words(column)
            signatures[start : start + column.size] = sets.find(words, self._vocabulary.numbers(words))
            start += column.size
        return sets.sets_of(signatures)

    def outcome_of(self, key_class: int) -> int:
        """Return the outcome of a key class of a direct entry."""
        return key_class >> int(SET_SHIFT) & (1 << 20) - 1

    def _sets_of(self, words: Words, numbers: IntArray, entries: npt.NDArray[np.int64]) -> IntArray:
        if len(self._realms) == 1:
            return self._find(0, words, numbers)
        sets: IntArray = np.zeros(len(entries), np.int32)
        if not self._realms or not len(entries):
            return sets
        realms = self._entry_realms.take(np.maximum(entries, 0))
        if (realms == realms[0]).all():
            return self._find(int(realms[0]), words, numbers)
        for realm in np.unique(realms).tolist():
            rows = np.flatnonzero(realms == realm)
            sets[rows] = self._find(realm, words, numbers, rows)
        return sets

    def _find(self, realm: int, words: Words, numbers: IntArray, rows: npt.NDArray[np.intp] | None = None) -> IntArray:
        sets = self._realms[realm].sets
        return sets.sets_of(sets.find(words, numbers, rows))

    def entry_of(self, key_class: int) -> PublishedExchange:
        """Return the entry of a key class."""
        return self.entries[key_class >> int(ENTRY_SHIFT)]

    def queues_of(self, key_class: int) -> set[str]:
        """Return the existing queues that the matching bindings lead to, at all exchanges that its entry reaches.

        Only if bindings are distinguished by their destinations, and the entry is not direct.
        """
        entry = self.entry_of(key_class)
        realm = self._realms[entry.realm]
        members = realm.numbers.elements(key_class >> int(SET_SHIFT) & (1 << 20) - 1)
        found = set[str]().union(*[realm.queues[member] for member in members.tolist()])
        if realm.compares:
            literal = self._literal_groups[key_class & (1 << int(SET_SHIFT)) - 1]
            for name, group in zip(literal[::2], literal[1::2], strict=True):
                if name in entry.reached:
                    found.update(self._queues_in(group))
        return found

    def conditions_of(self, key_classes: KeyArray) -> Iterator[MetConditions]:
        """Yield the conditions that match, at all exchanges that an entry reaches, and perhaps others, for each entry.

        Only if bindings are distinguished by their keys.
        """
        entries, sets, literals = (
            ((key_classes >> shift) & np.uint64((1 << bits) - 1)).astype(np.int64) for shift, bits in PARTS
        )
        for number in np.unique(entries).tolist():
            classes, entry = np.flatnonzero(entries == number), self.entries[number]
            realm, codes = self._realms[entry.realm], literals[classes]
            of_rows = {row: self._literal_groups[codes[row]] for row in np.flatnonzero(codes).tolist()}
            met = {row: [*zip(each[::2], each[1::2], strict=True)] for row, each in of_rows.items()}
            rows, members = realm.numbers.list_elements(sets[classes])
            yield MetConditions(entry.name, classes, realm.groups, rows, members, met)

    def _queues_in(self, group: Any) -> tuple[str, ...]:
        if not isinstance(group, frozenset):  # bindings are distinguished by their keys
            return ()
        return tuple([name for kind, name in group if kind == "queue" and name in self._queues])

    def shapes(self, keys: Sequence[str]) -> Iterator[list[str | None]]:
        """Yield the words of each key, with None for each word that no binding names; best asked for many keys."""
        words = [key.split(".") if key else [] for key in keys]
        numbers = iter(self._numbers_of([word for each in words for word in each]).tolist())
        return ([word if next(numbers) else None for word in each] for each in words)


class MetConditions(NamedTuple):
    """Conditions that key classes of one entry match, each as the exchange and the key of its bindings."""

    exchange: str
    """Name of the entry."""
    classes: npt.NDArray[np.int64]
    """Row -> index of its key class among those that were asked about."""
    groups: Sequence[tuple[str, str]]
    """Conditions with wildcards that may match at the entry."""
    rows: npt.NDArray[np.int64]
    members: npt.NDArray[np.int64]
    """Indices of those that match in ``groups``, parallel to ``rows``, which ascend."""
    literals: Mapping[int, Sequence[tuple[str, str]]]
    """Row -> conditions without wildcards that match, if any."""


def list_words(topology: Topology) -> set[str]:
    """Return the words that bindings name, all others of which are ``*`` in shapes of keys."""
    names = [name for name, each in topology.exchanges.items() if find_kind(each).decider is Decider.KEY]
    listed = [_Conditions(topology, name, by_destination=False).patterns(literals=True) for name in names]
    return {word for patterns in listed for words, _ in patterns for word in words if isinstance(word, str)}


class _Realm(NamedTuple):
    """The patterns of some exchanges."""

    sets: PatternSets
    numbers: SetNumbers
    """The sets so far; none if they are numbered as outcomes."""
    groups: Sequence[tuple[str, Any]]
    """Group -> its exchange, and the value of its condition there."""
    queues: Sequence[Collection[str]]
    """Group -> the existing queues that it leads to."""
    compares: bool
    """Whether keys are also compared with the literal keys of bindings, as these are not among the patterns."""


class _Conditions:
    """The conditions of one exchange on keys, each with a value that is equal if they need not be distinguished."""

    def __init__(self, topology: Topology, name: str, *, by_destination: bool) -> None:
        kind = find_kind(topology.exchanges[name])
        destinations: dict[str, set[Hashable]] = {}
        self.wild: Final[dict[str, Hashable]] = {}
        self.literal: Final[dict[str, Hashable]] = {}
        if not name:  # the default exchange has no bindings; each queue has one that its name implies
            destinations.update({queue: {Destination("queue", queue)} for queue in topology.queues})
            self.literal.update({queue: queue for queue in topology.queues})
        for binding in topology.bindings_from(name):
            literal = kind.literal_key(binding)
            key = binding.routing_key if literal is None else literal
            (self.wild if literal is None else self.literal)[key] = key
            destinations.setdefault(key, set()).add(binding.destination)
        if by_destination:
            for keys in (self.wild, self.literal):
                keys.update({key: frozenset(destinations[key]) for key in keys if key in destinations})

    def patterns(self, *, literals: bool) -> Iterator[tuple[Sequence[Word], Hashable]]:
        """Yield the words of each condition, with wildcards or, if wanted, without, and its value."""
        for key, group in self.wild.items():
            yield Pattern.of_binding_key(key).words, group
        if literals:
            for key, group in self.literal.items():
                yield AMQP.split(key), group


Decide = Callable[[KeyArray, Column, Sequence[int]], Sequence[int]]
"""Function from key classes, and a column and for each class a row with a key of it, to the answers for the classes."""


class KeyDecisions:
    """The answers for the key classes of a topology, kept from batch to batch.

    ``unknown`` is the answer where the key class is unknown.
    """

    def __init__(self, key_classes: KeyClasses, decide: Decide, unknown: int) -> None:
        self._key_classes: Final = key_classes
        self._decide: Final = decide
        self._numbers: Final = IntTable()
        """Key class -> its number, from 1; 0 stands for ``NO_CLASS``, which is in no table."""
        self.answers: IntArray = np.full(1, unknown, np.int32)
        """Number of a key class -> answer."""

    def number(self, column: Column, entries: npt.NDArray[np.int64]) -> tuple[IntArray, KeyArray]:
        """Return the number of each key's class, and the hash of its shape; no hashes if they are not needed.

        ``entries`` are as for `KeyClasses.classify`.
        """
        key_classes, shapes = self._key_classes.classify(column, entries)
        return self.number_classes(key_classes, column), shapes

    def find(self, key_classes: KeyArray) -> IntArray:
        """Return the numbers of key classes; 0 for those that no column had."""
        return self._numbers.find(key_classes)

    def number_classes(self, key_classes: KeyArray, column: Column) -> IntArray:
        """Return the number of the class of each key of a column."""
        numbers = self._numbers.find(key_classes)
        missing = np.flatnonzero((numbers == 0) & (key_classes != NO_CLASS))
        if len(missing):
            new, first, which = np.unique(key_classes[missing], return_index=True, return_inverse=True)
            answers = self._decide(new, column, missing[first].tolist())
            begin = len(self.answers)
            self.answers = np.append(self.answers, np.array(answers, np.int32))
            self._numbers.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            numbers[missing] = begin + which
        return numbers
