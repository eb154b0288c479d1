"""Many conjunctions, one question: which of them does this message satisfy?

A conjunction asks that some features have given values, or that they merely be there. A topic pattern is one for keys
of a given length (its words at their places), a headers binding of kind ``all`` is one (its arguments); both kinds of
exchange search here. To each conjunction belong values, and a search gives the values of all that are satisfied.

A search answers a whole block of conjunctions at once: each is one bit, each feature knows the bits it does not rule
out, and the answer takes as many operations on integers as the message has features. Where most conjunctions have
words of their own, integers as wide as their number would take its square in memory; so a block of many conjunctions
and many masks is split by the feature that divides it best, as often as needed, and those that do not ask for that
feature's value stay together. A search then visits the few blocks that could hold an answer, however many there are.

Not safe for concurrent use: the owner holds a lock around every call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Final, Generic, TypeVar

__all__ = ["PRESENT", "Conditions", "Conjunctions", "with_value", "without_value"]

WIDTH: Final = 1024
"""Conjunctions that a block may always have: Python's cost per operation vanishes beside the work on so many bits."""

MASKS: Final = 4096
"""Masks that a wider block may have, which bounds the memory: 512 bytes for each of its conjunctions."""

WIDEST: Final = 16_384
"""Conjunctions that no block may have if it can be split: operations on wider integers are not for nothing."""

FANOUT_BITS: Final = 6
FANOUT: Final = 1 << FANOUT_BITS
"""Children of a split block; values are spread over them by their hash, so a million distinct ones need 2,000 blocks
and not a million."""

V = TypeVar("V", bound=Hashable)


class _Present:
    def __repr__(self) -> str:
        return "PRESENT"


PRESENT: Final = _Present()
"""Asked of a feature whose value does not matter."""

Conditions = tuple[tuple[Hashable, Hashable], ...]
"""Pairs of a feature and its value or ``PRESENT``, in an order of the owner's choice but always the same."""


def with_value(values: Collection[V], value: V) -> Collection[V]:
    """``values`` and one more. A tuple while they are few, for memory; a dict's keys when many, for speed."""
    if isinstance(values, dict):
        values[value] = None
        return values
    if value in values:
        return values
    if len(values) < 16:
        return (*values, value)
    return dict.fromkeys((*values, value))


def without_value(values: Collection[V], value: V) -> Collection[V]:
    """``values`` but one, which is there."""
    if isinstance(values, dict):
        del values[value]
        return values
    return tuple(v for v in values if v != value)


class Conjunctions(Generic[V]):
    """A mutable map from conjunctions to values.

    Adding and removing cost what the conjunction is long, apart from the occasional split. ``answers`` bounds the
    answers that are remembered between changes: many messages have the same one.
    """

    def __init__(self, *, answers: int = 0) -> None:
        self._root: _Block[V] | _Split[V] = _Block(None, 0)
        self._answers_size: Final = answers
        self._answers: dict[int, tuple[V, ...]] = {}  # of a single block, by the bits that are left

    def add(self, conditions: Conditions, value: V) -> None:
        """Give the conjunction one more value."""
        self._answers.clear()
        block = self._leaf(self._root, conditions)
        block.add(conditions, value)
        if block.too_wide():
            self._split(block)

    def remove(self, conditions: Conditions, value: V) -> None:
        """Take a value from the conjunction, and free the memory when it was the last."""
        self._answers.clear()
        block = self._leaf(self._root, conditions)
        block.remove(conditions, value)
        if block.slots:
            return
        node: _Block[V] | _Split[V] = block
        while node.parent is not None:
            del node.parent.children[node.place]
            if node.parent.children:
                return
            node = node.parent
        self._root = _Block(None, 0)

    def search(self, shape: Hashable, features: Iterable[tuple[Hashable, Hashable]]) -> tuple[V, ...]:
        """The values of all conjunctions that the features satisfy; a value of several appears several times.

        ``shape`` stands for the set of features that are there: equal shapes must mean equal sets.
        """
        node = self._root
        if isinstance(node, _Block):
            left = node.satisfied(shape, features)
            answer = self._answers.get(left)
            if answer is None:
                answer = tuple(node.values_of(left))
                if self._answers_size:
                    if len(self._answers) >= self._answers_size:
                        self._answers.clear()
                    self._answers[left] = answer
            return answer
        known = dict(features)
        found: list[V] = []
        stack: list[_Block[V] | _Split[V]] = [node]
        while stack:
            node = stack.pop()
            if isinstance(node, _Block):
                found += node.values_of(node.satisfied(shape, known.items()))
            else:
                stack += node.visited(known)
        return tuple(found)

    def _leaf(self, node: _Block[V] | _Split[V], conditions: Conditions) -> _Block[V]:
        while isinstance(node, _Split):
            node = node.child(conditions)
        return node

    def _split(self, block: _Block[V]) -> None:
        split = block.best_split()
        if split is None:
            block.limit *= 2  # all alike: nothing to gain before there are many more
            return
        for conditions, slot in block.slots.items():
            for value in block.values[slot]:
                self._leaf(split, conditions).add(conditions, value)
        if split.parent is None:
            self._root = split
        else:
            split.parent.children[split.place] = split
        for child in list(split.children.values()):
            if isinstance(child, _Block) and child.too_wide():
                self._split(child)


