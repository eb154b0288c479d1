"""A report as one JSON object, whose fields ``docs/audit-json.md`` explains. Fields may be added; none changes.

Times are ISO 8601 in UTC, shares are parts of 1, and what is not known is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from bindings.archive.reading import Bias
from bindings.check.report import finding_json
from bindings.counts.coverage import AlternateUse
from bindings.counts.sketch import ERROR
from bindings.report.figures import format_time
from bindings.report.forms import json_types as types
from bindings.report.forms.json_compared import encode_comparison, encode_verification
from bindings.report.forms.json_values import DIGITS, encode_binding, encode_shapes, encode_share, encode_time
from bindings.report.forms.reporter import BytesReporter
from bindings.report.gates import Gate, IgnoreUse
from bindings.report.model import (
    Archived,
    Audited,
    BindingRow,
    Count,
    Evidence,
    ExchangeRow,
    FindingRow,
    Flow,
    LineRow,
    LineState,
    Nearest,
    QueueRow,
    Records,
    Report,
    Skew,
    State,
    Summary,
    Timeline,
    UnroutableRow,
)
from exchange.topology.unread import unread_to_json

__all__ = ["REPORTER", "VERSION", "encode_json", "to_json"]

VERSION: Final = 1

STATE_NAMES: Final[Mapping[State, types.StateJson]] = {
    "dead": "dead",
    "stale": "stale",
    "possible": "possible",
    "hit": "hit",
    "ignored": "ignored",
    "dead letters only": "dead_letters_only",
    "not eligible": "not_eligible",
}
"""State of a binding -> its name in JSON."""

LINE_STATE_NAMES: Final[Mapping[LineState, types.LineStateJson]] = {
    "hit": "hit",
    "partial": "partial",
    "never": "never",
    "unreached": "unreached",
    "ignored": "ignored",
    "dead letters only": "dead_letters_only",
    "not eligible": "not_eligible",
}
"""State of a line -> its name in JSON."""

BIAS_NAMES: Final[Mapping[Bias, types.BiasName]] = {
    Bias.EVERYTHING: "everything",
    Bias.SURVIVORS: "survivors",
    Bias.SAMPLE: "sample",
    Bias.UNKNOWN: "unknown",
}
"""Bias of an archive -> its name in JSON."""

EVIDENCE_NAMES: Final[Mapping[Evidence, types.EvidenceJson | None]] = {
    "proved": "proved",
    "belied": "belied",
    "no traffic": "no_traffic",
    "": None,
}
"""Evidence of a finding -> its name in JSON."""

OTHERS: Final = 20
"""Maximum number of files that are not archives and are named."""


def encode_json(report: Report) -> bytes:
    """Return the object of `to_json` in UTF-8; lone surrogates, which UTF-8 cannot encode, are escaped."""
    return json.dumps(to_json(report), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def to_json(report: Report) -> types.AuditJson:
    """Return a report as the values of one JSON object."""
    return {
        "version": VERSION,
        "made": format_time(report.made),
        "passed": report.passed,
        "audited": _encode_audited(report.audited),
        "caveats": list(report.caveats),
        "options": {"stale_days": report.stale_days, "precision": report.precision},
        "approximate": {"distinct_keys": round(ERROR, 4)},
        "totals": _encode_summary(report.summary),
        "bindings": [_encode_binding(row) for row in report.bindings],
        "queues": [_encode_queue(row) for row in report.queues],
        "exchanges": [_encode_exchange(row) for row in report.exchanges],
        "alternates": [_encode_alternate(row) for row in report.alternates],
        "unroutable": [_encode_unroutable(row) for row in report.unroutable],
        "timeline": None if report.timeline is None else _encode_timeline(report.timeline),
        "flow": [_encode_flow(row) for row in report.flow],
        "findings": [_encode_finding(row) for row in report.findings],
        "gates": [_encode_gate(row) for row in report.gates],
        "ignored": [_encode_ignored(row) for row in report.ignored],
        "verification": None if report.verification is None else encode_verification(report.verification),
        "comparison": None if report.comparison is None else encode_comparison(report.comparison),
        "lines": None if report.listing is None else [_encode_line(row) for row in report.listing.rows],
    }


def _encode_audited(audited: Audited) -> types.AuditedJson:
    return {
        "topology": {
            "source": audited.topology,
            "vhost": audited.vhost,
            "profile": audited.profile,
            "fingerprint": audited.fingerprint,
            "exchanges": audited.exchanges,
            "queues": audited.queues,
            "bindings": audited.bindings,
        },
        "archives": [_encode_archive(archive) for archive in audited.archives],
        "tallies": list(audited.tallies),
        "selection": {"since": encode_time(audited.since), "until": encode_time(audited.until)},
        "window": {
            "first": encode_time(audited.window[0]) if audited.window else None,
            "last": encode_time(audited.window[1]) if audited.window else None,
            "messages_without_time": audited.without_time,
        },
        "records": _encode_records(audited.records),
        "missing": unread_to_json(audited.missing),
    }


def _encode_archive(archive: Archived) -> types.ArchiveJson:
    return {
        "path": archive.path,
        "formats": list(archive.formats),
        "files": archive.files,
        "bias": [{"name": BIAS_NAMES[bias], "says": bias.value} for bias in archive.biases],
        "notes": list(archive.notes),
        "not_archives": {"files": len(archive.others), "some": list(archive.others[:OTHERS])},
    }


def _encode_records(records: Records) -> types.RecordsJson:
    return {
        "read": records.read,
        "counted": records.counted,
        "skipped": [{"reason": reason, "records": count} for reason, count in _by_count(records.unread.skipped)],
        "bad": [
            {
                "reason": reason,
                "records": count,
                "samples": [
                    {"source": bad.source, "offset": bad.offset, "sample": bad.sample.decode("utf-8", "replace")}
                    for bad in records.unread.samples.get(reason, ())
                ],
            }
            for reason, count in _by_count(records.unread.bad)
        ],
    }


def _encode_summary(summary: Summary) -> types.TotalsJson:
    totals = summary.totals
    return {
        "bindings": {
            "all": totals.bindings,
            "eligible": totals.eligible,
            "hit": totals.hit,
            "coverage": encode_share(totals.binding_coverage),
            "states": {STATE_NAMES[state]: count for state, count in summary.states.items()},
        },
        "messages": {
            "all": totals.messages,
            "routed": totals.routed,
            "unroutable": totals.unroutable,
            "undecided": totals.undecided,
            "refused": totals.refused,
            "coverage": encode_share(totals.message_coverage),
        },
        "copies": totals.copies,
        "duplicates_avoided": totals.duplicates_avoided,
        "queues_without_messages": summary.queues_without_messages,
    }


def _encode_binding(row: BindingRow) -> types.BindingRowJson:
    use = row.use
    entry = row.ignored.entry if row.ignored is not None else None
    return {
        "number": use.number,
        **encode_binding(use.binding),
        "state": STATE_NAMES[row.state],
        "ignored": None if entry is None else {"reason": entry.reason, "until": entry.until.isoformat()},
        "messages": use.messages,
        "possible": use.possible,
        "only": use.only,
        "share": encode_share(use.share),
        "distinct_keys": use.distinct_keys,
        "first": encode_time(use.first),
        "last": encode_time(use.last),
        "exposure": use.exposure,
        "bound": encode_share(use.bound),
        "eligible": use.eligible,
        "line": row.line,
    }


def _encode_line(row: LineRow) -> types.LineRowJson:
    return {
        "line": row.line,
        "bindings": list(row.bindings),
        "messages": row.messages,
        "possible": row.possible,
        "hit": row.hit,
        "state": LINE_STATE_NAMES[row.state],
    }


def _encode_queue(row: QueueRow) -> types.QueueRowJson:
    use = row.use
    return {
        "queue": use.queue,
        "type": row.type,
        "messages": use.messages,
        "possible": use.possible,
        "share": encode_share(row.share),
        "duplicates_avoided": use.duplicates_avoided,
        "distinct_keys": use.distinct_keys,
        "hot": _encode_counts(row.hot, row.hot_error),
        "first": encode_time(use.first),
        "last": encode_time(use.last),
        "partitioning": row.partitioning,
        "partitions": [
            {"partition": part.partition, "name": part.name, "messages": part.messages} for part in row.partitions
        ],
        "skew": None if row.skew is None else _encode_skew(row.skew),
        "line": row.line,
    }


def _encode_skew(skew: Skew) -> types.SkewJson:
    return {
        "partitions": skew.partitions,
        "max_to_mean": round(skew.max_to_mean, DIGITS),
        "top_share": round(skew.top_share, DIGITS),
        "gini": round(skew.gini, DIGITS),
        "variation": round(skew.variation, DIGITS),
    }


def _encode_exchange(row: ExchangeRow) -> types.ExchangeRowJson:
    use = row.use
    return {
        "exchange": use.exchange,
        "type": row.type,
        "exists": row.type is not None,
        "internal": row.internal,
        "published": use.published,
        "through": use.messages,
        "routed": row.routed,
        "unroutable": use.unroutable,
        "undecided": use.undecided,
        "refused": use.refused,
        "message_coverage": encode_share(row.message_coverage),
        "bindings": {
            "all": sum(row.states.values()),
            "eligible": row.eligible,
            "hit": row.hit,
            "coverage": encode_share(row.binding_coverage),
            "states": {STATE_NAMES[state]: count for state, count in row.states.items()},
        },
        "fan_out": [{"queues": queues, "messages": count} for queues, count in use.fan_out.items()],
        "distinct_keys": use.distinct_keys,
        "hot": _encode_counts(row.hot, row.hot_error),
        "line": row.line,
    }


def _encode_counts(counts: Iterable[Count], error: int) -> types.HotJson:
    return {
        "keys": [{"key": count.text, "messages": count.messages, "partition": count.partition} for count in counts],
        "error": error,
    }


def _encode_alternate(row: AlternateUse) -> types.AlternateUseJson:
    return {
        "exchange": row.exchange,
        "alternate": row.alternate,
        "messages": row.messages,
        "shapes": encode_shapes(row.shapes),
        "shapes_error": row.shapes.error,
    }


def _encode_unroutable(row: UnroutableRow) -> types.UnroutableRowJson:
    return {
        "exchange": row.exchange,
        "refused": row.refused or None,
        "messages": row.messages,
        "first": encode_time(row.first),
        "last": encode_time(row.last),
        "sample": list(row.sample),
        "shapes": [
            {
                "shape": shape.shape,
                "messages": shape.messages,
                "example": shape.example,
                "nearest": None if shape.nearest is None else _encode_nearest(shape.nearest),
            }
            for shape in row.shapes
        ],
        "shapes_error": row.error,
    }


def _encode_nearest(nearest: Nearest) -> types.NearestJson:
    return {
        "number": nearest.number,
        "binding": None if nearest.binding is None else encode_binding(nearest.binding),
        "destination_type": nearest.destination.kind,
        "destination": nearest.destination.name,
        "reason": nearest.reason,
        "distance": encode_share(nearest.distance),
    }


def _encode_timeline(timeline: Timeline) -> types.TimelineJson:
    return {
        "slot_seconds": timeline.slot // 1_000_000,
        "start": format_time(timeline.start),
        "slots": timeline.slots,
        "columns": ["slot", "routed", "unroutable", "undecided"],
        "exchanges": [
            {"exchange": exchange, "counts": [list(count) for count in counts]}
            for exchange, counts in timeline.counts.items()
        ],
    }


def _encode_flow(flow: Flow) -> types.FlowJson:
    return {
        "source": flow.source,
        "destination_type": None if flow.destination is None else flow.destination.kind,
        "destination": None if flow.destination is None else flow.destination.name,
        "kind": flow.kind,
        "messages": flow.messages,
        "possible": flow.possible,
    }


def _encode_finding(row: FindingRow) -> types.FindingRowJson:
    return {
        **finding_json(row.finding),
        "bindings": list(row.bindings),
        "messages": row.messages,
        "evidence": EVIDENCE_NAMES[row.evidence],
        "traffic": row.sentence or None,
    }


def _encode_gate(gate: Gate) -> types.GateJson:
    return {
        "name": gate.name,
        "scope": gate.scope,
        "of": gate.of,
        "limit": gate.limit,
        "actual": gate.actual,
        "passed": gate.passed,
        "message": gate.message,
    }


def _encode_ignored(use: IgnoreUse) -> types.IgnoredJson:
    entry = use.entry
    return {
        "source": entry.source,
        "destination": entry.destination,
        "pattern": entry.pattern,
        "reason": entry.reason,
        "until": entry.until.isoformat(),
        "expired": use.expired,
        "bindings": use.bindings,
        "hit": use.hit,
    }


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


REPORTER: Final = BytesReporter(encode_json)
