"""31x: dead letters that are lost, by the arguments and policies in force."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget
from bindings.checking.rules.finding import Finding, list_names, quote_exchange
from bindings.checking.rules.leaks import (
    find_key_among,
    find_lost_key,
    find_lost_key_among,
    find_path_to_queue,
    find_queues,
)
from bindings.checking.rules.view import TopologyView
from exchange.entities.effects import AT_MOST_ONCE
from exchange.entities.entities import Destination, Policy, Queue
from exchange.entities.in_force import DeadLetters
from exchange.kinds.condition import EVERYTHING
from exchange.patterns.pattern import Pattern
from exchange.text.display import LIKE_NAMES, suggest

WAYS: Final = 100
"""Maximum number of bindings to one queue whose keys are tried."""
MAX_STEPS: Final = 1_000_000
"""Maximum number of dead letters that are followed from one queue to another to find all circles of a topology."""

Stay: TypeAlias = tuple[str, str]
"""A queue, and the routing key that a message has in it."""


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about dead letters: HS311 to HS314."""
    known = _known(view)
    yield from _missing(view, known)
    yield from _lost(view, known)
    yield from _at_most_once(view)
    yield from find_circles(view)


def _known(view: TopologyView) -> dict[str, DeadLetters]:
    """Return where dead letters go, unless that depends on which policy is in force, and that is not known."""
    return {
        name: possible[0]
        for name, possible in view.graph.dead_letters.items()
        if len({(letters.exchange, letters.routing_key) for letters in possible}) == 1
    }


def _missing(view: TopologyView, known: dict[str, DeadLetters]) -> Iterator[Finding]:
    """Yield one finding for each argument, and one for each policy, that names an exchange that does not exist."""
    by_policy: dict[Policy, list[str]] = {}
    for name, letters in known.items():
        if letters.exchange not in view.topology.exchanges:
            policy = _policy_of(view, name, "dead-letter-exchange")
            if policy is not None:
                by_policy.setdefault(policy, []).append(name)
                continue
            hint = _hint(view, letters.exchange or "")
            message = f"the dead letter exchange of queue '{name}', '{letters.exchange}', does not exist{hint}"
            yield Finding("HS311", view.topology.queues[name], message)
    for policy, names in by_policy.items():
        exchange = policy.definition["dead-letter-exchange"]
        message = (
            f"policy '{policy.name}' sends dead letters of {_queues(names)} to the exchange '{exchange}', which does "
            f"not exist{_hint(view, exchange)}"
        )
        yield Finding("HS311", policy, message, related=tuple(view.topology.queues[name] for name in names))


def _hint(view: TopologyView, exchange: str) -> str:
    """Return what the name of a missing exchange may stand for: a queue, or an exchange with a name much like it."""
    if exchange in view.topology.queues:
        return (
            f"; there is a queue '{exchange}': dead letters go there by way of the default exchange, with "
            f'x-dead-letter-exchange = "" and x-dead-letter-routing-key = "{exchange}"'
        )
    return suggest(exchange, view.topology.exchanges, likeness=LIKE_NAMES)


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
            end = "are kept in it, and sent again later, as no queue gets them" if letters.at_least_once else "are lost"
            yield Finding("HS312", queue, f"{message}{by} and {end}", lost[0], related)


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
        is_open = source is not None and not source.internal
        pattern = view.pattern_of(way) if is_open else None
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
        if queue.type == "quorum" and all(
            any(why is AT_MOST_ONCE for _, why in settings.without_effect.values())
            for settings in view.graph.possible_settings(name)
        ):
            message = f"queue '{name}' asks for dead letters at least once without overflow reject-publish"
            yield Finding("HS313", queue, message)


def find_circles(view: TopologyView) -> Iterator[Finding]:
    """Yield the queues that only hand expired messages round, until the broker drops them: HS314."""
    expiring = {
        name: letters
        for name, letters in _known(view).items()
        if all(settings.integer("message-ttl") is not None for settings in view.graph.possible_settings(name))
    }
    found: set[str] = set()
    ended: set[Stay] = set()
    budget = Budget(MAX_STEPS)
    for name, letters in expiring.items():
        if name in found:
            continue
        for key in _keys_in(view, name) if letters.routing_key is None else [""]:
            try:
                path = _follow(view, expiring, (name, key), ended, budget)
            except OutOfBudget:
                text = f"not all circles of expiry were looked for: the search ends after {MAX_STEPS:,} dead letters"
                yield Finding("HS314", None, text, detail="limit")
                return
            if path:
                found.update(path)
                first, others = view.topology.queues[path[0]], path[1:]
                way = f", through {list_names(others)}," if others else ""
                shown = f" with the key '{key}'" if letters.routing_key is None else ""
                message = (
                    f"a message{shown} that nobody takes from queue '{name}' expires, comes back{way} and is dropped"
                )
                related = tuple(view.topology.queues[other] for other in others)
                yield Finding("HS314", first, message, key if shown else None, related)
                break


def _follow(
    view: TopologyView, expiring: dict[str, DeadLetters], start: Stay, ended: set[Stay], budget: Budget
) -> list[str]:
    """Return the queues that an expiring message gets to, if all expire it again and it comes back; else none.

    ``ended`` has the stays from which a message gets out of all circles; those found here are added. Raises OutOfBudget
    where that takes too many steps.
    """
    came: dict[Stay, list[Stay]] = {start: []}  # a stay -> the stays before it
    pending = [start]
    came_back = False
    while pending:
        stay = pending.pop()
        name, key = stay
        letters = expiring[name]
        key = key if letters.routing_key is None else letters.routing_key
        queues = None if stay in ended else find_queues(view, letters.exchange or "", key)
        budget.spend(1 + len(queues or ()))
        if not queues or not queues <= expiring.keys():
            _mark_ended(stay, came, ended)  # lost at once (HS312), not known, or kept by a queue
            return []
        for queue in sorted(queues):
            came_back |= queue == start[0]
            following = (queue, key if expiring[queue].routing_key is None else "")
            if following not in came:
                pending.append(following)
            came.setdefault(following, []).append(stay)
    return list(dict.fromkeys(name for name, _ in came)) if came_back else []


def _mark_ended(stay: Stay, came: dict[Stay, list[Stay]], ended: set[Stay]) -> None:
    """Add a stay, and all stays that lead to it."""
    pending = [stay]
    reached = {stay}
    while pending:
        for before in came[pending.pop()]:
            if before not in reached:
                reached.add(before)
                pending.append(before)
    ended |= reached


def _keys_in(view: TopologyView, queue: str) -> Iterator[str]:
    """Yield some keys that messages of a queue may have."""
    patterns = _patterns_of(view, queue)
    for key in [queue] if patterns is None else map(find_key_among, patterns):
        if key is not None:
            yield key


def _policy_of(view: TopologyView, queue: str, setting: str) -> Policy | None:
    """Return the policy that sets a setting of a queue; None for an argument."""
    settings, *others = view.graph.possible_settings(queue)
    if others or setting not in settings.values or settings.values[setting].source == "argument":
        return None
    return settings.policy


def _queues(names: list[str]) -> str:
    return f"{'queue' if len(names) == 1 else 'queues'} {list_names(names)}"
