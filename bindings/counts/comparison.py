"""Count the outcomes of messages in two topologies; these comparisons add.

If a user can see a difference between the outcomes of a message, before and after, it is an `OutcomeChange`, and a
comparison keeps the span, keys, witnesses and shapes of its messages. Of pairs of outcomes it keeps sums only, as there
may be millions: those of a queue, those of a binding. Reports derive from a comparison and its topologies: see
`bindings.counts.changes`. ``comparison(a) + comparison(b)`` equals ``comparison(a and b)``, except for the shapes of
keys: their summaries may differ within the errors that they state.

Changes are kept apart up to a limit. Messages with more of them are counted by exchange and fates, and one name stands
for the queues that they lose and gain. Which of the two a comparison has depends on its messages alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from bindings.archive.sums import Span
from bindings.counts.adding import check_same, sum_by_key
from bindings.counts.outcome import Fate, Outcome, sort_bindings
from bindings.counts.sketch import Frequent, are_registers, join_registers, merge_summaries
from bindings.counts.tally import compute_fingerprint
from bindings.counts.witness import Witness, keep_witnesses
from exchange.entities.entities import Binding
from exchange.limits import CHANGES
from exchange.topology.topology import Topology

LOST: Final = ("unroutable", "refused")
"""Fates of messages that no queue gets, certainly."""


Side = Literal["", "before", "after"]
SIDES: Final[tuple[Side, Side]] = ("before", "after")


class Pair(NamedTuple):
    """The outcomes of a message in the two topologies."""

    before: Outcome
    after: Outcome


class MessageSum(NamedTuple):
    """Messages that are counted together; a message is in many sums.

    ::

        message           are compared: all of them
        unknown exchange  were published to an exchange that neither topology has
        got               are certainly got by the queue `name`, on a side
        lost              lose the queue `name`, as `OutcomeChange` has it; likewise gained and unsure
        taken             certainly take the binding `number` of a side, which the other side does not have
        possible          may take it
        rerouted          are among those of taken and of possible, and are routed differently
    """

    what: Literal["message", "unknown exchange", "got", "lost", "gained", "unsure", "taken", "possible", "rerouted"]
    side: Side = ""
    name: str = ""
    number: int = 0


class PartitionMove(NamedTuple):
    """A queue, and the partition ids of its messages; None if it has no partitions or the key does not decide."""

    queue: str
    partition_before: int | None
    partition_after: int | None


class OutcomeChange(NamedTuple):
    """The difference between two outcomes that a user sees, for messages to one exchange. All queues are sorted."""

    exchange: str
    lost: tuple[str, ...]
    """Queues that certainly get them before, and certainly do not after."""
    gained: tuple[str, ...]
    """Queues that certainly do not get them before, and certainly do after."""
    unsure: tuple[str, ...]
    """Queues that may get them, before or after: a random choice or an exchange of unknown type decides."""
    before: Fate
    after: Fate
    refused_before: str = ""
    """Error with which the broker refuses them before; "" if it accepts them."""
    refused_after: str = ""
    """Error with which the broker refuses them after; "" if it accepts them."""

    def fold(self, many: str) -> OutcomeChange:
        """Return the change with ``many`` in place of its queues."""
        lost, gained, unsure = ((many,) if each else () for each in (self.lost, self.gained, self.unsure))
        return self._replace(lost=lost, gained=gained, unsure=unsure)

    @property
    def becomes_unroutable(self) -> bool:
        """Whether a queue gets them, or may get them, before, and certainly none after."""
        return self.after in LOST and self.before not in LOST

    @property
    def no_longer_unroutable(self) -> bool:
        """Whether certainly no queue gets them before, and a queue gets them, or may get them, after."""
        return self.before in LOST and self.after not in LOST


class ChangeFacts(NamedTuple):
    """The facts about the messages with one change."""

    span: Span = Span()
    keys: bytes = b""
    """HyperLogLog registers of their keys, for `bindings.counts.sketch.count_distinct`."""
    witnesses: tuple[Witness, ...] = ()
    shapes: Frequent = Frequent()
    """Frequent shapes of their keys, with ``*`` for words that neither topology names."""

    @property
    def messages(self) -> int:
        """Number of messages."""
        return self.span.messages

    def is_sound(self) -> bool:
        """Return whether messages can have these facts: a file may claim any."""
        return self.messages > 0 and are_registers(self.keys)

    def __add__(self, other: object) -> ChangeFacts:
        if not isinstance(other, ChangeFacts):
            return NotImplemented
        return ChangeFacts(
            self.span + other.span,
            join_registers(self.keys, other.keys),
            keep_witnesses((*self.witnesses, *other.witnesses)),
            merge_summaries(self.shapes, other.shapes),
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Counts of messages, for two topologies. ``Comparison(fingerprint(before), fingerprint(after))`` is zero."""

    before: str
    """Fingerprint of the topology before."""
    after: str
    """Fingerprint of the topology after."""
    sums: Mapping[MessageSum, int] = field(default_factory=dict)
    """Sum -> number of messages, if there are any."""
    changes: Mapping[OutcomeChange, ChangeFacts] = field(default_factory=dict)
    """Change -> facts about its messages; messages without a visible difference have no entry."""
    moves: Mapping[PartitionMove, int] = field(default_factory=dict)
    """Move -> number of messages; for queues with another partitioning that certainly get them before and after."""
    many: str = "*"
    """What stands for the queues of changes if there are more than `CHANGES`: no queue has this name."""

    @property
    def messages(self) -> int:
        """Number of messages."""
        return self.sums.get(MessageSum("message"), 0)

    @property
    def same(self) -> int:
        """Number of messages without a change; moves between partitions are no changes."""
        return self.messages - sum([facts.messages for facts in self.changes.values()])

    @property
    def is_folded(self) -> bool:
        """Whether there were more than `CHANGES`."""
        return any((self.many,) in (each.lost, each.gained, each.unsure) for each in self.changes)

    def __add__(self, other: object) -> Comparison:
        """Return the sum. Raises InputError if the comparisons are for different topologies."""
        if not isinstance(other, Comparison):
            return NotImplemented
        both = (self.before, self.after), (other.before, other.after)
        check_same("comparisons", *both, "compare both archives with the same two")
        return Comparison(
            self.before,
            self.after,
            sum_by_key(self.sums, other.sums),
            sum_by_key(self.changes, other.changes),
            sum_by_key(self.moves, other.moves),
            self.many,
        ).bound()

    def folds(self, changes: int) -> bool:
        """Return whether this many changes are too many to show each, or changes of this comparison were folded."""
        return changes > CHANGES or self.is_folded

    def bound(self) -> Comparison:
        """Return this comparison with folded changes, if any is or they are more than `CHANGES`."""
        if not self.folds(len(self.changes)):
            return self
        return replace(self, changes=sum_by_key((each.fold(self.many), facts) for each, facts in self.changes.items()))


