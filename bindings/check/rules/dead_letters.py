"""31x: dead letters that are lost, by the arguments and policies in force."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from bindings.check.rules.finding import Finding
from bindings.check.rules.leaks import (
    find_key_among,
    find_lost_key,
    find_lost_key_among,
    find_path_to_queue,
    find_queues,
)
from bindings.check.rules.view import TopologyView
from bindings.check.rules.words import list_names, quote_exchange
from exchange.entities.entities import Destination, Policy, Queue
from exchange.entities.in_force import DeadLetters, Settings
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.pattern import Pattern

__all__ = ["find"]

WAYS: Final = 100
"""Maximum number of bindings to one queue whose keys are tried."""
ROUND: Final = 1_000
"""Maximum number of queues that the dead letters of one message are followed through."""

Stay: TypeAlias = tuple[str, str]
"""A queue, and the routing key that a message has in it."""


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about dead letters: HS311 to HS314."""
    known = {
        name: possible[0] for name, possible in view.graph.dead_letters.items() if len(possible) == 1
    }  # else it is not known which policy is in force
    yield from _missing(view, known)
    yield from _lost(view, known)
    yield from _at_most_once(view)
    yield from _circles(view, known)


def _missing(view: TopologyView, known: dict[str, DeadLetters]) -> Iterator[Finding]:
    """Yield one finding for each argument, and one for each policy, that names an exchange that does not exist."""
    by_policy: dict[Policy, list[str]] = {}
    for name, letters in known.items():
        if letters.exchange not in view.topology.exchanges:
            policy = _policy_of(view, name, "dead-letter-exchange")
            if policy is not None:
                by_policy.setdefault(policy, []).append(name)
                continue
            message = f"the dead letter exchange of queue '{name}', '{letters.exchange}', does not exist"
            yield Finding("HS311", view.topology.queues[name], message)
    for policy, names in by_policy.items():
        exchange = policy.definition["dead-letter-exchange"]
        message = (
            f"policy '{policy.name}' sends dead letters of {_queues(names)} to the exchange '{exchange}', which does "
            "not exist"
        )
        yield Finding("HS311", policy, message, related=tuple(view.topology.queues[name] for name in names))


def _lost(view: TopologyView, known: dict[str, DeadLetters]) -> Iterator[Finding]:
    """Yield a key that dead letters get, or keep, and with which they are lost."""
    loses: dict[str, bool] = {}
    for name, letters in known.items():
        exchange, queue = letters.exchange or "", view.topology.queues[name]
        if exchange not in view.topology.exchanges or exchange not in view.exits:
            continue  # HS311 and HS202 are about these
        if letters.routing_key is not None:
            lost = [letters.routing_key] if _is_lost(view, exchange, letters.routing_key) else []
            how = "go"
        else:
            if exchange not in loses:
                loses[exchange] = not exchange or find_lost_key(view, exchange) is not None
            lost = _lost_keys_of(view, queue, exchange) if loses[exchange] else []
            how = "keep their key: they go"
        if lost:
            message = f"dead letters of queue '{name}' {how} to {quote_exchange(exchange)} with the key '{lost[0]}'"
            policy = _policy_of(view, name, "dead-letter-exchange")
            by = "" if policy is None else f" by policy '{policy.name}'"
            related = (view.topology.exchanges[exchange], *(() if policy is None else (policy,)))
            yield Finding("HS312", queue, f"{message}{by} and are lost", lost[0], related)


def _lost_keys_of(view: TopologyView, queue: Queue, exchange: str) -> list[str]:
    """Return a key that messages of a queue may have and that its dead letter exchange loses, if one was found."""
    patterns = _patterns_of(view, queue.name)
    if patterns is None:
        return [queue.name] if _is_lost(view, exchange, queue.name) else []
    for pattern in patterns:
        # The default exchange takes a key for the name of a queue.
        taken = view.topology.queues
        key = find_lost_key_among(view, exchange, pattern) if exchange else find_key_among(pattern, taken)
        if key is not None and _is_lost(view, exchange, key):
            return [key]
    return []


