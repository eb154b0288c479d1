"""Build a report from a topology and a tally, and nothing else: the same counts always give the same report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from bindings.archive.figures import EARLIEST_TIME
from bindings.counts.coverage import compute_coverage
from bindings.counts.groups import GroupKind, MessageGroup, find_others
from bindings.counts.outcome import sort_bindings
from bindings.counts.sketch import Frequent
from bindings.counts.slots import DAY, choose_width
from bindings.counts.tally import Tally
from bindings.counts.uses import BindingUse, ExchangeUse, QueueUse
from bindings.report.caveats import list_caveats
from bindings.report.evidence import WindowCounts, add_evidence
from bindings.report.gates import check_gates, match_ignores, refuse_unread
from bindings.report.model import Archived, Audited, Compared, Records, Report, Summary
from bindings.report.nearest import NearestSearch, group_outcomes_by_shape
from bindings.report.rows import (
    STATES,
    UNCOUNTED,
    BindingRow,
    Count,
    ExchangeRow,
    Flow,
    FlowKind,
    LineRow,
    LineState,
    Listed,
    PartitionRow,
    QueueRow,
    Skew,
    State,
    Timeline,
    UnroutableRow,
)
from bindings.report.thresholds import IgnoreUse, Settings
from exchange.entities.entities import Destination, Queue
from exchange.errors import InputError
from exchange.text.display import count_noun
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread
from exchange.values.message import Message

if TYPE_CHECKING:
    from bindings.checking.rules.finding import Finding
    from bindings.counts.columnar.fact_columns import FactTable
    from bindings.counts.verification import Verification
    from bindings.sources.section import Listing
    from exchange.entities.part import Part

HOT: Final = 20
"""Maximum number of frequent keys that are reported."""

SLOTS: Final = 400
"""Maximum number of slots of a timeline."""

USUAL: Final = Settings()
HIT: Final[Collection[State]] = ("hit", "possible", "stale")
"""States of bindings that messages took, or may have taken."""


class Sources(NamedTuple):
    """Where the topology and the messages come from, which a tally does not record."""

    topology: str
    """Name of the topology's source."""
    archives: tuple[Archived, ...] = ()
    tallies: tuple[str, ...] = ()
    """Files of the tallies that were merged, if any."""
    since: int | None = None
    """Start of the window that the user asked for, in microseconds since 1970; ``until`` is its end, exclusive."""
    until: int | None = None
    listing: Listing | None = None
    """Text and lines of the topology, if it is from a .bindings file."""

    def line_of(self, part: Part | None) -> int | None:
        """Return the line that declares a part; None if there is no such line."""
        return None if self.listing is None or part is None else self.listing.line_of(part)


def build_report(
    topology: Topology,
    tally: Tally,
    sources: Sources,
    now: int,
    *,
    settings: Settings = USUAL,
    findings: Iterable[Finding] = (),
    verification: Verification | None = None,
    comparison: Compared | None = None,
) -> Report:
    """Build a report. ``now``, in microseconds since 1970, decides which ignore entries expired and what is stale.

    Raises InputError when the tally, or the verification, is for another topology.
    """
    if verification is not None and verification.topology != tally.topology:
        raise InputError("this verification is for another topology: audit the archive again with this one")
    bindings, groups = sort_bindings(topology), tally.group(topology)
    uses = compute_coverage(tally, groups, topology)
    hits = {use.binding: bool(use.messages or use.possible) for use in uses.bindings}
    ignored, by_entry = match_ignores(settings.ignore, hits, now)
    window = tally.window
    before = (min(now, window[1]) if window is not None else now) - settings.stale_days * DAY
    rows = tuple(
        [_binding_row(use, by_entry.get(use.binding), before, sources.line_of(use.binding)) for use in uses.bindings]
    )
    states = Counter(row.state for row in rows)
    eligible = [row for row in rows if row.state not in UNCOUNTED]
    totals = uses.totals._replace(eligible=len(eligible), hit=len(eligible) - states["dead"])
    without_messages = sum([not (use.messages or use.possible) for use in uses.queues])
    summary = Summary(totals, {state: states[state] for state in STATES}, without_messages)
    exchanges = tuple(_exchange_rows(uses.exchanges, rows, topology, sources))
    queues = tuple(
        [
            _queue_row(use, topology.queues[use.queue], totals.messages)._replace(
                line=sources.line_of(topology.queues[use.queue])
            )
            for use in uses.queues
        ]
    )
    nearest, outcomes = NearestSearch(topology, bindings), group_outcomes_by_shape(tally)
    records = Records(tally.messages, tally.unread)
    timeline = _build_timeline(tally)
    timed = tally.timeline.messages
    traffic = WindowCounts(
        {use.binding: use for use in uses.bindings},
        {use.exchange: use for use in uses.exchanges},
        {use.queue: use for use in uses.queues},
        uses.alternates,
    )
    unread = tuple(dict.fromkeys((*find_unread(topology), *(() if comparison is None else comparison.unread))))
    others = find_others(tally.groups, topology)
    gates = check_gates(settings, summary, records, exchanges, queues, ignored, verification, comparison, others)
    audited = Audited(
        sources.topology, topology.vhost, topology.profile.name, tally.topology, len(topology.exchanges),
        len(topology.queues), len(bindings), sources.archives, sources.tallies, records, window,
        totals.messages - timed, sources.since, sources.until, unread, _list_caveats(topology, comparison),
        bool(tally.groups), others,
    )  # fmt: skip
    report = Report(
        made=now,
        audited=audited,
        caveats=(),
        summary=summary,
        bindings=rows,
        queues=queues,
        exchanges=exchanges,
        alternates=uses.alternates,
        unroutable=tuple([
            UnroutableRow(
                row.exchange, row.refused, row.messages, row.first, row.last, row.sample, nearest.shapes(row, outcomes),
                row.shapes.error,
            )
            for row in uses.unroutable
        ]),
        timeline=timeline,
        flow=tuple(_build_flow(groups, topology)),
        findings=add_evidence(findings, traffic, is_whole=not unread),
        gates=(*gates, refuse_unread(unread)) if gates and unread else gates,
        ignored=ignored,
        stale_days=settings.stale_days,
        precision=settings.precision,
        verification=verification,
        comparison=comparison,
        listing=None if sources.listing is None else Listed(sources.listing.text, sum_lines(rows)),
    )  # fmt: skip
    return replace(report, caveats=tuple(list_caveats(report)))


