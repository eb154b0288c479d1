"""The report of an audit as a value: everything that its forms show, in the order in which they show it.

Invariant: there are two totals, of bindings and of messages, and neither stands for the other. Ignored bindings are
shown and are not eligible. Each approximate number has its error beside it. Times are microseconds since 1970, UTC;
shares are parts of 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias

from bindings.archive.figures import Share, Time
from bindings.checking.rules.finding import Finding
from bindings.counts.changes import Changes
from bindings.counts.uses import AlternateUse, BindingUse, ExchangeUse, QueueUse, Totals
from bindings.counts.verification import Verification
from bindings.diffing.planning.step import describe_part
from bindings.report.thresholds import Gate, IgnoreUse
from exchange.entities.entities import Binding, Destination
from exchange.entities.unread import UnreadPart
from exchange.text.display import count_noun
from exchange.text.notebook import write_html
from exchange.values.documents import document, with_underscores

if TYPE_CHECKING:
    from bindings.archive.formats.detect import Archive
    from bindings.archive.reading import Bias
    from bindings.archive.sums import Unread

__all__ = [
    "STATES", "UNCOUNTED", "Archived", "Audited", "BindingRow", "Compared", "Count", "Evidence", "ExchangeRow",
    "FindingRow", "Flow", "FlowKind", "LineRow", "LineState", "Listed", "Nearest", "PartitionRow", "QueueRow",
    "Records", "Report", "Shape", "Skew", "State", "Summary", "Timeline", "UnroutableRow",
]  # fmt: skip

States = Literal["dead", "stale", "hit", "possible", "ignored", "dead letters only", "not eligible"]
State: TypeAlias = Annotated[States, with_underscores(States)]
"""State of a binding. ``possible``: a random choice decides; counts as hit. ``stale``: not hit lately. ``dead letters
only``: only dead letters can reach it, and none of the messages did."""

STATES: Final[tuple[State, ...]] = ("dead", "stale", "possible", "hit", "ignored", "dead letters only", "not eligible")
"""The states in the order in which they are shown."""
UNCOUNTED: Final[frozenset[State]] = frozenset({"ignored", "dead letters only", "not eligible"})
"""States of bindings that are left out of binding coverage."""

FlowKind = Literal["binding", "alternate", "default", "nowhere"]

LineStates = Literal["hit", "partial", "never", "unreached", "ignored", "dead letters only", "not eligible"]
LineState: TypeAlias = Annotated[LineStates, with_underscores(LineStates)]
"""State of a line that makes bindings. ``partial``: some were hit, others never. ``never``: none was, though messages
passed its exchange. ``unreached``: no message passed its exchange."""


class Archived(NamedTuple):
    """An archive that was audited."""

    path: str
    formats: tuple[str, ...]
    files: int
    biases: tuple[Bias, ...]
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Files that were not read, because they are not archives."""

    @classmethod
    def from_archive(cls, archive: Archive) -> Archived:
        """Return the description of an archive whose formats are known."""
        return cls(archive.path, archive.names, len(archive.files), archive.biases, archive.notes, archive.others)


class Records(NamedTuple):
    """Numbers of records of the archives: counted, skipped and bad."""

    counted: int
    unread: Unread

    @property
    def read(self) -> int:
        """Number of all records: counted, skipped and bad."""
        return self.counted + self.unread.skipped_records + self.unread.bad_records


class Audited(NamedTuple):
    """What the report is about."""

    topology: str
    """Name of the topology's source."""
    vhost: str
    profile: str
    """The release of RabbitMQ whose rules were applied."""
    fingerprint: str
    """Equal for topologies that route alike."""
    exchanges: int
    """Number of exchanges, predeclared ones included."""
    queues: int
    bindings: int
    archives: tuple[Archived, ...]
    tallies: tuple[str, ...]
    """Files of tallies that were merged."""
    records: Records
    window: tuple[int, int] | None
    """Times of the first and the last message."""
    without_time: int
    """Number of messages whose time is unknown; they are not in the timeline."""
    since: Time | None = None
    """Start, inclusive, of the window that the user asked for; ``until`` is its end, exclusive."""
    until: Time | None = None
    missing: tuple[UnreadPart, ...] = ()
    """Parts of the topology, and of the one to compare with, that were not read."""
    unknown: tuple[str, ...] = ()
    """Which releases are newer than all that are known here, and by whose rules they are judged."""


class Summary(NamedTuple):
    """The two totals and the bindings by state.

    Of ``totals``, ``eligible`` and ``hit`` are without the ignored bindings.
    """

    totals: Totals
    states: Mapping[State, int]
    """Number of bindings in each state."""
    queues_without_messages: int

    @property
    def dead(self) -> int:
        """Number of bindings that could be hit and that no message matched."""
        return self.states["dead"]


