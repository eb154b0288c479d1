"""Many conjunctions, one question: which of them does this message satisfy?

A conjunction asks that some features have given values, or that they merely be there. A topic pattern is one for keys
of a given length (its words at their places), a headers binding of kind ``all`` is one (its arguments); both kinds of
exchange search here. To each conjunction belong values, and a search gives the values of all that are satisfied.

A search answers a whole block of conjunctions at once: each is one bit, each feature knows the bits it does not rule
out, and the answer is the AND of as many integers as the message has features. Integers as wide as the number of
conjunctions would take its square in memory, so a block that outgrows ``WIDTH`` is split by the feature that divides
it best, as often as needed; those that do not ask for that feature's value stay together. A search then visits the
few blocks that could hold an answer, however many there are.

Not safe for concurrent use: the owner holds a lock around every call.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Final, Generic, TypeVar

__all__ = ["PRESENT", "Conditions", "Conjunctions", "with_value", "without_value"]

WIDTH: Final = 1024
"""Conjunctions in a block before it is split: wide enough that Python's cost per operation vanishes beside the work
on the bits, narrow enough that a word that only one pattern names costs a hundred bytes."""

FANOUT: Final = 64
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

    Adding and removing cost what the conjunction is long, apart from the occasional split.
    """

    def __init__(self) -> None:
        self._root: _Block[V] | _Split[V] = _Block(None, 0)

    def add(self, conditions: Conditions, value: V) -> None:
        """Give the conjunction one more value."""
        block = self._leaf(self._root, conditions)
        block.add(conditions, value)
        if len(block.slots) > block.limit:
            self._split(block)

    def remove(self, conditions: Conditions, value: V) -> None:
        """Take a value from the conjunction, and free the memory when it was the last."""
        block = self._leaf(self._root, conditions)
        block.remove(conditions, value)
        while not block.slots:
            split, place = block.parent, block.place
            if split is None:
                return
            split.children.pop(place)
            while not split.children:
                if split.parent is None:
                    self._root = _Block(None, 0)
                    return
                split.parent.children.pop(split.place)
                split = split.parent
            return

    def search(self, shape: Hashable, features: Iterable[tuple[Hashable, Hashable]]) -> list[V]:
        """The values of all conjunctions that the features satisfy; a value of several appears several times.

        ``shape`` stands for the set of features that are there: equal shapes must mean equal sets.
        """
        root = self._root
        found: list[V] = []
        if isinstance(root, _Block):
            root.search(shape, features, found)
            return found
        known = dict(features)
        stack: list[_Block[V] | _Split[V]] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, _Block):
                node.search(shape, known.items(), found)
                continue
            if _REST in node.children:
                stack.append(node.children[_REST])
            if node.feature in known:
                child = node.children.get(hash(known[node.feature]) % FANOUT)
                if child is not None:
                    stack.append(child)
        return found

    def _leaf(self, node: _Block[V] | _Split[V], conditions: Conditions) -> _Block[V]:
        while isinstance(node, _Split):
            node = node.child(conditions)
        return node

    def _split(self, block: _Block[V]) -> None:
        feature = block.best_feature()
        if feature is None:
            block.limit *= 2  # all alike: nothing to gain before there are many more
            return
        split: _Split[V] = _Split(block.parent, block.place, feature)
        for conditions, slot in block.slots.items():
            for value in block.values[slot]:
                self._leaf(split, conditions).add(conditions, value)
        if split.parent is None:
            self._root = split
        else:
            split.parent.children[split.place] = split
        for child in list(split.children.values()):
            if isinstance(child, _Block) and len(child.slots) > child.limit:
                self._split(child)


_REST: Final = FANOUT
"""The place of the conjunctions that do not ask for the value of a split's feature."""


