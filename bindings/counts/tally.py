"""The tally: counts of the outcomes of messages in a topology. Tallies add, and reports derive from them only.

Messages with the same outcome are counted together. The counts of a binding or a queue are sums over the outcomes that
include it; `bindings.counts.coverage` computes them. ``tally(a) + tally(b)`` equals ``tally(a and b)``, except for the
most frequent keys and shapes: their summaries may differ within the errors that they state.

Outcomes are kept apart up to a limit. Messages with more of them are counted by group instead: see
`bindings.counts.groups`. Which of the two a tally has depends on its messages alone, and not on how they were divided
or in which order they came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bindings.archive.sums import Span, Unread
from bindings.counts.adding import check_same, sum_by_key
from bindings.counts.outcome import Facts, Outcome, sort_bindings
from bindings.counts.slots import SlotCounts
from exchange.entities.releases import PROFILES
from exchange.errors import InputError
from exchange.kinds import find_kind
from exchange.limits import OUTCOMES
from exchange.topology.topology import Topology
from exchange.values.field_values import thaw

if TYPE_CHECKING:
    from bindings.counts.columnar.fact_columns import FactTable
    from bindings.counts.groups import MessageGroup


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of messages, for one topology. ``Tally(fingerprint(topology))`` is zero."""

    topology: str
    """Fingerprint of the topology; only tallies with the same fingerprint add."""
    facts: Mapping[Outcome, Facts] = field(default_factory=dict)
    """Outcome -> facts about its messages; empty if there are more than `OUTCOMES`."""
    partitions: Mapping[tuple[str, int | None], int] = field(default_factory=dict)
    """Partitioned queue and partition -> number of messages; partition None where the key does not decide it."""
    timeline: SlotCounts = field(default_factory=SlotCounts)
    """Messages with a time, per slot of time."""
    unread: Unread = field(default_factory=Unread)
    """Records that are not counted; a tally file stores their numbers, without samples."""
    groups: Mapping[MessageGroup, Facts] = field(default_factory=dict)
    """Group of messages -> facts about them; empty while outcomes are kept apart."""
    routed_by: Topology | None = field(default=None, compare=False, repr=False)
    """The topology, by which outcomes are grouped. A sum has that of either tally; without one, all stay apart."""

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

        published = [number for number, group in enumerate(self.groups) if group.group == "exchange"]
        return list_spans(self.facts).total() + list_spans(self.groups).total(published)

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
            add_facts(self.groups, other.groups),
            self.routed_by or other.routed_by,
        ).bound()

    def bound(self) -> Tally:
        """Return this tally with groups instead of outcomes, if these are more than `OUTCOMES`."""
        topology = self.routed_by
        if topology is None or (not self.groups and len(self.facts) <= OUTCOMES):
            return self
        from bindings.counts.groups import add_to_groups, limit_names, name_others

        groups = limit_names(add_to_groups(self.groups, self.facts, topology), topology)
        named = {each.name for each in groups.names if each.group == "exchange"}
        timeline = self.timeline.gather(named, name_others(topology))
        return replace(self, facts={}, groups=groups, timeline=timeline)

    def group(self, topology: Topology) -> FactTable[MessageGroup]:
        """Return the facts of groups of messages, of which reports are made.

        Raises InputError if the tally is for another topology.
        """
        from bindings.counts.groups import add_to_groups, group_facts

        if self.topology != compute_fingerprint(topology):
            raise InputError("this tally is for another topology: audit the archive again with this one")
        if not self.groups:
            return group_facts(self.facts, topology)
        return add_to_groups(self.groups, self.facts, topology)


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
