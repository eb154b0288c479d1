"""What an archive holds, as text and as JSON: what `bindings.archive.inspection` counted in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from bindings.report.figures import moment
from exchange.display import count_noun, escape_line, list_some

if TYPE_CHECKING:
    from bindings.archive.formats.detect import Archive
    from bindings.archive.inspection import Inspection

__all__ = ["bad_json", "bad_lines", "inspection_json", "inspection_lines", "skipped_lines"]

LISTED: Final = 20
"""Maximum number of exchanges that are listed for people."""
REASONS: Final = 20
"""Maximum number of reasons that are listed for people."""
FILES: Final = 3
"""Maximum number of files named that are no archive."""


def inspection_lines(archive: Archive, inspection: Inspection) -> Iterator[str]:
    """Yield what an archive holds, for people."""
    yield f"{archive.path}: {', '.join(archive.names)}; {count_noun(len(archive.files), 'file')}"
    if archive.others:
        yield f"not read, as they are no archive: {list_some(archive.others, FILES)}"
    yield f"bias: {'; '.join(bias.value for bias in archive.biases)}"
    for note in archive.notes:
        yield f"note: {note}"
    yield f"records: {inspection.records:,}; skipped {inspection.skipped_records:,}, bad {inspection.bad_records:,}"
    yield f"window: {_window(inspection)}"
    unknown = f"; of {inspection.without_size:,} records unknown" if inspection.without_size else ""
    yield f"bodies: {inspection.body_bytes:,} bytes{unknown}"
    if inspection.with_outcome:
        known = count_noun(inspection.with_outcome, "record")
        yield f"outcome known: {known}, of which the broker put {inspection.unrouted:,} nowhere"
    else:
        yield "outcome known: of no record; what the broker did cannot be verified"
    if inspection.exchanges:
        yield "exchanges:"
        for (vhost, name), count in inspection.exchanges.most_common(LISTED):
            where = "" if vhost is None else f"  in {vhost!r}"
            yield f"  {count:>12,}  {escape_line(name) or '(default exchange)'}{where}"
        if len(inspection.exchanges) > LISTED:
            yield f"  and {len(inspection.exchanges) - LISTED} more"
    yield from skipped_lines(inspection)
    yield from bad_lines(inspection)


def skipped_lines(inspection: Inspection) -> Iterator[str]:
    """Yield why records were skipped, and how many."""
    for reason, count in inspection.skipped.most_common():
        yield f"skipped: {count:,}: {reason}"


def _window(inspection: Inspection) -> str:
    if inspection.first is None or inspection.last is None:
        return "unknown; no record has a time" if inspection.records else "none"
    unknown = f"; {inspection.without_time:,} records without a time" if inspection.without_time else ""
    return f"{moment(inspection.first)} to {moment(inspection.last)}{unknown}"


def inspection_json(archive: Archive, inspection: Inspection) -> dict[str, Any]:
    """Return what an archive holds as the values of one JSON object, which docs/inspect-json.md describes."""
    return {
        "version": 1,
        "path": archive.path,
        "formats": list(archive.names),
        "files": [{"path": path, "format": form.name, "bias": form.bias_of(path).name} for path, form in archive.files],
        "not_archives": list(archive.others),
        "bias": [bias.name for bias in archive.biases],
        "notes": list(archive.notes),
        "auditable": bool(inspection.records),
        "records": inspection.records,
        "skipped": dict(inspection.skipped),
        "window": {
            "first": None if inspection.first is None else moment(inspection.first),
            "last": None if inspection.last is None else moment(inspection.last),
            "records_without_time": inspection.without_time,
        },
        "bodies": {"bytes": inspection.body_bytes, "records_without_size": inspection.without_size},
        "outcome": {"known": inspection.with_outcome, "nowhere": inspection.unrouted},
        "exchanges": [
            {"vhost": vhost, "exchange": name, "records": count}
            for (vhost, name), count in inspection.exchanges.most_common()
        ],
        "bad": bad_json(inspection),
    }


def bad_lines(inspection: Inspection) -> Iterator[str]:
    """Yield why records are bad or do not fit, how many they are, and some positions of each reason, for people."""
    for reason, count in inspection.bad.most_common(REASONS):
        yield f"bad: {count:,}: {escape_line(reason)}"
        for bad in inspection.samples[reason]:
            sample = f": {escape_line(bad.sample.decode('utf-8', 'replace'))}" if bad.sample else ""
            yield f"  {escape_line(bad.source)} at {bad.offset}{sample}"
    if len(inspection.bad) > REASONS:
        yield f"bad: and {len(inspection.bad) - REASONS} more reasons"


def bad_json(inspection: Inspection) -> list[dict[str, Any]]:
    """Return the same for programs, all reasons."""
    return [
        {
            "reason": reason,
            "records": count,
            "samples": [
                {"source": bad.source, "offset": bad.offset, "sample": bad.sample.decode("utf-8", "replace")}
                for bad in inspection.samples[reason]
            ],
        }
        for reason, count in inspection.bad.most_common()
    ]
