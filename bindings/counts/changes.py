"""What a comparison says: what goes elsewhere, by queue, binding and key shape.

All are pure functions of it and its topologies. A message loses a queue when it certainly got it and certainly does not
any more; where chance or an exchange of unknown type has a say, before or after, that is told apart as unsure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

from bindings.counts.comparison import Change, Comparison, change_of
from bindings.counts.outcome import numbered
from bindings.counts.sketch import Frequent, distinct
from bindings.counts.tally import fingerprint
from bindings.counts.witness import Witness
from exchange.entities.entities import Binding
from exchange.errors import InputError
from exchange.partition.partitioning.specification import Partitioning
from exchange.topology.topology import Topology

__all__ = [
    "BindingChange",
    "ChangeTotals",
    "Changes",
    "PartitionMoves",
    "QueueChange",
    "Rerouted",
    "ShapeChange",
    "change_totals",
    "changes",
    "summary",
]


class Rerouted(NamedTuple):
    """Messages that lose and gain the same queues."""

    change: Change
    messages: int
    first: int | None
    last: int | None
    """Microseconds since 1970, UTC; None when none has a time."""
    distinct_keys: int
    """Approximately, with the error `bindings.counts.sketch.ERROR`."""
    shapes: Frequent
    witnesses: tuple[Witness, ...]


class ShapeChange(NamedTuple):
    """Messages that have keys of one shape, and lose and gain the same queues."""

    change: Change
    shape: str
    """``*`` stands for any one word that neither topology names."""
    messages: int
    """Up to ``error`` too low."""
    error: int
    example: str
    """A key of that shape."""


class QueueChange(NamedTuple):
    """What a queue gets, before and after."""

    queue: str
    before: int
    """Messages that it gets, for certain."""
    after: int
    lost: int
    """Of ``before``, those that it does not get any more."""
    gained: int
    unsure: int
    """Messages that it may get before or after, and not as before."""
    status: Literal["kept", "removed", "added"]


class BindingChange(NamedTuple):
    """A binding that is in one topology only."""

    binding: Binding
    added: bool
    number: int
    """Its place in `bindings.counts.outcome.numbered` of the topology that has it."""
    messages: int
    """That match it, for certain: what it carried when it is removed, what it will carry when it is added."""
    possible: int
    elsewhere: int
    """Of both: those that go elsewhere now, for whatever reason; with none the binding makes no difference."""


class PartitionMoves(NamedTuple):
    """What moves in a queue that is partitioned otherwise; of messages that it gets before and after."""

    queue: str
    before: Partitioning | None
    after: Partitioning | None
    messages: int
    moved: int
    """Those whose partition has another name after."""
    undecided: int
    """Those whose key does not decide the partition, before or after; they neither move nor stay."""
    flows: Mapping[tuple[str | None, str | None], int]
    """Names of the partitions before and after -> messages, those that stay too; None where there is none."""

    @property
    def share(self) -> float | None:
        """Of the messages whose partitions are decided, those that move; None when there are none."""
        decided = self.messages - self.undecided
        return self.moved / decided if decided else None


class ChangeTotals(NamedTuple):
    """Sums over all messages."""

    messages: int
    elsewhere: int
    """That go elsewhere, or may."""
    lose: int
    """Of those: that lose a queue."""
    gain: int
    """Of those: that gain a queue; some lose one, too."""
    unsure: int
    """Of those: that do neither for certain, but may, or are answered otherwise."""
    become_unroutable: int
    no_longer_unroutable: int
    repartitioned: int
    """Messages that move to another partition of a queue, once for each such queue."""


class Changes(NamedTuple):
    """Everything that is reported."""

    totals: ChangeTotals
    rerouted: tuple[Rerouted, ...]
    """The most messages first, as in the others but for queues and bindings."""
    queues: tuple[QueueChange, ...]
    bindings: tuple[BindingChange, ...]
    shapes: tuple[ShapeChange, ...]
    partitions: tuple[PartitionMoves, ...]

    @property
    def unroutable(self) -> tuple[Rerouted, ...]:
        """What becomes unroutable; of ``rerouted``."""
        return tuple([row for row in self.rerouted if row.change.becomes_unroutable])

    @property
    def routed(self) -> tuple[Rerouted, ...]:
        """What no longer is unroutable; of ``rerouted``."""
        return tuple([row for row in self.rerouted if row.change.no_longer_unroutable])


def changes(comparison: Comparison, before: Topology, after: Topology) -> Changes:
    """All tables. Raises InputError when the comparison is of other topologies."""
    if (comparison.before, comparison.after) != (fingerprint(before), fingerprint(after)):
        raise InputError("this comparison is of other topologies: compare the archive again with these")
    moves = _moves(comparison, before, after)
    rerouted = _rerouted(comparison)
    return Changes(
        change_totals(comparison)._replace(repartitioned=sum([each.moved for each in moves])),
        rerouted,
        _queues(comparison, before, after),
        _bindings(comparison, before, after),
        _shapes(rerouted),
        moves,
    )


def summary(totals: ChangeTotals) -> str:
    """All in a line."""
    parts = [f"{totals.lose:,} lose a queue", f"{totals.gain:,} gain one"]
    parts += [f"{totals.unsure:,} may, or are answered otherwise"] if totals.unsure else []
    text = (
        f"Over {totals.messages:,} messages: {totals.elsewhere:,} go elsewhere ({', '.join(parts)}), "
        f"{totals.become_unroutable:,} become unroutable"
    )
    text += f", {totals.no_longer_unroutable:,} no longer are" if totals.no_longer_unroutable else ""
    return text + (f", {totals.repartitioned:,} change partitions." if totals.repartitioned else ".")


def change_totals(comparison: Comparison) -> ChangeTotals:
    """The sums; of ``repartitioned`` none, for which the topologies are needed."""
    counts = Counter[str]()
    for change, facts in comparison.changes.items():
        told = {
            "elsewhere": True,
            "lose": bool(change.lost),
            "gain": bool(change.gained),
            "unsure": not (change.lost or change.gained),
            "become": change.becomes_unroutable,
            "no longer": change.no_longer_unroutable,
        }
        for name, true in told.items():
            counts[name] += facts.messages if true else 0
    return ChangeTotals(
        comparison.messages, counts["elsewhere"], counts["lose"], counts["gain"], counts["unsure"], counts["become"],
        counts["no longer"], 0,
    )  # fmt: skip


def _rerouted(comparison: Comparison) -> tuple[Rerouted, ...]:
    rows = [
        Rerouted(change, f.messages, f.first, f.last, distinct(f.keys), f.shapes, f.witnesses)
        for change, f in comparison.changes.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.messages, row.change)))


def _shapes(rows: tuple[Rerouted, ...]) -> tuple[ShapeChange, ...]:
    found = [
        ShapeChange(row.change, item.text, item.count, row.shapes.error, item.example)
        for row in rows
        for item in row.shapes.items
    ]
    return tuple(sorted(found, key=lambda each: (-each.messages, each.change, each.shape)))


def _queues(comparison: Comparison, before: Topology, after: Topology) -> tuple[QueueChange, ...]:
    got, gets, lost, gained, unsure = (Counter[str]() for _ in range(5))
    for (old, new), messages in comparison.pairs.items():
        for queue in old.queues:
            got[queue] += messages
        for queue in new.queues:
            gets[queue] += messages
    for change, facts in comparison.changes.items():
        for queues, count in ((change.lost, lost), (change.gained, gained), (change.unsure, unsure)):
            for queue in queues:
                count[queue] += facts.messages
    return tuple([
        QueueChange(
            name, got[name], gets[name], lost[name], gained[name], unsure[name],
            "removed" if name not in after.queues else "kept" if name in before.queues else "added",
        )
        for name in sorted({*before.queues, *after.queues})
    ])  # fmt: skip


def _bindings(comparison: Comparison, before: Topology, after: Topology) -> tuple[BindingChange, ...]:
    rows = []
    for side, topology, other in ((0, before, after), (1, after, before)):
        there = frozenset(other.bindings)
        alone = {number: binding for number, binding in enumerate(numbered(topology)) if binding not in there}
        messages, possible, elsewhere = Counter[int](), Counter[int](), Counter[int]()
        for pair, count in comparison.pairs.items() if alone else ():
            changed = 0 if change_of(*pair) is None else count
            for numbers, total in ((pair[side].bindings, messages), (pair[side].possible_bindings, possible)):
                for number in alone.keys() & numbers:
                    total[number] += count
                    elsewhere[number] += changed
        rows += [
            BindingChange(binding, side == 1, number, messages[number], possible[number], elsewhere[number])
            for number, binding in alone.items()
        ]
    return tuple(rows)


def _moves(comparison: Comparison, before: Topology, after: Topology) -> tuple[PartitionMoves, ...]:
    flows: dict[str, Counter[tuple[str | None, str | None]]] = {}
    for (queue, old, new), count in comparison.moves.items():
        ways = (before.queues[queue].partitioning, after.queues[queue].partitioning)
        names = [_name(way, number) for way, number in zip(ways, (old, new), strict=True)]
        flows.setdefault(queue, Counter())[names[0], names[1]] += count
    rows = []
    for queue, of_it in flows.items():
        undecided = sum([count for names, count in of_it.items() if None in names])
        moved = sum([count for (old, new), count in of_it.items() if None not in (old, new) and old != new])
        ways = (before.queues[queue].partitioning, after.queues[queue].partitioning)
        rows.append(PartitionMoves(queue, *ways, of_it.total(), moved, undecided, dict(of_it)))
    return tuple(sorted(rows, key=lambda row: (-row.moved, row.queue)))


def _name(partitioning: Partitioning | None, partition: int | None) -> str | None:
    if partitioning is None or partition is None:
        return None
    return partitioning.partitions[partition].name
