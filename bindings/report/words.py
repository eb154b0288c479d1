"""Sentences and names that all forms of a report share."""

from __future__ import annotations

from typing import Final

from bindings.archive.figures import format_minute, to_percent
from bindings.counts.comparison import OutcomeChange
from bindings.counts.verification import OTHERS, PlacementDifference
from bindings.report.model import Audited, Records, Report
from exchange.entities.entities import Binding, Destination, Exchange
from exchange.kinds import Decider, find_kind
from exchange.text.display import count_noun, list_some
from exchange.values.notation import write_arguments

NO_HEADERS: Final = "unknown, as an audit keeps no headers; hashstar explain names the one that failed"
"""Why nothing is said of a message that no binding of an exchange took which looks at headers."""

MAX_NAMED_PATHS: Final = 3
"""Maximum number of paths, and of reasons, that are named."""

MAX_NAMED_QUEUES: Final = 8
"""Maximum number of queues that are named."""


def describe_topology(audited: Audited) -> str:
    """Return which topology was audited, and its size."""
    parts = f"{count_noun(audited.queues, 'queue')}, {count_noun(audited.bindings, 'binding')}"
    return f"{audited.topology}, virtual host '{audited.vhost}', {audited.profile}: {parts}"


def list_unexplained_exchanges(report: Report) -> frozenset[str]:
    """Return the names of the exchanges that look at headers, of whose unroutable messages an audit knows no reason."""
    exchanges = [Exchange(row.use.exchange, row.type) for row in report.exchanges if row.type]
    by_headers = (Decider.HEADERS, Decider.SELECTOR)
    return frozenset([each.name for each in exchanges if find_kind(each).decider in by_headers])


def describe_traffic(audited: Audited) -> str:
    """Return which archives or tallies were audited."""
    sources = [
        f"{archive.path} ({', '.join(archive.formats)}; {count_noun(archive.files, 'file')})"
        for archive in audited.archives
    ]
    sources += [f"{path} (tally)" for path in audited.tallies]
    return list_some(sources, MAX_NAMED_PATHS) or "unknown"


def describe_window(audited: Audited) -> str:
    """Return the times of the first and the last message, and the window that was asked for."""
    text = "unknown; no message has a time"
    if audited.window is not None:
        text = f"{format_minute(audited.window[0])} to {format_minute(audited.window[1])} UTC"
    since = f" since {format_minute(audited.since)}" if audited.since is not None else ""
    until = f" until {format_minute(audited.until)}" if audited.until is not None else ""
    return f"{text}; asked for:{since}{until}" if since or until else text


def describe_records(records: Records) -> str:
    """Return how many records were read, counted, skipped and bad."""
    reasons = sorted(records.unread.skipped.items(), key=lambda item: (-item[1], item[0]))
    why = ", ".join([f"{count:,} {reason}" for reason, count in reasons[:MAX_NAMED_PATHS]])
    skipped = f"{records.unread.skipped_records:,} skipped{f' ({why})' if why else ''}"
    return f"{records.read:,} read: {records.counted:,} counted, {skipped}, {records.unread.bad_records:,} bad"


def name_exchange(name: str) -> str:
    """Return the name of an exchange; the default exchange has none, and gets one."""
    return name or "(default exchange)"


def name_destination(destination: Destination) -> str:
    """Return the name of a destination, after its kind if that is an exchange."""
    return destination.name if destination.kind == "queue" else f"exchange {destination.name}"


def describe_condition(binding: Binding) -> str:
    """Return the condition of a binding: its key, its arguments or both."""
    if not binding.arguments:
        return f"'{binding.routing_key}'"
    arguments = write_arguments(binding.arguments)
    return f"'{binding.routing_key}' {arguments}" if binding.routing_key else arguments


def describe_difference(difference: PlacementDifference) -> str:
    """Return how the queues that messages reached differ from the predicted ones."""
    begin = f"published to {name_exchange(difference.exchange)}:"
    if difference.refused:
        return f"{begin} taken, though the topology says that they are refused: {difference.refused}"
    parts = [("not in", difference.missing), ("also in", difference.extra), ("in none of", difference.none_of)]
    listed = [f"{verb} {_names(names)}" for verb, names in parts if names]
    if difference.unknown:
        kinds = tuple([name for name in difference.unknown if name != OTHERS])
        listed.append(f"in queues that the topology does not have{f' ({_names(kinds)})' if kinds else ''}")
    return f"{begin} {'; '.join(listed)}"


def describe_change(change: OutcomeChange) -> str:
    """Return which queues messages lose and gain in another topology."""
    parts = [("lose", change.lost), ("gain", change.gained), ("perhaps lose or gain", change.unsure)]
    listed = [f"{verb} {_names(names)}" for verb, names in parts if names]
    if change.before != change.after:
        listed.append(f"{change.before} before, {change.after} after")
    elif change.refused_before != change.refused_after:
        listed.append("refused otherwise")
    return f"published to {name_exchange(change.exchange)}: {'; '.join(listed)}"


def _names(names: tuple[str, ...]) -> str:
    return list_some(names, MAX_NAMED_QUEUES)


def describe_gates(report: Report) -> str:
    """Return how many gates failed, or that all passed."""
    failed = sum([not gate.passed for gate in report.gates])
    return f"{failed:,} of {len(report.gates):,} failed" if failed else f"all {len(report.gates):,} passed"


def summarize(report: Report) -> str:
    """Return the verdict on a report: its two totals and its gates in one line."""
    totals = report.summary.totals
    hit = f" ({to_percent(totals.hit, totals.eligible, report.precision)} %)" if totals.eligible else ""
    routed = f" ({to_percent(totals.routed, totals.messages, report.precision)} %)" if totals.messages else ""
    text = (
        f"bindings hit: {totals.hit:,} of {totals.eligible:,}{hit}; "
        f"messages routed: {totals.routed:,} of {totals.messages:,}{routed}"
    )
    if not report.gates:
        return text
    if report.passed:
        return f"PASSED; {text}"
    return f"FAILED {describe_gates(report).removesuffix(' failed')} gates; {text}"
