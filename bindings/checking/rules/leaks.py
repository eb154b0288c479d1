"""Find the shortest key that gets to no queue from an exchange.

On a path, each exchange hands the key to the next one: over a binding that matches it or, if none does, as to its
alternate exchange. The last exchange has none to hand it to. The search follows each path and excludes the keys that a
binding on it leads to a queue. At the end of the path it takes a shortest key of those that are left, and routes it as
the router would. If the key gets to a queue on another path, the keys that take that path are excluded, too, and so on.
A search that would cost too much, or that meets an opaque exchange, finds nothing. So a key that is found is certainly
lost, in a message without headers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget, find_shortest_key
from bindings.checking.rules.view import TopologyView
from exchange.entities.entities import Binding
from exchange.kinds import Decider
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.pattern import AMQP, Pattern

MAX_STEPS: Final = 10_000
"""Maximum cost of the search for one key."""

VISIT: Final = 100
"""Cost of a visit to an exchange."""


def find_lost_key(view: TopologyView, exchange: str) -> str | None:
    """Return a shortest key that gets to no queue when it is published to the exchange."""
    if exchange in view.loses_empty_key:
        return ""  # no key is shorter
    return _shortest(_LeakSearch(view, exchange).find_at(exchange, _Path()))


def find_lost_key_among(view: TopologyView, exchange: str, pattern: Pattern) -> str | None:
    """Return a shortest key of a pattern that gets to no queue when it is published to the exchange."""
    return _shortest(_LeakSearch(view, exchange).find_at(exchange, _Path(all_of=(pattern,))))


def find_key_among(pattern: Pattern, taken: Collection[str] = ()) -> str | None:
    """Return a short key that a pattern matches, with a word not in ``taken`` for its wildcards, if that is cheap."""
    if pattern.literal:
        return pattern.text
    try:
        return find_shortest_key(AMQP, (pattern,), (), Budget(MAX_STEPS), taken)
    except OutOfBudget:
        return None


def find_key_lost_by_alternate(view: TopologyView, exchange: str) -> str | None:
    """Return a shortest key that no binding of the exchange matches and that gets to no queue."""
    if exchange in view.loses_empty_key and not view.match(exchange, ""):
        return ""
    return _shortest(_LeakSearch(view, exchange).find_unmatched(exchange, _Path()))


def find_key_lost_by_binding(view: TopologyView, binding: Binding) -> str | None:
    """Return a shortest key that matches this binding to another exchange and gets to no queue."""
    path = _Path(exchanges={binding.source: False})
    return _shortest(_LeakSearch(view, binding.source).find_onwards(binding, path))


def _shortest(keys: Iterator[str]) -> str | None:
    lost: list[str] = []
    with suppress(OutOfBudget):  # the keys found until then are lost, though there may be a shorter one
        for key in keys:
            lost.append(key)  # noqa: PERF402  kept when the next one is too costly
    return min(lost, key=_length, default=None)


def _length(key: str) -> tuple[int, int, str]:
    return len(AMQP.split(key)), len(key), key


class _Path(NamedTuple):
    """The path of a search so far: exchanges, and the patterns that a key must match to pass them all."""

    all_of: tuple[Pattern, ...] = ()
    exchanges: Mapping[str, bool] = MappingProxyType({})
    """Name -> whether no binding of the exchange may match the key: then its alternate comes next, or nothing."""

    def then(self, exchange: str, *, unmatched: bool) -> _Path:
        return self._replace(exchanges={**self.exchanges, exchange: unmatched})


class _LeakSearch:
    """A search from one exchange: yields a shortest lost key for each path that loses keys."""

    def __init__(self, view: TopologyView, origin: str) -> None:
        self._view = view
        self._origin = origin
        self._budget = Budget(MAX_STEPS)

    def find_at(self, exchange: str, path: _Path) -> Iterator[str]:
        """Yield keys that are lost at an exchange, or further on."""
        self._budget.spend(VISIT)
        if exchange not in self._view.safe and not self._view.is_opaque(exchange):
            yield from self.find_unmatched(exchange, path)
            for binding in self._view.graph.bindings.get(exchange, ()):
                yield from self.find_onwards(binding, path.then(exchange, unmatched=False))

    def find_unmatched(self, exchange: str, path: _Path) -> Iterator[str]:
        """Yield lost keys that no binding of the exchange matches."""
        if exchange in self._view.catch_alls:
            return
        path = path.then(exchange, unmatched=True)
        alternate = self._view.alternate_of(exchange)
        if alternate is None or alternate in path.exchanges:
            yield from self._lost(path)
        else:
            yield from self.find_at(alternate, path)

    def find_onwards(self, binding: Binding, path: _Path) -> Iterator[str]:
        """Yield lost keys that take this binding of the last exchange on the path."""
        pattern = self._view.pattern_of(binding)
        if pattern is None:
            return
        if pattern not in path.all_of:
            path = path._replace(all_of=(*path.all_of, pattern))
        if binding.destination.name in path.exchanges:
            yield from self._lost(path)
        else:
            yield from self.find_at(binding.destination.name, path)

    def _lost(self, path: _Path) -> Iterator[str]:
        """Yield a shortest key that is lost at the end of a path, if there is one.

        Depth first over regions of keys: if a key gets to a queue on another path, the region is split into the keys
        that miss the first binding of that path, those that match it and miss the second one, and so on.
        """
        pending: list[Iterator[tuple[_Path, tuple[Pattern, ...]]]] = [iter([(path, ())])]
        while pending:
            region = next(pending[-1], None)
            if region is None:
                pending.pop()
                continue
            path, none_of = region
            key, none_of = self._key_of(path, none_of)
            if key is None:
                continue
            steps = find_path_to_queue(self._view, self._origin, key)
            if steps is None:
                yield key
                continue
            over = [step for step in steps if isinstance(step, Binding)]
            if len(over) == len(steps):  # else an alternate is on it: no pattern describes its keys
                pending.append(self._regions_off(over, path, none_of))

    def _key_of(self, path: _Path, none_of: tuple[Pattern, ...]) -> tuple[str | None, tuple[Pattern, ...]]:
        """Return a shortest key that takes this path to its end, and the patterns excluded to find it."""
        while True:
            key = find_shortest_key(AMQP, path.all_of, none_of, self._budget)
            pattern = None if key is None else self._pattern_off(path, key)
            if pattern is None:
                return key, none_of
            none_of = (*none_of, pattern)

    def _regions_off(
        self, steps: Sequence[Binding], path: _Path, none_of: tuple[Pattern, ...]
    ) -> Iterator[tuple[_Path, tuple[Pattern, ...]]]:
        """Yield the regions of keys that miss one of these bindings: see `_lost`."""
        for step in steps:
            pattern = self._view.pattern_of(step)
            if pattern is not None and pattern != EVERYTHING and pattern not in path.all_of:
                yield path, (*none_of, pattern)
                path = path._replace(all_of=(*path.all_of, pattern))

    def _pattern_off(self, path: _Path, key: str) -> Pattern | None:
        """Return a pattern that leads the key to a queue, or off this path; None if there is none."""
        queues = self._view.topology.queues
        for exchange, unmatched in path.exchanges.items():
            for binding in self._view.match(exchange, key):
                kind, name = binding.destination
                if unmatched or (kind == "queue" and name in queues):
                    return self._view.pattern_of(binding)
        return None


Hop: TypeAlias = Binding | str
"""A binding, or the name of an alternate exchange."""


def find_path_to_queue(view: TopologyView, origin: str, key: str, *, headers_known: bool = True) -> list[Hop] | None:
    """Return the hops on which a message with this key gets to a queue, or may; None if it is lost.

    From an opaque exchange it may get to any queue that can be reached from there. Unless ``headers_known``, the same
    holds for headers exchanges; otherwise the message has no headers.
    """
    came: dict[str, tuple[str, Hop] | None] = {origin: None}
    pending = [origin]
    for name in pending:
        decider = view.kind_of(name).decider
        if (decider is Decider.UNKNOWN or (decider is Decider.HEADERS and not headers_known)) and name in view.exits:
            return _back(came, name)
        matched = view.match(name, key)
        for binding in matched:
            kind, onwards = binding.destination
            if kind == "queue" and onwards in view.topology.queues:
                return [*_back(came, name), binding]
            if kind == "exchange" and onwards not in came and onwards in view.topology.exchanges:
                came[onwards] = name, binding
                pending.append(onwards)
        alternate = view.alternate_of(name)
        if not matched and alternate is not None and alternate not in came:
            came[alternate] = name, alternate
            pending.append(alternate)
    return None


def find_queues(view: TopologyView, origin: str, key: str) -> frozenset[str] | None:
    """Return the existing queues that get a message with this key; None if its headers, or chance, may decide."""
    topology = view.topology
    if not origin:
        return frozenset({key} & topology.queues.keys())
    queues: set[str] = set()
    seen = {origin}
    pending = [origin]
    for name in pending:
        if view.kind_of(name).decider in (Decider.UNKNOWN, Decider.HEADERS):
            return None
        matched = view.match(name, key)
        onwards = [binding.destination for binding in matched]
        queues.update(target for kind, target in onwards if kind == "queue" and target in topology.queues)
        alternate = view.alternate_of(name)
        further = [target for kind, target in onwards if kind == "exchange" and target in topology.exchanges]
        for target in further if matched or alternate is None else [alternate]:
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return frozenset(queues)


def _back(came: dict[str, tuple[str, Hop] | None], name: str) -> list[Hop]:
    steps: list[Hop] = []
    before = came[name]
    while before is not None:
        steps.append(before[1])
        before = came[before[0]]
    return steps[::-1]
