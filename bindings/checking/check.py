"""Check a topology: find what is certainly wrong, what is most likely wrong, and what is worth knowing.

Invariant: what a finding states about routes is what the router does, with a witness where a key can show it; what
cannot be decided is not stated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Final

from bindings.checking.lines import with_lines
from bindings.checking.lives import ends, rounds
from bindings.checking.rules import (
    alternates,
    dangling,
    dead_letters,
    headers,
    kinds,
    patterns,
    policies,
    reach,
    redundancy,
)
from bindings.checking.rules.finding import Finding, quote_exchange
from bindings.checking.rules.table import ABSENCES, RULES
from bindings.checking.rules.view import TopologyView
from bindings.sources.definitions.import_warnings import NOT_READ
from bindings.sources.language.expectations import Expectation
from bindings.sources.open import open_source
from exchange.entities.entities import Binding
from exchange.entities.part import Part
from exchange.entities.releases import warn_of
from exchange.errors import BrokerError
from exchange.routing.router import Router
from exchange.text.display import escape_line
from exchange.topology.topology import Topology
from exchange.topology.unread import UnreadPart, find_unread, format_not_proved

MAX_FINDINGS_OF_CODE: Final = 100
"""Maximum number of findings of one code at one exchange; one more finding gives the number of the others."""

FAMILIES: Final[Sequence[Callable[[TopologyView], Iterator[Finding]]]] = (
    dangling.find, redundancy.find, reach.find, alternates.find, dead_letters.find, rounds.find, ends.find_standstill,
    patterns.find, headers.find, kinds.find, kinds.find_refused_queues, kinds.find_unusable_queues,
    kinds.find_odd_values, kinds.find_commercial, kinds.find_without_effect, policies.find,
)  # fmt: skip
OPTIONAL: Final[Mapping[str, Callable[[TopologyView], Iterator[Finding]]]] = {
    "HS205": reach.find_unroutable,
    "HS323": ends.find_vanishing,
    "HS324": ends.find_many_tries,
}
"""Code of an optional rule -> the function that applies it."""
UNLIMITED: Final = frozenset({"HS801", "HS901", NOT_READ})
"""Codes of which all findings are listed: expectations and warnings about a file, each of which someone wrote."""


def check(
    topology: Topology | str | PathLike[str], expectations: Sequence[Expectation] = (), *, optional: Iterable[str] = ()
) -> list[Finding]:
    """Return the findings about a topology, ordered by code, then by what they are about.

    It may be a path, or the address of a live broker, as `load` takes it: then its own expectations are checked, too,
    and findings have their lines.

    ``expectations`` are those of a .bindings file: each that fails is a finding. ``optional`` are the codes of optional
    rules to apply as well (`bindings.checking.rules.table.Rule.optional`). Where one exchange has more than
    `MAX_FINDINGS_OF_CODE` findings of a code, one more finding gives the number of the others. No topology raises an
    error.

    Raises InputError for a path that cannot be read.

    >>> [finding.message for finding in check(Topology(queues=[Queue("billing")]))]
    ["no binding leads to queue 'billing'"]
    """
    if isinstance(topology, Topology):
        return list_findings(find_all(topology, expectations, optional=optional), topology)
    source = open_source(topology)
    read = source.topology()
    warn_of(read.profile, 2)
    expectations = (*source.expectations(read.vhost), *expectations)
    findings = list_findings(find_all(read, expectations, optional=optional), read)
    return with_lines(source, {read.vhost: findings})[read.vhost]


def find_all(
    topology: Topology,
    expectations: Sequence[Expectation] = (),
    *,
    optional: Iterable[str] = (),
    filled_in: Collection[Binding] = (),
) -> Iterator[Finding]:
    """Yield the findings of `check`, all of them and in no useful order.

    ``filled_in`` are bindings whose keys a program fills in where its author wrote none: no finding blames these keys.
    """
    view = TopologyView(topology, filled_in)
    unread = find_unread(topology)
    yield from (_report_unread(topology, part, unread) for part in unread)
    for find in [*FAMILIES, *(find for code, find in OPTIONAL.items() if code in optional)]:
        for finding in find(view):
            is_open = bool(unread) and finding.code in ABSENCES
            yield replace(finding, message=f"{finding.message}; {format_not_proved(unread)}") if is_open else finding
    yield from _find_failures(topology, expectations)


def _report_unread(topology: Topology, part: UnreadPart, unread: Sequence[UnreadPart]) -> Finding:
    """Return the finding about a part that was not read; where a plugin makes it, it is about the plugin's exchange."""
    exchanges = topology.exchanges.values() if part.kind == "plugin-made" else ()
    maker = next((exchange for exchange in exchanges if part.where == f"exchange '{exchange.name}'"), None)
    detail = "" if maker is not None else str(part)
    return Finding(NOT_READ, maker, f"{part}; {format_not_proved(unread)}", detail=detail)


def list_findings(findings: Iterable[Finding], topology: Topology) -> list[Finding]:
    """Return findings as `check` does: of each code at each exchange the first ones, and the number of the others.

    They are sorted by code, then by what they are about.
    """
    return sorted(_limit(findings, topology), key=_sort_key)


def _sort_key(finding: Finding) -> tuple[str, bool, tuple[str, ...], str]:
    return finding.code, finding.part is None, _list_names(finding.part), finding.message


def _list_names(part: Part | None) -> tuple[str, ...]:
    if part is None:
        return ()
    if isinstance(part, Binding):
        return (part.source, *part.destination, part.routing_key)
    return (part.name,)


def _limit(findings: Iterable[Finding], topology: Topology) -> Iterator[Finding]:
    """Yield the first `MAX_FINDINGS_OF_CODE` findings of each code at each exchange, and one finding for the others."""
    counts: Counter[tuple[str, str | None]] = Counter()
    for finding in findings:
        part = finding.part
        group = finding.code, part.source if isinstance(part, Binding) else None
        counts[group] += 1
        if counts[group] <= MAX_FINDINGS_OF_CODE or finding.code in UNLIMITED:
            yield finding
    for (code, where), count in counts.items():
        if count > MAX_FINDINGS_OF_CODE and code not in UNLIMITED:
            exchange = None if where is None else topology.exchanges.get(where)
            at = f" at {quote_exchange(exchange.name)}" if exchange is not None else ""
            message = f"{count - MAX_FINDINGS_OF_CODE:,} more of this kind{at}: {RULES[code].name}"
            yield Finding(code, exchange, message, detail="more")


def _find_failures(topology: Topology, expectations: Sequence[Expectation]) -> Iterator[Finding]:
    """Yield one finding for each expectation that fails, with the trail of the message."""
    if not expectations:
        return
    router = Router(topology)
    for expectation in expectations:
        failure = expectation.find_failure(router)
        if failure is not None:
            part = topology.exchanges.get(expectation.exchange)
            message = escape_line(f"expected: {expectation}; but {failure}") + _explain_failure(router, expectation)
            yield Finding(
                "HS801", part, message, expectation.routing_key, line=expectation.line, detail=str(expectation)
            )


def _explain_failure(router: Router, expectation: Expectation) -> str:
    try:
        route = router.route(expectation.message)
        missing = [queue for queue in expectation.queues if queue not in route.queues]
        asked_about = missing[0] if missing and expectation.relation != "excludes" else None
        return f"\n{router.explain(expectation.message, asked_about)}"
    except BrokerError:
        return ""  # the failure has the broker's error