_REST: Final = FANOUT
"""The place of the conjunctions that do not ask for what a split goes by."""


class _Split(Generic[V]):
    """An inner node of the tree: conjunctions apart by the value they ask of one feature."""

    __slots__ = ("children", "depth", "feature", "parent", "place")

    def __init__(self, parent: _Split[V] | None, place: int, feature: Hashable) -> None:
        self.parent = parent
        self.place = place
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.feature = feature
        self.children: dict[int, _Block[V] | _Split[V]] = {}

    def place_of(self, conditions: Conditions) -> int:
        """Which child the conjunction belongs to."""
        for feature, value in conditions:
            if feature == self.feature and value is not PRESENT:
                return self.spread(value)
        return _REST

    def visited(self, features: dict[Hashable, Hashable]) -> Iterator[_Block[V] | _Split[V]]:
        """The children that may hold conjunctions that these features satisfy."""
        if _REST in self.children:
            yield self.children[_REST]
        if self.feature in features:
            child = self.children.get(self.spread(features[self.feature]))
            if child is not None:
                yield child

    def child(self, conditions: Conditions) -> _Block[V] | _Split[V]:
        """The child that the conjunction belongs to, made if need be."""
        place = self.place_of(conditions)
        child = self.children.get(place)
        if child is None:
            child = self.children[place] = _Block(self, place)
        return child

    def spread(self, value: Hashable) -> int:
        """A place for a value; other bits of its hash at each depth, so that a feature can be split by again."""
        return (hash(value) >> (self.depth * FANOUT_BITS)) % FANOUT


class _SplitByName(_Split[V]):
    """Conjunctions apart by the first feature they ask for: for blocks of ever so many features."""

    __slots__ = ()

    def place_of(self, conditions: Conditions) -> int:
        return self.spread(conditions[0][0]) if conditions else _REST

    def visited(self, features: dict[Hashable, Hashable]) -> Iterator[_Block[V] | _Split[V]]:
        places = {_REST, *map(self.spread, features)}
        return (self.children[place] for place in places & self.children.keys())


class _Feature:
    """What a block knows of one feature, as bits of its slots."""

    __slots__ = ("asked", "equal", "ruled_out", "valued")

    def __init__(self) -> None:
        self.asked = 0  # those that ask for it, and so are ruled out where it is absent
        self.valued = 0  # those of them that ask for a value
        self.equal: dict[Hashable, int] = {}  # those of them that ask for this value
        self.ruled_out: dict[Hashable, int] = {}  # valued without equal[value], remembered between changes


