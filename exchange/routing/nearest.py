"""Why a queue did not get a message: the obstacle nearest to it, and what would still lie behind.

Every binding is at a distance from a message: 0 when it matches, else how much of its key or its arguments would have
to be different (`Kind.miss`). The message stands where its walk led; the nearest way from there to the queue, counted
in distance, starts with the binding its owner most likely meant, and the words on it that failed are the answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from exchange.entities.entities import Binding, Destination, Exchange
from exchange.entities.indexes import Tables
from exchange.entities.profile import Profile
from exchange.field_values import to_bytes
from exchange.kinds import Decider, kind_of
from exchange.kinds.misses import OTHER_ROUTE, compare_texts, describe_difference, estimate_distance
from exchange.limits import SHORTSTR_BYTES
from exchange.message import Message
from exchange.routing.route import Obstacle

__all__ = ["Walk", "Way", "nearest_binding", "nearest_way"]

LOOKED_AT_CLOSELY = 50
"""Of a million bindings only so many, the nearest at first sight, are compared letter by letter."""


class Way(NamedTuple):
    """How far it is from a message to a destination, and what stands in between."""

    distance: float
    obstacles: tuple[Obstacle, ...]


class Walk(NamedTuple):
    """What a message did, as far as the search for another way needs to know."""

    message: Message
    reached: frozenset[str]
    """The exchanges that routed it."""
    tables: Tables
    alternates: Mapping[str, str]
    """Exchange -> its alternate exchange in force."""
    profile: Profile


def nearest_way(walk: Walk, queue: str) -> tuple[Obstacle, ...]:
    """The obstacles between the exchanges a message reached and a queue that did not get it: nearest way, in order.

    Empty when nothing leads to the queue from where the message can get.
    """
    # Dijkstra's algorithm from the queue backwards.
    goal = Destination("queue", queue)
    best: dict[Destination, float] = {goal: 0.0}
    heap: list[tuple[float, int, Destination, tuple[Obstacle, ...]]] = [(0.0, 0, goal, ())]
    pushed = 0
    while heap:
        distance, _, at, obstacles = heapq.heappop(heap)
        if at.kind == "exchange" and at.name in walk.reached:
            return obstacles
        if distance > best[at]:
            continue
        for source, step in _ways_into(walk, at):
            total = distance + step.distance
            there = Destination("exchange", source)
            if total < best.get(there, float("inf")):
                best[there] = total
                pushed += 1
                heapq.heappush(heap, (total, pushed, there, (*step.obstacles, *obstacles)))
    return ()


def _ways_into(walk: Walk, destination: Destination) -> Iterable[tuple[str, Way]]:
    by_source: dict[str, list[Binding]] = {}
    for binding in walk.tables.bindings_to(destination):
        by_source.setdefault(binding.source, []).append(binding)
    for source, bindings in by_source.items():
        exchange = walk.tables.exchanges.get(source)
        if exchange is not None:
            yield source, nearest_binding(walk, exchange, bindings)
    if destination.kind == "exchange":
        for source, alternate in walk.alternates.items():
            if alternate == destination.name and not source:
                # Whatever comes to the default exchange as an alternate goes on; what is published to it never does.
                if walk.message.exchange:
                    yield source, Way(0.0, ())
            elif alternate == destination.name:
                reason = f"it is the alternate exchange of '{source}', whose own bindings matched"
                yield source, Way(OTHER_ROUTE, (Obstacle(source, destination, None, reason),))
    elif "" in walk.reached:
        key, name = walk.message.routing_key, destination.name
        differs = describe_difference(key, name)
        reason = f"the default exchange routes to the queue that the key names: the key {differs}"
        yield "", Way(compare_texts(key, name), (Obstacle("", destination, None, reason),))


def nearest_binding(walk: Walk, exchange: Exchange, bindings: Sequence[Binding]) -> Way:
    """Of some bindings of an exchange the one nearest to a message; of several as near, the first."""
    too_long = _length_fault(walk.message)
    if too_long:
        return Way(OTHER_ROUTE, (Obstacle(exchange.name, bindings[0].destination, bindings[0], too_long),))
    kind = kind_of(exchange)
    if len(bindings) > LOOKED_AT_CLOSELY and kind.decider is Decider.KEY:
        bindings = heapq.nsmallest(
            LOOKED_AT_CLOSELY, bindings, key=lambda b: estimate_distance(b.routing_key, walk.message)
        )
    misses = [kind.miss(binding, walk.message, walk.profile) for binding in bindings]
    place = min(range(len(misses)), key=lambda place: misses[place].distance)
    distance, reason = misses[place]
    if not reason:
        return Way(distance, ())  # it would match, once its exchange is reached
    binding = bindings[place]
    return Way(distance, (Obstacle(exchange.name, binding.destination, binding, reason),))


def _length_fault(message: Message) -> str:
    """Why no client can have published the message. Comparing such keys word by word would take for ever."""
    for key in message.routing_keys():
        if len(key) * 4 > SHORTSTR_BYTES and len(to_bytes(key)) > SHORTSTR_BYTES:
            return (
                f"the routing key has {len(to_bytes(key))} bytes, AMQP allows {SHORTSTR_BYTES}: nobody can publish it"
            )
    return ""