class _Split(Generic[V]):
    """An inner node of the tree: conjunctions apart by the value they ask of one feature."""

    __slots__ = ("children", "feature", "parent", "place")

    def __init__(self, parent: _Split[V] | None, place: int, feature: Hashable) -> None:
        self.parent = parent
        self.place = place
        self.feature = feature
        self.children: dict[int, _Block[V] | _Split[V]] = {}

    def child(self, conditions: Conditions) -> _Block[V] | _Split[V]:
        place = _REST
        for feature, value in conditions:
            if feature == self.feature and value is not PRESENT:
                place = hash(value) % FANOUT
        child = self.children.get(place)
        if child is None:
            child = self.children[place] = _Block(self, place)
        return child


class _Feature:
    """What a block knows of one feature, as bits of its slots."""

    __slots__ = ("absent", "allowed", "equal", "given")

    def __init__(self, bits: int) -> None:
        self.absent = bits  # satisfied when the feature is not there: those that do not ask for it
        self.given = bits  # satisfied by any value: those, and the ones that only ask that it be there
        self.equal: dict[Hashable, int] = {}  # the ones that ask for this value
        self.allowed: dict[Hashable, int] = {}  # given | equal[value], remembered between changes


class _Block(Generic[V]):
    """A leaf of the tree: conjunctions side by side, one bit each."""

    __slots__ = ("_absent", "_features", "_free", "_live", "limit", "parent", "place", "slots", "values")

    def __init__(self, parent: _Split[V] | None, place: int) -> None:
        self.parent = parent
        self.place = place
        self.limit = WIDTH
        self.slots: dict[Conditions, int] = {}
        self.values: list[Collection[V]] = []
        self._free: list[int] = []
        self._live = 0
        self._features: dict[Hashable, _Feature] = {}
        self._absent: dict[Hashable, int] = {}  # per shape: the AND over the features that are not there

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
        for name, _ in conditions:
            if name not in self._features:
                self._features[name] = _Feature(self._live)
        for feature in self._features.values():
            feature.absent |= bit
            feature.given |= bit
            feature.allowed.clear()
        for name, wanted in conditions:
            feature = self._features[name]
            feature.absent ^= bit
            if wanted is not PRESENT:
                feature.given ^= bit
                feature.equal[wanted] = feature.equal.get(wanted, 0) | bit
        self._live |= bit
        self._absent.clear()

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
        for feature in self._features.values():
            feature.absent &= ~bit
            feature.given &= ~bit
            feature.allowed.clear()
        for name, wanted in conditions:
            feature = self._features[name]
            if wanted is not PRESENT:
                left = feature.equal[wanted] ^ bit
                if left:
                    feature.equal[wanted] = left
                else:
                    del feature.equal[wanted]
            if feature.absent == self._live:
                del self._features[name]  # nobody asks for it any more
        self._absent.clear()

    def search(self, shape: Hashable, features: Iterable[tuple[Hashable, Hashable]], found: list[V]) -> None:
        left = self._absent.get(shape)
        if left is None:
            features = dict(features).items()
            left = self._satisfied_without(shape, {name for name, _ in features})
        known = self._features
        for name, value in features:
            feature = known.get(name)
            if feature is not None:
                allowed = feature.allowed.get(value)
                if allowed is None:
                    bits = feature.equal.get(value)
                    if bits is None:
                        allowed = feature.given
                    else:
                        allowed = feature.allowed[value] = feature.given | bits
                left &= allowed
        values = self.values
        while left:
            slot = left.bit_length() - 1
            found += values[slot]
            left ^= 1 << slot

    def _satisfied_without(self, shape: Hashable, given: set[Hashable]) -> int:
        left = self._live
        for name, feature in self._features.items():
            if name not in given:
                left &= feature.absent
        if len(self._absent) >= 256:
            self._absent.clear()
        self._absent[shape] = left
        return left

    def best_feature(self) -> Hashable | None:
        """The feature to split by: the one whose largest part is smallest, if that is much smaller than the whole."""
        best, best_size = None, len(self.slots) * 3 // 4
        for name, feature in self._features.items():
            sizes = [0] * (FANOUT + 1)
            for value, bits in feature.equal.items():
                sizes[hash(value) % FANOUT] += bits.bit_count()
            sizes[_REST] = len(self.slots) - sum(sizes)
            if max(sizes) < best_size:
                best, best_size = name, max(sizes)
        return best
