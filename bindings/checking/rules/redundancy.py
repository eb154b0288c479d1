"""1xx: bindings that decide nothing, since others lead the same messages to the same destination.

Invariant: all reported bindings can be removed together, and no message goes elsewhere. So each binding is compared
only with bindings that are not reported. Only paths over bindings of exchanges that decide by key count: such a path
stays open whatever further keys a message has in CC and BCC, while a path over an alternate exchange may close. (For
needless ways, HS111, the invariant holds only for messages with one key.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from bindings.analysis.crawl import Budget, OutOfBudget, shortest_key
from bindings.analysis.header_conditions import redundant_conditions
from bindings.analysis.pattern_set import redundant
from bindings.checking.rules.finding import Finding
from bindings.checking.rules.view import TopologyView
from bindings.checking.rules.words import list_names, quote_binding
from exchange.entities.entities import Binding, Destination
from exchange.kinds import Decider, KeyUse
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import AMQP, MANY, Pattern
from exchange.topology.graph import reach

__all__ = ["find"]

STEPS: Final = 20_000
"""Maximum cost of one question: some milliseconds."""
TOTAL: Final = 2_000_000
"""Maximum cost of all questions about paths over exchanges: some seconds. A limit for each question does not limit the
total: there are as many paths as sequences of exchanges."""


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield duplicate and covered bindings, exchange by exchange; then those covered over other exchanges."""
    gone: set[Binding] = set()
    undecided: set[Binding] = set()
    for name in view.topology.exchanges:
        if view.is_opaque(name):
            continue
        for bindings in _by_destination(view.bindings_from(name)):
            for finding in _within(view, bindings):
                if isinstance(finding.part, Binding):
                    (undecided if finding.code == "HS190" else gone).add(finding.part)
                yield finding
    paths = _Paths(view, gone)
    sources = [name for name in view.onwards if not view.is_opaque(name)]
    for name in sources:
        for finding in paths.find_covered(name):
            if finding.part not in undecided:
                yield finding
    for name in sources:
        yield from paths.find_needless(name)
    if paths.skipped:
        message = (
            f"whether {paths.skipped:,} bindings are needed beside other ways is undecided: there are too many ways"
        )
        yield Finding("HS190", None, message)


def _by_destination(bindings: Collection[Binding]) -> Iterator[list[Binding]]:
    found: dict[Destination, list[Binding]] = {}
    for binding in bindings:
        found.setdefault(binding.destination, []).append(binding)
    return (group for group in found.values() if len(group) > 1)


def _within(view: TopologyView, bindings: Sequence[Binding]) -> Iterator[Finding]:
    kind = view.kind_of(bindings[0].source)
    if kind.decider is Decider.HEADERS:
        for binding, by, alike in redundant_conditions(bindings, view.topology.profile):
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
        for pattern, cover in redundant(wild, steps=STEPS):
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
        return shortest_key(AMQP, (other,), (pattern,), Budget(STEPS)) is not None
    except OutOfBudget:
        return True


def _finding(view: TopologyView, binding: Binding, by: Sequence[Binding], *, alike: bool) -> Finding:
    others = ", ".join(map(_quote, by))
    if alike:
        return Finding(
            "HS103",
            binding,
            f"{quote_binding(binding)} matches the same as {others}",
            _key(view, binding),
            tuple(by),
        )
    code = "HS104" if len(by) == 1 else "HS105"
    together = "" if len(by) == 1 else " together"
    return Finding(
        code, binding, f"{quote_binding(binding)} is covered by {others}{together}", _key(view, binding), tuple(by)
    )


def _quote(binding: Binding) -> str:
    return f"'{binding.routing_key}'" if not binding.arguments else quote_binding(binding)


def _key(view: TopologyView, binding: Binding) -> str | None:
    """Return a shortest key that the binding matches; None if the key alone does not decide."""
    pattern = view.pattern_of(binding)
    if pattern is not None and pattern.literal:
        return binding.routing_key
    try:
        return None if pattern is None else shortest_key(AMQP, (pattern,), (), Budget(STEPS))
    except OutOfBudget:
        return None


