"""The report of an audit as a value: everything that its forms show, derived, and in the order it is shown.

Invariant: two totals, and neither stands for the other. Ignored bindings are shown and are not eligible; whatever is
approximate has its error beside it. Times are microseconds since 1970, UTC; shares are parts of 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from bindings.counts.coverage import AlternateUse, BindingUse, ExchangeUse, QueueUse, Totals
from exchange.entities.entities import Binding, Destination

if TYPE_CHECKING:
    from bindings.archive.formats.detect import Archive
    from bindings.archive.reading import Bias
    from bindings.archive.sums import Unread
    from bindings.check.finding import Finding
    from bindings.counts.changes import Changes
    from bindings.counts.verification import Verification
    from bindings.report.gates import Gate, IgnoreUse

__all__ = [
    "STATES", "Archived", "Audited", "BindingRow", "Compared", "Count", "Evidence", "ExchangeRow", "FindingRow", "Flow",
    "FlowKind", "Nearest", "PartitionRow", "QueueRow", "Records", "Report", "Shape", "Skew", "State", "Summary",
    "Timeline", "UnroutableRow",
]  # fmt: skip

State = Literal["dead", "stale", "hit", "possible", "ignored", "not eligible"]
"""Of a binding. ``possible``: only chance can tell, which counts as hit; ``stale``: hit, but not lately."""

STATES: Final[tuple[State, ...]] = ("dead", "stale", "possible", "hit", "ignored", "not eligible")
"""In the order in which an owner wants to see them."""

FlowKind = Literal["binding", "alternate", "default", "nowhere"]


class Archived(NamedTuple):
    """An archive that was audited."""

    path: str
    formats: tuple[str, ...]
    files: int
    biases: tuple[Bias, ...]
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Files that were not read, as they are no archive."""

    @classmethod
    def of(cls, archive: Archive) -> Archived:
        """What is told of an archive that was detected."""
        return cls(archive.path, archive.names, len(archive.files), archive.biases, archive.notes, archive.others)


class Records(NamedTuple):
    """What became of the records of the archives."""

    counted: int
    unread: Unread

    @property
    def read(self) -> int:
        """Number of all records: counted, skipped and bad."""
        return self.counted + self.unread.skipped_records + self.unread.bad_records


class Audited(NamedTuple):
    """What the report is about."""

    topology: str
    """What messages call the place it is from."""
    vhost: str
    profile: str
    fingerprint: str
    exchanges: int
    queues: int
    bindings: int
    archives: tuple[Archived, ...]
    tallies: tuple[str, ...]
    """Files of tallies that were merged."""
    records: Records
    window: tuple[int, int] | None
    """The times of the first and the last message."""
    without_time: int
    """Messages of which no time is known; they are not in the timeline."""
    since: int | None = None
    """What was asked for."""
    until: int | None = None


class Summary(NamedTuple):
    """The two totals and the bindings by state.

    Of ``totals``, ``eligible`` and ``hit`` are without the ignored bindings.
    """

    totals: Totals
    states: Mapping[State, int]
    queues_without_messages: int

    @property
    def dead(self) -> int:
        """Bindings that nothing matched, though it could."""
        return self.states["dead"]


class BindingRow(NamedTuple):
    """A binding, what it did and what is to be thought of it."""

    use: BindingUse
    state: State
    ignored: IgnoreUse | None = None
    """The entry that says to ignore it."""


class Count(NamedTuple):
    """Something frequent: a true count is ``messages`` to ``messages`` and the error of its list."""

    text: str
    messages: int
    partition: int | None = None
    """Of a key in a partitioned queue: where it goes, if the routing key alone decides that."""


class PartitionRow(NamedTuple):
    """A partition of a queue."""

    partition: int | None
    """None for all messages whose key does not decide it."""
    name: str | None
    messages: int


class Skew(NamedTuple):
    """How unevenly the messages whose key decides their partition are spread; all partitions count, the empty too."""

    partitions: int
    max_to_mean: float
    """1 when all have the same, ``partitions`` when one has all."""
    top_share: float
    gini: float
    """0 when all have the same, towards 1 when one has all."""
    variation: float
    """The standard deviation divided by the mean."""


class QueueRow(NamedTuple):
    """A queue and what it got."""

    use: QueueUse
    type: str
    share: float | None
    """Of all messages, those it got."""
    hot: tuple[Count, ...]
    hot_error: int
    partitioning: str | None
    partitions: tuple[PartitionRow, ...]
    skew: Skew | None
    """None for a queue that is not partitioned, and when no message has a decided partition."""


