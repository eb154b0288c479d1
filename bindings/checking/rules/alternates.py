"""30x: messages that alternate exchanges lose or never get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.analysis.pattern_set import PatternSet
from bindings.checking.rules.finding import Finding, list_names, quote_binding, quote_exchange
from bindings.checking.rules.leaks import find_key_lost_by_alternate, find_key_lost_by_binding
from bindings.checking.rules.view import TopologyView
from exchange.entities.entities import Binding, Exchange
from exchange.entities.in_force import find_policy_in_force
from exchange.kinds import can_delay
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.pattern import Pattern
from exchange.text.display import LIKE_NAMES, suggest
from exchange.topology.graph import find_cycles

MAX_STEPS: Final = 50_000
"""Maximum cost of deciding whether the bindings of an exchange match every key."""


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about alternate exchanges."""
    for name, alternate in view.alternates.items():
        yield from _alternate(view, view.topology.exchanges[name], alternate)
        if alternate == name and not _takes_everything(view, name):
            message = f"{quote_exchange(name)} is its own alternate exchange, and has routed what it would get as such"
            yield Finding("HS305", view.topology.exchanges[name], message)
    for circle in find_cycles({name: [alternate] for name, alternate in view.alternates.items()}):
        if not any(_takes_everything(view, name) for name in circle):
            parts = [view.topology.exchanges[name] for name in circle]
            message = f"the alternate exchanges of {list_names(circle)} name each other in a circle"
            yield Finding("HS305", parts[0], message, related=tuple(parts[1:]))


def _alternate(view: TopologyView, exchange: Exchange, alternate: str) -> Iterator[Finding]:
    """Yield HS306, then HS301 or HS307, then HS304; only without HS301 and HS304 also HS302 and HS303."""
    topology = view.topology
    if "alternate-exchange" in exchange.arguments:
        policy = find_policy_in_force(exchange, topology.policies)
        other = policy.definition.get("alternate-exchange") if policy is not None else None
        if policy is not None and other is not None and other != alternate:
            message = (
                f"the argument of {quote_exchange(exchange.name)} names the alternate exchange '{alternate}', "
                f"policy '{policy.name}' names '{other}'"
            )
            yield Finding("HS306", exchange, message, related=(policy,))
    if alternate not in topology.exchanges:
        hint = suggest(alternate, topology.exchanges, likeness=LIKE_NAMES)
        message = f"the alternate exchange of {quote_exchange(exchange.name)}, '{alternate}', does not exist{hint}"
        yield Finding("HS301", exchange, message)
        return
    related = (topology.exchanges[alternate],)
    if can_delay(exchange) and alternate in view.exits:
        message = (
            f"{quote_exchange(exchange.name)} hands each message that it delays to its alternate exchange "
            f"{quote_exchange(alternate)}, too, at once"
        )
        yield Finding("HS307", exchange, message, related=related)
    if _takes_everything(view, exchange.name):
        if can_delay(exchange):
            return
        message = f"{quote_exchange(exchange.name)} never takes its alternate exchange {quote_exchange(alternate)}"
        yield Finding("HS304", exchange, message, related=related)
        return
    if alternate in view.exits:
        key = find_key_lost_by_alternate(view, exchange.name)
        if key is not None:
            message = (
                f"a message to {quote_exchange(exchange.name)} with the key '{key}' is lost in its alternate exchange "
                f"{quote_exchange(alternate)}"
            )
            yield Finding("HS302", exchange, message, key, related)
    yield from _find_bypassed(view, exchange, alternate)


def _find_bypassed(view: TopologyView, exchange: Exchange, alternate: str) -> Iterator[Finding]:
    by_target: dict[str, list[Binding]] = {}
    for binding in view.graph.bindings.get(exchange.name, ()):
        by_target.setdefault(binding.destination.name, []).append(binding)
    for target, bindings in by_target.items():
        for binding in bindings:
            key = find_key_lost_by_binding(view, binding)
            if key is not None:
                message = (
                    f"a message to {quote_exchange(exchange.name)} with the key '{key}' is lost in "
                    f"{quote_exchange(target)}, where {quote_binding(binding)} leads it, and does not go to the "
                    f"alternate exchange {quote_exchange(alternate)}"
                )
                yield Finding("HS303", binding, message, key, (exchange, view.topology.exchanges[target]))
                break


def _takes_everything(view: TopologyView, exchange: str) -> bool:
    """Return whether it is certain that every message matches a binding of the exchange, but for delayed ones."""
    if view.always_matches(exchange):
        return True
    patterns: list[Pattern] = []
    for binding in view.topology.bindings_from(exchange):
        pattern = view.pattern_of(binding)
        if pattern == EVERYTHING:
            return True
        if pattern is not None and not pattern.literal:
            patterns.append(pattern)
    # There are infinitely many keys, so only patterns with "#" can match all of them together. Where one has it, the
    # others may fill the gaps: literal ones, too, such as the key "".
    if not any("#" in pattern.text for pattern in patterns):
        return False
    literal = (view.pattern_of(binding) for binding in view.topology.bindings_from(exchange))
    patterns += [pattern for pattern in literal if pattern is not None and pattern.literal]
    return PatternSet(patterns, steps=MAX_STEPS).covers().holds is True
