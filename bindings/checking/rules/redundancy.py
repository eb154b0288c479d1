"""1xx: bindings that decide nothing, since others lead the same messages to the same destination.

Invariant: all reported bindings can be removed together, and no message goes elsewhere. So each binding is compared
only with bindings that are not reported. Only paths over bindings of exchanges that decide by key count: such a path
stays open whatever further keys a message has in CC and BCC, while a path over an alternate exchange may close. (For
needless ways, HS111, the invariant holds only for messages with one key.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from bindings.analysis.crawl import Budget, OutOfBudget, find_shortest_key
from bindings.analysis.header_conditions import find_redundant_conditions
from bindings.analysis.pattern_set import find_redundant
from bindings.checking.rules.finding import Finding, quote_binding
from bindings.checking.rules.paths import MAX_STEPS, BindingPaths, find_key
from bindings.checking.rules.view import TopologyView
from exchange.entities.entities import Binding, Destination
from exchange.kinds import Decider, KeyUse, Kind
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import AMQP, MANY, Pattern
from exchange.text.display import count_noun


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield duplicate and covered bindings, exchange by exchange; then those covered over other exchanges."""
    gone: set[Binding] = set()
    undecided: set[Binding] = set()
    for kind, every in view.deciding.values():
        for bindings in _by_destination(every):
            for finding in _within(view, kind, bindings):
                if isinstance(finding.part, Binding):
                    (undecided if finding.code == "HS190" else gone).add(finding.part)
                yield finding
    paths = BindingPaths(view, gone)
    sources = [name for name in view.graph.bindings if name in view.deciding]
    for name in sources:
        for finding in paths.find_covered(name):
            if finding.part not in undecided:
                yield finding
    for name in sources:
        yield from paths.find_needless(name)
    if paths.skipped:
        are_needed = count_noun(paths.skipped, "binding is needed", "bindings are needed")
        message = f"whether {are_needed} beside other ways is undecided: there are too many ways"
        yield Finding("HS190", None, message)


def _by_destination(bindings: Collection[Binding]) -> Iterator[list[Binding]]:
    found: dict[Destination, list[Binding]] = {}
    for binding in bindings:
        found.setdefault(binding.destination, []).append(binding)
    return (group for group in found.values() if len(group) > 1)


def _within(view: TopologyView, kind: type[Kind], bindings: Sequence[Binding]) -> Iterator[Finding]:
    if kind.decider is Decider.HEADERS:
        for binding, by, alike in find_redundant_conditions(bindings, view.topology.profile):
            yield _finding(view, binding, by, alike=alike)
        return
    first: dict[str, Binding] = {}
    for binding in bindings:
        key = "" if kind.key_use is KeyUse.NONE else binding.routing_key
        if key in first:
            yield _finding(view, binding, (first[key],), alike=True)
        else:
            first[key] = binding
    if kind.key_use is not KeyUse.PATTERN or len(first) == 1:
        return
    # A literal key is covered by a single pattern or not at all, and only helps to cover patterns that match it: so
    # patterns with wildcards are compared among themselves, and literal keys are looked up in those that stay.
    wild = [Pattern.of_binding_key(key) for key in first if "*" in key or "#" in key]
    wild = [pattern for pattern in wild if not pattern.literal]
    kept: Matcher[Binding] = Matcher(cache=0, distinct=True)
    if "#" in first:
        kept.bind(EVERYTHING, first["#"])
        for pattern in wild:
            if pattern != EVERYTHING:
                alike = all(word is MANY for word in pattern.words)
                yield _finding(view, first[pattern.text], (first["#"],), alike=alike)
    else:
        needless = set()
        for pattern, cover in find_redundant(wild, steps=MAX_STEPS):
            binding = first[pattern.text]
            if cover.holds is None:
                yield Finding("HS190", binding, f"whether others cover {quote_binding(binding)} is undecided")
            else:
                needless.add(pattern)
                alike = len(cover.by) == 1 and not _lacks(cover.by[0], pattern)
                yield _finding(view, binding, [first[other.text] for other in cover.by], alike=alike)
        for pattern in wild:
            if pattern not in needless:
                kept.bind(pattern, first[pattern.text])
    if wild:
        asked = {pattern.text for pattern in wild}
        for key, binding in first.items():
            if key not in asked:
                covering = kept.match(key)
                if covering:
                    yield _finding(view, binding, covering[:1], alike=False)


def _lacks(other: Pattern, pattern: Pattern) -> bool:
    """Return whether some key matches the other pattern and not this one; True if that is undecided."""
    try:
        return find_shortest_key(AMQP, (other,), (pattern,), Budget(MAX_STEPS)) is not None
    except OutOfBudget:
        return True


def _finding(view: TopologyView, binding: Binding, by: Sequence[Binding], *, alike: bool) -> Finding:
    others = ", ".join(map(_quote, by))
    if alike:
        return Finding(
            "HS103",
            binding,
            f"{quote_binding(binding)} matches the same as {others}",
            find_key(view, binding),
            tuple(by),
        )
    code = "HS104" if len(by) == 1 else "HS105"
    together = "" if len(by) == 1 else " together"
    return Finding(
        code, binding, f"{quote_binding(binding)} is covered by {others}{together}", find_key(view, binding), tuple(by)
    )


def _quote(binding: Binding) -> str:
    return f"'{binding.routing_key}'" if not binding.arguments else quote_binding(binding)