def make_zero(before: Topology, after: Topology) -> Comparison:
    """Return the comparison of no messages in two topologies."""
    queues = {*before.queues, *after.queues}
    many = next(name for number in range(1, len(queues) + 2) if (name := "*" * number) not in queues)
    return Comparison(compute_fingerprint(before), compute_fingerprint(after), many=many)


def list_bindings_alone(topology: Topology, other: Topology) -> list[tuple[int, Binding]]:
    """Return the bindings of a topology that another one does not have, with their numbers."""
    others = frozenset(other.bindings)
    return [(number, each) for number, each in enumerate(sort_bindings(topology)) if each not in others]


def count_queues(changes: Iterable[tuple[OutcomeChange, int]]) -> dict[MessageSum, int]:
    """Return the sums of queues that messages lose and gain, given changes and the number of messages of each."""
    lost, gained, unsure = Counter[str](), Counter[str](), Counter[str]()
    for change, messages in changes:
        for counts, queues in ((lost, change.lost), (gained, change.gained), (unsure, change.unsure)):
            for queue in queues:
                counts[queue] += messages
    sums = {MessageSum("lost", name=queue): number for queue, number in lost.items()}
    sums |= {MessageSum("gained", name=queue): number for queue, number in gained.items()}
    return sums | {MessageSum("unsure", name=queue): number for queue, number in unsure.items()}


def change_of(before: Outcome, after: Outcome) -> OutcomeChange | None:
    """Return the change that a user sees between two outcomes; None if there is none.

    Certain and possible queues, undecided exchanges and the broker's error are compared. The bindings, exchanges and
    alternate exchanges by which a message reaches its queues are not.
    """
    if _visible(before) == _visible(after):
        return None
    lost, gained = {*before.queues}.difference(after.queues), {*after.queues}.difference(before.queues)
    unsure = {*before.possible_queues} ^ {*after.possible_queues}
    # The queues behind an exchange of unknown type are not known.
    unsure |= (lost if after.undecided else set()) | (gained if before.undecided else set())
    # Queues that go from certain to possible, or from possible to certain.
    unsure |= lost.intersection(after.possible_queues) | gained.intersection(before.possible_queues)
    return OutcomeChange(
        before.exchange, tuple(sorted(lost - unsure)), tuple(sorted(gained - unsure)), tuple(sorted(unsure)),
        before.fate, after.fate, before.refused, after.refused,
    )  # fmt: skip


def _visible(outcome: Outcome) -> tuple[object, ...]:
    # Compare only the code and name of the broker's error: its text contains the virtual host, which may differ.
    answer = outcome.refused.partition(" - ")[0]
    return outcome.queues, outcome.possible_queues, outcome.routed, outcome.undecided, answer
