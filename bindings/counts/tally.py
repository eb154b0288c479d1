"""The tally: counts of the outcomes of messages in a topology. Tallies add, and reports derive from them only.

Messages with the same outcome are counted together. The counts of a binding or a queue are sums over the outcomes that
include it; `bindings.counts.coverage` computes them. ``tally(a) + tally(b)`` equals ``tally(a and b)``, except for the
most frequent keys and shapes: their summaries may differ within the errors that they state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bindings.archive.sums import Span, Unread
from bindings.counts.adding import check_same, sum_by_key
from bindings.counts.outcome import Facts, Outcome, sort_bindings
from bindings.counts.slots import SlotCounts
from exchange.entities.releases import PROFILES
from exchange.kinds import find_kind
from exchange.topology.topology import Topology
from exchange.values.field_values import thaw


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of messages, for one topology. ``Tally(fingerprint(topology))`` is zero."""

    topology: str
    """Fingerprint of the topology; only tallies with the same fingerprint add."""
    facts: Mapping[Outcome, Facts] = field(default_factory=dict)
    partitions: Mapping[tuple[str, int | None], int] = field(default_factory=dict)
    """Partitioned queue and partition -> number of messages; partition None where the key does not decide it."""
    timeline: SlotCounts = field(default_factory=SlotCounts)
    """Messages with a time, per slot of time."""
    unread: Unread = field(default_factory=Unread)
    """Records that are not counted; a tally file stores their numbers, without samples."""

    @property
    def messages(self) -> int:
        """Number of counted messages."""
        return self._span.messages

    @property
    def read(self) -> int:
        """Number of all records read, including skipped and bad ones."""
        return self.messages + self.unread.skipped_records + self.unread.bad_records

    @property
    def window(self) -> tuple[int, int] | None:
        """Times of the first and the last message; None if no message has a time."""
        return self._span.window

    @property
    def _span(self) -> Span:
        from bindings.counts.columnar.fact_columns import list_spans  # numpy: who only reads a report does without

        return list_spans(self.facts).total()

    def __add__(self, other: object) -> Tally:
        """Return the sum. Raises InputError if the tallies are for different topologies."""
        if not isinstance(other, Tally):
            return NotImplemented
        from bindings.counts.columnar.fact_columns import add_facts

        check_same("tallies", (self.topology,), (other.topology,), "audit both archives with one topology")
        return Tally(
            self.topology,
            add_facts(self.facts, other.facts),
            sum_by_key(self.partitions, other.partitions),
            self.timeline + other.timeline,
            self.unread + other.unread,
        )


def compute_fingerprint(topology: Topology) -> str:
    """Return a hash of everything that decides routes and the numbers of bindings; equal for equal topologies."""
    digest = hashlib.sha256()
    for line in _identity_lines(topology):
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def _identity_lines(topology: Topology) -> Iterator[str]:
    yield repr((topology.vhost, PROFILES.get(topology.profile.routes_as, topology.profile)))
    for name, exchange in sorted(topology.exchanges.items()):
        yield repr((name, exchange.type, exchange.internal, exchange.arguments.identity))  # type: ignore[attr-defined]
    for name, queue in sorted(topology.queues.items()):
        yield repr((name, str(queue.partitioning) if queue.partitioning is not None else None))
    for policy_name, policy in sorted(topology.policies.items()):
        definition = sorted((key, repr(thaw(value))) for key, value in policy.definition.items())
        yield repr((policy_name, policy.pattern, definition, policy.apply_to, policy.priority))
    for binding in sort_bindings(topology):
        yield repr((binding.source, tuple(binding.destination), binding.routing_key, binding.arguments.identity))
    for name, exchange in sorted(topology.exchanges.items()):
        sequence = find_kind(exchange).sequence(topology.bindings_from(name))
        if sequence is not None:
            yield repr(list(sequence))
