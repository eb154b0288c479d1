"""The binding that unroutable messages almost matched, and the part of the key that did not match.

`exchange.routing.nearest` measures the distance to every binding of the exchanges where the messages ended. A tally has
only the keys of messages, so exchanges that decide by anything else are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from bindings.counts.outcome import Outcome, OutcomeExplorer
from bindings.counts.tally import Tally
from bindings.counts.uses import UnroutableMessages
from bindings.report.rows import Nearest, Shape
from exchange.entities.entities import Binding, Destination
from exchange.kinds import Decider, find_kind
from exchange.routing.nearest import Walk, find_nearest
from exchange.text.display import find_alike
from exchange.topology.topology import Topology
from exchange.values.message import Message

SHAPES: Final = 20
"""Maximum number of shapes of keys that are reported for an exchange."""

LOOKS: Final = 20_000_000
"""Maximum number of comparisons of a binding with a key for one report; later shapes get no nearest binding."""

CLOSE: Final = 0.7
"""Minimum similarity of two names, at which one may be a misspelling of the other."""


class Where(NamedTuple):
    """Unroutable messages of one shape of keys, published to one exchange and refused with one error, if any."""

    exchange: str
    refused: str
    shape: str


def group_outcomes_by_shape(tally: Tally) -> dict[Where, Outcome]:
    """Return, for each shape of unroutable keys, the outcome of its messages; the first one if there are several."""
    outcomes: dict[Where, Outcome] = {}
    for outcome in tally.facts:
        if outcome.routed is False:
            for item in tally.facts[outcome].shapes.items:
                outcomes.setdefault(Where(outcome.exchange, outcome.refused, item.text), outcome)
    return outcomes


class NearestSearch:
    """A search for the nearest bindings of a topology, of at most `LOOKS` comparisons."""

    def __init__(self, topology: Topology, bindings: Sequence[Binding]) -> None:
        self._topology: Final = topology
        self._tables: Final = topology.tables()
        self._bindings: Final = bindings
        self._numbers: Final = {binding: number for number, binding in enumerate(bindings)}
        self._looks = LOOKS

    def shapes(self, row: UnroutableMessages, ends: Mapping[Where, Outcome]) -> tuple[Shape, ...]:
        """Return the first `SHAPES` shapes of a row, each with the binding or name nearest to its example."""
        shapes = []
        for text, count, example in row.shapes.items[:SHAPES]:
            outcome = ends.get(Where(row.exchange, row.refused, text)) or self._route(row, example)
            shapes.append(Shape(text, count, example, self._nearest(outcome, example)))
        return tuple(shapes)

    def _route(self, row: UnroutableMessages, key: str) -> Outcome:
        """Return the outcome of an unroutable message, of which a tally of groups has only the key.

        If more than the key decides it, an outcome of which nothing is known.
        """
        outcome = self._explorer.outcome(Message(row.exchange, key))
        deciders = {find_kind(self._topology.exchanges[name]).decider for name in outcome.exchanges}
        known = deciders <= {Decider.KEY, Decider.NOTHING} and (outcome.routed, outcome.refused) == (False, row.refused)
        return outcome if known else Outcome(row.exchange)

    @cached_property
    def _explorer(self) -> OutcomeExplorer:
        return OutcomeExplorer(self._topology)

    def _nearest(self, outcome: Outcome, key: str) -> Nearest | None:
        if outcome.refused:
            return self._near_exchange(outcome.exchange)
        if not outcome.exchange:
            return self._near_queue(key)
        near = [*self._matched(outcome), *self._near_bindings(outcome, key)]
        return min(near, key=lambda each: each.distance, default=None)

    def _matched(self, outcome: Outcome) -> Iterator[Nearest]:
        """Yield the bindings that matched and whose destination does not exist."""
        for number in outcome.bindings:
            binding = self._bindings[number]
            if not self._tables.exists(binding.destination):
                reason = f"it matches, and {binding.destination} does not exist"
                yield Nearest(binding, number, binding.destination, reason, 0.0)

    def _near_bindings(self, outcome: Outcome, key: str) -> Iterator[Nearest]:
        walk = Walk(Message(outcome.exchange, key), frozenset(), self._tables, {}, self._topology.profile)
        taken = {self._bindings[number] for number in outcome.bindings}
        for name in outcome.exchanges:
            end = self._topology.exchanges[name]
            bindings = [binding for binding in self._topology.bindings_from(name) if binding not in taken]
            if find_kind(end).decider is not Decider.KEY or not bindings or len(bindings) > self._looks:
                continue
            self._looks -= len(bindings)
            distance, obstacles = find_nearest(walk, end, bindings)
            for obstacle in obstacles:
                if obstacle.binding is not None:
                    number = self._numbers[obstacle.binding]
                    yield Nearest(obstacle.binding, number, obstacle.destination, obstacle.reason, distance)

    def _near_queue(self, key: str) -> Nearest | None:
        name = _similar(key, self._topology.queues)
        reason = f"the default exchange takes the key for the name of a queue: it is '{key}', there is '{name}'"
        return None if name is None else Nearest(None, None, Destination("queue", name), reason, 1.0)

    def _near_exchange(self, exchange: str) -> Nearest | None:
        if exchange in self._topology.exchanges:
            return None
        name = _similar(exchange, self._topology.exchanges)
        reason = f"the exchange is called '{exchange}', there is '{name}'"
        return None if name is None else Nearest(None, None, Destination("exchange", name), reason, 1.0)


def _similar(name: str, names: Iterable[str]) -> str | None:
    """Return the name that differs only in case or outer blanks, else the most similar one, at least `CLOSE`."""
    folded = {each.strip().lower(): each for each in names if each}
    near = find_alike(name.strip().lower(), folded, CLOSE)
    return None if near is None else folded[near]
