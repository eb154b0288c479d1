"""Follow the dead letters of queues: where a message goes that is rejected, expires or exceeds a limit.

The exact life of a message, with its counts and times, is not modelled here: what is followed is where each queue sends
such a message, and where that is routed to, with the routing keys that dead letters have. Their headers, such as
x-death, are not added: where a headers exchange asks for them, where they go is undecided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from exchange.entities.entities import Binding, Queue
from exchange.entities.in_force import DeadLetters, Policies, SettingsInForce
from exchange.errors import BrokerError, InputError, NotFound
from exchange.kinds import compute_delivered_headers, find_kind
from exchange.kinds.headers import list_conditions
from exchange.kinds.kind import Decider
from exchange.routing.explain import Explanation
from exchange.routing.route import HOPS, DeadLetterHop, DeadLetterOutcome
from exchange.routing.router import Router
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology
from exchange.values.message import Message

DEATHS: Final = ("x-death", "x-first-death-", "x-last-death-")
"""Headers of dead letters, or how their names begin."""


def follow_dead_letters(topology: Topology, router: Router, explanation: Explanation) -> Explanation:
    """Return the explanation with the dead letters of the queues that get the message, and of queues that get these.

    ``router`` is one of this topology. There are none if no queue that gets the message has a dead letter exchange.
    """
    policies = topology.policies_in_force()
    by_deaths = _find_readers_of_deaths(topology)
    hops: list[DeadLetterHop] = []
    message, route = explanation.message, explanation.route
    stays = [(queue, message) for queue in route.at_once.queues]
    for later in route.later:
        rewritten = "BCC" in message.headers
        headers = compute_delivered_headers(message.headers, later.milliseconds, topology.profile, rewritten=rewritten)
        stays += [(queue, replace(message, headers=headers)) for queue in later.route.queues]
    seen: set[tuple[str, str | None]] = set()  # a queue, and the key, unless all messages of the queue go the same way
    for queue, message in stays:
        if topology.queues[queue].type == "stream":
            continue  # a stream takes no message away
        hop = find_hop(topology.queues[queue], message, policies, router)
        if hop.letters.exchange in by_deaths and hop.outcome in ("routed", "unroutable"):
            hop = hop._replace(outcome="undecided")
        stay = (
            queue,
            None if hop.letters.exchange is None or hop.letters.routing_key is not None else message.routing_key,
        )
        if stay in seen:
            continue
        if len(hops) == HOPS:
            break
        seen.add(stay)
        hops.append(hop)
        if hop.queues:
            following = make_dead_letter(message, hop.letters)
            stays += [(target, following) for target in hop.queues]
    if all(hop.outcome == "dropped" for hop in hops):
        return explanation
    return replace(explanation, dead_letters=tuple(hops))


def _find_readers_of_deaths(topology: Topology) -> set[str]:
    """Return the exchanges from which messages may get to a binding that asks for a header of dead letters."""
    readers = [
        name
        for name, exchange in topology.exchanges.items()
        if find_kind(exchange).decider is Decider.HEADERS
        and any(_asks_for_deaths(binding, topology) for binding in topology.bindings_from(name))
    ]
    return TopologyGraph(topology).graph.upstream(readers) if readers else set()


def _asks_for_deaths(binding: Binding, topology: Topology) -> bool:
    return any(name.startswith(DEATHS) for name, _ in list_conditions(binding, topology.profile))


def make_dead_letter(message: Message, letters: DeadLetters) -> Message:
    """Return the message as its dead letter is routed: with the key that the queue sets, or with all of its own keys.

    ``letters.exchange`` must not be None.
    """
    assert letters.exchange is not None  # noqa: S101
    if letters.routing_key is None:
        return replace(message, exchange=letters.exchange)
    headers = {name: value for name, value in message.headers.items() if name not in ("CC", "BCC")}
    return replace(message, exchange=letters.exchange, routing_key=letters.routing_key, headers=headers)


def find_hop(queue: Queue, message: Message, policies: Policies, router: Router) -> DeadLetterHop:
    """Return what becomes of a message that a queue rejects, lets expire or has no room for."""
    possible = policies.possible_settings(queue)
    ways = [settings.dead_letters for settings in possible]
    letters = ways[0]
    outcome: DeadLetterOutcome = "unknown"
    queues: tuple[str, ...] = ()
    if all(way == letters for way in ways):
        outcome, queues = _route(message, letters, router)
    source = str(possible[0].values["dead-letter-exchange"]) if letters.exchange is not None else ""
    ttl, length, size = (_integer(possible, name) for name in ("message-ttl", "max-length", "max-length-bytes"))
    overflows = {settings.overflow for settings in possible}
    overflow = overflows.pop() if len(overflows) == 1 else None
    key = message.routing_key
    return DeadLetterHop(queue.name, key, letters, outcome, queues, source, ttl, length, size, overflow)


def _integer(possible: Iterable[SettingsInForce], name: str) -> int | None:
    values = {settings.integer(name) for settings in possible}
    return values.pop() if len(values) == 1 else None


def _route(message: Message, letters: DeadLetters, router: Router) -> tuple[DeadLetterOutcome, tuple[str, ...]]:
    if letters.exchange is None:
        return "dropped", ()
    try:
        route = router.route_dead_letter(make_dead_letter(message, letters))
    except NotFound:
        return "missing", ()
    except (BrokerError, InputError):
        return "undecided", ()
    if route.undecided:
        return "undecided", route.queues
    return ("routed" if route.queues else "unroutable"), route.queues
