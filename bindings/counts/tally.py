"""The tally: counts of what messages did in a topology. Counts add, and everything that is reported derives from them.

Messages with the same outcome are counted together. What a tally knows of a binding or a queue is what the outcomes
that have it sum up to; `bindings.counts.coverage` has these sums. ``tally(a) + tally(b)`` is ``tally(a and b)``, but
for the most frequent keys and shapes, whose summaries then may differ within the errors they state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from bindings.counts.outcome import Outcome, numbered
from bindings.counts.sketch import Frequent, joined, merged, sampled
from bindings.counts.slots import SlotCounts
from exchange.errors import InputError
from exchange.field_values import thaw
from exchange.kinds import kind_of
from exchange.topology.topology import Topology

__all__ = ["Facts", "Tally", "fingerprint"]

K = TypeVar("K")


class Facts(NamedTuple):
    """What is known of the messages with one outcome. Times are microseconds since 1970, UTC."""

    messages: int = 0
    first: int | None = None
    """The earliest time of one; None when none has a time."""
    last: int | None = None
    keys: bytes = b""
    """How many different keys they have, for `bindings.counts.sketch.distinct`."""
    sample: tuple[tuple[int, str], ...] = ()
    """A few of the keys, with their hashes."""
    hot: Frequent = Frequent()
    """The most frequent keys."""
    shapes: Frequent = Frequent()
    """Of those that no queue got or an alternate exchange took: frequent keys, with ``*`` for words nobody names."""

    def __add__(self, other: object) -> Facts:
        if not isinstance(other, Facts):
            return NotImplemented
        return Facts(
            self.messages + other.messages,
            min((time for time in (self.first, other.first) if time is not None), default=None),
            max((time for time in (self.last, other.last) if time is not None), default=None),
            joined(self.keys, other.keys),
            sampled((*self.sample, *other.sample)),
            merged(self.hot, other.hot),
            merged(self.shapes, other.shapes),
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of messages, for one topology. ``Tally(fingerprint(topology))`` is zero."""

    topology: str
    """The fingerprint of the topology; tallies for others cannot be added."""
    facts: Mapping[Outcome, Facts] = field(default_factory=dict)
    partitions: Mapping[tuple[str, int | None], int] = field(default_factory=dict)
    """A partitioned queue and a partition, None where the key does not decide it -> messages."""
    timeline: SlotCounts = field(default_factory=SlotCounts)
    """Messages that have a time, by slots of it."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Why records were not looked at -> how many."""
    bad: Mapping[str, int] = field(default_factory=dict)
    """Why records could not be read -> how many."""

    @property
    def messages(self) -> int:
        """Those that are counted."""
        return sum([facts.messages for facts in self.facts.values()])

    @property
    def read(self) -> int:
        """All records, with those that were skipped or bad."""
        return self.messages + sum(self.skipped.values()) + sum(self.bad.values())

    @property
    def window(self) -> tuple[int, int] | None:
        """The times of the first and the last message; None when no message has one."""
        firsts = [facts.first for facts in self.facts.values() if facts.first is not None]
        lasts = [facts.last for facts in self.facts.values() if facts.last is not None]
        return (min(firsts), max(lasts)) if firsts else None

    def __add__(self, other: object) -> Tally:
        """Both. Raises InputError when they are for different topologies."""
        if not isinstance(other, Tally):
            return NotImplemented
        if self.topology != other.topology:
            raise InputError(
                f"these tallies are for different topologies ({self.topology[:12]} and {other.topology[:12]}): "
                "their counts do not add; audit both archives with one topology"
            )
        facts = dict(self.facts)
        for outcome, more in other.facts.items():
            known = facts.get(outcome)
            facts[outcome] = more if known is None else known + more
        return Tally(
            self.topology,
            facts,
            _summed(self.partitions, other.partitions),
            self.timeline + other.timeline,
            _summed(self.skipped, other.skipped),
            _summed(self.bad, other.bad),
        )

    def exact(self) -> Tally:
        """Without the most frequent keys and shapes: what adds exactly."""
        none = Frequent()
        facts = {outcome: each._replace(hot=none, shapes=none) for outcome, each in self.facts.items()}
        return replace(self, facts=facts)


def fingerprint(topology: Topology) -> str:
    """A hash of all that decides where messages go and how bindings are numbered; equal for equal topologies."""
    digest = hashlib.sha256()
    for line in _lines(topology):
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def _lines(topology: Topology) -> Iterator[str]:
    yield repr((topology.vhost, topology.profile))
    for name, exchange in sorted(topology.exchanges.items()):
        yield repr((name, exchange.type, exchange.internal, exchange.arguments.identity))  # type: ignore[attr-defined]
    for name, queue in sorted(topology.queues.items()):
        yield repr((name, str(queue.partitioning) if queue.partitioning is not None else None))
    for policy_name, policy in sorted(topology.policies.items()):
        definition = sorted((key, repr(thaw(value))) for key, value in policy.definition.items())
        yield repr((policy_name, policy.pattern, definition, policy.apply_to, policy.priority))
    for binding in numbered(topology):
        yield repr((binding.source, tuple(binding.destination), binding.routing_key, binding.arguments.identity))
    for name, exchange in sorted(topology.exchanges.items()):
        sequence = kind_of(exchange).sequence(topology.bindings_from(name))
        if sequence is not None:
            yield repr(list(sequence))


def _summed(left: Mapping[K, int], right: Mapping[K, int]) -> dict[K, int]:
    return {**left, **{key: left.get(key, 0) + count for key, count in right.items()}}
