"""Bindings that decide nothing, since paths over other exchanges lead the same messages to the same queues.

See `bindings.checking.rules.redundancy` for what is claimed of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import or_
from typing import Final, NamedTuple, TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget, find_shortest_key
from bindings.checking.rules.finding import Finding, list_names, quote_binding
from bindings.checking.rules.view import TopologyView
from exchange.entities.entities import Binding, Destination
from exchange.kinds import Decider
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.pattern import AMQP, Pattern
from exchange.topology.graph import reach_as_bits

MAX_STEPS: Final = 20_000
"""Maximum cost of one question: some milliseconds."""
MAX_HOPS: Final = 24
"""Maximum number of exchanges on another path. A longer one is no reason to do without a binding, and in a long ring
each binding would have one."""
TOTAL: Final = 2_000_000
"""Maximum cost of all questions about paths over exchanges: some seconds. A limit for each question does not limit the
total: there are as many paths as sequences of exchanges."""


def find_key(view: TopologyView, binding: Binding) -> str | None:
    """Return a shortest key that the binding matches; None if the key alone does not decide."""
    pattern = view.pattern_of(binding)
    if pattern is not None and pattern.literal:
        return binding.routing_key
    try:
        return None if pattern is None else find_shortest_key(AMQP, (pattern,), (), Budget(MAX_STEPS))
    except OutOfBudget:
        return None


class _Unknown(Exception):
    """Raised at an exchange where the key alone does not decide."""


_State: TypeAlias = tuple[str, tuple[Pattern, ...]]
"""An exchange, and the patterns that the keys match which get there."""


class _QueueReached(NamedTuple):
    """A queue that some keys of a region get to."""

    queue: Destination | None
    """None where an exchange comes first at which the key alone does not decide."""
    region: tuple[Pattern, ...]
    """The patterns that these keys match."""


NO_BITS: Final = (0, 0)


class BindingPaths:
    """Paths over bindings, from one exchange over others to a destination."""

    def __init__(self, view: TopologyView, gone: set[Binding]) -> None:
        self._view = view
        self._gone = gone
        self._sources: dict[Destination, int] = {}
        self._empty: dict[tuple[Pattern, ...], bool] = {}
        self._patterns: dict[Binding, Pattern] = {}
        self._left = TOTAL
        self.skipped = 0
        """Number of bindings that were not examined, because all steps were used up."""
        self._reached: Final = reach_as_bits({
            name: [binding.destination.name for binding in bindings]
            for name, bindings in view.graph.bindings.items()
            if name in view.deciding
        })  # fmt: skip
        """Exchange -> its bit, and the bits of the exchanges that it leads to."""
        self._sure: Final[dict[_State, _QueueReached | None]] = {}
        """Exchange and region of keys -> a queue that some of these keys get to from there."""

    def find_covered(self, exchange: str) -> Iterator[Finding]:
        """Yield the bindings from an exchange whose messages all get to their destination on another path."""
        own, downstream = self._reached[exchange]
        for binding in self._view.topology.bindings_from(exchange):
            if binding in self._gone or binding.destination == ("exchange", exchange):
                continue
            if not self._sources_of(binding.destination) & downstream & ~own:
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
                yield Finding("HS106", binding, message, find_key(self._view, binding), tuple(used))

    def find_needless(self, exchange: str) -> Iterator[Finding]:
        """Yield the bindings from an exchange to others that bring no queue a message which it does not get anyway."""
        if self._view.alternate_of(exchange) is not None:
            return  # any binding keeps messages from the alternate, even one that leads nowhere: HS303 reports that
        for binding, others in self._beside_others(exchange):
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
                if self._is_surely_needed(binding, others, budget):
                    continue
                for queue, region in self._queues_reached(target, (self._pattern(binding),), exchange, budget):
                    silent = False
                    if self._lost_without(binding, queue, region, (), used, budget) is not None:
                        break
                else:
                    self._gone.add(binding)
                    anyway = "" if silent else " that does not have it anyway"
                    message = f"{quote_binding(binding)} brings nothing to any queue{anyway}"
                    yield Finding("HS111", binding, message, find_key(self._view, binding), tuple(used))
            except (OutOfBudget, _Unknown):
                continue
            finally:
                self._spent(budget)

    def _beside_others(self, exchange: str) -> Iterator[tuple[Binding, int]]:
        """Yield the bindings of an exchange to others, each with the bits of what is reached without it."""
        bindings = self._view.graph.bindings[exchange]
        bits = [own | further for own, further in (self._reached[each.destination.name] for each in bindings)]
        before = accumulate(bits, or_, initial=self._reached[exchange][0])
        after = [*accumulate(reversed(bits), or_, initial=0)][-2::-1]
        for binding, left, right in zip(bindings, before, after, strict=False):
            yield binding, left | right

    def _is_surely_needed(self, binding: Binding, others: int, budget: Budget) -> bool:
        """Return whether a queue behind a binding to an exchange lacks keys without it, or that cannot be known.

        It is asked of one queue, that to which `_find_queue` goes; False decides nothing. ``others`` are the bits of
        what is reached without the binding.
        """
        target = binding.destination.name
        reached = self._find_queue(target, (self._pattern(binding),), budget)
        if reached is None:
            return False
        if reached.queue is not None:
            if not self._sources_of(reached.queue) & others:
                return True
            return self._lost_without(binding, reached.queue, reached.region, (), {}, budget) is not None
        return not self._reached[target][1] & self._reached[binding.source][0]  # else the way may be over this binding

    def _find_queue(self, exchange: str, region: tuple[Pattern, ...], budget: Budget) -> _QueueReached | None:
        """Return a queue to which an exchange passes keys of a region; None if the first way taken leads to none.

        What is found is kept for each exchange on the way, so that many exchanges in a chain are passed once.
        """
        way: dict[_State, None] = {}
        state, reached = (exchange, region), None
        try:
            while state not in self._sure:
                way[state] = None
                reached, following = self._look_ahead(state, budget)
                if reached is not None or following is None or following in way:
                    return reached
                state = following
            reached = self._sure[state]
        except _Unknown:
            reached = _QueueReached(None, region)
        finally:
            self._sure.update(dict.fromkeys(way, reached))
        return reached

    def _look_ahead(self, state: _State, budget: Budget) -> tuple[_QueueReached | None, _State | None]:
        """Return a queue that keys of a region get to from an exchange at once, and the first exchange, if any."""
        following = None
        for destination, region in self._ways_on(*state, budget):
            if destination.kind == "queue":
                return _QueueReached(destination, region), None
            following = following or (destination.name, region)
        return None, following

    def _budget(self) -> Budget | None:
        """Return the steps for one more question; None, and count the binding, when all are used up."""
        if self._left <= 0:
            self.skipped += 1
            return None
        return Budget(min(MAX_STEPS, self._left))

    def _spent(self, budget: Budget) -> None:
        self._left -= min(MAX_STEPS, self._left) - max(budget.left, 0)

    def _queues_reached(
        self, exchange: str, region: tuple[Pattern, ...], source: str, budget: Budget
    ) -> Iterator[tuple[Destination, tuple[Pattern, ...]]]:
        """Yield the queues to which an exchange passes keys of a region, each with the patterns that these keys match.

        Depth first, in a loop: a chain of exchanges can be longer than Python's stack is deep.
        """
        on_way = {source, exchange}
        walk = [(exchange, self._ways_on(exchange, region, budget))]
        while walk:
            at, ways = walk[-1]
            for destination, further in ways:
                if destination.kind == "queue":
                    yield destination, further
                elif destination.name not in on_way:
                    on_way.add(destination.name)
                    walk.append((destination.name, self._ways_on(destination.name, further, budget)))
                    break
            else:
                on_way.discard(at)
                walk.pop()

    def _ways_on(
        self, exchange: str, region: tuple[Pattern, ...], budget: Budget
    ) -> Iterator[tuple[Destination, tuple[Pattern, ...]]]:
        """Yield where an exchange passes keys of a region on the way to queues, with the patterns that these match.

        Raises _Unknown where more than bindings and keys decides.
        """
        decider = self._view.kind_of(exchange).decider
        if decider not in (Decider.NOTHING, Decider.KEY) or self._view.alternate_of(exchange) is not None:
            raise _Unknown
        for binding in self._view.topology.bindings_from(exchange):
            pattern = self._pattern(binding)
            further = region if pattern in region else (*region, pattern)
            if binding in self._gone or self._is_empty(further, budget):
                continue
            kind, name = binding.destination
            if name in (self._view.topology.queues if kind == "queue" else self._view.exits):
                yield binding.destination, further

    def _is_empty(self, region: tuple[Pattern, ...], budget: Budget) -> bool:
        """Return whether no key matches all these patterns; cached, since paths with the same end ask the same."""
        budget.spend(2 + len(region))
        known = self._empty.get(region)
        if known is None:
            known = self._empty[region] = find_shortest_key(AMQP, region, (), budget) is None
        return known

    def _pattern(self, binding: Binding) -> Pattern:
        known = self._patterns.get(binding)
        if known is None:  # without a pattern, any key matches if the headers do
            known = self._patterns[binding] = self._view.pattern_of(binding) or EVERYTHING
        return known

    def _sources_of(self, destination: Destination) -> int:
        """Return the bits of the exchanges that are bound to a destination, of those on paths over exchanges."""
        sources = self._sources.get(destination)
        if sources is None:
            sources = 0
            for binding in self._view.topology.bindings_to(destination):
                sources |= self._reached.get(binding.source, NO_BITS)[0]
            self._sources[destination] = sources
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
            key = find_shortest_key(AMQP, *region, budget)
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
        """Return the shortest path of a key to the goal that has neither this binding nor a reported one.

        None if there is none over `MAX_HOPS` exchanges.
        """
        came: dict[str, Binding | None] = {binding.source: None}
        exchanges = self._view.topology.exchanges
        pending = [binding.source]
        for _ in range(MAX_HOPS):
            further: list[str] = []
            for name in pending:
                budget.spend(1)
                for step in self._view.match(name, key):
                    # First the cheap test, which most bindings fail: they lead to no goal and no new exchange.
                    there = step.destination == goal
                    kind, onwards = step.destination
                    if not there and (kind == "queue" or onwards in came or onwards not in exchanges):
                        continue
                    if step == binding or step in self._gone:
                        continue
                    if there:
                        return [*_back(came, name), step]
                    came[onwards] = step
                    further.append(onwards)
            pending = further
        return None


def _back(came: dict[str, Binding | None], name: str) -> Iterable[Binding]:
    steps = []
    step = came[name]
    while step is not None:
        steps.append(step)
        step = came[step.source]
    return reversed(steps)
