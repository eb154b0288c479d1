"""Many conjunctions, searched for those that a message satisfies.

A conjunction is a list of requirements that must all hold: a feature has a given value, or it is present with any
value. A topic pattern, for keys of one length, is a conjunction: feature is the position, value the word there. A
headers binding of the mode ``all`` is a conjunction: feature is the header's name. So both exchange types search here.
Values are bound under each conjunction, and a search returns the values of all conjunctions that a message satisfies.

Conjunctions are stored in blocks. Within a block, each conjunction has one bit (its slot), and an integer (a mask) is a
set of conjunctions. For each feature of the message, one mask has the conjunctions that its value rules out; a search
joins these masks, and the bits that are left are the answer. If most conjunctions have words of their own, the masks
take memory quadratic in the number of conjunctions. So a block with many conjunctions and many masks is split by the
feature that divides it best, again if needed; conjunctions that require no value of that feature stay together. A
search visits only the few blocks that may contain an answer, however many blocks there are.

Not safe for concurrent use: the owner holds a lock around every call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

WIDTH: Final = 1024
"""Number of conjunctions up to which a block is never split: in smaller ones, Python's overhead outweighs the bits."""

MASKS: Final = 4096
"""Maximum number of masks of a block with more than `WIDTH` conjunctions. It bounds the memory to 512 bytes for each of
its conjunctions, one bit in each mask."""

WIDEST: Final = 16_384
"""Number of conjunctions beyond which a block is split even if it has few masks, where a split is possible: operations
on wider integers take too long."""

FANOUT_BITS: Final = 6
FANOUT: Final = 1 << FANOUT_BITS
"""Number of children of a split block. A value's hash selects its child, so a million distinct values need 2,000 blocks
and not a million."""

V = TypeVar("V", bound=Hashable)


class _Present:
    def __repr__(self) -> str:
        return "PRESENT"


PRESENT: Final = _Present()
"""The required value of a feature that must be present with any value."""

Conditions = tuple[tuple[Hashable, Hashable], ...]
"""A conjunction: pairs of a feature and its required value or ``PRESENT``. Equal conjunctions must have their pairs in
the same order, since the tuple is the key under which a conjunction is stored."""


def with_value(values: Collection[V], value: V) -> Collection[V]:
    """Return the values with one more: a tuple while they are few, to save memory, else a dict, for speed."""
    if isinstance(values, dict):
        values[value] = None
        return values
    if value in values:
        return values
    if len(values) < 16:
        return (*values, value)
    return dict.fromkeys((*values, value))


def without_value(values: Collection[V], value: V) -> Collection[V]:
    """Return the values without one, which must be among them."""
    if isinstance(values, dict):
        del values[value]
        return values
    return tuple(v for v in values if v != value)