class ExchangeRow(NamedTuple):
    """An exchange and what went through it."""

    use: ExchangeUse
    type: str | None
    """None when there is no such exchange."""
    internal: bool
    states: Mapping[State, int]
    """Of the bindings that it is the source of."""
    eligible: int
    hit: int
    hot: tuple[Count, ...]
    hot_error: int

    @property
    def routed(self) -> int:
        """Of the messages published to it: those that a queue got."""
        return self.use.published - self.use.unroutable - self.use.undecided - self.use.refused

    @property
    def binding_coverage(self) -> float | None:
        """Its bindings hit, of those eligible; None when there are none."""
        return self.hit / self.eligible if self.eligible else None

    @property
    def message_coverage(self) -> float | None:
        """Of the messages published to it, those routed; None when there are none."""
        return self.routed / self.use.published if self.use.published else None


class Nearest(NamedTuple):
    """What almost took messages that went nowhere."""

    binding: Binding | None
    """None where it is the name of a queue or an exchange that is near."""
    number: int | None
    """The binding's, in `bindings.counts.outcome.ordered_bindings`."""
    destination: Destination
    reason: str
    """What of the example kept it from it."""
    distance: float
    """As `exchange.routing.nearest` measures it: about so many words are wrong."""


class Shape(NamedTuple):
    """Keys that look alike: ``*`` stands for words that no binding names."""

    shape: str
    messages: int
    example: str
    nearest: Nearest | None


class UnroutableRow(NamedTuple):
    """Messages to an exchange that no queue got."""

    exchange: str
    refused: str
    """What the broker answers; "" where it drops them without a word."""
    messages: int
    first: int | None
    last: int | None
    sample: tuple[str, ...]
    shapes: tuple[Shape, ...]
    error: int
    """Of the shapes' counts."""


class Timeline(NamedTuple):
    """Messages over time."""

    slot: int
    """Microseconds."""
    start: int
    """When slot 0 begins."""
    slots: int
    counts: Mapping[str, tuple[tuple[int, int, int, int], ...]]
    """Exchange published to -> slot, messages routed, not routed, undecided; slots without messages are left out."""


class Flow(NamedTuple):
    """Messages that went from an exchange to a destination, None being nowhere."""

    source: str
    destination: Destination | None
    kind: FlowKind
    messages: int
    possible: int
    """That go there if chance will have it so; not among ``messages``."""


Evidence = Literal["proved", "belied", "no traffic", ""]
"""What the traffic says of a finding; "" where it can say nothing."""


class FindingRow(NamedTuple):
    """A finding of `bindings.check`, and what the traffic says of it."""

    finding: Finding
    evidence: Evidence
    says: str
    """The same in a sentence; "" where it can say nothing."""
    bindings: tuple[int, ...]
    """The numbers of the bindings it is about."""
    messages: int | None
    """That its part got: matched the binding, went through the exchange, reached the queue."""


class Compared(NamedTuple):
    """What becomes of the same messages in another topology."""

    topology: str
    """What messages call the place it is from."""
    fingerprint: str
    changes: Changes


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an audit: one value, from which all forms are made.

    >>> report = audit("examples/orders/orders.bindings", "examples/orders/traffic.jsonl")
    >>> [row.use.binding.routing_key for row in report.bindings if row.state == "dead"]
    ['', '', 'order.*.refunded', 'order.ap.paid']
    >>> report.summary.totals.routed, report.exit_code
    (151, 0)
    """

    made: int
    """When."""
    audited: Audited
    caveats: tuple[str, ...]
    """What a reader must know before the numbers, in sentences."""
    summary: Summary
    bindings: tuple[BindingRow, ...]
    """By number."""
    queues: tuple[QueueRow, ...]
    """By name."""
    exchanges: tuple[ExchangeRow, ...]
    """By name."""
    alternates: tuple[AlternateUse, ...]
    unroutable: tuple[UnroutableRow, ...]
    """The most first."""
    timeline: Timeline | None
    """None when no message has a time."""
    flow: tuple[Flow, ...]
    findings: tuple[FindingRow, ...]
    gates: tuple[Gate, ...]
    ignored: tuple[IgnoreUse, ...]
    stale_days: int
    precision: int
    """Digits after the point of percentages, in gates and where they are shown."""
    verification: Verification | None = None
    """What the broker did, where the archive tells."""
    comparison: Compared | None = None

    @property
    def passed(self) -> bool:
        """Whether no gate failed."""
        return all(gate.passed for gate in self.gates)

    @property
    def exit_code(self) -> int:
        """0 when all gates passed, 1 when one failed."""
        return 0 if self.passed else 1
