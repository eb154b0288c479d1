"""2xx: exchanges and queues that messages do not get to, or do not get out of; and circles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from bindings.analysis.crawl import Budget, OutOfBudget, shortest_key
from bindings.analysis.graph import find_cycles, reach
from bindings.check.finding import Finding
from bindings.check.leaks import lost_at
from bindings.check.view import TopologyView
from bindings.check.words import named, several, shown
from exchange.entities.entities import PREDECLARED, Binding, Destination
from exchange.kinds import Decider
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.pattern import AMQP

__all__ = ["find", "find_unroutable"]

RESERVED: Final = frozenset(exchange.name for exchange in PREDECLARED)

STEPS: Final = 20_000
"""What one question about two patterns may cost."""


def find(view: TopologyView) -> Iterator[Finding]:
    """All but unroutable keys; see `RULES`."""
    yield from _exchanges(view)
    yield from _queues(view)
    yield from _circles(view)
    yield from _starved(view)


def find_unroutable(view: TopologyView) -> Iterator[Finding]:
    """The shortest unroutable key of each exchange that can be published to and from which a queue can be reached."""
    for name, exchange in view.topology.exchanges.items():
        if exchange.internal or not name or name not in view.exits:
            continue
        key = lost_at(view, name)
        if key is not None:
            yield Finding("HS205", exchange, f"a message to {named(name)} with the key '{key}' gets to no queue", key)


def _exchanges(view: TopologyView) -> Iterator[Finding]:
    topology = view.topology
    led_to = _ways_in(view)
    reached = reach(
        _targets(view),
        [*(name for name, exchange in topology.exchanges.items() if not exchange.internal), *view.dead_letters],
    )
    for name, exchange in topology.exchanges.items():
        if name not in view.exits:
            if led_to.get(name):
                verb = "leads" if len(led_to[name]) == 1 else "lead"
                message = f"no queue can be reached from {named(name)}, and {several(led_to[name])} {verb} there"
                yield Finding("HS202", exchange, message)
            elif name not in RESERVED and not exchange.internal:
                yield Finding("HS201", exchange, f"no queue can be reached from {named(name)}")
        if exchange.internal and name not in reached and name not in RESERVED:
            yield Finding("HS203", exchange, f"{named(name)} is internal, and nothing leads to it")


def _ways_in(view: TopologyView) -> Mapping[str, Collection[Destination]]:
    """Exchange -> what leads to it from elsewhere: exchanges, and queues by their dead letters."""
    found: dict[str, dict[Destination, None]] = {}
    for source, targets in _targets(view).items():
        for target in targets:
            if target != source:
                found.setdefault(target, {})[Destination("exchange", source)] = None
    for target, queues in view.dead_letters.items():
        found.setdefault(target, {}).update((Destination("queue", queue), None) for queue in queues)
    return found


def _targets(view: TopologyView) -> dict[str, dict[str, None]]:
    """Exchange -> the exchanges that it hands messages to."""
    found = {
        name: dict.fromkeys(binding.destination.name for binding in bindings) for name, bindings in view.onwards.items()
    }
    for name, alternate in view.alternates.items():
        found.setdefault(name, {})[alternate] = None
    return found


def _queues(view: TopologyView) -> Iterator[Finding]:
    topology = view.topology
    by_default = {str(topology.queues[name].arguments.get("x-dead-letter-routing-key", name))
                  for name in view.dead_letters.get("", ())}  # fmt: skip
    for name, queue in topology.queues.items():
        if not topology.bindings_to(Destination("queue", name)) and name not in by_default:
            yield Finding("HS204", queue, f"no binding leads to queue '{name}'")


def _circles(view: TopologyView) -> Iterator[Finding]:
    edges = {}
    for name, bindings in view.onwards.items():
        edges[name] = [binding.destination.name for binding in bindings if binding.destination.name != name]
        for binding in bindings:
            if binding.destination.name == name:
                yield Finding("HS207", binding, f"{shown(binding)} leads from an exchange to itself")
    for circle in find_cycles(edges):
        parts = [view.topology.exchanges[name] for name in circle]
        message = f"exchanges {several(circle)} are bound in a circle"
        yield Finding("HS206", parts[0], message, related=tuple(parts[1:]))


def _starved(view: TopologyView) -> Iterator[Finding]:
    """Of internal exchanges that only bindings lead to, the bindings that no key led there matches."""
    topology = view.topology
    by_other_ways = {*view.alternates.values(), *view.dead_letters}
    for name, exchange in topology.exchanges.items():
        ways = topology.bindings_to(Destination("exchange", name))
        if not exchange.internal or name in by_other_ways or not ways or view.kind_of(name).decider is not Decider.KEY:
            continue
        inflow = {view.pattern_of(way) for way in ways if way.source != name}
        if None in inflow or EVERYTHING in inflow or not inflow:
            continue
        for binding in view.bindings_from(name):
            if not any(_meet(view, binding, way) for way in ways if way.source != name):
                sources = several(dict.fromkeys(way.source for way in ways))
                message = f"no key that {sources} hands on matches {shown(binding)}"
                yield Finding("HS110", binding, message, related=tuple(ways))


def _meet(view: TopologyView, binding: Binding, way: Binding) -> bool:
    patterns = view.pattern_of(binding), view.pattern_of(way)
    try:
        return None in patterns or shortest_key(AMQP, [p for p in patterns if p], (), Budget(STEPS)) is not None
    except OutOfBudget:
        return True