class Conjunctions(Generic[V]):
    """A mutable map from conjunctions to values.

    Adding and removing take time linear in the length of the conjunction, apart from the occasional split. ``answers``
    is the maximum number of answers in a cache that every change clears: many messages have the same answer.
    """

    def __init__(self, *, answers: int = 0) -> None:
        self._root: Block[V] | _Split[V] = Block(None, 0)
        self._answers_size: Final = answers
        self._answers: dict[int, tuple[V, ...]] = {}  # while there is only one block: satisfied bits -> values

    def add(self, conditions: Conditions, value: V) -> None:
        """Add a value to the conjunction."""
        self._answers.clear()
        block = self._leaf(self._root, conditions)
        block.add(conditions, value)
        if block.too_wide():
            self._split(block)

    def remove(self, conditions: Conditions, value: V) -> None:
        """Remove a value from the conjunction, and free the memory when it was the last."""
        self._answers.clear()
        block = self._leaf(self._root, conditions)
        block.remove(conditions, value)
        if block.slots:
            return
        node: Block[V] | _Split[V] = block
        while node.parent is not None:
            del node.parent.children[node.place]
            if node.parent.children:
                return
            node = node.parent
        self._root = Block(None, 0)

    def search(self, shape: Hashable, features: Iterable[tuple[Hashable, Hashable]]) -> tuple[V, ...]:
        """Return the values of all conjunctions that the features satisfy; a value of several conjunctions is repeated.

        ``features`` are pairs of feature and value. ``shape`` identifies the set of features that are present: equal
        shapes must mean equal sets.
        """
        node = self._root
        if isinstance(node, Block):
            left = node.find_satisfied(shape, features)
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
        stack: list[Block[V] | _Split[V]] = [node]
        while stack:
            node = stack.pop()
            if isinstance(node, Block):
                found += node.values_of(node.find_satisfied(shape, known.items()))
            else:
                stack += node.children_for(known)
        return tuple(found)

    def sole_block(self, most: int) -> Block[V] | None:
        """Return the block that has all conjunctions; None if there are several, or it has more than ``most``."""
        return self._root if isinstance(self._root, Block) and len(self._root.slots) <= most else None

    def _leaf(self, node: Block[V] | _Split[V], conditions: Conditions) -> Block[V]:
        while isinstance(node, _Split):
            node = node.child(conditions)
        return node

    def _split(self, block: Block[V]) -> None:
        split = block.best_split()
        if split is None:
            block.limit *= 2  # the conjunctions are too alike: do not try again before there are twice as many
            return
        for conditions, slot in block.slots.items():
            for value in block.values[slot]:
                self._leaf(split, conditions).add(conditions, value)
        if split.parent is None:
            self._root = split
        else:
            split.parent.children[split.place] = split
        for child in list(split.children.values()):
            if isinstance(child, Block) and child.too_wide():
                self._split(child)


_REST: Final = FANOUT
"""Place of the child with the conjunctions that require no value of the split's feature; values have 0 to 63."""


class _Split(Generic[V]):
    """An inner node of the tree, which divides conjunctions by the value that they require of one feature.

    A place is the number of a child. Invariant: a conjunction is in the child at the place that `place_of` returns. So
    a search visits two children at most: the one for the message's own value, and the one at `_REST`.
    """

    __slots__ = ("children", "depth", "feature", "parent", "place")

    def __init__(self, parent: _Split[V] | None, place: int, feature: Hashable) -> None:
        self.parent = parent
        self.place = place
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.feature = feature
        self.children: dict[int, Block[V] | _Split[V]] = {}

    def place_of(self, conditions: Conditions) -> int:
        """Return the place of the child to which the conjunction belongs."""
        for feature, value in conditions:
            if feature == self.feature and value is not PRESENT:
                return self.spread(value)
        return _REST

    def children_for(self, features: dict[Hashable, Hashable]) -> Iterator[Block[V] | _Split[V]]:
        """Return the children that may contain conjunctions which these features satisfy."""
        if _REST in self.children:
            yield self.children[_REST]
        if self.feature in features:
            child = self.children.get(self.spread(features[self.feature]))
            if child is not None:
                yield child

    def child(self, conditions: Conditions) -> Block[V] | _Split[V]:
        """Return the child to which the conjunction belongs; make it if it is missing."""
        place = self.place_of(conditions)
        child = self.children.get(place)
        if child is None:
            child = self.children[place] = Block(self, place)
        return child

    def spread(self, value: Hashable) -> int:
        """Return the place of a value. Each depth uses other bits of its hash, so a feature can split again below."""
        return (hash(value) >> (self.depth * FANOUT_BITS)) % FANOUT


class _SplitByName(_Split[V]):
    """An inner node that divides conjunctions by the first feature they require: for blocks of very many features.

    If a message satisfies a conjunction, it has its first feature, so a search visits the places of its features.
    """

    __slots__ = ()

    def place_of(self, conditions: Conditions) -> int:
        return self.spread(conditions[0][0]) if conditions else _REST

    def children_for(self, features: dict[Hashable, Hashable]) -> Iterator[Block[V] | _Split[V]]:
        places = {_REST, *map(self.spread, features)}
        return (self.children[place] for place in places & self.children.keys())


