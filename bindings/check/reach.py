"""2xx: exchanges and queues that messages do not get to, or do not get out of; and circles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from bindings.analysis.crawl import Budget, OutOfBudget, shortest_key
from bindings.check.finding import Finding
from bindings.check.lost import lost_at
from bindings.check.subject import Subject, spread
from bindings.check.words import named, several, shown
from exchange.entities.entities import PREDECLARED, Binding, Destination
from exchange.kinds import Decider
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.pattern import AMQP

__all__ = ["circles", "find", "find_unroutable"]

RESERVED: Final = frozenset(exchange.name for exchange in PREDECLARED)

STEPS: Final = 20_000
"""What one question about two patterns may cost."""


def find(subject: Subject) -> Iterator[Finding]:
    """All but unroutable keys; see `RULES`."""
    yield from _exchanges(subject)
    yield from _queues(subject)
    yield from _circles(subject)
    yield from _starved(subject)


def find_unroutable(subject: Subject) -> Iterator[Finding]:
    """The shortest unroutable key of each exchange that can be published to and from which a queue can be reached."""
    for name, exchange in subject.topology.exchanges.items():
        if exchange.internal or not name or name not in subject.exits:
            continue
        key = lost_at(subject, name)
        if key is not None:
            yield Finding("HS205", exchange, f"a message to {named(name)} with the key '{key}' gets to no queue", key)


def _exchanges(subject: Subject) -> Iterator[Finding]:
    topology = subject.topology
    led_to = _ways_in(subject)
    reached = spread(
        [name for name, exchange in topology.exchanges.items() if not exchange.internal] + list(subject.dead_letters),
        {source: [*targets] for source, targets in _targets(subject).items()},
    )
    for name, exchange in topology.exchanges.items():
        if name not in subject.exits:
            if led_to.get(name):
                verb = "leads" if len(led_to[name]) == 1 else "lead"
                message = f"no queue can be reached from {named(name)}, and {several(led_to[name])} {verb} there"
                yield Finding("HS202", exchange, message)
            elif name not in RESERVED and not exchange.internal:
                yield Finding("HS201", exchange, f"no queue can be reached from {named(name)}")
        if exchange.internal and name not in reached and name not in RESERVED:
            yield Finding("HS203", exchange, f"{named(name)} is internal, and nothing leads to it")


def _ways_in(subject: Subject) -> Mapping[str, Collection[Destination]]:
    """Exchange -> what leads to it from elsewhere: exchanges, and queues by their dead letters."""
    found: dict[str, dict[Destination, None]] = {}
    for source, targets in _targets(subject).items():
        for target in targets:
            if target != source:
                found.setdefault(target, {})[Destination("exchange", source)] = None
    for target, queues in subject.dead_letters.items():
        found.setdefault(target, {}).update((Destination("queue", queue), None) for queue in queues)
    return found


def _targets(subject: Subject) -> dict[str, dict[str, None]]:
    """Exchange -> the exchanges that it hands messages to."""
    found = {
        name: dict.fromkeys(binding.destination.name for binding in bindings)
        for name, bindings in subject.onwards.items()
    }
    for name, alternate in subject.alternates.items():
        found.setdefault(name, {})[alternate] = None
    return found


def _queues(subject: Subject) -> Iterator[Finding]:
    topology = subject.topology
    by_default = {str(topology.queues[name].arguments.get("x-dead-letter-routing-key", name))
                  for name in subject.dead_letters.get("", ())}  # fmt: skip
    for name, queue in topology.queues.items():
        if not topology.bindings_to(Destination("queue", name)) and name not in by_default:
            yield Finding("HS204", queue, f"no binding leads to queue '{name}'")


def _circles(subject: Subject) -> Iterator[Finding]:
    edges = {}
    for name, bindings in subject.onwards.items():
        edges[name] = [binding.destination.name for binding in bindings if binding.destination.name != name]
        for binding in bindings:
            if binding.destination.name == name:
                yield Finding("HS207", binding, f"{shown(binding)} leads from an exchange to itself")
    for circle in circles(edges):
        parts = [subject.topology.exchanges[name] for name in circle]
        message = f"exchanges {several(circle)} are bound in a circle"
        yield Finding("HS206", parts[0], message, related=tuple(parts[1:]))


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The sets of two or more nodes that can all reach each other, each sorted (Tarjan's algorithm, without calls)."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: dict[str, None] = {}
    for root in edges:
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        stack[root] = None
        path = [(root, iter(edges[root]))]
        while path:
            node, onwards = path[-1]
            for target in onwards:
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    stack[target] = None
                    path.append((target, iter(edges.get(target, ()))))
                    break
                if target in stack:
                    lowest[node] = min(lowest[node], number[target])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    circle: list[str] = []
                    while not circle or circle[-1] != node:
                        circle.append(stack.popitem()[0])
                    if len(circle) > 1:
                        found.append(sorted(circle))
    return sorted(found)


def _starved(subject: Subject) -> Iterator[Finding]:
    """Of internal exchanges that only bindings lead to, the bindings that no key led there matches."""
    topology = subject.topology
    by_other_ways = {*subject.alternates.values(), *subject.dead_letters}
    for name, exchange in topology.exchanges.items():
        ways = topology.bindings_to(Destination("exchange", name))
        if (
            not exchange.internal
            or name in by_other_ways
            or not ways
            or subject.kind_of(name).decider is not Decider.KEY
        ):
            continue
        inflow = {subject.pattern_of(way) for way in ways if way.source != name}
        if None in inflow or EVERYTHING in inflow or not inflow:
            continue
        for binding in subject.bindings_from(name):
            if not any(_meet(subject, binding, way) for way in ways if way.source != name):
                sources = several(dict.fromkeys(way.source for way in ways))
                message = f"no key that {sources} hands on matches {shown(binding)}"
                yield Finding("HS110", binding, message, related=tuple(ways))


def _meet(subject: Subject, binding: Binding, way: Binding) -> bool:
    patterns = subject.pattern_of(binding), subject.pattern_of(way)
    try:
        return None in patterns or shortest_key(AMQP, [p for p in patterns if p], (), Budget(STEPS)) is not None
    except OutOfBudget:
        return True
