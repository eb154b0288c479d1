"""Two sections of the JSON of a report: what the broker did, and what another topology would do."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict

from bindings.counts.changes import BindingChange, PartitionMoves, Rerouted, summarize_changes
from bindings.counts.verification import Evidence, PlacementDifference, Verification
from bindings.report.gates import count_misrouted
from bindings.report.model import Compared
from bindings.report.words import describe_change, describe_difference
from exchange.values.documents import document


@document(
    "DifferenceJson",
    "difference.exchange, difference.missing, difference.extra, difference.unknown, difference.none_of, "
    "difference.refused or null, difference.only_unknown, says, evidence.messages, evidence.span.first, "
    "evidence.span.last, evidence.witnesses",
)
class SeenDifference(NamedTuple):
    """Messages that the broker put elsewhere than the topology does."""

    difference: PlacementDifference
    evidence: Evidence

    @property
    def says(self) -> str:
        """The difference in a sentence."""
        return describe_difference(self.difference)


class StrangerJson(TypedDict):
    """A queue that the topology does not have."""

    queue: str
    messages: int


class StrangersJson(TypedDict):
    """The unknown queues with the most messages."""

    queues: list[StrangerJson]
    error: int


def _misrouted(verification: Verification) -> int:
    """Messages that differ in more than queues that the topology does not have."""
    return count_misrouted(verification)


def _differences(verification: Verification) -> list[SeenDifference]:
    rows = sorted(verification.differences.items(), key=lambda row: (-row[1].messages, row[0]))
    return [SeenDifference(*row) for row in rows]


def _strangers(verification: Verification) -> StrangersJson:
    strangers = verification.strangers
    return {
        "queues": [{"queue": item.text, "messages": item.count} for item in strangers.items],
        "error": strangers.error,
    }


document(
    "VerificationJson",
    "compared, agreed, possible, undecided, unknown, different, misrouted, sorts, more, differences, strangers",
    misrouted=_misrouted,
    differences=_differences,
    strangers=_strangers,
)(Verification)


def _says(row: Rerouted) -> str:
    """The change in a sentence."""  # noqa: D401
    return describe_change(row.change)


document(
    "ReroutedJson",
    "change.exchange, change.lost, change.gained, change.unsure, change.before, change.after, "
    "change.refused_before or null, change.refused_after or null, change.becomes_unroutable, "
    "change.no_longer_unroutable, says, messages, first, last, distinct_keys, shapes = shapes.items, "
    "shapes_error = shapes.error, witnesses",
    says=_says,
)(Rerouted)


def _change(row: BindingChange) -> Literal["added", "removed"]:
    return "added" if row.added else "removed"


document("ChangedBindingJson", "number, *binding, change, messages, possible, elsewhere", change=_change)(BindingChange)


class PartitionFlowJson(TypedDict):
    """Messages from one partition to another."""

    before: str | None
    after: str | None
    messages: int


def _flows(row: PartitionMoves) -> list[PartitionFlowJson]:
    return [{"before": before, "after": after, "messages": count} for (before, after), count in row.flows.items()]


document("RepartitionedJson", "queue, before, after, messages, moved, undecided, share, flows", flows=_flows)(
    PartitionMoves
)


def _summary(compared: Compared) -> str:
    """A summary in a sentence."""  # noqa: D401
    return summarize_changes(compared.changes.totals)


document(
    "ComparisonJson",
    "topology = ComparedTopologyJson(source = topology, fingerprint), says, changes.totals, changes.rerouted, "
    "changes.queues, changes.bindings, changes.partitions",
    says=_summary,
)(Compared)
