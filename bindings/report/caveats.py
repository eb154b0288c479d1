"""What a reader must know before the numbers: what an archive cannot say, and what was not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bindings.archive.reading import COPIES
from bindings.report.figures import percent
from exchange.display import count_noun

if TYPE_CHECKING:
    from bindings.report.model import Report

__all__ = ["caveats"]

BIASES: Final = {
    "SURVIVORS": (
        "{paths}: survivors only. It holds only what reached the queues or topics it was taken from. So it shows "
        "no unroutable messages and no message coverage, and a dead binding may lead to a queue that is not in it."
    ),
    "SAMPLE": (
        "{paths}: a sample. Counts are lower bounds, and a dead binding may be one whose messages were not picked."
    ),
    "UNKNOWN": "{paths}: how it was taken is not recorded, so it may be everything, survivors only, or a sample.",
}
"""A bias's name -> what it means for the numbers; an archive with everything needs no word."""

FEW: Final = 3
"""So many paths are named."""


def caveats(report: Report) -> Iterator[str]:
    """In sentences, the gravest first."""
    audited, totals = report.audited, report.summary.totals
    records = audited.records
    if not totals.messages:
        yield "No message was counted, so nothing is known of any binding."
    for bias, says in BIASES.items():
        paths = [archive.path for archive in audited.archives if bias in [each.name for each in archive.biases]]
        if paths:
            more = f" and {len(paths) - FEW} more" if len(paths) > FEW else ""
            yield says.format(paths=", ".join(paths[:FEW]) + more)
    copied = [archive.path for archive in audited.archives if COPIES in archive.notes]
    if copied:
        more = f" and {len(copied) - FEW} more" if len(copied) > FEW else ""
        yield (
            f"{', '.join(copied[:FEW])}{more}: a bridge wrote it for several queues, and {COPIES}. So numbers of "
            "messages are too high. For numbers that are right audit the folder of one queue."
        )
    if audited.tallies and not audited.archives:
        yield "How the archives of the tallies were taken is not recorded: everything, survivors only, or a sample."
    if records.unread.bad_records:
        bad = f"{count_noun(records.unread.bad_records, 'record')} of {records.read:,}"
        yield f"{bad} ({percent(records.unread.bad_records, records.read, 2)} %) could not be read and are not counted."
    others = sum([len(archive.others) for archive in audited.archives])
    if others:
        were = "was" if others == 1 else "were"
        yield f"{count_noun(others, 'file')} {were} not read: not an archive, so far as can be seen."
    if audited.without_time and totals.messages:
        untimed = f"Without a time: {audited.without_time:,} of {count_noun(totals.messages, 'message')}."
        yield f"{untimed} They are in no timeline, and first and last seen are of the others."
    if totals.undecided:
        yield (
            f"The routing of {count_noun(totals.undecided, 'message')} is undecided: it depends on chance, or on an "
            "exchange of unknown type."
        )
    missing = report.summary.states["not eligible"]
    if missing:
        yield (
            f"{count_noun(missing, 'binding')} cannot be hit: source or destination does not exist, or the source's "
            "type is unknown. They are not counted in binding coverage."
        )
