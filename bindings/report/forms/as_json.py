"""A report as one JSON object: which fields of its values that has. ``docs/audit-json.md`` explains them.

Fields may be added; none changes. Times are ISO 8601 in UTC, shares are parts of 1, and what is not known is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Final, TypeAlias, TypedDict

from bindings.archive.figures import Time
from bindings.archive.reading import Bias
from bindings.counts.sketch import ERROR
from bindings.report.forms import json_compared  # noqa: F401  the documents of verification and comparison
from bindings.report.inspection import BadJson, list_bad
from bindings.report.model import Archived, Audited, FindingRow, Records, Report, Summary
from bindings.report.rows import BindingRow, ExchangeRow, Flow, Nearest, QueueRow, Timeline
from exchange.values.documents import by_name, document, encode_as

__all__ = ["Report", "encode_json", "to_json"]

OTHERS: Final = 20
"""Maximum number of files that are not archives and are named."""

BiasName: TypeAlias = Annotated[Bias, by_name(Bias)]


def encode_json(report: Report) -> bytes:
    """Return the object of `to_json` in UTF-8; lone surrogates, which UTF-8 cannot encode, are escaped."""
    return json.dumps(to_json(report), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def to_json(report: Report) -> Any:
    """Return a report as the values of one JSON object."""
    return encode_as(Report, report)


class BiasJson(TypedDict):
    """Which of the published messages an archive holds."""

    name: BiasName
    says: str
    """Its meaning."""


class OthersJson(TypedDict):
    """Files that are not archives."""

    files: int
    """Number of files that were not read."""
    some: list[str]
    """The first of them."""


class WindowJson(TypedDict):
    """The times of the messages that were counted."""

    first: Time | None
    last: Time | None
    messages_without_time: int


class SkippedJson(TypedDict):
    """Records that are no messages, or cannot be audited."""

    reason: str
    records: int


def _bias(archive: Archived) -> list[BiasJson]:
    return [{"name": bias, "says": bias.value} for bias in archive.biases]


def _not_archives(archive: Archived) -> OthersJson:
    return {"files": len(archive.others), "some": list(archive.others[:OTHERS])}


document("ArchiveJson", "path, formats, files, bias, notes, not_archives", bias=_bias, not_archives=_not_archives)(
    Archived
)


def _skipped(records: Records) -> list[SkippedJson]:
    return [{"reason": reason, "records": count} for reason, count in _by_count(records.unread.skipped)]


def _bad(records: Records) -> list[BadJson]:
    return list_bad(records.unread, _by_count(records.unread.bad))


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


document("RecordsJson", "read, counted, skipped, bad", skipped=_skipped, bad=_bad)(Records)


def _window(audited: Audited) -> WindowJson:
    first, last = audited.window or (None, None)
    return {"first": first, "last": last, "messages_without_time": audited.without_time}


document(
    "AuditedJson",
    "topology = TopologyJson(source = topology, vhost, profile, fingerprint, exchanges, queues, bindings), archives, "
    "tallies, selection = SelectionJson(since, until), window, records, unread",
    window=_window,
)(Audited)


document(
    "TotalsJson",
    "bindings = BindingTotalsJson(all = totals.bindings, totals.eligible, totals.hit, "
    "coverage = totals.binding_coverage, states), "
    "messages = MessageTotalsJson(all = totals.messages, totals.routed, totals.unroutable, totals.undecided, "
    "totals.refused, coverage = totals.message_coverage), "
    "totals.copies, totals.duplicates_avoided, queues_without_messages",
)(Summary)


class IgnoredStateJson(TypedDict):
    """Why a binding is ignored, and until when."""

    reason: str
    until: date
    """A day, as 2027-01-31."""


def _ignored(row: BindingRow) -> IgnoredStateJson | None:
    return None if row.ignored is None else {"reason": row.ignored.entry.reason, "until": row.ignored.entry.until}


document(
    "BindingRowJson",
    "use.number, *use.binding, state, ignored, use.messages, use.possible, use.only, use.share, use.distinct_keys, "
    "use.first, use.last, use.exposure, use.bound, use.eligible, line",
    ignored=_ignored,
)(BindingRow)


document(
    "QueueRowJson",
    "use.queue, type, use.messages, use.possible, share, use.duplicates_avoided, use.distinct_keys, "
    "hot = HotJson(keys = hot, error = hot_error), use.first, use.last, partitioning, partitions, skew, line",
)(QueueRow)


class FanOutJson(TypedDict):
    """Messages that reached a number of queues."""

    queues: int
    messages: int


def _exists(row: ExchangeRow) -> bool:
    return row.type is not None


def _all(row: ExchangeRow) -> int:
    """Bindings from it."""
    return sum(row.states.values())


def _fan_out(row: ExchangeRow) -> list[FanOutJson]:
    return [{"queues": queues, "messages": count} for queues, count in row.use.fan_out.items()]


document(
    "ExchangeRowJson",
    "use.exchange, type, exists, internal, use.published, through = use.messages, routed, use.unroutable, "
    "use.undecided, use.refused, message_coverage, "
    "bindings = BindingTotalsJson(all, eligible, hit, coverage = binding_coverage, states), fan_out, "
    "use.distinct_keys, hot = HotJson(keys = hot, error = hot_error), line",
    all=_all,
    exists=_exists,
    fan_out=_fan_out,
)(ExchangeRow)


class TimelineExchangeJson(TypedDict):
    """Messages to an exchange over time."""

    exchange: str
    counts: list[list[int]]
    """Rows with a number for each of the columns."""


def _slot_seconds(timeline: Timeline) -> int:
    """Width of a slot."""
    return timeline.slot // 1_000_000


def _columns(_: Timeline) -> list[str]:
    """`slot`, `routed`, `unroutable` and `undecided`."""
    return ["slot", "routed", "unroutable", "undecided"]


def _exchanges(timeline: Timeline) -> list[TimelineExchangeJson]:
    return [
        {"exchange": exchange, "counts": [list(count) for count in counts]}
        for exchange, counts in timeline.counts.items()
    ]


document(
    "TimelineJson",
    "slot_seconds, start, slots, columns, exchanges",
    slot_seconds=_slot_seconds,
    columns=_columns,
    exchanges=_exchanges,
)(Timeline)


document(
    "NearestJson",
    "number, binding, destination_type = destination.kind, destination = destination.name, reason, distance",
)(Nearest)
document(
    "FlowJson",
    "source, destination_type = destination?.kind, destination = destination?.name, kind, messages, possible",
)(Flow)
document(
    "FindingRowJson",
    "finding.code, finding.rule.name, finding.rule.severity, finding.message, says = finding.rule.meaning, "
    "finding.rule.way_out, finding.witness, finding.life, finding.line, finding.part, bindings, messages, "
    "evidence or null, traffic = sentence or null",
)(FindingRow)


class ApproximateJson(TypedDict):
    """Errors of approximate numbers."""

    distinct_keys: float
    """Relative standard error of each field of this name."""


def _approximate(_: Report) -> ApproximateJson:
    return {"distinct_keys": round(ERROR, 4)}


document(
    "AuditJson",
    "version = 1, made, passed, audited, caveats, options = OptionsJson(stale_days, precision), approximate, "
    "totals = summary, bindings, queues, exchanges, "
    "alternates, unroutable, timeline, flow, findings, gates, ignored, verification, comparison, lines = listing?.rows",
    approximate=_approximate,
)(Report)