class _Feature(dict[Hashable, int]):
    """The requirements of a block's conjunctions on one feature; each integer is a mask, a set of slots.

    It is a dict from a value to the slots that this value rules out, ``valued`` without ``equal[value]``, so that a
    search pays for a lookup only. It has values that are required; changes clear it.
    """

    __slots__ = ("asked", "equal", "valued")

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0  # slots that require the feature, and so are ruled out if it is absent
        self.valued = 0  # those of them that require a value of it
        self.equal: dict[Hashable, int] = {}  # value -> slots that require this value

    def __missing__(self, value: Hashable) -> int:
        if value not in self.equal:  # not remembered: messages bring any number of such values
            return self.valued
        others = self[value] = self.valued ^ self.equal[value]
        return others


class Block(Generic[V]):
    """A leaf of the tree: conjunctions, each with a slot, the number of its bit in all masks.

    Invariants: ``_live`` has exactly the bits of ``slots``, and every mask is a subset of ``_live``, as a freed slot's
    bit is cleared in all of them. Every change clears the caches (``_lacking``, `_Feature`) that it makes wrong.
    """

    __slots__ = ("_features", "_free", "_lacking", "_live", "_masks", "limit", "parent", "place", "slots", "values")

    def __init__(self, parent: _Split[V] | None, place: int) -> None:
        self.parent = parent
        self.place = place
        self.limit = WIDTH
        self.slots: dict[Conditions, int] = {}
        self.values: list[Collection[V]] = []
        self._free: list[int] = []
        self._live = 0
        self._masks = 0  # number of masks: one for each feature, and one for each of its required values
        self._features: dict[Hashable, _Feature] = {}
        self._lacking: dict[Hashable, int] = {}  # shape -> slots that require an absent feature; a cache

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
                others = feature.equal.get(wanted)
                if others is None:
                    self._masks += 1
                    feature.equal[wanted] = bit
                else:
                    feature.equal[wanted] = others | bit
                feature.clear()
        self._live |= bit
        self._lacking.clear()

    def remove(self, conditions: Conditions, value: V) -> None:
        slot = self.slots[conditions]
        left = self.values[slot] = without_value(self.values[slot], value)
        if left:
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
                others = feature.equal[wanted] ^ bit
                if others:
                    feature.equal[wanted] = others
                else:
                    del feature.equal[wanted]
                    self._masks -= 1
                feature.clear()
            if not feature.asked:
                del self._features[name]
                self._masks -= 1
        self._lacking.clear()

    def too_wide(self) -> bool:
        """Return whether the block should be split."""
        width = len(self.slots)
        return width > self.limit and (self._masks > MASKS or width > WIDEST)

    def find_satisfied(self, shape: Hashable, features: Iterable[tuple[Hashable, Hashable]]) -> int:
        """Return the slots of the conjunctions that the features satisfy, as bits: all that nothing rules out."""
        ruled_out = self._lacking.get(shape)
        if ruled_out is None:
            given = dict(features)  # read once, as it may be an iterator
            features = given.items()
            ruled_out = self._remember_lacking(shape, given)
        known = self._features
        for name, value in features:
            feature = known.get(name)
            if feature is not None:
                ruled_out |= feature[value]
        return self._live ^ ruled_out  # the difference of the sets, as every mask is a subset of _live

    def masks(self) -> list[tuple[Hashable, Mapping[Hashable, int]]]:
        """Return the masks of each feature: value that a message has of it -> slots that it rules out.

        For messages that have all these features; valid until the next change.
        """
        return list(self._features.items())

    def values_without(self, ruled_out: int) -> list[V]:
        """Return the values of the conjunctions in all slots but these."""
        return self.values_of(self._live ^ ruled_out)

    def values_of(self, bits: int) -> list[V]:
        """Return the values of the conjunctions in these slots."""
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
        """Return the split whose largest child is smallest; None if even it has 3/4 of the block or more."""
        candidates: list[_Split[V]] = [_Split(self.parent, self.place, name) for name in self._features]
        if len(self._features) > FANOUT:
            candidates = [_SplitByName(self.parent, self.place, None)]
        best, best_size = None, len(self.slots) * 3 // 4
        for split in candidates:
            sizes = Counter(map(split.place_of, self.slots))
            size = max(sizes.values())
            if size < best_size:
                best, best_size = split, size
        return best
