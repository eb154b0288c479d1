"""Thresholds, and bindings that are not counted: what an audit is asked to insist on, and whether it came true.

A percentage is compared as it is shown, rounded to the precision asked for; since 100 is never reached by rounding,
``fail_under = 100`` means all. A limit of an exchange or queue is that of the entry with its very name, else of the
first entry whose glob fits; the limits for everything hold besides.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fnmatch import translate
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from bindings.report.figures import percent
from exchange.display import count_noun
from exchange.entities.entities import Binding

if TYPE_CHECKING:
    from bindings.counts.verification import Verification
    from bindings.report.model import Compared, ExchangeRow, QueueRow, Records, Summary

__all__ = [
    "Gate",
    "Ignore",
    "IgnoreUse",
    "Limits",
    "Most",
    "Settings",
    "fits",
    "gates",
    "ignoring",
    "misrouted",
    "most",
]

STALE_DAYS: Final = 30


class Most(NamedTuple):
    """A limit: so many, or so many of a hundred."""

    number: Decimal
    percent: bool

    def allows(self, part: int, whole: int) -> bool:
        """Whether so many of so many are within it; exactly, without rounding."""
        if not self.percent:
            return part <= self.number
        return not part or Fraction(100 * part, whole) <= Fraction(self.number)

    def __str__(self) -> str:
        return f"{self.number} %" if self.percent else f"{self.number:,}"


def most(text: str) -> Most | None:
    """A limit from ``100`` or ``0.5%``; None if it is neither."""
    found = re.fullmatch(r"\s*(?:(\d+)|(\d+(?:\.\d+)?)\s*%)\s*", text, re.ASCII)
    if found is None:
        return None
    limit = Most(Decimal(found[1] or found[2]), found[2] is not None)
    return None if limit.percent and limit.number > 100 else limit


class Limits(NamedTuple):
    """The thresholds of an audit; None where there is none.

    >>> settings = Settings(Limits(fail_under=Decimal(90)))
    >>> report = audit("examples/orders/orders.bindings", "examples/orders/traffic.jsonl", settings=settings)
    >>> report.gates[0].message
    'binding coverage is 66.7 % (8 of 12 bindings), wanted is 90 %'
    """

    fail_under: Decimal | None = None
    """Per cent of the eligible bindings that must be hit."""
    fail_under_messages: Decimal | None = None
    """Per cent of the messages that must be routed."""
    max_unroutable: Most | None = None
    """Messages that no queue got, those included that the broker refuses."""
    max_bad: Most | None = None
    """Records that could not be read, of all that were."""
    max_partition_skew: Decimal | None = None
    """Messages of the fullest partition of a queue, divided by the mean of all."""
    max_misrouted: Most | None = None
    """Messages that the broker did not put where it should, of those compared; see `misrouted`."""
    max_rerouted: Most | None = None
    """Messages that go elsewhere in the other topology, of all."""


NO_LIMITS: Final = Limits()


class Ignore(NamedTuple):
    """Bindings that are legitimately silent: by globs, why, and until when."""

    source: str
    destination: str
    pattern: str
    reason: str
    until: date
    """The last day, in UTC."""

    def fits(self, binding: Binding) -> bool:
        """Whether the binding is meant."""
        return (
            fits(self.source, binding.source)
            and fits(self.destination, binding.destination.name)
            and fits(self.pattern, binding.routing_key)
        )

    def __str__(self) -> str:
        told = {"source": self.source, "destination": self.destination, "pattern": self.pattern}
        return ", ".join([f"{name} '{glob}'" for name, glob in told.items() if glob != "*"]) or "everything"


class IgnoreUse(NamedTuple):
    """An entry and what it found."""

    entry: Ignore
    expired: bool
    """An expired entry ignores nothing."""
    bindings: int
    """That it fits."""
    hit: int
    """Of them: those that something matched."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The thresholds of an audit, for everything and by exchange and queue, and the bindings that it ignores.

    >>> settings = Settings(exchanges=(("orders*", Limits(fail_under=Decimal(70))),), stale_days=7)
    >>> audit("examples/orders/orders.bindings", "examples/orders/traffic.jsonl", settings=settings).passed
    True
    """

    limits: Limits = NO_LIMITS
    exchanges: tuple[tuple[str, Limits], ...] = ()
    """Globs of exchanges, in order, and what is insisted on for each."""
    queues: tuple[tuple[str, Limits], ...] = ()
    """The same for queues, of which ``max_partition_skew`` can be limited."""
    ignore: tuple[Ignore, ...] = ()
    stale_days: int = STALE_DAYS
    """A binding that nothing matched in so many days before the end of the window is stale."""
    precision: int = 1
    """Digits of percentages behind the point."""


class Gate(NamedTuple):
    """A limit and what it met."""

    name: str
    """The limit's, as in `Limits`; or ``ignore``, of an entry that expired."""
    scope: str
    """The exchange or queue it is for; "" for everything."""
    of: Literal["", "exchange", "queue"]
    limit: str
    actual: str
    passed: bool
    message: str


def fits(glob: str, name: str) -> bool:
    """Whether a glob fits all of a name, case and all: ``*`` any text, ``?`` a character, ``[*]`` the character."""
    return glob == "*" or _expression(glob).fullmatch(name) is not None


def ignoring(
    entries: Sequence[Ignore], hits: Mapping[Binding, bool], now: int
) -> tuple[tuple[IgnoreUse, ...], dict[Binding, IgnoreUse]]:
    """What each entry finds among bindings, and by which entry a binding is ignored.

    ``hits`` are all bindings, each with whether something matched it; ``now`` is in microseconds since 1970.
    """
    today = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now)).date()
    uses: list[IgnoreUse] = []
    ignored: dict[Binding, IgnoreUse] = {}
    for entry in entries:
        found = [binding for binding in hits if entry.fits(binding)]
        use = IgnoreUse(entry, entry.until < today, len(found), sum([hits[binding] for binding in found]))
        uses.append(use)
        if not use.expired:
            for binding in found:
                ignored.setdefault(binding, use)
    return tuple(uses), ignored