def _patterns_of(view: TopologyView, queue: str) -> list[Pattern] | None:
    """Return the patterns of the keys that messages of a queue may have, without those that are about every key.

    None if no binding leads to the queue: messages come by the default exchange and have its name as key.
    """
    ways = view.topology.bindings_to(Destination("queue", queue))
    if not ways:
        return None
    patterns: dict[Pattern, None] = {}
    for way in list(ways)[:WAYS]:
        source = view.topology.exchanges.get(way.source)
        pattern = None if source is None or source.internal else view.pattern_of(way)
        if pattern is not None and pattern != EVERYTHING:
            patterns[pattern] = None
    return list(patterns)


def _is_lost(view: TopologyView, exchange: str, key: str) -> bool:
    if not exchange:
        return key not in view.topology.queues
    # A dead letter has the headers of its message and more, such as x-death: they are not known here.
    return find_path_to_queue(view, exchange, key, headers_known=False) is None


def _at_most_once(view: TopologyView) -> Iterator[Finding]:
    for name, queue in view.topology.queues.items():
        settings = _settings_of(view, name) if queue.type == "quorum" else None
        if settings is None or settings.get("dead-letter-strategy") != "at-least-once":
            continue
        if settings.get("overflow") != "reject-publish":
            message = f"queue '{name}' asks for dead letters at least once without overflow reject-publish"
            yield Finding("HS313", queue, message)


def _circles(view: TopologyView, known: dict[str, DeadLetters]) -> Iterator[Finding]:
    """Yield the queues that only hand expired messages round, until the broker drops them."""
    expiring = {
        name: letters
        for name, letters in known.items()
        if (settings := _settings_of(view, name)) is not None and settings.integer("message-ttl") is not None
    }
    found: set[frozenset[str]] = set()
    for name, letters in expiring.items():
        for key in _keys_in(view, name) if letters.routing_key is None else [""]:
            path = _follow(view, expiring, (name, key))
            if path and frozenset(path) not in found:
                found.add(frozenset(path))
                first, others = view.topology.queues[path[0]], path[1:]
                way = f", through {list_names(others)}," if others else ""
                shown = f" with the key '{key}'" if letters.routing_key is None else ""
                message = (
                    f"a message{shown} that nobody takes from queue '{name}' expires, comes back{way} and is dropped"
                )
                related = tuple(view.topology.queues[other] for other in others)
                yield Finding("HS314", first, message, key if shown else None, related)
                break


def _follow(view: TopologyView, expiring: dict[str, DeadLetters], start: Stay) -> list[str]:
    """Return the queues that an expiring message gets to, if each of them expires it again; else none."""
    seen: dict[Stay, None] = {start: None}
    pending = [start]
    came_back = False
    while pending:
        name, key = pending.pop()
        letters = expiring[name]
        key = key if letters.routing_key is None else letters.routing_key
        queues = find_queues(view, letters.exchange or "", key)
        if not queues or len(seen) > ROUND or not queues <= expiring.keys():
            return []  # lost at once (HS312), not known, or kept by a queue
        for queue in sorted(queues):
            came_back |= queue == start[0]
            if (queue, key) not in seen:
                seen[queue, key] = None
                pending.append((queue, key))
    return list(dict.fromkeys(name for name, _ in seen)) if came_back else []


def _keys_in(view: TopologyView, queue: str) -> Iterator[str]:
    """Yield some keys that messages of a queue may have."""
    patterns = _patterns_of(view, queue)
    for key in [queue] if patterns is None else map(find_key_among, patterns):
        if key is not None:
            yield key


def _settings_of(view: TopologyView, queue: str) -> Settings | None:
    return view.graph.policies.settings_of(view.topology.queues[queue])


def _policy_of(view: TopologyView, queue: str, setting: str) -> Policy | None:
    """Return the policy that sets a setting of a queue; None for an argument."""
    settings = _settings_of(view, queue)
    if settings is None or setting not in settings.values or settings.values[setting].source == "argument":
        return None
    return settings.policy


def _queues(names: list[str]) -> str:
    return f"{'queue' if len(names) == 1 else 'queues'} {list_names(names)}"