class BindingRow(NamedTuple):
    """A binding, its counts and its state."""

    use: BindingUse
    state: State
    ignored: IgnoreUse | None = None
    """The entry of the ignore list that matches it."""
    line: int | None = None
    """Line of the .bindings file that makes it, from 1; None if there is no such file."""


@document("LineRowJson")
class LineRow(NamedTuple):
    """A line of a .bindings file that makes bindings, with the sums of their counts."""

    line: int
    """From 1."""
    bindings: tuple[int, ...]
    """Numbers of the bindings; more than one for several destinations, or where a ``for`` repeats the line."""
    messages: int
    """Messages that matched, summed over the bindings: one that matched two of them counts twice."""
    possible: int
    """Messages that may have matched, depending on a random choice, summed likewise."""
    hit: int
    """Number of the bindings that are hit, possible or stale."""
    state: LineState


class Listed(NamedTuple):
    """The text of the .bindings file that was audited, and its lines that make bindings."""

    text: str
    rows: tuple[LineRow, ...]
    """In the order of the lines."""


@document("HotKeyJson", "key = text, messages, partition")
class Count(NamedTuple):
    """A frequent text; its true count is between ``messages`` and ``messages`` plus the error of the list."""

    text: str
    messages: int
    partition: int | None = None
    """Partition of a key in a partitioned queue, if the routing key alone decides it."""


@document("PartitionJson")
class PartitionRow(NamedTuple):
    """A partition of a queue."""

    partition: int | None
    """None in the row of all messages whose key does not decide their partition."""
    name: str | None
    messages: int


@document("SkewJson")
class Skew(NamedTuple):
    """Unevenness of partitions, empty ones included, for the messages whose key decides their partition."""

    partitions: int
    max_to_mean: Share
    """Fullest partition divided by the mean: 1 if all are equal, ``partitions`` if one has all."""
    top_share: Share
    """Share of the fullest partition."""
    gini: Share
    """Gini coefficient: 0 if all are equal, near 1 if one has all."""
    variation: Share
    """Coefficient of variation: the standard deviation divided by the mean."""


class QueueRow(NamedTuple):
    """A queue and its counts."""

    use: QueueUse
    type: str
    share: Share | None
    """Share of all messages that reached it; None if there are no messages."""
    hot: tuple[Count, ...]
    hot_error: int
    """A true count of ``hot`` is its ``messages`` to ``messages`` plus this."""
    partitioning: str | None
    partitions: tuple[PartitionRow, ...]
    skew: Skew | None
    """None for a queue that is not partitioned, or got no message whose key decides its partition."""
    line: int | None = None
    """Line of the .bindings file that declares it."""


class ExchangeRow(NamedTuple):
    """An exchange and its counts."""

    use: ExchangeUse
    type: str | None
    """None if the topology has no such exchange."""
    internal: bool
    states: Mapping[State, int]
    """Numbers of the bindings from it, by state."""
    eligible: int
    hit: int
    hot: tuple[Count, ...]
    hot_error: int
    """A true count of ``hot`` is its ``messages`` to ``messages`` plus this."""
    line: int | None = None
    """Line of the .bindings file that declares it."""

    @property
    def routed(self) -> int:
        """Number of messages published to it that reached a queue."""
        return self.use.published - self.use.unroutable - self.use.undecided - self.use.refused

    @property
    def binding_coverage(self) -> Share | None:
        """Share of its eligible bindings that are hit; None if there are none."""
        return self.hit / self.eligible if self.eligible else None

    @property
    def message_coverage(self) -> Share | None:
        """Share of the messages published to it that are routed; None if there are none."""
        return self.routed / self.use.published if self.use.published else None


class Nearest(NamedTuple):
    """The binding, queue or exchange that unroutable messages almost reached."""

    binding: Binding | None
    """None where the name of a queue or an exchange is nearest, and no binding."""
    number: int | None
    """Number of the binding in `bindings.counts.outcome.sort_bindings`."""
    destination: Destination
    reason: str
    """What in the example did not match."""
    distance: Share
    """Distance as `exchange.routing.nearest` measures it: about the number of words that are wrong."""


@document("UnroutableShapeJson")
class Shape(NamedTuple):
    """Routing keys that differ only in words that no binding names; the shape has ``*`` for each of these."""

    shape: str
    messages: int
    example: str
    nearest: Nearest | None


@document("UnroutableRowJson", "exchange, refused or null, messages, first, last, sample, shapes, shapes_error = error")
class UnroutableRow(NamedTuple):
    """Messages published to one exchange that no queue got, by the error that the broker answers with."""

    exchange: str
    refused: str
    """Error that the broker answers with; "" if it drops the messages without an answer."""
    messages: int
    first: Time | None
    last: Time | None
    sample: tuple[str, ...]
    shapes: tuple[Shape, ...]
    error: int
    """Maximum by which the counts of the shapes may be too low."""


