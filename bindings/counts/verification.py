"""Compare the queues in which a broker put messages with those by its topology: agreement, and each difference.

Messages with an equal difference are counted together, and a few are kept as witnesses to replay. If there are more
than ``LIMIT`` differences, those with the smallest hashes are kept, with exact counts, and the messages of the others
are counted in one sum. So ``verification(a) + verification(b)`` equals ``verification(a and b)``, except for the names
of queues that the topology does not have: their summary may differ within the error that it states.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from bindings.archive.sums import Span
from bindings.counts.adding import check_same, sum_by_key
from bindings.counts.outcome import Outcome
from bindings.counts.sketch import Frequent, hash_of, merge_summaries
from bindings.counts.witness import Witness, keep_witnesses

LIMIT: Final = 1_000
"""Maximum number of differences that are kept, each with its own count."""

HEADINGS: Final[Mapping[str, str]] = {"amq.gen-": "amq.gen-*", "amq.rabbitmq.reply-to.": "amq.rabbitmq.reply-to.*"}
"""Prefix of generated queue names -> heading that counts all these queues, since each client has its own."""

OTHERS: Final = "*"
"""Heading of all other queues that are not in the topology."""


class PlacementDifference(NamedTuple):
    """A difference between the queues in which the broker put messages to one exchange and those by the topology.

    All names are sorted.
    """

    exchange: str
    missing: tuple[str, ...] = ()
    """Queues that get the messages by the topology, but in which the broker did not put them."""
    extra: tuple[str, ...] = ()
    """Queues of the topology in which the broker put them, although they cannot get them by the topology."""
    unknown: tuple[str, ...] = ()
    """Headings of queues in which the broker put them, and that are not in the topology."""
    none_of: tuple[str, ...] = ()
    """Queues of which a random choice must pick at least one; the broker put them in none."""
    refused: str = ""
    """Error with which the broker should have refused them, but did not; their queues are not compared."""

    @property
    def only_unknown(self) -> bool:
        """Whether the only difference is unknown queues: the topology was probably exported without them."""
        return self._replace(exchange="", unknown=()) == ("", (), (), (), (), "")

    @property
    def hash(self) -> int:
        """A 64-bit hash, the same in every process."""
        return hash_of(repr(tuple(self)).encode("utf-8", "surrogatepass"))


class Evidence(NamedTuple):
    """The span and the witnesses of the messages with one difference."""

    span: Span = Span()
    witnesses: tuple[Witness, ...] = ()

    @property
    def messages(self) -> int:
        """Number of messages."""
        return self.span.messages

    def is_sound(self) -> bool:
        """Return whether messages can have this evidence."""
        return self.messages > 0

    def __add__(self, other: object) -> Evidence:
        if not isinstance(other, Evidence):
            return NotImplemented
        return Evidence(self.span + other.span, keep_witnesses((*self.witnesses, *other.witnesses)))


@dataclass(frozen=True, slots=True)
class Verification:
    """Counts of messages, for one topology. ``Verification(fingerprint(topology))`` is zero."""

    topology: str
    """Fingerprint of the topology; only verifications with the same fingerprint add."""
    agreed: int = 0
    """Messages that the broker put in exactly the queues of the topology."""
    possible: int = 0
    """Messages routed by a random choice, which the broker put in queues that the choice may pick."""
    undecided: int = 0
    """Messages that are in all queues that certainly get them, but whose other queues the topology does not decide.

    They pass an exchange of unknown type, or they went through the default exchange to a queue that the topology
    does not have; see `verdict_for`.
    """
    unknown: int = 0
    """Messages whose queues the archive does not record."""
    differences: Mapping[PlacementDifference, Evidence] = field(default_factory=dict)
    more: int = 0
    """Messages with a difference that is not among ``differences``, because there are ``LIMIT`` of those."""
    strangers: Frequent = field(default_factory=Frequent)
    """Names of the queues under the heading ``*`` of ``differences``: those that got the most messages."""

    @property
    def different(self) -> int:
        """Number of messages that the broker did not route as the topology does."""
        return sum([evidence.messages for evidence in self.differences.values()]) + self.more

    @property
    def compared(self) -> int:
        """Number of messages whose queues the archive records."""
        return self.agreed + self.possible + self.undecided + self.different

    @property
    def sorts(self) -> int:
        """Number of differences: exact, or estimated when there are ``more``."""
        if not self.more:
            return len(self.differences)
        # The k-th smallest of n uniform hashes lies, on average, at k / n of their range; here k = LIMIT.
        estimate = (len(self.differences) - 1) / (max(each.hash for each in self.differences) / 2**64)
        return max(len(self.differences) + 1, round(estimate))

    @property
    def bound(self) -> int | None:
        """Greatest hash of a difference that may still be kept; None while fewer than ``LIMIT`` are kept."""
        return max([each.hash for each in self.differences]) if len(self.differences) >= LIMIT else None

    def __add__(self, other: object) -> Verification:
        """Return the sum. Raises InputError if the verifications are for different topologies."""
        if not isinstance(other, Verification):
            return NotImplemented
        check_same("verifications", (self.topology,), (other.topology,), "verify both archives with one topology")
        differences, beyond = keep_smallest(self.differences, other.differences)
        return Verification(
            self.topology,
            self.agreed + other.agreed,
            self.possible + other.possible,
            self.undecided + other.undecided,
            self.unknown + other.unknown,
            differences,
            self.more + other.more + beyond,
            merge_summaries(self.strangers, other.strangers),
        )


Verdict = Literal["agreed", "possible", "undecided"] | PlacementDifference


def verdict_for(outcome: Outcome, known: Collection[str], unknown: Collection[str]) -> Verdict:
    """Return the verdict on messages with this outcome that the broker put in these queues.

    ``known`` are queues of the topology, ``unknown`` the headings of other queues. If the outcome depends on a random
    choice, every possible pick agrees. For a message to the default exchange, the broker records each of its routing
    keys as a queue, whether or not that queue exists (`rabbit_exchange:route/3`), so an unknown queue proves nothing.
    """
    if outcome.refused:
        return PlacementDifference(outcome.exchange, refused=outcome.refused)
    got, certain, possible = frozenset(known), frozenset(outcome.queues), frozenset(outcome.possible_queues)
    missing = tuple(sorted(certain - got))
    if outcome.undecided or (unknown and not outcome.exchange and not got - certain):
        return PlacementDifference(outcome.exchange, missing) if missing else "undecided"
    extra = tuple(sorted(got - certain - possible))
    picks_none = outcome.routed is True and not certain and not got & possible
    none_of = outcome.possible_queues if picks_none else ()
    if missing or extra or unknown or none_of:
        return PlacementDifference(outcome.exchange, missing, extra, tuple(sorted(unknown)), none_of)
    return "possible" if possible else "agreed"


def build_heading(queue: str) -> str:
    """Return the heading of a queue that the topology does not have."""
    return next((name for start, name in HEADINGS.items() if queue.startswith(start)), OTHERS)


def keep_smallest(*parts: Mapping[PlacementDifference, Evidence]) -> tuple[dict[PlacementDifference, Evidence], int]:
    """Add up differences; return the ``LIMIT`` with the smallest hashes, and the number of messages of all others.

    The counts of the kept differences are exact: a difference that is among the ``LIMIT`` smallest of all parts is also
    among the ``LIMIT`` smallest of each part that has it, so none of its messages was dropped there.
    """
    total = sum_by_key(*parts)
    if len(total) <= LIMIT:
        return total, 0
    ordered = sorted(total, key=lambda difference: (difference.hash, difference))
    return {each: total[each] for each in ordered[:LIMIT]}, sum([total[each].messages for each in ordered[LIMIT:]])
