"""The text that describes an archive, of the numbers that `bindings.archive.inspection` has counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypedDict

from bindings.archive.figures import format_position, format_time
from exchange.text.display import count_noun, count_rest, escape_line, list_some
from exchange.values.forms import Form, Forms
from exchange.values.json_text import draw_line

if TYPE_CHECKING:
    from bindings.archive.formats.detect import Archive, ArchiveContents
    from bindings.archive.inspection import Inspection
    from bindings.archive.reading import Bad
    from bindings.archive.sums import Unread

ARCHIVE_FORMS: Final[Forms] = {
    "text": Form("bindings.report.kafka:format_inspection", (".txt",)),
    "json": Form("bindings.report.inspection_json:Inspected", (".json",), indent=2),
}
"""The forms of the content of an archive, or of the data folder of a Kafka broker."""
STORE_FORMS: Final[Forms] = {
    "text": Form("bindings.report.store:store_lines"),
    "json": Form("bindings.report.store_json:InspectedStore", indent=2),
}
"""The forms of the content of the store of a RocketMQ broker."""
MATCH_FORMS: Final[Forms] = {
    "text": Form("bindings.report.store:format_matches"),
    "json": Form("bindings.report.store_json:MatchedMessages", indent=2),
}
"""The forms of the messages that were searched in such a store."""

MAX_LISTED_EXCHANGES: Final = 20
"""Maximum number of exchanges that are listed for people."""
REASONS: Final = 20
"""Maximum number of reasons that are listed for people."""
FILES: Final = 3
"""Maximum number of names of files that are no archives."""


def describe_inspection(archive: Archive, contents: ArchiveContents, inspection: Inspection) -> Iterator[str]:
    """Yield what an archive holds, for people."""
    yield f"{archive.path}: {', '.join(contents.formats)}; {count_noun(len(archive.files), 'file')}"
    if contents.others:
        yield f"not read, as they are no archive: {list_some(contents.others, FILES)}"
    yield f"bias: {'; '.join(bias.value for bias in contents.biases)}"
    for note in contents.notes:
        yield f"note: {note}"
    unread = inspection.unread
    yield f"records: {inspection.records:,}; skipped {unread.skipped_records:,}, bad {unread.bad_records:,}"
    yield f"window: {_window(inspection)}"
    unknown = f"; of {count_noun(inspection.without_size, 'record')} unknown" if inspection.without_size else ""
    yield f"bodies: {count_noun(inspection.body_bytes, 'byte')}{unknown}"
    if inspection.with_outcome:
        known = count_noun(inspection.with_outcome, "record")
        yield f"outcome known: {known}, of which the broker put {inspection.unrouted:,} nowhere"
    else:
        yield "outcome known: of no record; what the broker did cannot be verified"
    if inspection.exchanges:
        yield "exchanges:"
        for (vhost, name), count in inspection.exchanges.most_common(MAX_LISTED_EXCHANGES):
            where = "" if vhost is None else f"  in {vhost!r}"
            yield f"  {count:>12,}  {escape_line(name) or '(default exchange)'}{where}"
        yield from count_rest(len(inspection.exchanges), MAX_LISTED_EXCHANGES)
    yield from format_skipped(unread)
    yield from format_bad(unread)


def format_skipped(unread: Unread) -> Iterator[str]:
    """Yield why records were skipped, and how many."""
    for reason, count in unread.skipped.most_common():
        yield f"skipped: {count:,}: {reason}"


def _window(inspection: Inspection) -> str:
    if inspection.window is None:
        return "unknown; no record has a time" if inspection.records else "none"
    first, last = inspection.window
    unknown = f"; {count_noun(inspection.untimed, 'record')} without a time" if inspection.untimed else ""
    return f"{format_time(first)} to {format_time(last)}{unknown}"


def format_bad(unread: Unread) -> Iterator[str]:
    """Yield the reasons why records are bad, the number of records of each reason, and a few positions."""
    for reason, count in unread.bad.most_common(REASONS):
        yield f"bad: {count:,}: {escape_line(unread.explain(reason))}"
        for bad in unread.samples[reason]:
            drawing = draw_bad(bad).splitlines()[1:]
            sample = f": {escape_line(bad.sample.decode('utf-8', 'replace'))}" if bad.sample and not drawing else ""
            yield f"  {format_position(escape_line(bad.source), bad.offset)}{sample}"
            yield from drawing
    yield from count_rest(len(unread.bad), REASONS, " reasons", indent="bad: ")


def draw_bad(bad: Bad) -> str:
    """Return a whole line of JSON that is no record, and a line with a caret under the fault; "" for other records."""
    if not bad.sample.lstrip().startswith(b"{") or not bad.sample.endswith(b"\n"):
        return ""
    return draw_line(bad.sample, bad.reason)


class SampleJson(TypedDict):
    """A record that could not be read."""

    source: str
    """The file."""
    offset: int | None
    """A byte, line or offset, as the format counts; null if unknown."""
    sample: str
    """How the record begins."""


class BadJson(TypedDict):
    """Records that could not be read."""

    reason: str
    records: int
    samples: list[SampleJson]


def encode_bad(unread: Unread) -> list[BadJson]:
    """Return what `format_bad` shows as JSON values, with all reasons."""
    return list_bad(unread, unread.bad.most_common())


def list_bad(unread: Unread, counts: Iterable[tuple[str, int]]) -> list[BadJson]:
    """Return reasons and numbers of bad records with their samples."""
    return [
        {
            "reason": unread.explain(reason),
            "records": count,
            "samples": [
                {"source": bad.source, "offset": bad.offset, "sample": bad.sample.decode("utf-8", "replace")}
                for bad in unread.samples.get(reason, ())
            ],
        }
        for reason, count in counts
    ]