class _Block(Generic[V]):
    """A leaf of the tree: conjunctions side by side, one bit each."""

    __slots__ = ("_features", "_free", "_lacking", "_live", "_masks", "limit", "parent", "place", "slots", "values")

    def __init__(self, parent: _Split[V] | None, place: int) -> None:
        self.parent = parent
        self.place = place
        self.limit = WIDTH
        self.slots: dict[Conditions, int] = {}
        self.values: list[Collection[V]] = []
        self._free: list[int] = []
        self._live = 0
        self._masks = 0  # how many integers the features hold
        self._features: dict[Hashable, _Feature] = {}
        self._lacking: dict[Hashable, int] = {}  # per shape: those that ask for a feature that is not there

    def add(self, conditions: Conditions, value: V) -> None:
        slot = self.slots.get(conditions)
        if slot is not None:
            self.values[slot] = with_value(self.values[slot], value)
            return
        if self._free:
            slot = self._free.pop()
            self.values[slot] = (value,)
        else:
            slot = len(self.values)
            self.values.append((value,))
        self.slots[conditions] = slot
        bit = 1 << slot
        for name, wanted in conditions:
            feature = self._features.get(name)
            if feature is None:
                feature = self._features[name] = _Feature()
                self._masks += 1
            feature.asked |= bit
            if wanted is not PRESENT:
                feature.valued |= bit
                if wanted not in feature.equal:
                    feature.equal[wanted] = 0
                    self._masks += 1
                feature.equal[wanted] |= bit
                feature.ruled_out.clear()
        self._live |= bit
        self._lacking.clear()

    def remove(self, conditions: Conditions, value: V) -> None:
        slot = self.slots[conditions]
        self.values[slot] = without_value(self.values[slot], value)
        if self.values[slot]:
            return
        del self.slots[conditions]
        self.values[slot] = ()
        self._free.append(slot)
        bit = 1 << slot
        self._live ^= bit
        for name, wanted in conditions:
            feature = self._features[name]
            feature.asked ^= bit
            if wanted is not PRESENT:
                feature.valued ^= bit
                feature.equal[wanted] ^= bit
                if not feature.equal[wanted]:
                    del feature.equal[wanted]
                    self._masks -= 1
                feature.ruled_out.clear()
            if not feature.asked:
                del self._features[name]
                self._masks -= 1
        self._lacking.clear()

    def too_wide(self) -> bool:
        """Whether it should be split."""
        width = len(self.slots)
        return width > self.limit and (self._masks > MASKS or width > WIDEST)

    def satisfied(self, shape: Hashable, features: Iterable[tuple[Hashable, Hashable]]) -> int:
        """The conjunctions that the features satisfy, as bits."""
        ruled_out = self._lacking.get(shape)
        if ruled_out is None:
            given = dict(features)
            features = given.items()
            ruled_out = self._remember_lacking(shape, given)
        known = self._features
        for name, value in features:
            feature = known.get(name)
            if feature is not None:
                others = feature.ruled_out.get(value)
                if others is None:
                    others = feature.valued
                    if value in feature.equal:
                        others = feature.ruled_out[value] = others ^ feature.equal[value]
                ruled_out |= others
        return self._live ^ ruled_out

    def values_of(self, bits: int) -> list[V]:
        """The values of these conjunctions."""
        values = self.values
        found: list[V] = []
        while bits:
            slot = bits.bit_length() - 1
            found += values[slot]
            bits ^= 1 << slot
        return found

    def _remember_lacking(self, shape: Hashable, given: Collection[Hashable]) -> int:
        lacking = 0
        for name, feature in self._features.items():
            if name not in given:
                lacking |= feature.asked
        if len(self._lacking) >= 256:
            self._lacking.clear()
        self._lacking[shape] = lacking
        return lacking

    def best_split(self) -> _Split[V] | None:
        """A way to split whose largest part is much smaller than the whole, the smallest there is; None without one."""
        ways: list[_Split[V]] = [_Split(self.parent, self.place, name) for name in self._features]
        if len(self._features) > FANOUT:
            ways = [_SplitByName(self.parent, self.place, None)]
        best, best_size = None, len(self.slots) * 3 // 4
        for way in ways:
            sizes = Counter(map(way.place_of, self.slots))
            size = max(sizes.values())
            if size < best_size:
                best, best_size = way, size
        return best
