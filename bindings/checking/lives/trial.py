"""Try a life: whether dead letters, with the headers that the deaths give them, go where its events lead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from bindings.checking.lives.places import MessageLocation, PlaceGraph
from bindings.checking.rules.life import Life, LifeEvent
from exchange.entities.profile import QueueBehaviour
from exchange.lifecycle.content import Content, identify_death, publish_content, record_death
from exchange.lifecycle.outcomes import find_targets
from exchange.values.message import Message

LAPS: Final = 8
"""Maximum number of turns of a round, until the message is as it was after an earlier turn."""
TRIED: Final = 200
"""Maximum number of events of a life that is tried; the time grows with the square of their number."""

SEARCHED: Final = 200
"""Maximum number of messages, as their deaths have made them, that one search looks at."""


def is_confirmed(graph: PlaceGraph, life: Life) -> bool:
    """Return whether the dead letters of a life, all of whose events are deaths, go where its events lead.

    A round comes true if it leaves the message as it was, but for the numbers of its deaths: then it has no end.
    """
    release = graph.view.topology.profile.lives
    content: Content | None = publish_content(Message(life.exchange, life.routing_key), release)
    content = _die(graph, release, content, life.events)
    if content is None or not life.round:
        return content is not None
    seen = []
    for _ in range(LAPS):
        content = _die(graph, release, content, life.round)
        if content is None:
            return False
        state = [*map(identify_death, content.deaths)], content.keys, content.ttl, content.first, content.has_cc
        if state in seen:
            return True
        seen.append(state)
    return False


def _die(
    graph: PlaceGraph, release: QueueBehaviour, content: Content | None, events: Iterable[LifeEvent]
) -> Content | None:
    """Return the content of a message after these deaths; None if a dead letter does not go where it should."""
    for event in events:
        limits = graph.view.limits_of(event.queue)
        address = None if limits is None else limits.dead_letter_address
        if address is None or content is None:
            return None
        content = record_death(content, event.queue, event.what, address, 0, release)
        queues, _, _ = find_targets(graph.router, content, event.what, release)
        if event.target not in queues if event.target is not None else queues:
            return None
    return content


def find_drop(
    graph: PlaceGraph, start: MessageLocation, dying: Mapping[str, LifeEvent], ends: Iterable[str]
) -> Life | None:
    """Return a shortest life that ends in one of these queues, as the message came back to it without a rejection.

    On the way messages are rejected, or die as ``dying`` states for each queue. None if a bounded search finds none.
    """
    release = graph.view.topology.profile.lives
    exchange, key = graph.starts[start]
    first = publish_content(Message(exchange, key), release)
    pending: deque[tuple[str, Content, tuple[LifeEvent, ...]]] = deque([(start.name, first, ())])
    wanted, seen = set(ends), set[object]()
    while pending and len(seen) < SEARCHED:
        queue, content, events = pending.popleft()
        limits = graph.view.limits_of(queue)
        address = None if limits is None else limits.dead_letter_address
        if address is None:
            continue
        for event in (LifeEvent(queue, "rejected"), *([dying[queue]] if queue in dying else [])):
            dead = record_death(content, queue, event.what, address, 0, release)
            queues, cause, _ = find_targets(graph.router, dead, event.what, release)
            if cause == "cycle" and queue in wanted:
                return Life(exchange, key, (*events, event))
            for target in queues:
                state = target, dead.keys, tuple(map(identify_death, dead.deaths))
                if state not in seen:
                    seen.add(state)
                    pending.append((target, dead, (*events, event._replace(target=target))))
    return None
