"""The report of an audit as a value: everything that its forms show, in the order in which they show it.

Invariant: there are two totals, of bindings and of messages, and neither stands for the other. Ignored bindings are
shown and are not eligible. Each approximate number has its error beside it. Times are microseconds since 1970, UTC;
shares are parts of 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

from bindings.archive.figures import Time
from bindings.checking.rules.finding import Finding
from bindings.counts.changes import Changes
from bindings.counts.uses import AlternateUse, Totals
from bindings.counts.verification import Verification
from bindings.diffing.planning.step import describe_part
from bindings.report.rows import BindingRow, ExchangeRow, Flow, Listed, QueueRow, State, Timeline, UnroutableRow
from bindings.report.thresholds import Gate, IgnoreUse
from exchange.entities.unread import UnreadPart
from exchange.text.display import count_noun
from exchange.text.notebook import write_html
from exchange.values.documents import with_underscores

if TYPE_CHECKING:
    from bindings.archive.formats.detect import Archive
    from bindings.archive.reading import Bias
    from bindings.archive.sums import Detected, Unread


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
    def from_archive(cls, archive: Archive, detected: Detected) -> Archived:
        """Return the description of an archive, given the files that were looked at when they were read."""
        return cls(archive.path, *archive.list_contents(detected)[:-1])


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
    unread: tuple[UnreadPart, ...] = ()
    """Parts of the topology, and of the one to compare with, that were not read."""
    unknown: tuple[str, ...] = ()
    """Which releases are newer than all that are known here, and by whose rules they are judged."""
    grouped: bool = False
    """Whether the outcomes of its messages were too many to keep apart, so that groups of messages were counted."""
    others: str = ""
    """What stands for all exchanges without a row of their own, if there are such; else ""."""


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
    unread: tuple[UnreadPart, ...] = ()
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
