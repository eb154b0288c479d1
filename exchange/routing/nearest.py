"""Find out why a queue did not get a message: the obstacles on the nearest path to it.

Each binding has a distance from a message: 0 if it matches, else a measure of the changes to its key or arguments that
would make it match (`Kind.miss`). A path leads from an exchange that the message reached to the queue. The path with
the smallest sum of distances is the one that the owner most likely meant; its bindings that do not match are the
obstacles.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from exchange.entities.entities import Binding, Destination, Exchange
from exchange.entities.indexes import Tables
from exchange.entities.profile import Profile
from exchange.kinds import Decider, find_kind
from exchange.kinds.misses import OTHER_ROUTE, compare_texts, describe_difference, estimate_distance
from exchange.limits import SHORTSTR_BYTES
from exchange.routing.route import Obstacle
from exchange.values.field_values import to_bytes
from exchange.values.message import Message

MAX_MEASURED: Final = 50
"""Maximum number of bindings of one exchange whose distance is computed exactly: those with the smallest estimate."""

MAX_MISSED_BINDINGS: Final = 100_000
"""Maximum number of bindings of the exchanges that an unroutable message reached, to look for the nearest one."""


class NearestPath(NamedTuple):
    """The distance from a message to a destination, and the obstacles in between."""

    distance: float
    obstacles: tuple[Obstacle, ...]


class Walk(NamedTuple):
    """The walk of a message through a topology: the parts that the search for another path needs."""

    message: Message
    reached: frozenset[str]
    """Exchanges that routed the message."""
    tables: Tables
    alternates: Mapping[str, str]
    """Exchange -> its alternate exchange in force."""
    profile: Profile


def find_obstacles(walk: Walk, queue: str) -> tuple[Obstacle, ...]:
    """Return the obstacles on the nearest path from an exchange that the message reached to the queue, in order.

    Empty if no path leads to the queue from there.
    """
    # Dijkstra's algorithm from the queue backwards.
    goal = Destination("queue", queue)
    best: dict[Destination, float] = {goal: 0.0}
    heap: list[tuple[float, int, Destination, tuple[Obstacle, ...]]] = [(0.0, 0, goal, ())]
    pushed = 0  # decides between equal distances: destinations and obstacles are not compared
    while heap:
        distance, _, at, obstacles = heapq.heappop(heap)
        if at.kind == "exchange" and at.name in walk.reached:
            return obstacles
        if distance > best[at]:
            continue
        for source, step in _steps_into(walk, at):
            total = distance + step.distance
            earlier = Destination("exchange", source)
            if total < best.get(earlier, float("inf")):
                best[earlier] = total
                pushed += 1
                heapq.heappush(heap, (total, pushed, earlier, (*step.obstacles, *obstacles)))
    return ()


def _steps_into(walk: Walk, destination: Destination) -> Iterable[tuple[str, NearestPath]]:
    """Yield the exchanges from which one step leads to a destination, each with its nearest step."""
    by_source: dict[str, list[Binding]] = {}
    for binding in walk.tables.bindings_to(destination):
        by_source.setdefault(binding.source, []).append(binding)
    for source, bindings in by_source.items():
        exchange = walk.tables.exchanges.get(source)
        if exchange is not None:
            yield source, find_nearest(walk, exchange, bindings)
    if destination.kind == "exchange":
        for source, alternate in walk.alternates.items():
            if alternate != destination.name:
                continue
            if source:
                reason = f"it is the alternate exchange of '{source}', whose own bindings matched"
                yield source, NearestPath(OTHER_ROUTE, (Obstacle(source, destination, None, reason),))
            elif walk.message.exchange:
                # The default exchange passes on all that reaches it as an alternate, but nothing published to it.
                yield source, NearestPath(0.0, ())
    elif "" in walk.reached:
        key, name = walk.message.routing_key, destination.name
        differs = describe_difference(key, name)
        reason = f"the default exchange routes to the queue that the key names: the key {differs}"
        yield "", NearestPath(compare_texts(key, name), (Obstacle("", destination, None, reason),))


def find_nearest(walk: Walk, exchange: Exchange, bindings: Sequence[Binding]) -> NearestPath:
    """Return the step through the nearest of these bindings of an exchange; the first one if several are nearest."""
    too_long = _check_length(walk.message)
    if too_long:
        return NearestPath(OTHER_ROUTE, (Obstacle(exchange.name, bindings[0].destination, bindings[0], too_long),))
    kind = find_kind(exchange)
    if len(bindings) > MAX_MEASURED and kind.decider is Decider.KEY:
        bindings = heapq.nsmallest(MAX_MEASURED, bindings, key=lambda b: estimate_distance(b.routing_key, walk.message))
    misses = [kind.miss(binding, walk.message, walk.profile) for binding in bindings]
    nearest = min(range(len(misses)), key=lambda index: misses[index].distance)
    distance, reason = misses[nearest]
    if not reason:
        return NearestPath(distance, ())  # the binding matches as soon as the message reaches its exchange
    binding = bindings[nearest]
    return NearestPath(distance, (Obstacle(exchange.name, binding.destination, binding, reason),))


def find_missed(walk: Walk) -> tuple[Obstacle, ...]:
    """Return the obstacle at the binding that came nearest to matching, of all exchanges that the message reached.

    Empty if these have no bindings, or more than `MAX_MISSED_BINDINGS` altogether.
    """
    sources = [(walk.tables.exchanges[name], walk.tables.bindings_from(name)) for name in sorted(walk.reached) if name]
    if sum([len(bindings) for _, bindings in sources]) > MAX_MISSED_BINDINGS:
        return ()
    found = [find_nearest(walk, exchange, tuple(bindings)) for exchange, bindings in sources if bindings]
    return min(found, key=lambda path: path.distance, default=NearestPath(0.0, ())).obstacles


def _check_length(message: Message) -> str:
    """Return why no client can publish the message, or ``""``. Comparing such long keys would take very long."""
    for key in message.routing_keys():
        if len(key) * 4 > SHORTSTR_BYTES and len(to_bytes(key)) > SHORTSTR_BYTES:
            return (
                f"the routing key has {len(to_bytes(key))} bytes, AMQP allows {SHORTSTR_BYTES}: nobody can publish it"
            )
    return ""