def _list_caveats(topology: Topology, comparison: Compared | None) -> tuple[str, ...]:
    refused = len(topology.find_refused())
    bindings = f"RabbitMQ refuses to make {count_noun(refused, 'binding')} of the topology" if refused else ""
    counted = bindings and f"{bindings}; the audit counts as if they were there, and hashstar check names them"
    found = topology.profile.caveat, "" if comparison is None else comparison.caveat, counted
    return tuple(dict.fromkeys(filter(None, found)))


def _binding_row(use: BindingUse, entry: IgnoreUse | None, before: int, line: int | None) -> BindingRow:
    # The order decides: an ignored binding is never dead. Stale are those last hit before ``before``.
    state: State = "hit"
    if entry is not None:
        state = "ignored"
    elif use.only_dead_letters:
        state = "dead letters only"
    elif not use.eligible:
        state = "not eligible"
    elif use.dead:
        state = "dead"
    elif not use.messages:
        state = "possible"
    elif use.last is not None and use.last < before:
        state = "stale"
    return BindingRow(use, state, entry, line)


def _exchange_rows(
    uses: Iterable[ExchangeUse], rows: Iterable[BindingRow], topology: Topology, sources: Sources
) -> Iterator[ExchangeRow]:
    states: dict[str, Counter[State]] = {}
    for row in rows:
        states.setdefault(row.use.binding.source, Counter())[row.state] += 1
    known = {use.exchange: use for use in uses}  # others have bindings only, and no messages
    for name in sorted({*known, *states}):
        use = known.get(name, ExchangeUse(name, 0, 0, 0, 0, 0, {}, 0, Frequent()))
        counts = states.get(name, Counter())
        eligible = counts.total() - sum(counts[state] for state in UNCOUNTED)
        exchange = topology.exchanges.get(name)
        yield ExchangeRow(
            use,
            None if exchange is None else exchange.type,
            exchange is not None and exchange.internal,
            {state: counts[state] for state in STATES},
            eligible,
            eligible - counts["dead"],
            tuple([Count(item.text, item.count) for item in use.hot.items[:HOT]]),
            use.hot.error,
            sources.line_of(exchange),
        )


def _queue_row(use: QueueUse, queue: Queue, messages: int) -> QueueRow:
    partitioning = queue.partitioning
    share = use.messages / messages if messages else None
    items = use.hot.items[:HOT]
    if partitioning is None:
        hot = tuple([Count(item.text, item.count) for item in items])
        return QueueRow(use, queue.type, share, hot, use.hot.error, None, (), None)
    parts = [PartitionRow(p.id, p.name, use.partitions.get(p.id, 0)) for p in partitioning.partitions]
    undecided = use.partitions.get(None, 0)
    decided = partitioning.key.by_routing_key
    hot = tuple([
        Count(item.text, item.count, partitioning.partition_of(Message("", item.text)) if decided else None)
        for item in items
    ])  # fmt: skip
    rows = (*parts, PartitionRow(None, None, undecided)) if undecided else tuple(parts)
    return QueueRow(
        use,
        queue.type,
        share,
        hot,
        use.hot.error,
        str(partitioning),
        tuple(rows),
        _measure_skew([p.messages for p in parts]),
    )


