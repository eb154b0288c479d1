"""What a broker really did, against what its topology says that it does: a tally of agreement, and of each difference.

Differences with the same exchange and the same queues are counted together, and have witnesses to replay. Of more than
``LIMIT`` sorts of difference, those with the least hashes are kept, with exact counts, and the messages of the others
are counted in one sum; so ``verification(a) + verification(b)`` is ``verification(a and b)``, but for the names of
queues that the topology does not have, whose summary then may differ within the error that it states.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from bindings.counts.outcome import Outcome
from bindings.counts.sketch import Frequent, hash_of, merged
from bindings.counts.witness import Witness, few
from exchange.errors import InputError

__all__ = ["HEADINGS", "LIMIT", "OTHERS", "Difference", "Evidence", "Verdict", "Verification", "heading", "judged"]

LIMIT: Final = 1_000
"""So many sorts of difference are told apart."""

HEADINGS: Final[Mapping[str, str]] = {
    "amq.gen-": "amq.gen-*",
    "amq.rabbitmq.reply-to.": "amq.rabbitmq.reply-to.*",
}
"""How names that the broker makes begin -> the heading they go under: every client has one of its own."""

OTHERS: Final = "*"
"""The heading of all other queues that the topology does not have."""


class Difference(NamedTuple):
    """Where messages to one exchange should have gone, and did not, and the other way about. All names are sorted."""

    exchange: str
    missing: tuple[str, ...] = ()
    """Queues that the topology says get them and that the broker did not put them in."""
    extra: tuple[str, ...] = ()
    """Queues of the topology that the broker put them in, and that by the topology cannot get them."""
    unknown: tuple[str, ...] = ()
    """Headings of the queues that the broker put them in and that the topology does not have."""
    none_of: tuple[str, ...] = ()
    """Queues of which at least one, as chance will have it, should have got them, and none did."""
    refused: str = ""
    """By the topology the broker refuses them with this; it did not, and where they went is not compared."""

    @property
    def only_unknown(self) -> bool:
        """Whether all that differs are queues that the topology does not have, as it was exported without them."""
        return self._replace(exchange="", unknown=()) == ("", (), (), (), (), "")

    @property
    def hash(self) -> int:
        """64 bits, the same in every process."""
        return hash_of(repr(tuple(self)).encode("utf-8", "surrogatepass"))


class Evidence(NamedTuple):
    """The messages that show one difference. Times are microseconds since 1970, UTC."""

    messages: int = 0
    first: int | None = None
    last: int | None = None
    witnesses: tuple[Witness, ...] = ()

    def __add__(self, other: object) -> Evidence:
        if not isinstance(other, Evidence):
            return NotImplemented
        return Evidence(
            self.messages + other.messages,
            min((time for time in (self.first, other.first) if time is not None), default=None),
            max((time for time in (self.last, other.last) if time is not None), default=None),
            few((*self.witnesses, *other.witnesses)),
        )


@dataclass(frozen=True, slots=True)
class Verification:
    """Counts of messages, for one topology. ``Verification(fingerprint(topology))`` is zero."""

    topology: str
    """The fingerprint of the topology; counts for others cannot be added."""
    agreed: int = 0
    """The broker put them in exactly the queues that the topology says."""
    possible: int = 0
    """Where chance decides: in queues that it may have picked."""
    undecided: int = 0
    """What the topology says for certain is so, and the rest cannot be told: an exchange of unknown type is on the way,
    or the default exchange, see `judged`, put them in a queue that the topology does not have."""
    unknown: int = 0
    """Where the broker put them is not in the archive."""
    differences: Mapping[Difference, Evidence] = field(default_factory=dict)
    more: int = 0
    """Messages that differ in ways that are not among ``differences``, which are full."""
    strangers: Frequent = field(default_factory=Frequent)
    """Of the queues under the heading ``*`` in ``differences``, those that got the most messages."""

    @property
    def different(self) -> int:
        """Messages that went elsewhere than the topology says."""
        return sum([evidence.messages for evidence in self.differences.values()]) + self.more

    @property
    def compared(self) -> int:
        """All messages of which the archive knows where they went."""
        return self.agreed + self.possible + self.undecided + self.different

    @property
    def sorts(self) -> int:
        """How many sorts of difference there are: exactly, or about when there are ``more``."""
        if not self.more:
            return len(self.differences)
        # The k-th least of n hashes lies where k of n parts of the whole range end.
        about = (len(self.differences) - 1) / (max(each.hash for each in self.differences) / 2**64)
        return max(len(self.differences) + 1, round(about))

    @property
    def bound(self) -> int | None:
        """The hash that a difference must not exceed to be kept; None while there is room."""
        return max([each.hash for each in self.differences]) if len(self.differences) >= LIMIT else None

    def __add__(self, other: object) -> Verification:
        """Both. Raises InputError when they are for different topologies."""
        if not isinstance(other, Verification):
            return NotImplemented
        if self.topology != other.topology:
            raise InputError(
                f"these verifications are for different topologies ({self.topology[:12]} and {other.topology[:12]}): "
                "their counts do not add; verify both archives with one topology"
            )
        differences, beyond = least((*self.differences.items(), *other.differences.items()))
        return Verification(
            self.topology,
            self.agreed + other.agreed,
            self.possible + other.possible,
            self.undecided + other.undecided,
            self.unknown + other.unknown,
            differences,
            self.more + other.more + beyond,
            merged(self.strangers, other.strangers),
        )

    def exact(self) -> Verification:
        """Without the names of unknown queues: what adds exactly."""
        return replace(self, strangers=Frequent())


Verdict = Literal["agreed", "possible", "undecided"] | Difference


def judged(outcome: Outcome, known: Collection[str], unknown: Collection[str]) -> Verdict:
    """What is to be said of messages with this outcome that the broker put in these queues.

    ``known`` are queues of the topology, ``unknown`` the headings of others. Where the outcome leaves room for chance,
    all that it leaves room for is agreed to. Of a message to the default exchange the broker tells each of its keys,
    whether or not it has such a queue (`rabbit_exchange:route/3`), so an unknown one tells nothing.
    """
    if outcome.refused:
        return Difference(outcome.exchange, refused=outcome.refused)
    got, certain, possible = frozenset(known), frozenset(outcome.queues), frozenset(outcome.possible_queues)
    missing = tuple(sorted(certain - got))
    if outcome.undecided or (unknown and not outcome.exchange and not got - certain):
        return Difference(outcome.exchange, missing) if missing else "undecided"
    extra = tuple(sorted(got - certain - possible))
    picks_none = outcome.routed is True and not certain and not got & possible
    none_of = outcome.possible_queues if picks_none else ()
    if missing or extra or unknown or none_of:
        return Difference(outcome.exchange, missing, extra, tuple(sorted(unknown)), none_of)
    return "possible" if possible else "agreed"


def heading(queue: str) -> str:
    """The heading of a queue that the topology does not have."""
    return next((name for start, name in HEADINGS.items() if queue.startswith(start)), OTHERS)


def least(items: Iterable[tuple[Difference, Evidence]]) -> tuple[dict[Difference, Evidence], int]:
    """The ``LIMIT`` differences with the least hashes, with all their evidence; and the messages of the others.

    A difference that is among the least of all is so in every part of them: none of its messages were ever dropped.
    """
    found: dict[Difference, Evidence] = {}
    for difference, evidence in items:
        known = found.get(difference)
        found[difference] = evidence if known is None else known + evidence
    if len(found) <= LIMIT:
        return found, 0
    ordered = sorted(found, key=lambda difference: (difference.hash, difference))
    return {each: found[each] for each in ordered[:LIMIT]}, sum([found[each].messages for each in ordered[LIMIT:]])
