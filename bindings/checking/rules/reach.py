"""2xx: exchanges and queues that no message reaches, exchanges that lead to no queue, and circles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from bindings.analysis.crawl import Budget, OutOfBudget, find_shortest_key
from bindings.checking.rules.finding import Finding, list_names, quote_binding, quote_exchange
from bindings.checking.rules.leaks import find_lost_key
from bindings.checking.rules.view import TopologyView
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Destination
from exchange.kinds import Decider
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.pattern import AMQP
from exchange.topology.graph import find_cycles, reach

MAX_STEPS: Final = 20_000
"""Maximum cost of one question about two patterns."""


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield all findings of the family, except those about unroutable keys (HS205)."""
    yield from _exchanges(view)
    yield from _queues(view)
    yield from _circles(view)
    yield from _find_starved(view)


def find_unroutable(view: TopologyView) -> Iterator[Finding]:
    """Yield a shortest unroutable key of each exchange that publishers can use and that leads to a queue."""
    for name, exchange in view.topology.exchanges.items():
        if exchange.internal or not name or name not in view.exits:
            continue
        key = find_lost_key(view, name)
        if key is not None:
            yield Finding(
                "HS205", exchange, f"a message to {quote_exchange(name)} with the key '{key}' gets to no queue", key
            )


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
                sources = list_names(led_to[name])
                message = f"no queue can be reached from {quote_exchange(name)}, and {sources} {verb} there"
                yield Finding("HS202", exchange, message)
            elif name not in PREDECLARED_NAMES and not exchange.internal:
                yield Finding("HS201", exchange, f"no queue can be reached from {quote_exchange(name)}")
        if exchange.internal and name not in reached and name not in PREDECLARED_NAMES:
            yield Finding("HS203", exchange, f"{quote_exchange(name)} is internal, and nothing leads to it")


def _ways_in(view: TopologyView) -> Mapping[str, Collection[Destination]]:
    """Return exchange -> its sources: other exchanges, and queues whose dead letters go to it."""
    sources: dict[str, dict[Destination, None]] = {}
    for source, targets in _targets(view).items():
        for target in targets:
            if target != source:
                sources.setdefault(target, {})[Destination("exchange", source)] = None
    for target, queues in view.dead_letters.items():
        sources.setdefault(target, {}).update((Destination("queue", queue), None) for queue in queues)
    return sources


def _targets(view: TopologyView) -> dict[str, dict[str, None]]:
    """Return exchange -> the exchanges that it hands messages to, missing alternates included."""
    targets = {
        name: dict.fromkeys(binding.destination.name for binding in bindings)
        for name, bindings in view.graph.bindings.items()
    }
    for name, alternate in view.alternates.items():
        targets.setdefault(name, {})[alternate] = None
    return targets


def _queues(view: TopologyView) -> Iterator[Finding]:
    topology = view.topology
    by_default = {
        name if letters.routing_key is None else letters.routing_key
        for name, possible in view.graph.dead_letters.items()
        for letters in possible
        if letters.exchange == ""
    }
    for name, queue in topology.queues.items():
        if not topology.bindings_to(Destination("queue", name)) and name not in by_default:
            yield Finding("HS204", queue, f"no binding leads to queue '{name}'")


def _circles(view: TopologyView) -> Iterator[Finding]:
    edges = {}
    for name, bindings in view.graph.bindings.items():
        edges[name] = [binding.destination.name for binding in bindings if binding.destination.name != name]
        for binding in bindings:
            if binding.destination.name == name:
                yield Finding("HS207", binding, f"{quote_binding(binding)} leads from an exchange to itself")
    for circle in find_cycles(edges):
        parts = [view.topology.exchanges[name] for name in circle]
        message = f"exchanges {list_names(circle)} are bound in a circle"
        yield Finding("HS206", parts[0], message, related=tuple(parts[1:]))


def _find_starved(view: TopologyView) -> Iterator[Finding]:
    """Yield the bindings of internal exchanges that match none of the keys that are led into the exchange.

    Only exchanges count to which nothing but bindings leads, all of which decide by key.
    """
    topology = view.topology
    by_other_ways = {*view.alternates.values(), *view.dead_letters}
    for name, exchange in topology.exchanges.items():
        ways = topology.bindings_to(Destination("exchange", name))
        if not exchange.internal or name in by_other_ways or not ways or view.kind_of(name).decider is not Decider.KEY:
            continue
        inflow = {view.pattern_of(way) for way in ways if way.source != name}
        if None in inflow or EVERYTHING in inflow or not inflow:
            continue
        for binding in view.topology.bindings_from(name):
            if not any(_meet(view, binding, way) for way in ways if way.source != name):
                sources = list_names(dict.fromkeys(way.source for way in ways))
                message = f"no key that {sources} hands on matches {quote_binding(binding)}"
                yield Finding("HS110", binding, message, related=tuple(ways))


def _meet(view: TopologyView, binding: Binding, way: Binding) -> bool:
    patterns = view.pattern_of(binding), view.pattern_of(way)
    try:
        return (
            None in patterns or find_shortest_key(AMQP, [p for p in patterns if p], (), Budget(MAX_STEPS)) is not None
        )
    except OutOfBudget:
        return True