def _measure_skew(counts: Sequence[int]) -> Skew | None:
    total, number = sum(counts), len(counts)
    if not total:
        return None
    mean = total / number
    # Gini coefficient by ranks: 0 for equal counts, (number - 1) / number if one partition has all.
    ranked = sum([rank * count for rank, count in enumerate(sorted(counts), 1)])
    gini = max(0.0, 2 * ranked / (number * total) - (number + 1) / number)
    variation = (sum([(count - mean) ** 2 for count in counts]) / number) ** 0.5 / mean
    return Skew(number, max(counts) / mean, max(counts) / total, gini, variation)


def _build_timeline(tally: Tally) -> Timeline | None:
    window = tally.timeline.window
    if window is None:
        return None
    first, last = window
    slot = choose_width(first, last, tally.timeline.width, SLOTS)
    start = first // slot
    by_exchange: dict[str, dict[int, list[int]]] = {}
    for (number, exchange, routed), count in tally.timeline.at_width(slot).counts.items():
        column = {True: 0, False: 1, None: 2}[routed]  # as in `Timeline.counts`: routed, not routed, undecided
        by_exchange.setdefault(exchange, {}).setdefault(number - start, [0, 0, 0])[column] += count
    counts = {
        exchange: tuple([(at, a, b, c) for at, (a, b, c) in sorted(slots.items())])
        for exchange, slots in sorted(by_exchange.items())
    }
    return Timeline(slot, max(start * slot, EARLIEST_TIME), last // slot - start + 1, counts)


Edge = tuple[str, Destination | None, FlowKind]

CERTAIN_FLOWS: Final[Mapping[GroupKind, tuple[FlowKind, Literal["queue", "exchange"] | None]]] = {
    "way to queue": ("binding", "queue"), "way to exchange": ("binding", "exchange"),
    "alternate": ("alternate", "exchange"), "default way": ("default", "queue"), "end": ("nowhere", None),
}  # fmt: skip
"""Kind of a group of messages -> kind of the flow that they are, and to what it leads."""
POSSIBLE_FLOWS: Final[Mapping[GroupKind, tuple[FlowKind, Literal["queue", "exchange"] | None]]] = {
    "possible way to queue": ("binding", "queue"), "possible way to exchange": ("binding", "exchange"),
    "possible alternate": ("alternate", "exchange"),
}  # fmt: skip


def _build_flow(groups: FactTable[MessageGroup], topology: Topology) -> Iterator[Flow]:
    names: Mapping[str, Collection[str]] = {"queue": topology.queues, "exchange": topology.exchanges}
    flows: dict[Edge, list[int]] = {}
    for group, messages in zip(groups.names, groups.columns.spans.messages.tolist(), strict=True):
        for which, table in enumerate((CERTAIN_FLOWS, POSSIBLE_FLOWS)):
            if group.group not in table:
                continue
            kind, to = table[group.group]
            if to is None or group.other in names[to]:
                edge = (group.name, None if to is None else Destination(to, group.other), kind)
                flows.setdefault(edge, [0, 0])[which] += messages
    for edge in sorted(flows, key=lambda edge: (edge[0], edge[1] or ("", ""), edge[2])):
        yield Flow(*edge, *flows[edge])


def sum_lines(rows: Iterable[BindingRow]) -> tuple[LineRow, ...]:
    """Return one row for each line that makes bindings, in the order of the lines; rows without a line are left out."""
    by_line: dict[int, list[BindingRow]] = {}
    for row in rows:
        if row.line is not None:
            by_line.setdefault(row.line, []).append(row)
    return tuple([_line_row(line, made) for line, made in sorted(by_line.items())])


def _line_row(line: int, rows: Collection[BindingRow]) -> LineRow:
    return LineRow(
        line,
        tuple([row.use.number for row in rows]),
        sum([row.use.messages for row in rows]),
        sum([row.use.possible for row in rows]),
        sum([row.state in HIT for row in rows]),
        _state_of_line(rows),
    )


def _state_of_line(rows: Collection[BindingRow]) -> LineState:
    """Return the state of a line. Bindings that do not count for coverage decide only where there are no others."""
    states = {row.state for row in rows}
    hit = not states.isdisjoint(HIT)
    if "dead" in states:
        if hit:
            return "partial"
        return "never" if any(row.use.exposure for row in rows if row.state == "dead") else "unreached"
    if hit:
        return "hit"
    others: tuple[LineState, ...] = ("dead letters only", "not eligible")
    return next((state for state in others if state in states), "ignored")
