"""What becomes of messages in one topology and in another: counts that add.

Messages are counted by pair: the outcome before and the outcome after. Where the two differ for a user, that is a
`Change`, and more is kept of its messages than their number. Reports derive from a comparison and its topologies: see
`bindings.counts.changes`. ``comparison(a) + comparison(b)`` is ``comparison(a and b)``, but for the
shapes of keys, whose summaries then may differ within the errors they state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bindings.archive.sums import Span
from bindings.counts.adding import check_same, sum_by_key
from bindings.counts.outcome import Fate, Outcome
from bindings.counts.sketch import Frequent, join_registers, merge_summaries
from bindings.counts.witness import Witness, keep_witnesses

__all__ = ["Change", "ChangeFacts", "Comparison", "Move", "Pair", "change_of"]

LOST: Final = ("unroutable", "refused")
"""Fates of messages that certainly no queue gets."""


class Pair(NamedTuple):
    """The outcomes of a message in the one topology and in the other."""

    before: Outcome
    after: Outcome


class Move(NamedTuple):
    """A queue, and the ids of the partitions of its messages; None where it has none, or the key does not decide."""

    queue: str
    partition_before: int | None
    partition_after: int | None


class Change(NamedTuple):
    """The difference that a user sees for messages to one exchange. All queues are sorted."""

    exchange: str
    lost: tuple[str, ...]
    """Queues that certainly get them before, and certainly do not after."""
    gained: tuple[str, ...]
    """Queues that certainly do not get them before, and certainly do after."""
    unsure: tuple[str, ...]
    """Queues that may get them, before or after: chance or an exchange of unknown type decides."""
    before: Fate
    after: Fate
    refused_before: str = ""
    """Answer of the broker, where it refuses them before."""
    refused_after: str = ""
    """Answer of the broker, where it refuses them after."""

    @property
    def becomes_unroutable(self) -> bool:
        """Whether certainly no queue gets them after, and one may before."""
        return self.after in LOST and self.before not in LOST

    @property
    def no_longer_unroutable(self) -> bool:
        """Whether certainly no queue gets them before, and one may after."""
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
    """Fingerprint of the one topology."""
    after: str
    """Fingerprint of the other topology."""
    pairs: Mapping[Pair, int] = field(default_factory=dict)
    """Pair of outcomes -> number of messages; all messages are in it."""
    changes: Mapping[Change, ChangeFacts] = field(default_factory=dict)
    """Change -> facts of the messages for which something differs."""
    moves: Mapping[Move, int] = field(default_factory=dict)
    """Move -> number of messages, of queues whose partitioning differs and that certainly get them before and after."""

    @property
    def messages(self) -> int:
        """Number of messages."""
        return sum(self.pairs.values())

    @property
    def same(self) -> int:
        """Number of messages for which nothing differs for a user, partitions aside."""
        return self.messages - sum([facts.messages for facts in self.changes.values()])

    def __add__(self, other: object) -> Comparison:
        """Return the sum. Raises InputError when the comparisons are for different topologies."""
        if not isinstance(other, Comparison):
            return NotImplemented
        both = (self.before, self.after), (other.before, other.after)
        check_same("comparisons", *both, "compare both archives with the same two")
        return Comparison(
            self.before,
            self.after,
            sum_by_key(self.pairs, other.pairs),
            sum_by_key(self.changes, other.changes),
            sum_by_key(self.moves, other.moves),
        )


def change_of(before: Outcome, after: Outcome) -> Change | None:
    """Return what differs for a user: certain or possible queues, undecided exchanges, the broker's answer; or None.

    It does not matter by which bindings, exchanges or alternate exchanges a message comes to its queues.
    """
    if _visible(before) == _visible(after):
        return None
    lost, gained = {*before.queues}.difference(after.queues), {*after.queues}.difference(before.queues)
    unsure = {*before.possible_queues} ^ {*after.possible_queues}
    # The queues behind an exchange of unknown type are not known.
    unsure |= (lost if after.undecided else set()) | (gained if before.undecided else set())
    # Queues that go from certain to possible, or from possible to certain.
    unsure |= lost.intersection(after.possible_queues) | gained.intersection(before.possible_queues)
    return Change(
        before.exchange, tuple(sorted(lost - unsure)), tuple(sorted(gained - unsure)), tuple(sorted(unsure)),
        before.fate, after.fate, before.refused, after.refused,
    )  # fmt: skip


def _visible(outcome: Outcome) -> tuple[object, ...]:
    # Only code and name of the broker's reply: its text names the virtual host, which may differ.
    answer = outcome.refused.partition(" - ")[0]
    return outcome.queues, outcome.possible_queues, outcome.routed, outcome.undecided, answer
