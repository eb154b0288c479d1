"""Compute the tables of a comparison: which messages are routed differently, by queue, binding and key shape.

All are pure functions of a comparison and its topologies. A message loses a queue if the queue certainly gets it before
and certainly does not get it after. If that depends on a random choice or an exchange of unknown type, before or after,
the message is unsure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

from bindings.archive.figures import Share, Time
from bindings.counts.comparison import SIDES, Comparison, MessageSum, OutcomeChange, list_bindings_alone
from bindings.counts.sketch import Frequent, count_distinct
from bindings.counts.tally import compute_fingerprint
from bindings.counts.witness import Witness
from exchange.entities.entities import Binding
from exchange.errors import InputError
from exchange.partition.partitioning.specification import Partitioning
from exchange.text.display import count_noun
from exchange.topology.topology import Topology
from exchange.values.documents import document


class Rerouted(NamedTuple):
    """Messages that lose and gain the same queues."""

    change: OutcomeChange
    messages: int
    first: Time | None
    last: Time | None
    """None if no message has a time; so is ``first`` then."""
    distinct_keys: int
    """Number of distinct keys, with the relative error `bindings.counts.sketch.ERROR`."""
    shapes: Frequent
    witnesses: tuple[Witness, ...]


class ShapeChange(NamedTuple):
    """Messages whose keys have the same shape, and that lose and gain the same queues."""

    change: OutcomeChange
    shape: str
    """``*`` stands for any one word that neither topology names."""
    messages: int
    """Number of messages; it may be too low by up to ``error``."""
    error: int
    example: str
    """A key of this shape."""


@document("ChangedQueueJson")
class QueueChange(NamedTuple):
    """Numbers of messages that a queue gets, before and after."""

    queue: str
    before: int
    """Messages that it certainly gets before."""
    after: int
    """Messages that it certainly gets after."""
    lost: int
    """Messages of ``before`` that it does not get after."""
    gained: int
    """Messages of ``after`` that it does not get before."""
    unsure: int
    """Messages that it may get, before or after, where the two differ."""
    status: Literal["kept", "removed", "added"]


class BindingChange(NamedTuple):
    """A binding that is in one topology only."""

    binding: Binding
    added: bool
    number: int
    """Its index in `bindings.counts.outcome.sort_bindings` of the topology that has it."""
    messages: int
    """Messages that certainly match it: that a removed binding matched, or that an added binding will match."""
    possible: int
    """Messages that may match it."""
    elsewhere: int
    """Messages of ``messages`` and ``possible`` that are routed differently, for any reason; 0 if it has no effect."""


class PartitionMoves(NamedTuple):
    """Moves of messages between the partitions of a queue that gets them before and after; its partitioning differs."""

    queue: str
    before: Partitioning | None
    after: Partitioning | None
    messages: int
    moved: int
    """Messages whose partition after has another name than before."""
    undecided: int
    """Messages whose key does not decide the partition, before or after; they neither move nor stay."""
    flows: Mapping[tuple[str | None, str | None], int]
    """Names of the partitions before and after -> messages, including those that stay; None for no partition."""

    @property
    def share(self) -> Share | None:
        """Share of messages that move, among those whose partitions are decided; None if there are none."""
        decided = self.messages - self.undecided
        return self.moved / decided if decided else None


@document("ComparisonTotalsJson")
class ChangeTotals(NamedTuple):
    """Numbers of messages over the whole comparison."""

    messages: int
    elsewhere: int
    """Messages that are or may be routed differently; the next three counts are parts of it."""
    lose: int
    """Messages that lose a queue."""
    gain: int
    """Messages that gain a queue; some also lose one."""
    unsure: int
    """Messages that may lose or gain a queue, or that the broker answers differently, but certainly do neither."""
    become_unroutable: int
    no_longer_unroutable: int
    repartitioned: int
    """Messages that move to another partition of a queue; counted once per such queue."""


class Changes(NamedTuple):
    """All tables of a comparison."""

    totals: ChangeTotals
    rerouted: tuple[Rerouted, ...]
    """Most messages first, as in all tables but ``queues`` and ``bindings``."""
    queues: tuple[QueueChange, ...]
    bindings: tuple[BindingChange, ...]
    shapes: tuple[ShapeChange, ...]
    partitions: tuple[PartitionMoves, ...]
    many: str = ""
    """What stands for queues in ``rerouted`` and ``shapes`` if there are too many changes to show each; else ""."""

    @property
    def unroutable(self) -> tuple[Rerouted, ...]:
        """Rows of ``rerouted`` whose messages become unroutable."""
        return tuple([row for row in self.rerouted if row.change.becomes_unroutable])

    @property
    def routed(self) -> tuple[Rerouted, ...]:
        """Rows of ``rerouted`` whose messages no longer are unroutable."""
        return tuple([row for row in self.rerouted if row.change.no_longer_unroutable])


def list_changes(comparison: Comparison, before: Topology, after: Topology) -> Changes:
    """Return all tables of a comparison. Raises InputError if it is of other topologies."""
    if (comparison.before, comparison.after) != (compute_fingerprint(before), compute_fingerprint(after)):
        raise InputError("this comparison is of other topologies: compare the archive again with these")
    moves = _list_moves(comparison, before, after)
    rerouted = _list_rerouted(comparison)
    return Changes(
        sum_changes(comparison)._replace(repartitioned=sum([each.moved for each in moves])),
        rerouted,
        _list_queues(comparison, before, after),
        _list_bindings(comparison, before, after),
        _list_shapes(rerouted),
        moves,
        comparison.many if comparison.is_folded else "",
    )


def summarize_changes(totals: ChangeTotals) -> str:
    """Return the totals as a sentence."""
    parts = [f"{totals.lose:,} lose a queue", f"{totals.gain:,} gain one"]
    parts += [f"{totals.unsure:,} may, or are answered otherwise"] if totals.unsure else []
    text = (
        f"Over {count_noun(totals.messages, 'message')}: {totals.elsewhere:,} go elsewhere ({', '.join(parts)}), "
        f"{totals.become_unroutable:,} become unroutable"
    )
    text += f", {totals.no_longer_unroutable:,} no longer are" if totals.no_longer_unroutable else ""
    return text + (f", {totals.repartitioned:,} change partitions." if totals.repartitioned else ".")


def sum_changes(comparison: Comparison) -> ChangeTotals:
    """Return the totals with ``repartitioned`` as 0: to count that, the topologies are needed."""
    counts = Counter[str]()
    for change, facts in comparison.changes.items():
        flags = {
            "elsewhere": True,
            "lose": bool(change.lost),
            "gain": bool(change.gained),
            "unsure": not (change.lost or change.gained),
            "become": change.becomes_unroutable,
            "no longer": change.no_longer_unroutable,
        }
        for name, is_set in flags.items():
            counts[name] += facts.messages if is_set else 0
    return ChangeTotals(
        comparison.messages, counts["elsewhere"], counts["lose"], counts["gain"], counts["unsure"], counts["become"],
        counts["no longer"], 0,
    )  # fmt: skip


def _list_rerouted(comparison: Comparison) -> tuple[Rerouted, ...]:
    rows = [
        Rerouted(change, *facts.span, count_distinct(facts.keys), facts.shapes, facts.witnesses)
        for change, facts in comparison.changes.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.messages, row.change)))


def _list_shapes(rows: tuple[Rerouted, ...]) -> tuple[ShapeChange, ...]:
    shapes = [
        ShapeChange(row.change, item.text, item.count, row.shapes.error, item.example)
        for row in rows
        for item in row.shapes.items
    ]
    return tuple(sorted(shapes, key=lambda each: (-each.messages, each.change, each.shape)))


def _list_queues(comparison: Comparison, before: Topology, after: Topology) -> tuple[QueueChange, ...]:
    sums = Counter(comparison.sums)
    return tuple([
        QueueChange(
            name, sums[MessageSum("got", "before", name)], sums[MessageSum("got", "after", name)],
            sums[MessageSum("lost", name=name)], sums[MessageSum("gained", name=name)],
            sums[MessageSum("unsure", name=name)],
            "removed" if name not in after.queues else "kept" if name in before.queues else "added",
        )
        for name in sorted({*before.queues, *after.queues})
    ])  # fmt: skip


def _list_bindings(comparison: Comparison, before: Topology, after: Topology) -> tuple[BindingChange, ...]:
    sums = Counter(comparison.sums)
    return tuple([
        BindingChange(
            binding, side == "after", number, sums[MessageSum("taken", side, number=number)],
            sums[MessageSum("possible", side, number=number)], sums[MessageSum("rerouted", side, number=number)],
        )
        for side, topology, other in zip(SIDES, (before, after), (after, before), strict=True)
        for number, binding in list_bindings_alone(topology, other)
    ])  # fmt: skip


def _list_moves(comparison: Comparison, before: Topology, after: Topology) -> tuple[PartitionMoves, ...]:
    flows: dict[str, Counter[tuple[str | None, str | None]]] = {}
    for (queue, old, new), count in comparison.moves.items():
        names = _find_name(before.queues[queue].partitioning, old), _find_name(after.queues[queue].partitioning, new)
        flows.setdefault(queue, Counter())[names] += count
    rows = []
    for queue, counts in flows.items():
        undecided = sum([count for names, count in counts.items() if None in names])
        moved = sum([count for (old, new), count in counts.items() if None not in (old, new) and old != new])
        partitionings = (before.queues[queue].partitioning, after.queues[queue].partitioning)
        rows.append(PartitionMoves(queue, *partitionings, counts.total(), moved, undecided, dict(counts)))
    return tuple(sorted(rows, key=lambda row: (-row.moved, row.queue)))


def _find_name(partitioning: Partitioning | None, partition: int | None) -> str | None:
    if partitioning is None or partition is None:
        return None
    return partitioning.partitions[partition].name
