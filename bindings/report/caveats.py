"""What a reader must know before the numbers: what an archive cannot show, and what was not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bindings.archive.figures import to_percent
from bindings.archive.reading import COPIES, TEXTS_ONLY
from bindings.counts.groups import MAX_NAMES
from exchange.kinds import KINDS, Decider, UnknownExchange
from exchange.limits import CHANGES, OUTCOMES
from exchange.text.display import count_noun, list_some
from exchange.topology.unread import format_not_proved
from exchange.values.field_values import resolve_type

if TYPE_CHECKING:
    from bindings.counts.changes import Changes
    from bindings.report.model import Report

BIASES: Final = {
    "SURVIVORS": (
        "Survivors only, in {paths}: what reached the queues or topics it was taken from. So it shows no unroutable "
        "messages and no message coverage, and a dead binding may lead to a queue that is not in it."
    ),
    "SAMPLE": (
        "A sample, in {paths}: counts are lower bounds, and a dead binding may be one whose messages were not picked."
    ),
    "UNKNOWN": "How it was taken is not recorded, so it may be everything, survivors only, or a sample: {paths}.",
}
"""Name of a bias -> what it means for the numbers. An archive with everything needs no caveat."""

MAX_NAMED_PATHS: Final = 3
"""Maximum number of paths that are named."""


def list_caveats(report: Report) -> Iterator[str]:
    """Yield the caveats of a report in sentences, the most severe first."""
    audited, totals = report.audited, report.summary.totals
    records = audited.records
    yield from (f"{each}." for each in audited.unknown)
    if audited.unread:
        listed = list_some([str(each) for each in audited.unread], MAX_NAMED_PATHS)
        yield (
            f"{format_not_proved(audited.unread).capitalize()} of the topology: {listed}. So a binding that seems "
            "dead may be reached, and a message that seems unroutable may get to a queue, by a part that is missing."
        )
    if not totals.messages:
        yield "No message was counted, so nothing is known of any binding."
    elif totals.refused == totals.messages and not any(row.type for row in report.exchanges if row.use.published):
        yield (
            "No message was published to an exchange of the topology. --exchange and --routing-key say where records "
            "of Kafka and RocketMQ have them: header:amqp.exchange and header:amqp.routing_key if a bridge wrote them. "
            "--column does so for Parquet, Avro, JSON lines and CSV."
        )
    for bias, sentence in BIASES.items():
        paths = [archive.path for archive in audited.archives if bias in [each.name for each in archive.biases]]
        if paths:
            yield sentence.format(paths=list_some(paths, MAX_NAMED_PATHS))
    copied = [archive.path for archive in audited.archives if COPIES in archive.notes]
    if copied:
        yield (
            f"A bridge wrote it for several queues, and {COPIES}: {list_some(copied, MAX_NAMED_PATHS)}. So numbers of "
            "messages are too high. For numbers that are right audit the folder of one queue."
        )
    untyped = [archive.path for archive in audited.archives if any(TEXTS_ONLY in note for note in archive.notes)]
    asking = _count_typed_bindings(report) if untyped else 0
    if asking:
        yield (
            f"{count_noun(asking, 'binding asks', 'bindings ask')} for numbers or other values that are no texts, and "
            f"{list_some(untyped, MAX_NAMED_PATHS)} has files whose headers are texts only: no message of these "
            "can match there."
        )
    if audited.tallies and not audited.archives:
        yield "How the archives of the tallies were taken is not recorded: everything, survivors only, or a sample."
    if records.unread.bad_records:
        bad = records.unread.bad_records
        share = to_percent(bad, records.read, 2)
        yield f"{count_noun(bad, 'record')} of {records.read:,} ({share} %) could not be read and are not counted."
    others = sum([len(archive.others) for archive in audited.archives])
    if others:
        yield f"{count_noun(others, 'file was', 'files were')} not read: not an archive, so far as can be seen."
    if audited.without_time and totals.messages:
        untimed = f"Without a time: {audited.without_time:,} of {count_noun(totals.messages, 'message')}."
        yield f"{untimed} They are in no timeline, and first and last seen are of the others."
    if audited.grouped:
        yield (
            f"Messages took more than {OUTCOMES:,} combinations of bindings and queues, so they were counted by "
            "binding, queue and exchange. The errors of frequent keys and shapes, which stand beside them, may be "
            "larger for it; all other numbers are the same."
        )
    if report.comparison is not None and report.comparison.changes.many:
        yield explain_many(report.comparison.changes)
    if audited.others:
        yield (
            f"Messages were published to more than {MAX_NAMES:,} exchanges that the topology does not name. The "
            f"{MAX_NAMES:,} whose names have the smallest hashes have rows; '{audited.others}' stands for all others."
        )
    if totals.undecided:
        yield (
            f"The routing of {count_noun(totals.undecided, 'message')} is undecided: it depends on chance, or on an "
            "exchange of unknown type."
        )
    letters = report.summary.states["dead letters only"]
    if letters:
        yield (
            f"{count_noun(letters, 'binding')} can be reached by dead letters only, which archives of published "
            "messages do not have. They are not counted in binding coverage."
        )
    missing = report.summary.states["not eligible"]
    if missing:
        yield (
            f"{count_noun(missing, 'binding')} cannot be hit: source or destination does not exist, or the source's "
            "type is unknown. They are not counted in binding coverage."
        )


def explain_many(changes: Changes) -> str:
    """Return what a reader must know of changes that are not shown one by one."""
    return (
        f"Messages have more than {CHANGES:,} differences between the two topologies, so rows of these are by exchange "
        f"and fate, and '{changes.many}' stands for the queues that are lost or gained. Totals, and the numbers of "
        "queues and bindings, are the same."
    )


def _count_typed_bindings(report: Report) -> int:
    """Return the number of bindings of headers exchanges that ask for a value that is no text."""
    by_headers = {
        row.use.exchange
        for row in report.exchanges
        if KINDS.get(row.type or "", UnknownExchange).decider is Decider.HEADERS
    }
    asked = [row.use.binding.arguments for row in report.bindings if row.use.binding.source in by_headers]
    return sum(any(resolve_type(value)[0] not in ("longstr", "void") for value in each.values()) for each in asked)
