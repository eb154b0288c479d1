"""3xx: what alternate exchanges and dead letter exchanges do not catch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.analysis.graph import find_cycles
from bindings.analysis.pattern_set import PatternSet
from bindings.check.finding import Finding
from bindings.check.leaks import lost_by_alternate, lost_by_binding, saving_way
from bindings.check.view import TopologyView
from bindings.check.words import named, several, shown
from exchange.entities.entities import Binding, Exchange, policy_in_force
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.pattern import Pattern

__all__ = ["find"]

STEPS: Final = 50_000
"""What it may cost to find out whether bindings take everything."""


def find(view: TopologyView) -> Iterator[Finding]:
    """See `RULES`."""
    for name, alternate in view.alternates.items():
        yield from _alternate(view, view.topology.exchanges[name], alternate)
        if alternate == name and not _takes_everything(view, name):
            message = f"{named(name)} is its own alternate exchange, and has routed what it would get as such"
            yield Finding("HS305", view.topology.exchanges[name], message)
    for circle in find_cycles({name: [alternate] for name, alternate in view.alternates.items()}):
        if not any(_takes_everything(view, name) for name in circle):
            parts = [view.topology.exchanges[name] for name in circle]
            message = f"the alternate exchanges of {several(circle)} name each other in a circle"
            yield Finding("HS305", parts[0], message, related=tuple(parts[1:]))
    yield from _dead_letters(view)


def _alternate(view: TopologyView, exchange: Exchange, alternate: str) -> Iterator[Finding]:
    topology = view.topology
    if "alternate-exchange" in exchange.arguments:
        policy = policy_in_force(exchange.name, topology.policies)
        other = policy.definition.get("alternate-exchange") if policy is not None else None
        if policy is not None and other is not None and other != alternate:
            message = (
                f"the argument of {named(exchange.name)} names the alternate exchange '{alternate}', "
                f"policy '{policy.name}' names '{other}'"
            )
            yield Finding("HS306", exchange, message, related=(policy,))
    if alternate not in topology.exchanges:
        message = f"the alternate exchange of {named(exchange.name)}, '{alternate}', does not exist"
        yield Finding("HS301", exchange, message)
        return
    related = (topology.exchanges[alternate],)
    if _takes_everything(view, exchange.name):
        message = f"{named(exchange.name)} never takes its alternate exchange {named(alternate)}"
        yield Finding("HS304", exchange, message, related=related)
        return
    if alternate in view.exits:
        key = lost_by_alternate(view, exchange.name)
        if key is not None:
            message = (
                f"a message to {named(exchange.name)} with the key '{key}' is lost in its alternate exchange "
                f"{named(alternate)}"
            )
            yield Finding("HS302", exchange, message, key, related)
    yield from _bypassed(view, exchange, alternate)


def _bypassed(view: TopologyView, exchange: Exchange, alternate: str) -> Iterator[Finding]:
    by_target: dict[str, list[Binding]] = {}
    for binding in view.onwards.get(exchange.name, ()):
        by_target.setdefault(binding.destination.name, []).append(binding)
    for target, bindings in by_target.items():
        for binding in bindings:
            key = lost_by_binding(view, binding)
            if key is not None:
                message = (
                    f"a message to {named(exchange.name)} with the key '{key}' is lost in {named(target)}, where "
                    f"{shown(binding)} leads it, and does not go to the alternate exchange {named(alternate)}"
                )
                yield Finding("HS303", binding, message, key, (exchange, view.topology.exchanges[target]))
                break


def _takes_everything(view: TopologyView, exchange: str) -> bool:
    """Whether every message matches a binding of the exchange."""
    if view.always_matches(exchange):
        return True
    patterns: list[Pattern] = []
    for binding in view.bindings_from(exchange):
        pattern = view.pattern_of(binding)
        if pattern == EVERYTHING:
            return True
        if pattern is not None and not pattern.literal:
            patterns.append(pattern)
    # Keys are without number, so that some pattern must be open to them; then literal ones may fill a gap: key "".
    if not any("#" in pattern.text for pattern in patterns):
        return False
    literal = (view.pattern_of(binding) for binding in view.bindings_from(exchange))
    patterns += [pattern for pattern in literal if pattern is not None and pattern.literal]
    return PatternSet(patterns, steps=STEPS).covers().holds is True


def _dead_letters(view: TopologyView) -> Iterator[Finding]:
    topology = view.topology
    for exchange, queues in view.dead_letters.items():
        for name in queues:
            queue = topology.queues[name]
            if exchange not in topology.exchanges:
                message = f"the dead letter exchange of queue '{name}', '{exchange}', does not exist"
                yield Finding("HS311", queue, message)
                continue
            key = queue.arguments.get("x-dead-letter-routing-key")
            if not isinstance(key, str) or exchange not in view.exits:
                continue
            if exchange == "":
                lost = key not in topology.queues
            else:
                # Dead letters have headers of their own, and those of their message.
                lost = saving_way(view, exchange, key, headers_known=False) is None
            if lost:
                message = f"dead letters of queue '{name}' go to {named(exchange)} with the key '{key}' and are lost"
                yield Finding("HS312", queue, message, key, (topology.exchanges[exchange],))
