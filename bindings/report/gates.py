"""Check which thresholds of an audit were kept, and which bindings its coverage leaves out.

A percentage is compared in the form in which it is shown, rounded to the precision in the settings. Rounding never
gives 100, so ``fail_under = 100`` means all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Final, Literal

from bindings.archive.figures import to_percent
from bindings.archive.times import EPOCH
from bindings.counts.verification import Verification
from bindings.report.model import Compared, Records, Summary
from bindings.report.rows import ExchangeRow, QueueRow
from bindings.report.thresholds import NO_LIMITS, Gate, Ignore, IgnoreUse, Limits, Quota, Settings, matches_glob
from exchange.entities.entities import Binding
from exchange.text.display import count_noun
from exchange.topology.unread import UnreadPart, format_not_proved


def match_ignores(
    entries: Sequence[Ignore], hits: Mapping[Binding, bool], now: int
) -> tuple[tuple[IgnoreUse, ...], dict[Binding, IgnoreUse]]:
    """Return the use of each entry of the ignore list, and ignored binding -> the use of the entry that ignores it.

    ``hits`` maps each binding to whether a message matched it; ``now`` is in microseconds since 1970. If several
    entries match a binding, the first that has not expired ignores it.
    """
    today = (EPOCH + timedelta(microseconds=now)).date()
    uses: list[IgnoreUse] = []
    ignored: dict[Binding, IgnoreUse] = {}
    for entry in entries:
        matching = [binding for binding in hits if entry.matches(binding)]
        use = IgnoreUse(entry, entry.until < today, len(matching), sum([hits[binding] for binding in matching]))
        uses.append(use)
        if not use.expired:
            for binding in matching:
                ignored.setdefault(binding, use)
    return tuple(uses), ignored


def check_gates(
    settings: Settings,
    summary: Summary,
    records: Records,
    exchanges: Collection[ExchangeRow],
    queues: Collection[QueueRow],
    ignored: Collection[IgnoreUse],
    verification: Verification | None = None,
    comparison: Compared | None = None,
    others: str = "",
) -> tuple[Gate, ...]:
    """Return a gate for each threshold that applies, and one for each entry of the ignore list that expired.

    ``others`` is the row of ``exchanges`` of those without one of their own; "" if there are none.
    """
    limits, digits = settings.limits, settings.precision
    checked: list[Gate] = []
    totals = summary.totals
    checked += _check_coverage("fail_under", limits.fail_under, totals.hit, totals.eligible, digits)
    checked += _check_coverage(
        "fail_under_messages", limits.fail_under_messages, totals.routed, totals.messages, digits
    )
    checked += _check_quota(
        "max_unroutable", limits.max_unroutable, totals.unroutable + totals.refused, totals.messages
    )
    checked += _check_bad(limits.max_bad, records)
    if verification is None:
        checked += _note_unasked("max_misrouted", limits.max_misrouted, "--verify")
    elif verification.compared or limits.max_misrouted is None:
        checked += _check_quota(
            "max_misrouted", limits.max_misrouted, count_misrouted(verification), verification.compared
        )
    else:
        unknown = "misrouted messages: what the broker did is recorded of none, so nobody knows how many there are"
        checked.append(
            _gate("max_misrouted", None, str(limits.max_misrouted), "unknown", passed=False, message=unknown)
        )
    if comparison is None:
        checked += _note_unasked("max_rerouted", limits.max_rerouted, "--compare")
    else:
        elsewhere = comparison.changes.totals
        checked += _check_quota("max_rerouted", limits.max_rerouted, elsewhere.elsewhere, elsewhere.messages)
    for row in exchanges:
        own = _limits_of(row.use.exchange, settings.exchanges)
        scope, use = row.use.exchange, row.use
        if row.eligible:
            checked += _check_coverage("fail_under", own.fail_under, row.hit, row.eligible, digits, scope)
        if use.published:
            checked += _check_coverage(
                "fail_under_messages", own.fail_under_messages, row.routed, use.published, digits, scope
            )
            checked += _check_quota(
                "max_unroutable", own.max_unroutable, use.unroutable + use.refused, use.published, scope
            )
    for queue in queues:
        own = _limits_of(queue.use.queue, settings.queues)
        limit = own.max_partition_skew if own.max_partition_skew is not None else limits.max_partition_skew
        checked += _check_skew(limit, queue)
    checked += _check_globs("exchange", settings.exchanges, [row.use.exchange for row in exchanges])
    checked += _refuse_unnamed(settings.exchanges, others)
    checked += _check_globs("queue", settings.queues, [row.use.queue for row in queues])
    if limits.max_partition_skew is not None and not any(gate.name == "max_partition_skew" for gate in checked):
        idle = f"no queue {IDLE['max_partition_skew']}, so nothing is limited"
        checked.append(
            _gate("max_partition_skew", None, str(limits.max_partition_skew), "none", passed=True, message=idle)
        )
    checked += _note_idle("exchange", settings.exchanges, [row.use.exchange for row in exchanges], checked)
    checked += _note_idle("queue", settings.queues, [row.use.queue for row in queues], checked)
    checked += [_refuse_expired(use) for use in ignored if use.expired]
    return tuple(checked)


def count_misrouted(verification: Verification) -> int:
    """Return the number of messages that the broker did not route as predicted.

    A message that reached all the right queues, and besides only queues that the topology does not have, does not
    count: no export of definitions has the exclusive and transient queues.
    """
    unknown = [evidence.messages for each, evidence in verification.differences.items() if each.only_unknown]
    return verification.different - sum(unknown)


WHAT: Final = {
    "fail_under": ("binding coverage", "binding"),
    "fail_under_messages": ("message coverage", "message"),
    "max_unroutable": ("unroutable messages", "message"),
    "max_bad": ("bad records", "record"),
    "max_misrouted": ("misrouted messages", "message"),
    "max_rerouted": ("messages that go elsewhere", "message"),
}
"""Name of a threshold -> what it measures, and the noun of what it counts."""


def _check_coverage(
    name: str, wanted: Decimal | None, part: int, whole: int, digits: int, exchange: str | None = None
) -> Iterator[Gate]:
    if wanted is None:
        return
    what, unit = WHAT[name]
    if not whole:
        yield _gate(name, exchange, f"{wanted} %", "none", True, f"{what}: there are no {unit}s to cover")
        return
    actual = to_percent(part, whole, digits)
    message = f"{what} is {actual} % ({part:,} of {count_noun(whole, unit)}), wanted is {wanted} %"
    yield _gate(name, exchange, f"{wanted} %", f"{actual} %", actual >= wanted, message)


def _check_quota(name: str, limit: Quota | None, part: int, whole: int, exchange: str | None = None) -> Iterator[Gate]:
    if limit is None:
        return
    what, unit = WHAT[name]
    share = f" ({to_percent(part, whole, 3).normalize():f} %)" if whole and part else ""
    message = (
        f"{what}: {part:,}{share} of {count_noun(whole, unit)}, at most {limit} {'are' if whole != 1 else 'is'} allowed"
    )
    yield _gate(name, exchange, str(limit), f"{part:,}{share}", limit.allows(part, whole), message)


def _check_bad(limit: Quota | None, records: Records) -> Iterator[Gate]:
    """Yield the gate of unreadable records; where nobody can count them all, no percentage below 100 is kept."""
    bad = records.unread.bad_records
    is_kept = limit is not None and limit.allows(bad, records.read)  # each more that is bad makes the share larger
    if limit is not None and is_kept and limit.percent and limit.number < 100 and records.unread.uncounted:
        message = (
            f"bad records: at least {bad:,} of {count_noun(records.read, 'record')}; some damage costs an "
            f"unknown number, so nobody knows whether it is at most {limit}"
        )
        yield _gate("max_bad", None, str(limit), "unknown", passed=False, message=message)
    else:
        yield from _check_quota("max_bad", limit, bad, records.read)


def _note_unasked(name: str, limit: Quota | None, option: str) -> Iterator[Gate]:
    """Yield a gate, which passes, for a threshold of the settings about what this audit was not asked to count."""
    if limit is not None:
        message = f"{WHAT[name][0]}: not counted without {option}, so nothing is limited"
        yield _gate(name, None, str(limit), "not counted", passed=True, message=message)


def _check_skew(limit: Decimal | None, row: QueueRow) -> Iterator[Gate]:
    if limit is None or row.skew is None:
        return
    actual = row.skew.max_to_mean
    message = f"the fullest partition has {actual:.2f} times the mean, at most {limit} times is allowed"
    name = row.use.queue
    yield Gate("max_partition_skew", name, "queue", str(limit), f"{actual:.2f}", actual <= limit, message)


def _check_globs(
    of: Literal["exchange", "queue"], entries: Iterable[tuple[str, Limits]], names: Sequence[str]
) -> Iterator[Gate]:
    """Yield a gate for each entry that matches no name: a plain name fails, as it must be misspelt; a glob passes."""
    for glob, _ in entries:
        if glob not in names and not any(matches_glob(glob, name) for name in names):
            plain = not set(glob) & set("*?[")
            message = (
                f"there is no {of} '{glob}' to limit" if plain else f"no {of} fits '{glob}', so nothing is limited"
            )
            yield Gate(f"{of}s", glob, of, "some", "none", not plain, message)


IDLE: Final = {
    "fail_under": "has bindings to cover",
    "fail_under_messages": "got a message",
    "max_unroutable": "got a message",
    "max_partition_skew": "has a partition with messages",
}
"""Threshold of some names -> what none of them has or did where it limits nothing."""


def _note_idle(
    of: Literal["exchange", "queue"], entries: Sequence[tuple[str, Limits]], names: Sequence[str], done: Sequence[Gate]
) -> list[Gate]:
    """Return a gate, which passes, for each threshold of an entry that fits names and limits nothing at them."""
    found = []
    for glob, limits in entries:
        if not any(name == glob or matches_glob(glob, name) for name in names):
            continue  # it has a gate already
        fitting = {name for name in names if _limits_of(name, entries) is limits}
        checked = {gate.name for gate in done if gate.of == of and gate.scope in fitting}
        for name, limit in limits._asdict().items():
            if limit is not None and name not in checked:
                text = f"{limit} %" if name.startswith("fail_under") else str(limit)
                message = f"no {of} with the thresholds of '{glob}' {IDLE[name]}, so nothing is limited"
                found.append(Gate(name, glob, of, text, "none", True, message))
    return found


def _refuse_unnamed(entries: Iterable[tuple[str, Limits]], others: str) -> Iterator[Gate]:
    """Yield a gate that fails for each glob of which nobody knows whether messages to exchanges without a row fit."""
    for glob, limits in entries if others else ():
        if set(glob) & set("*?[") and (limits.fail_under_messages is not None or limits.max_unroutable is not None):
            message = f"messages that are counted in the row '{others}' may be to exchanges that fit '{glob}'"
            yield Gate("exchanges", glob, "exchange", "none", "unknown", False, message)


def _refuse_expired(use: IgnoreUse) -> Gate:
    entry = use.entry
    message = (
        f"the entry for {entry} ({entry.reason}) was valid until {entry.until}: check whether it still holds, and "
        "give a later day or remove the entry"
    )
    return Gate("ignore", str(entry), "", str(entry.until), "expired", False, message)


def refuse_unread(unread: Sequence[UnreadPart]) -> Gate:
    """Return the gate that fails where parts of the topology were not read: then no threshold is kept for certain."""
    message = f"{format_not_proved(unread)} of the topology, such as {unread[0]}; --allow-unread audits the rest"
    return Gate("unread", "", "", "0", f"{len(unread):,}", False, message)


def _gate(name: str, exchange: str | None, limit: str, actual: str, passed: bool, message: str) -> Gate:
    return Gate(name, exchange or "", "" if exchange is None else "exchange", limit, actual, passed, message)


def _limits_of(name: str, entries: Sequence[tuple[str, Limits]]) -> Limits:
    for glob, limits in entries:
        if glob == name:
            return limits
    return next((limits for glob, limits in entries if matches_glob(glob, name)), NO_LIMITS)