class _Unknown(Exception):
    """Raised at an exchange where the key alone does not decide."""


class _Paths:
    """Paths over bindings, from one exchange over others to a destination."""

    def __init__(self, view: TopologyView, gone: set[Binding]) -> None:
        self._view = view
        self._gone = gone
        self._sources: dict[Destination, set[str]] = {}
        self._empty: dict[tuple[Pattern, ...], bool] = {}
        self._patterns: dict[Binding, Pattern] = {}
        self._left = TOTAL
        self.skipped = 0
        """Number of bindings that were not examined, because all steps were used up."""
        self._edges = {
            name: [binding.destination.name for binding in bindings]
            for name, bindings in view.onwards.items()
            if not view.is_opaque(name)
        }

    def find_covered(self, exchange: str) -> Iterator[Finding]:
        """Yield the bindings from an exchange whose messages all get to their destination on another path."""
        downstream = reach(self._edges, self._edges[exchange]) - {exchange}
        for binding in self._view.bindings_from(exchange):
            if binding in self._gone or binding.destination == ("exchange", exchange):
                continue
            if downstream.isdisjoint(self._sources_of(binding.destination)):
                continue  # no exchange on another path is bound to the destination
            used: dict[Binding, None] = {}
            budget = self._budget()
            if budget is None:
                continue
            try:
                region = (self._pattern(binding),)
                lost = self._lost_without(binding, binding.destination, region, (), used, budget)
            except OutOfBudget:
                yield Finding("HS190", binding, f"whether other ways cover {quote_binding(binding)} is undecided")
                continue
            finally:
                self._spent(budget)
            if lost is None:
                self._gone.add(binding)
                over = list_names(dict.fromkeys(step.source for step in used if step.source != exchange))
                message = f"all that {quote_binding(binding)} matches gets there over {over}, too"
                yield Finding("HS106", binding, message, _key(self._view, binding), tuple(used))

    def find_needless(self, exchange: str) -> Iterator[Finding]:
        """Yield the bindings from an exchange to others that bring no queue a message which it does not get anyway."""
        if self._view.alternate_of(exchange) is not None:
            return  # any binding keeps messages from the alternate, even one that leads nowhere: HS303 reports that
        for binding in self._view.onwards[exchange]:
            target = binding.destination.name
            # HS202 reports dead ends, HS207 bindings of an exchange to itself.
            if binding in self._gone or target == exchange or target not in self._view.exits:
                continue
            budget = self._budget()
            if budget is None:
                continue
            silent = True
            used: dict[Binding, None] = {}
            try:
                for queue, region in self._queues_reached(target, (self._pattern(binding),), exchange, budget):
                    silent = False
                    if self._lost_without(binding, queue, region, (), used, budget) is not None:
                        break
                else:
                    self._gone.add(binding)
                    anyway = "" if silent else " that does not have it anyway"
                    message = f"{quote_binding(binding)} brings nothing to any queue{anyway}"
                    yield Finding("HS111", binding, message, _key(self._view, binding), tuple(used))
            except (OutOfBudget, _Unknown):
                continue
            finally:
                self._spent(budget)

    def _budget(self) -> Budget | None:
        """Return the steps for one more question; None, and count the binding, when all are used up."""
        if self._left <= 0:
            self.skipped += 1
            return None
        return Budget(min(STEPS, self._left))

    def _spent(self, budget: Budget) -> None:
        self._left -= min(STEPS, self._left) - max(budget.left, 0)

    def _queues_reached(
        self, exchange: str, region: tuple[Pattern, ...], source: str, budget: Budget
    ) -> Iterator[tuple[Destination, tuple[Pattern, ...]]]:
        """Yield the queues to which an exchange passes keys of a region, each with the patterns that these keys match.

        Depth first, in a loop: a chain of exchanges can be longer than Python's stack is deep.
        """
        view = self._view
        on_way = {source, exchange}
        walk = [(exchange, region, self._bindings_of_known(exchange))]
        while walk:
            at, region, bindings = walk[-1]
            for binding in bindings:
                pattern = self._pattern(binding)
                further = region if pattern in region else (*region, pattern)
                if binding in self._gone or self._is_empty(further, budget):
                    continue
                goal, name = binding.destination
                if goal == "queue" and name in view.topology.queues:
                    yield binding.destination, further
                elif goal == "exchange" and name in view.exits and name not in on_way:
                    on_way.add(name)
                    walk.append((name, further, self._bindings_of_known(name)))
                    break
            else:
                on_way.discard(at)
                walk.pop()

    def _bindings_of_known(self, exchange: str) -> Iterator[Binding]:
        decider = self._view.kind_of(exchange).decider
        if decider not in (Decider.NOTHING, Decider.KEY) or self._view.alternate_of(exchange) is not None:
            raise _Unknown
        return iter(self._view.bindings_from(exchange))

    def _is_empty(self, region: tuple[Pattern, ...], budget: Budget) -> bool:
        """Return whether no key matches all these patterns; cached, since paths with the same end ask the same."""
        budget.spend(2 + len(region))
        known = self._empty.get(region)
        if known is None:
            known = self._empty[region] = shortest_key(AMQP, region, (), budget) is None
        return known

    def _pattern(self, binding: Binding) -> Pattern:
        known = self._patterns.get(binding)
        if known is None:  # without a pattern, any key matches if the headers do
            known = self._patterns[binding] = self._view.pattern_of(binding) or EVERYTHING
        return known

    def _sources_of(self, destination: Destination) -> set[str]:
        sources = self._sources.get(destination)
        if sources is None:
            bindings = self._view.topology.bindings_to(destination)
            sources = self._sources[destination] = {binding.source for binding in bindings}
        return sources

    def _lost_without(
        self,
        binding: Binding,
        goal: Destination,
        all_of: tuple[Pattern, ...],
        none_of: tuple[Pattern, ...],
        used: dict[Binding, None],
        budget: Budget,
    ) -> str | None:
        """Return a key of a region that gets to the goal over this binding only; None if there is none.

        The region is the set of keys that match all of ``all_of`` and none of ``none_of``. ``used`` collects the
        bindings of the other paths. If a key has another path, the search goes on with the keys that miss a binding of
        that path.
        """
        pending = [iter([(all_of, none_of)])]
        while pending:
            region = next(pending[-1], None)
            if region is None:
                pending.pop()
                continue
            key = shortest_key(AMQP, *region, budget)
            if key is None:
                continue
            path = self._find_path(binding, goal, key, budget)
            if path is None:
                return key
            used.update(dict.fromkeys(path))
            pending.append(self._regions_off(path, *region))
        return None

    def _regions_off(
        self, path: Sequence[Binding], all_of: tuple[Pattern, ...], none_of: tuple[Pattern, ...]
    ) -> Iterator[tuple[tuple[Pattern, ...], tuple[Pattern, ...]]]:
        """Yield the regions of keys that miss the first binding, the second one but not the first, and so on."""
        for step in path:
            pattern = self._view.pattern_of(step)
            if pattern is not None and pattern != EVERYTHING and pattern not in all_of:
                yield all_of, (*none_of, pattern)
                all_of = (*all_of, pattern)

    def _find_path(self, binding: Binding, goal: Destination, key: str, budget: Budget) -> list[Binding] | None:
        """Return the shortest path of a key to the goal that has neither this binding nor a reported one."""
        came: dict[str, Binding | None] = {binding.source: None}
        pending = [binding.source]
        exchanges = self._view.topology.exchanges
        for name in pending:
            budget.spend(1)
            for step in self._view.match(name, key):
                # First the cheap test, which most bindings fail: they lead neither to the goal nor to a new exchange.
                there = step.destination == goal
                kind, onwards = step.destination
                if not there and (kind == "queue" or onwards in came or onwards not in exchanges):
                    continue
                if step == binding or step in self._gone:
                    continue
                if there:
                    return [*_back(came, name), step]
                came[onwards] = step
                pending.append(onwards)
        return None


def _back(came: dict[str, Binding | None], name: str) -> Iterable[Binding]:
    steps = []
    step = came[name]
    while step is not None:
        steps.append(step)
        step = came[step.source]
    return reversed(steps)