class Timeline(NamedTuple):
    """Numbers of messages over time, in slots of equal width."""

    slot: int
    """Width of a slot in microseconds."""
    start: Time
    """Start of slot 0."""
    slots: int
    counts: Mapping[str, tuple[tuple[int, int, int, int], ...]]
    """Exchange published to -> (slot, messages routed, not routed, undecided); slots without messages are left out."""


class Flow(NamedTuple):
    """Messages that went from an exchange to a destination, or ended there unroutable: the destination is None then."""

    source: str
    destination: Destination | None
    kind: FlowKind
    messages: int
    possible: int
    """Number of further messages that may go there, depending on a random choice. Disjoint from ``messages``."""


Evidences = Literal["proved", "belied", "no traffic", ""]
Evidence: TypeAlias = Annotated[Evidences, with_underscores(Evidences)]
"""Whether traffic confirms a finding (``proved``) or contradicts it (``belied``); "" if it can do neither."""


class FindingRow(NamedTuple):
    """A finding of `bindings.check`, with the evidence of the traffic."""

    finding: Finding
    evidence: Evidence
    sentence: str
    """The evidence in a sentence; "" if there is none."""
    bindings: tuple[int, ...]
    """Numbers of the bindings that the finding is about."""
    messages: int | None
    """Number of messages that matched its binding, went through its exchange or reached its queue; None if unknown."""


class Compared(NamedTuple):
    """What another topology does with the same messages."""

    topology: str
    """Name of its source."""
    fingerprint: str
    changes: Changes
    missing: tuple[UnreadPart, ...] = ()
    """Parts of it that were not read."""
    caveat: str = ""
    """Why the rules are not those of its release; "" if they are."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an audit: one value, from which all forms are made.

    >>> report = audit("examples/orders/orders.bindings", "examples/orders/traffic.jsonl")
    >>> [row.use.binding.routing_key for row in report.bindings if row.state == "dead"]
    ['', '', 'order.*.refunded', 'order.ap.paid']
    >>> report.summary.totals.routed, report.exit_code
    (151, 0)
    >>> report
    <Report of 'examples/orders/orders.bindings': 160 messages, 9 unroutable; 8 of 12 bindings hit; 0 bad records>
    """

    made: Time
    """Time of the report."""
    audited: Audited
    caveats: tuple[str, ...]
    """Sentences that a reader must know before the numbers."""
    summary: Summary
    bindings: tuple[BindingRow, ...]
    """All bindings, in the order of their numbers."""
    queues: tuple[QueueRow, ...]
    """All queues, in the order of their names."""
    exchanges: tuple[ExchangeRow, ...]
    """All exchanges, in the order of their names."""
    alternates: tuple[AlternateUse, ...]
    unroutable: tuple[UnroutableRow, ...]
    """Unroutable messages by exchange, the most frequent first."""
    timeline: Timeline | None
    """None if no message has a time."""
    flow: tuple[Flow, ...]
    findings: tuple[FindingRow, ...]
    gates: tuple[Gate, ...]
    ignored: tuple[IgnoreUse, ...]
    stale_days: int
    precision: int
    """Number of decimals of percentages, in gates and in all forms."""
    verification: Verification | None = None
    """What the broker did; None unless the user asked for it and the archive has recorded it."""
    comparison: Compared | None = None
    listing: Listed | None = None
    """None if the topology is not from a .bindings file."""

    def __repr__(self) -> str:
        """Return a line: all of it has thousands of characters."""
        return f"<{self._headline}>"

    def _repr_html_(self) -> str:
        """Return the totals, dead bindings and unroutable messages as HTML, which notebooks show."""
        dead = [describe_part(row.use.binding) for row in self.bindings if row.state == "dead"]
        lost = [f"{row.messages:,} published to {row.exchange or 'the default exchange'}" for row in self.unroutable]
        return write_html(self._headline, {"Dead bindings": dead, "Unroutable messages": lost})

    @property
    def _headline(self) -> str:
        totals, bad = self.summary.totals, self.audited.records.unread.bad_records
        return (
            f"Report of {self.audited.topology!r}: {count_noun(totals.messages, 'message')}, "
            f"{totals.unroutable:,} unroutable; {totals.hit:,} of {count_noun(totals.eligible, 'binding')} hit; "
            f"{count_noun(bad, 'bad record')}"
        )

    @property
    def passed(self) -> bool:
        """Whether no gate failed."""
        return all(gate.passed for gate in self.gates)

    @property
    def exit_code(self) -> int:
        """0 if all gates passed, 1 if one failed."""
        return 0 if self.passed else 1