def gates(
    settings: Settings,
    summary: Summary,
    records: Records,
    exchanges: Collection[ExchangeRow],
    queues: Collection[QueueRow],
    ignored: Collection[IgnoreUse],
    verification: Verification | None = None,
    comparison: Compared | None = None,
) -> tuple[Gate, ...]:
    """All that was insisted on, with what came of it; entries to ignore bindings only if they expired."""
    limits, digits = settings.limits, settings.precision
    found: list[Gate] = []
    totals = summary.totals
    found += _covered("fail_under", limits.fail_under, totals.hit, totals.eligible, digits)
    found += _covered("fail_under_messages", limits.fail_under_messages, totals.routed, totals.messages, digits)
    found += _at_most("max_unroutable", limits.max_unroutable, totals.unroutable + totals.refused, totals.messages)
    found += _at_most("max_bad", limits.max_bad, records.unread.bad_records, records.read)
    if verification is not None:
        found += _at_most("max_misrouted", limits.max_misrouted, misrouted(verification), verification.compared)
    if comparison is not None:
        elsewhere = comparison.changes.totals
        found += _at_most("max_rerouted", limits.max_rerouted, elsewhere.elsewhere, elsewhere.messages)
    for row in exchanges:
        own = _limits_of(row.use.exchange, settings.exchanges)
        scope, use = row.use.exchange, row.use
        if row.eligible:
            found += _covered("fail_under", own.fail_under, row.hit, row.eligible, digits, scope)
        if use.published:
            found += _covered("fail_under_messages", own.fail_under_messages, row.routed, use.published, digits, scope)
            found += _at_most("max_unroutable", own.max_unroutable, use.unroutable + use.refused, use.published, scope)
    for queue in queues:
        own = _limits_of(queue.use.queue, settings.queues)
        limit = own.max_partition_skew if own.max_partition_skew is not None else limits.max_partition_skew
        found += _even(limit, queue)
    found += _of_nothing("exchange", settings.exchanges, [row.use.exchange for row in exchanges])
    found += _of_nothing("queue", settings.queues, [row.use.queue for row in queues])
    found += [_expired(use) for use in ignored if use.expired]
    return tuple(found)


def misrouted(verification: Verification) -> int:
    """Messages that the broker did not put where it should.

    Those are not among them that were in all the right queues and in others that the topology does not have: exclusive
    and transient queues are in no export of definitions.
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
"""Limit -> what it is of, and what it counts."""


def _covered(
    name: str, wanted: Decimal | None, part: int, whole: int, digits: int, exchange: str | None = None
) -> Iterator[Gate]:
    if wanted is None:
        return
    what, unit = WHAT[name]
    if not whole:
        yield _gate(name, exchange, f"{wanted} %", "none", True, f"{what}: there are no {unit}s to cover")
        return
    actual = percent(part, whole, digits)
    told = f"{what} is {actual} % ({part:,} of {count_noun(whole, unit)}), wanted is {wanted} %"
    yield _gate(name, exchange, f"{wanted} %", f"{actual} %", actual >= wanted, told)


def _at_most(name: str, limit: Most | None, part: int, whole: int, exchange: str | None = None) -> Iterator[Gate]:
    if limit is None:
        return
    what, unit = WHAT[name]
    share = f" ({percent(part, whole, 3).normalize():f} %)" if whole and part else ""
    told = (
        f"{what}: {part:,}{share} of {count_noun(whole, unit)}, at most {limit} {'are' if whole != 1 else 'is'} allowed"
    )
    yield _gate(name, exchange, str(limit), f"{part:,}{share}", limit.allows(part, whole), told)


def _even(limit: Decimal | None, row: QueueRow) -> Iterator[Gate]:
    if limit is None or row.skew is None:
        return
    actual = row.skew.max_to_mean
    told = f"the fullest partition has {actual:.2f} times the mean, at most {limit} times is allowed"
    name = row.use.queue
    yield Gate("max_partition_skew", name, "queue", str(limit), f"{actual:.2f}", actual <= limit, told)


def _of_nothing(
    of: Literal["exchange", "queue"], entries: Iterable[tuple[str, Limits]], names: Sequence[str]
) -> Iterator[Gate]:
    """Limits of a name that nothing has, which never fail: a slip, unless it is a glob."""
    for glob, _ in entries:
        if glob not in names and not any(fits(glob, name) for name in names):
            plain = not set(glob) & set("*?[")
            told = f"there is no {of} '{glob}' to limit" if plain else f"no {of} fits '{glob}', so nothing is limited"
            yield Gate(f"{of}s", glob, of, "some", "none", not plain, told)


def _expired(use: IgnoreUse) -> Gate:
    entry = use.entry
    told = (
        f"the entry for {entry} ({entry.reason}) was valid until {entry.until}: check whether it still holds, and "
        "give a later day or remove the entry"
    )
    return Gate("ignore", str(entry), "", str(entry.until), "expired", False, told)


def _gate(name: str, exchange: str | None, limit: str, actual: str, passed: bool, told: str) -> Gate:
    return Gate(name, exchange or "", "" if exchange is None else "exchange", limit, actual, passed, told)


def _limits_of(name: str, entries: Sequence[tuple[str, Limits]]) -> Limits:
    for glob, limits in entries:
        if glob == name:
            return limits
    return next((limits for glob, limits in entries if fits(glob, name)), NO_LIMITS)


@cache
def _expression(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))
