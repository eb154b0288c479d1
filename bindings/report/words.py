"""Sentences and names that all forms of a report share."""

from __future__ import annotations

from typing import Final

from bindings.counts.comparison import Change
from bindings.counts.verification import OTHERS, Difference
from bindings.report.figures import minute, percent
from bindings.report.model import Audited, Records, Report
from exchange.display import count_noun
from exchange.entities.entities import Binding, Destination
from exchange.notation import write_arguments

__all__ = [
    "about", "conditions", "destination", "differs", "exchange", "passed", "records", "rerouted", "source", "verdict",
    "window",
]  # fmt: skip

FEW: Final = 3
"""So many paths are named."""

MANY: Final = 8
"""So many queues are named."""


def about(audited: Audited) -> str:
    """Which topology it is."""
    parts = f"{count_noun(audited.queues, 'queue')}, {count_noun(audited.bindings, 'binding')}"
    return f"{audited.topology}, virtual host '{audited.vhost}', {audited.profile}: {parts}"


def source(audited: Audited) -> str:
    """Which archives or tallies it is of."""
    told = [
        f"{archive.path} ({', '.join(archive.formats)}; {count_noun(archive.files, 'file')})"
        for archive in audited.archives
    ]
    told += [f"{path} (tally)" for path in audited.tallies]
    more = f" and {len(told) - FEW:,} more" if len(told) > FEW else ""
    return f"{', '.join(told[:FEW])}{more}" or "unknown"


def window(audited: Audited) -> str:
    """Of which time it is, and what was asked for."""
    told = "unknown; no message has a time"
    if audited.window is not None:
        told = f"{minute(audited.window[0])} to {minute(audited.window[1])} UTC"
    since = f" since {minute(audited.since)}" if audited.since is not None else ""
    until = f" until {minute(audited.until)}" if audited.until is not None else ""
    return f"{told}; asked for:{since}{until}" if since or until else told


def records(found: Records) -> str:
    """What became of the records."""
    reasons = sorted(found.unread.skipped.items(), key=lambda item: (-item[1], item[0]))
    why = ", ".join([f"{count:,} {reason}" for reason, count in reasons[:FEW]])
    skipped = f"{found.unread.skipped_records:,} skipped{f' ({why})' if why else ''}"
    return f"{found.read:,} read: {found.counted:,} counted, {skipped}, {found.unread.bad_records:,} bad"


def exchange(name: str) -> str:
    """An exchange's name, also of the one whose name is empty."""
    return name or "(default exchange)"


def destination(of: Destination) -> str:
    """Where a binding leads; that it is a queue goes without saying."""
    return of.name if of.kind == "queue" else f"exchange {of.name}"


def conditions(binding: Binding) -> str:
    """What a binding asks for: its key, its arguments or both."""
    if not binding.arguments:
        return f"'{binding.routing_key}'"
    arguments = write_arguments(binding.arguments)
    return f"'{binding.routing_key}' {arguments}" if binding.routing_key else arguments


def differs(difference: Difference) -> str:
    """Where messages went instead of where they should."""
    told = f"published to {exchange(difference.exchange)}:"
    if difference.refused:
        return f"{told} taken, though the topology says that they are refused: {difference.refused}"
    parts = [
        ("not in", difference.missing),
        ("also in", difference.extra),
        ("in none of", difference.none_of),
    ]
    listed = [f"{verb} {_names(names)}" for verb, names in parts if names]
    if difference.unknown:
        kinds = tuple([name for name in difference.unknown if name != OTHERS])
        listed.append(f"in queues that the topology does not have{f' ({_names(kinds)})' if kinds else ''}")
    return f"{told} {'; '.join(listed)}"


def rerouted(change: Change) -> str:
    """What messages lose and gain."""
    parts = [("lose", change.lost), ("gain", change.gained), ("perhaps lose or gain", change.unsure)]
    told = [f"{verb} {_names(names)}" for verb, names in parts if names]
    if change.before != change.after:
        told.append(f"{change.before} before, {change.after} after")
    elif change.refused_before != change.refused_after:
        told.append("refused otherwise")
    return f"published to {exchange(change.exchange)}: {'; '.join(told)}"


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MANY:,} more" if len(names) > MANY else ""
    return f"{', '.join(names[:MANY])}{more}"


def passed(report: Report) -> str:
    """How many gates passed."""
    failed = sum([not gate.passed for gate in report.gates])
    return f"{failed:,} of {len(report.gates):,} failed" if failed else f"all {len(report.gates):,} passed"


def verdict(report: Report) -> str:
    """The whole report in a line."""
    totals = report.summary.totals
    hit = f" ({percent(totals.hit, totals.eligible, report.precision)} %)" if totals.eligible else ""
    routed = f" ({percent(totals.routed, totals.messages, report.precision)} %)" if totals.messages else ""
    told = (
        f"bindings hit: {totals.hit:,} of {totals.eligible:,}{hit}; "
        f"messages routed: {totals.routed:,} of {totals.messages:,}{routed}"
    )
    if not report.gates:
        return told
    return f"PASSED; {told}" if report.passed else f"FAILED {passed(report).removesuffix(' failed')} gates; {told}"
