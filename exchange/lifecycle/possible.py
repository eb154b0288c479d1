"""The lives that one message may have: what each queue may do with it, what goes round, what is lost.

The queues need no messages for this: of each way to die that a queue's settings allow, the dead letter is recorded and
routed as in `exchange.lifecycle.broker`, and what its targets may do with it is followed, until nothing new comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from typing import Final, Literal, NamedTuple, NotRequired, TypedDict

from exchange.display import list_some, write_milliseconds
from exchange.lifecycle.content import Content, death_key, publish_content, record_death
from exchange.lifecycle.limits import Limits, limits_of
from exchange.lifecycle.release import RELEASES, Release
from exchange.lifecycle.targets import NO_EXCHANGE, Cause, find_targets
from exchange.message import Message
from exchange.routing.router import Router
from exchange.topology.topology import Topology

__all__ = ["LivesJson", "PossibleLives", "Way", "find_lives", "goes_alone", "life_lines", "lives_json"]

Reason = Literal["rejected", "expired", "maxlen", "delivery_limit"]
STATES: Final = 500
"""Maximum number of states that are followed: a queue, with the deaths that the message had before it came there."""
WAYS: Final = 20_000
"""Number of ways to die from which on no further state is followed: each queue behind a dead letter exchange is one."""
LISTED: Final = 5


class Way(NamedTuple):
    """A way to die in a queue, and what follows: the dead letter in one queue or, without one, a cause."""

    queue: str
    reason: Reason
    target: str | None
    cause: Cause | None = None
    after: int | None = None
    """Of ``expired``: the time to live in milliseconds."""

    def __str__(self) -> str:
        return f"{REASONS[self.reason]} in '{self.queue}'"


class PossibleLives(NamedTuple):
    """What may become of a message."""

    ways: tuple[Way, ...]
    """All ways to die, queue by queue in the order in which the message may come to them."""
    rounds: tuple[tuple[Way, ...], ...]
    """Ways that lead from a queue back to it, any number of times; first those that need no consumer."""
    losses: tuple[tuple[Way, ...], ...]
    """Ways from the publish to an end without a dead letter; the shortest of each end."""
    is_whole: bool
    """Whether all states were followed, and not only so far as `STATES` and `WAYS` allow."""


REASONS: Final[Mapping[Reason, str]] = {
    "rejected": "rejected",
    "expired": "expired",
    "maxlen": "over the limit",
    "delivery_limit": "given back too often",
}
"""Reason in x-death -> the same in words."""

State = tuple[object, ...]


class _Node(NamedTuple):
    queue: str
    content: Content

    @property
    def state(self) -> State:
        """What decides about the further life: not how often, but where and of what it died, in this order."""
        content = self.content
        deaths = tuple(map(death_key, content.deaths))
        return self.queue, deaths, content.keys, content.ttl, content.first, content.has_cc


def find_lives(topology: Topology, router: Router, message: Message) -> PossibleLives:
    """Return the possible lives of a published message. Raises as `exchange.lifecycle.broker.Broker.publish`."""
    release = RELEASES[topology.profile.lives]
    policies = topology.policies_in_force()
    find_limits = cache(lambda name: limits_of(topology.queues[name], policies))
    first = publish_content(message, release)
    edges: dict[State, list[tuple[Way, State | None]]] = {}
    pending = deque(_Node(name, first) for name in router.route(message).queues)
    starts = [node.state for node in pending]
    count = 0
    while pending and len(edges) < STATES and count < WAYS:
        node = pending.popleft()
        if node.state in edges:
            continue
        known: list[tuple[Way, State | None]] = []
        edges[node.state] = known
        limits = find_limits(node.queue)
        for reason in _reasons(node.content, limits):
            for way, target in _follow(node, reason, limits, router, release):
                known.append((way, None if target is None else target.state))
                if target is not None:
                    pending.append(target)
        count += len(known)
    found = dict.fromkeys(way for known in edges.values() for way, _ in known)
    order = {name: at for at, name in enumerate(dict.fromkeys(way.queue for way in found))}
    ways = sorted(found, key=lambda way: (order[way.queue], [*REASONS].index(way.reason)))
    rounds = sorted(_rounds(edges), key=lambda round_: (not goes_alone(round_), len(round_)))
    is_whole = all(node.state in edges for node in pending)
    return PossibleLives(tuple(ways), tuple(rounds), tuple(_losses(edges, starts)), is_whole)


def goes_alone(round_: Iterable[Way]) -> bool:
    """Return whether a message goes round by itself: it expires or is dropped, and no consumer needs to reject it."""
    return all(way.reason in ("expired", "maxlen") for way in round_)


def _reasons(content: Content, limits: Limits) -> Iterator[Reason]:
    """Yield what a message may die of in a queue with these limits."""
    if limits.type == "stream":
        return
    yield "rejected"
    if limits.ttl is not None or content.ttl is not None:
        yield "expired"
    if (limits.max_length is not None or limits.max_bytes is not None) and limits.overflow != "reject-publish":
        yield "maxlen"
    if limits.delivery_limit is not None:
        yield "delivery_limit"


def _follow(
    node: _Node, reason: Reason, limits: Limits, router: Router, release: Release
) -> Iterator[tuple[Way, _Node | None]]:
    """Yield what comes of a death: a way for each queue that gets the dead letter, or one way to the end."""
    times = [time for time in (limits.ttl, node.content.ttl) if time is not None]
    after = min(times) if reason == "expired" else None
    address = limits.dead_letter_address
    if address is None:
        yield Way(node.queue, reason, None, NO_EXCHANGE, after), None
        return
    dead = record_death(node.content, node.queue, reason, address, 0, release)
    targets, cause = find_targets(router, dead, reason)
    for target in targets:
        yield Way(node.queue, reason, target, None, after), _Node(target, dead)
    if cause is not None:
        yield Way(node.queue, reason, None, cause, after), None


Edges = Mapping[State, list[tuple[Way, State | None]]]


def _rounds(edges: Edges) -> Iterator[tuple[Way, ...]]:
    """Yield the shortest ways from each state back to it; of those that differ only in where they begin, one."""
    seen: set[frozenset[tuple[str, str]]] = set()
    for state in edges:
        path = next(_shortest(edges, [state], lambda way, target, state=state: target == state), None)  # type: ignore[misc]
        if path is None:
            continue
        key = frozenset((way.queue, way.reason) for way in path)
        if key not in seen:
            seen.add(key)
            yield path


def _losses(edges: Edges, starts: Iterable[State]) -> Iterator[tuple[Way, ...]]:
    """Yield the shortest ways to each end."""
    seen: set[Way] = set()
    for path in _shortest(edges, starts, lambda way, _: way.target is None):
        if path[-1] not in seen:
            seen.add(path[-1])
            yield path


def _shortest(
    edges: Edges, starts: Iterable[State], is_end: Callable[[Way, State | None], bool]
) -> Iterator[tuple[Way, ...]]:
    """Yield the ways from the starts to each end, the shortest first."""
    came: dict[State, tuple[State, Way] | None] = dict.fromkeys(starts)
    pending = deque(came)
    while pending:
        state = pending.popleft()
        for way, target in edges.get(state, ()):
            if is_end(way, target):
                yield (*_path(came, state), way)
            if target is not None and target not in came:
                came[target] = state, way
                pending.append(target)


def _path(came: Mapping[State, tuple[State, Way] | None], state: State) -> tuple[Way, ...]:
    ways: list[Way] = []
    while (step := came[state]) is not None:
        state, way = step
        ways.append(way)
    return tuple(reversed(ways))


CAUSES: Final[Mapping[Cause, str]] = {
    "no dead letter exchange": "there is no dead letter exchange",
    "missing exchange": "the dead letter exchange does not exist",
    "unroutable": "no queue gets the dead letter",
    "cycle": "the broker drops what comes back without having been rejected",
    "full queue": "all queues that get the dead letter are full",
}


def life_lines(lives: PossibleLives) -> Iterator[str]:
    """Yield possible lives as lines of text, which are not escaped."""
    yield "possible lives:"
    queue = None
    for (name, reason), ways in groupby(lives.ways, key=lambda way: (way.queue, way.reason)):
        if name != queue:
            queue = name
            yield f"  queue '{queue}'"
        listed = [*ways]
        targets = list(dict.fromkeys(f"'{way.target}'" for way in listed if way.target is not None))
        outcomes = [f"to {list_some(targets, LISTED)}"] if targets else []
        outcomes += dict.fromkeys(f"lost, as {CAUSES[way.cause]}" for way in listed if way.cause is not None)
        after = f" after {write_milliseconds(listed[0].after)}" if listed[0].after is not None else ""
        yield f"    {REASONS[reason]}{after}: {'; or '.join(outcomes)}"
    for round_ in lives.rounds[:LISTED]:
        how = "for ever, without a consumer" if goes_alone(round_) else "as long as consumers reject it"
        yield f"  goes round {how}: {_witness(round_)}, back in '{round_[-1].target}'"
    yield from _more(len(lives.rounds))
    for loss in lives.losses[:LISTED]:
        cause = loss[-1].cause
        yield f"  is lost: {_witness(loss)}" + (f"; {CAUSES[cause]}" if cause is not None else "")
    yield from _more(len(lives.losses))
    if not lives.is_whole:
        yield "  there may be more: the message can go too many ways to follow all of them"


def _witness(ways: Iterable[Way]) -> str:
    return ", ".join(map(str, ways))


def _more(number: int) -> Iterator[str]:
    if number > LISTED:
        yield f"  and {number - LISTED:,} more"


class WayJson(TypedDict):
    """A way to die in a queue."""

    queue: str
    reason: Reason
    """As in `x-death`."""
    target: str | None
    """A queue that gets the dead letter; null if it is lost."""
    cause: NotRequired[Cause]
    """Why it is lost; absent if it is not."""
    after_ms: NotRequired[int]
    """Time to live of an expired message, in milliseconds."""


class LivesJson(TypedDict):
    """What may become of a message in its queues."""

    ways: list[WayJson]
    rounds: list[list[WayJson]]
    """Ways that lead from a queue back to it."""
    losses: list[list[WayJson]]
    """Ways from the publish to an end without a dead letter."""
    whole: bool
    """Whether all of its lives were followed."""


def lives_json(lives: PossibleLives) -> LivesJson:
    """Return possible lives as JSON values."""
    return {
        "ways": [_way_json(way) for way in lives.ways],
        "rounds": [[_way_json(way) for way in ways] for ways in lives.rounds],
        "losses": [[_way_json(way) for way in ways] for ways in lives.losses],
        "whole": lives.is_whole,
    }


def _way_json(way: Way) -> WayJson:
    value: WayJson = {"queue": way.queue, "reason": way.reason, "target": way.target}
    if way.cause is not None:
        value["cause"] = way.cause
    if way.after is not None:
        value["after_ms"] = way.after
    return value
