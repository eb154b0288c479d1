"""The shortest key that gets to no queue from an exchange, and the way on which it is lost.

On a way each exchange hands the key to the next, by a binding that matches it or, where none does, as to its alternate
exchange; the last has nobody to hand it to. A search follows the ways: bindings that lead straight to a queue take
keys out, and what is left at the end is walked as the router would. If another way from the same exchange saves it,
the keys of that way are taken out, too, and so on. A search that would cost too much, or meets what is opaque, finds
nothing: so what is found is lost for sure, in a message without headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget, shortest_key
from bindings.check.view import TopologyView
from exchange.entities.entities import Binding
from exchange.kinds import Decider
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.pattern import AMQP, Pattern

__all__ = ["lost_at", "lost_by_alternate", "lost_by_binding", "saving_way"]

STEPS: Final = 10_000
"""What the search for one key may cost."""

VISIT: Final = 100
"""What a visit to an exchange costs of it."""


def lost_at(view: TopologyView, exchange: str) -> str | None:
    """A shortest key that gets to no queue when it is published to the exchange."""
    return _shortest(_Search(view, exchange).at(exchange, _Way()))


def lost_by_alternate(view: TopologyView, exchange: str) -> str | None:
    """A shortest one of those that no binding of the exchange matches."""
    return _shortest(_Search(view, exchange).unmatched(exchange, _Way()))


def lost_by_binding(view: TopologyView, binding: Binding) -> str | None:
    """A shortest one of those that match this binding, which leads to another exchange."""
    way = _Way(exchanges=((binding.source, False),))
    return _shortest(_Search(view, binding.source).onwards(binding, way))


def _shortest(keys: Iterator[str]) -> str | None:
    found: list[str] = []
    with suppress(OutOfBudget):  # what has been found is lost, though there may be a shorter one
        for key in keys:
            found.append(key)  # noqa: PERF402  kept when the next one is too costly
    return min(found, key=_length, default=None)


def _length(key: str) -> tuple[int, int, str]:
    return len(AMQP.split(key)), len(key), key


class _Way(NamedTuple):
    """How far a search has come: a key of all these patterns reaches all these exchanges."""

    all_of: tuple[Pattern, ...] = ()
    exchanges: tuple[tuple[str, bool], ...] = ()
    """And whether no binding of the exchange may match it: its alternate comes next, or nothing."""

    def has(self, exchange: str) -> bool:
        return any(name == exchange for name, _ in self.exchanges)

    def then(self, exchange: str, *, unmatched: bool) -> _Way:
        return self._replace(exchanges=(*self.exchanges, (exchange, unmatched)))


class _Search:
    """From one exchange; of each way it gives a shortest key, if that loses any."""

    def __init__(self, view: TopologyView, origin: str) -> None:
        self._view = view
        self._origin = origin
        self._budget = Budget(STEPS)

    def at(self, exchange: str, way: _Way) -> Iterator[str]:
        """What is lost at an exchange, or further on."""
        self._budget.spend(VISIT)
        if not self._view.is_opaque(exchange):
            yield from self.unmatched(exchange, way)
            for binding in self._view.onwards.get(exchange, ()):
                yield from self.onwards(binding, way.then(exchange, unmatched=False))

    def unmatched(self, exchange: str, way: _Way) -> Iterator[str]:
        """What no binding of the exchange matches."""
        way = way.then(exchange, unmatched=True)
        alternate = self._view.alternate_of(exchange)
        if alternate is None or way.has(alternate):
            yield from self._lost(way)
        else:
            yield from self.at(alternate, way)

    def onwards(self, binding: Binding, way: _Way) -> Iterator[str]:
        """What goes on over a binding from the last exchange."""
        pattern = self._view.pattern_of(binding)
        if pattern is None:
            return
        if pattern not in way.all_of:
            way = way._replace(all_of=(*way.all_of, pattern))
        if way.has(binding.destination.name):
            yield from self._lost(way)
        else:
            yield from self.at(binding.destination.name, way)

    def _lost(self, way: _Way) -> Iterator[str]:
        pending: list[Iterator[tuple[_Way, tuple[Pattern, ...]]]] = [iter([(way, ())])]
        while pending:
            region = next(pending[-1], None)
            if region is None:
                pending.pop()
                continue
            way, none_of = region
            key, none_of = self._not_held_back(way, none_of)
            if key is None:
                continue
            steps = saving_way(self._view, self._origin, key)
            if steps is None:
                yield key
                continue
            over = [step for step in steps if isinstance(step, Binding)]
            if len(over) == len(steps):
                pending.append(self._off(over, way, none_of))

    def _not_held_back(self, way: _Way, none_of: tuple[Pattern, ...]) -> tuple[str | None, tuple[Pattern, ...]]:
        """A shortest key that nothing keeps from being lost on this way, and what it does not match."""
        while True:
            key = shortest_key(AMQP, way.all_of, none_of, self._budget)
            pattern = None if key is None else self._held_back(way, key)
            if pattern is None:
                return key, none_of
            none_of = (*none_of, pattern)

    def _off(
        self, steps: Sequence[Binding], way: _Way, none_of: tuple[Pattern, ...]
    ) -> Iterator[tuple[_Way, tuple[Pattern, ...]]]:
        """The keys that miss a step: the first one, or the second one but not the first, and so on."""
        for step in steps:
            pattern = self._view.pattern_of(step)
            if pattern is not None and pattern != EVERYTHING and pattern not in way.all_of:
                yield way, (*none_of, pattern)
                way = way._replace(all_of=(*way.all_of, pattern))

    def _held_back(self, way: _Way, key: str) -> Pattern | None:
        """A pattern that keeps the key from being lost on this way."""
        queues = self._view.topology.queues
        for exchange, unmatched in way.exchanges:
            for binding in self._view.matched(exchange, key):
                kind, name = binding.destination
                if unmatched or (kind == "queue" and name in queues):
                    return self._view.pattern_of(binding)
        return None


Step: TypeAlias = Binding | str
"""Over a binding, or to an alternate exchange."""


def saving_way(view: TopologyView, origin: str, key: str, *, headers_known: bool = True) -> list[Step] | None:
    """How a message with this key and no headers gets from an exchange to a queue, or maybe does; None if it is lost.

    From an opaque exchange it may get to any queue that can be reached; where its headers are not known, from a headers
    exchange, too.
    """
    came: dict[str, tuple[str, Step] | None] = {origin: None}
    pending = [origin]
    for name in pending:
        decider = view.kind_of(name).decider
        if (decider is Decider.UNKNOWN or (decider is Decider.HEADERS and not headers_known)) and name in view.exits:
            return _back(came, name)
        matched = view.matched(name, key)
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


def _back(came: dict[str, tuple[str, Step] | None], name: str) -> list[Step]:
    steps: list[Step] = []
    before = came[name]
    while before is not None:
        steps.append(before[1])
        before = came[before[0]]
    return steps[::-1]
