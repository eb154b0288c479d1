"""What becomes of messages in one topology and in another: counts that add.

Messages are counted by pair: the outcome before and the outcome after. Where the two differ in what a user cares about,
that is a `Change`, and more is known of its messages than their number. What is reported derives from a comparison and
its topologies: see `bindings.counts.changes`. ``comparison(a) + comparison(b)`` is ``comparison(a and b)``, but for the
shapes of keys, whose summaries then may differ within the errors they state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeVar

from bindings.counts.outcome import Outcome
from bindings.counts.sketch import Frequent, joined, merged
from bindings.counts.witness import Witness, few
from exchange.errors import InputError

__all__ = ["Change", "ChangeFacts", "Comparison", "Fate", "Move", "Pair", "change_of"]

K = TypeVar("K")

Pair = tuple[Outcome, Outcome]
"""What becomes of a message before and after."""

Move = tuple[str, int | None, int | None]
"""A queue, and the ids of the partitions before and after; None where it has none, or the key does not decide."""

Fate = Literal["routed", "unroutable", "undecided", "refused"]


class Change(NamedTuple):
    """What is different for some messages to one exchange. All queues are sorted."""

    exchange: str
    lost: tuple[str, ...]
    """Queues that get them before, and do not after; both for certain."""
    gained: tuple[str, ...]
    unsure: tuple[str, ...]
    """Queues of which chance, or an exchange of unknown type, decides whether they get them; before, or after."""
    before: Fate
    after: Fate
    refused_before: str = ""
    """What the broker answers, where it refuses them."""
    refused_after: str = ""

    @property
    def becomes_unroutable(self) -> bool:
        """Whether no queue gets them after, for certain, and that was not so before."""
        return self.after in LOST and self.before not in LOST

    @property
    def no_longer_unroutable(self) -> bool:
        """Whether no queue gets them before, for certain, and that is not so after."""
        return self.before in LOST and self.after not in LOST


LOST = ("unroutable", "refused")


class ChangeFacts(NamedTuple):
    """What is known of the messages with one change. Times are microseconds since 1970, UTC."""

    messages: int = 0
    first: int | None = None
    """The earliest time of one; None when none has a time."""
    last: int | None = None
    keys: bytes = b""
    """How many different keys they have, for `bindings.counts.sketch.distinct`."""
    witnesses: tuple[Witness, ...] = ()
    shapes: Frequent = Frequent()
    """Their frequent keys, with ``*`` for words that neither topology names."""

    def __add__(self, other: object) -> ChangeFacts:
        if not isinstance(other, ChangeFacts):
            return NotImplemented
        return ChangeFacts(
            self.messages + other.messages,
            min((time for time in (self.first, other.first) if time is not None), default=None),
            max((time for time in (self.last, other.last) if time is not None), default=None),
            joined(self.keys, other.keys),
            few((*self.witnesses, *other.witnesses)),
            merged(self.shapes, other.shapes),
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Counts of messages, for two topologies. ``Comparison(fingerprint(before), fingerprint(after))`` is zero."""

    before: str
    """The fingerprint of the one topology."""
    after: str
    pairs: Mapping[Pair, int] = field(default_factory=dict)
    """All messages."""
    changes: Mapping[Change, ChangeFacts] = field(default_factory=dict)
    """Those for which something is different."""
    moves: Mapping[Move, int] = field(default_factory=dict)
    """Of queues that are partitioned otherwise: messages that they get, for certain, before and after."""

    @property
    def messages(self) -> int:
        """All of them."""
        return sum(self.pairs.values())

    @property
    def same(self) -> int:
        """Messages of which nothing is different that a user cares about; their partitions aside."""
        return self.messages - sum([facts.messages for facts in self.changes.values()])

    def __add__(self, other: object) -> Comparison:
        """Both. Raises InputError when they are for different topologies."""
        if not isinstance(other, Comparison):
            return NotImplemented
        if (self.before, self.after) != (other.before, other.after):
            shown = [f"{each.before[:12]} to {each.after[:12]}" for each in (self, other)]
            raise InputError(
                f"these comparisons are for different topologies ({' and '.join(shown)}): "
                "their counts do not add; compare both archives with the same two"
            )
        changes = dict(self.changes)
        for change, more in other.changes.items():
            known = changes.get(change)
            changes[change] = more if known is None else known + more
        pairs, moves = _summed(self.pairs, other.pairs), _summed(self.moves, other.moves)
        return Comparison(self.before, self.after, pairs, changes, moves)

    def exact(self) -> Comparison:
        """Without the shapes of keys: what adds exactly."""
        changes = {change: facts._replace(shapes=Frequent()) for change, facts in self.changes.items()}
        return replace(self, changes=changes)


def change_of(before: Outcome, after: Outcome) -> Change | None:
    """What a user sees differ: queues, for certain or perhaps, undecided exchanges, the broker's answer. None: nothing.

    By which bindings, exchanges or alternate exchanges a message comes to its queues makes no difference.
    """
    if _seen(before) == _seen(after):
        return None
    lost, gained = {*before.queues}.difference(after.queues), {*after.queues}.difference(before.queues)
    unsure = {*before.possible_queues} ^ {*after.possible_queues}
    # The queues after an exchange of unknown type cannot be told.
    unsure |= (lost if after.undecided else set()) | (gained if before.undecided else set())
    # Certain to possible, and the other way about.
    unsure |= lost.intersection(after.possible_queues) | gained.intersection(before.possible_queues)
    return Change(
        before.exchange, tuple(sorted(lost - unsure)), tuple(sorted(gained - unsure)), tuple(sorted(unsure)),
        _fate(before), _fate(after), before.refused, after.refused,
    )  # fmt: skip


def _seen(outcome: Outcome) -> tuple[object, ...]:
    # The reply's code and name; its text names the virtual host.
    answer = outcome.refused.partition(" - ")[0]
    return outcome.queues, outcome.possible_queues, outcome.routed, outcome.undecided, answer


def _fate(outcome: Outcome) -> Fate:
    if outcome.refused:
        return "refused"
    if outcome.routed is None:
        return "undecided"
    return "routed" if outcome.routed else "unroutable"


def _summed(left: Mapping[K, int], right: Mapping[K, int]) -> dict[K, int]:
    return {**left, **{key: left.get(key, 0) + count for key, count in right.items()}}
