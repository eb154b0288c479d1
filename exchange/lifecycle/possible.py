"""The lives that one message may have: what each queue may do with it, what goes round, what is lost.

The queues need no messages for this: of each way to die that a queue's settings allow, the dead letter is recorded and
routed as in `exchange.lifecycle.broker`, and what its targets may do with it is followed, until nothing new comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from exchange.entities.entities import Policy, Queue
from exchange.entities.in_force import Policies
from exchange.entities.queue_arguments import refuse_queue
from exchange.errors import BrokerError
from exchange.lifecycle.content import Content, identify_death, publish_content, record_death
from exchange.lifecycle.limits import Limits, RetryKind, build_limits, find_limits
from exchange.lifecycle.outcomes import NO_EXCHANGE, Cause, find_targets
from exchange.routing.router import Router
from exchange.topology.rules import VirtualHost
from exchange.topology.topology import Topology
from exchange.values.documents import document
from exchange.values.message import Message

Reason = Literal["rejected", "expired", "maxlen", "delivery_limit"]
STATES: Final = 500
"""Maximum number of states that are followed: a queue, with the deaths that the message had before it came there."""
WAYS: Final = 20_000
"""Maximum number of ways to die that are followed: each queue behind a dead letter exchange is one."""


@document(
    "WayJson", "queue, reason, target, cause if any, after_ms = after if any, condition if any, kept = is_kept if any"
)
class Way(NamedTuple):
    """A way to die in a queue, and what follows: the dead letter in one queue or, without one, a cause."""

    queue: str
    reason: Reason
    """As in ``x-death``."""
    target: str | None
    """A queue that gets the dead letter; None if it is lost."""
    cause: Cause | None = None
    """Why it is lost; absent if it is not."""
    after: int | None = None
    """Of ``expired``: the time to live in milliseconds."""
    condition: str | None = None
    """What must be so, in words, where it is not known which policy is in force: ``if policy 'p' is in force``."""
    is_kept: bool = False
    """Whether the queue keeps the message, and sends its dead letter again later (at-least-once)."""

    def __str__(self) -> str:
        condition = "" if self.condition is None else f" ({self.condition})"
        return f"{REASONS[self.reason]} in '{self.queue}'{condition}"


@document("DeletionJson", "queue, after_ms = after, condition if any")
class Deletion(NamedTuple):
    """A queue that may be deleted with its messages, without dead letters."""

    queue: str
    after: int | None
    """Milliseconds without a consumer, from which on the queue is deleted; None if it goes with its last consumer."""
    condition: str | None = None
    """Which policy must be in force, in words; absent if that is known."""


@document("ReturnJson", "queue, event = what, type if any, after_ms = after, up_to_ms = most if any, condition if any")
class Return(NamedTuple):
    """A quorum queue in which a message waits that comes back to it, or that takes it back from a slow consumer."""

    queue: str
    what: Literal["retry", "timeout"]
    type: RetryKind | None
    """Which messages wait when they are given back, as ``x-delayed-retry-type``; absent for a timeout."""
    after: int
    """Milliseconds that it waits at first; or after which it is taken back."""
    most: int | None = None
    """Maximum number of milliseconds that it waits, after many failed deliveries; absent if that is the same."""
    condition: str | None = None
    """Which policy must be in force, in words; absent if that is known."""


@document("RefusedQueueJson")
class RefusedQueue(NamedTuple):
    """A queue of the topology that a broker refuses to declare, or to let be read."""

    queue: str
    answer: str
    """What the broker answers."""
    is_to_readers: bool = False
    """Whether all who consume or get from it are refused, and not its declaration."""


@document("LivesJson", "ways, rounds, leads, losses, deletions, returns, refused if any, whole = is_whole")
class PossibleLives(NamedTuple):
    """What may become of a message in its queues."""

    ways: tuple[Way, ...]
    """All ways to die, queue by queue in the order in which the message may come to them."""
    rounds: tuple[tuple[Way, ...], ...]
    """Ways that lead from a queue back to it, any number of times; first those that need no consumer."""
    leads: tuple[tuple[Way, ...], ...]
    """How the message comes to each round: the shortest ways from the publish, without turns of the round itself."""
    losses: tuple[tuple[Way, ...], ...]
    """Ways from the publish to an end without a dead letter; the shortest of each end."""
    deletions: tuple[Deletion, ...]
    """Queues on the way that may be deleted with the message."""
    returns: tuple[Return, ...]
    """How it comes back to queues on the way, where that takes time by their settings."""
    refused: tuple[RefusedQueue, ...] | None
    """Queues on the way that the release refuses to declare, which an older one has made, and those nobody can read."""
    is_whole: bool
    """Whether all of its lives were followed, and not only so far as ``STATES`` and ``WAYS`` allow."""


REASONS: Final[Mapping[Reason, str]] = {
    "rejected": "rejected", "expired": "expired", "maxlen": "over the limit", "delivery_limit": "given back too often",
}  # fmt: skip
"""Reason in x-death -> the same in words."""

State = tuple[object, ...]
Assumed = frozenset[tuple[str, int]]
"""Queue, and which of its possible limits it has, of queues for which it is not known which policy is in force."""


class _Node(NamedTuple):
    queue: str
    content: Content
    assumed: Assumed
    state: State
    """What decides about the further life: not how often, but where and of what it died, in this order."""


def _make_node(queue: str, content: Content, assumed: Assumed) -> _Node:
    deaths = tuple(map(identify_death, content.deaths))
    state = (queue, deaths, content.keys, content.ttl, content.first, content.has_cc, assumed)
    return _Node(queue, content, assumed, state)


def find_lives(topology: Topology, router: Router, message: Message) -> PossibleLives:
    """Return the possible lives of a published message. Raises as `exchange.lifecycle.broker.Broker.publish`."""
    search = _StateSearch(topology, router)
    first = publish_content(message, search.release)
    route = router.route(message)
    starts = [_make_node(name, first, frozenset()) for name in route.at_once.queues]
    for later in route.later:
        content = first.after_delay(later.milliseconds, topology.profile)
        starts += [_make_node(name, content, frozenset()) for name in later.route.queues]
    for reasons in WALKS:
        search.walk(starts, reasons)
    search.spread(starts)
    edges = {
        state: [(way, None if target is None else target.state) for way, target in steps]
        for state, steps in search.steps.items()
    }
    came: Came = {node.state: None for node in starts}
    for _ in _reach(edges, came):
        pass
    order = {name: at for at, name in enumerate(dict.fromkeys(str(state[0]) for state in came))}
    found = dict.fromkeys(way for state in came for way, _ in edges.get(state, ()))
    ways = sorted(found, key=lambda way: (order[way.queue], [*REASONS].index(way.reason), way.after or 0))
    rounds = sorted(_rounds(edges, came), key=lambda pair: (not goes_alone(pair[1]), len(pair[1])))
    deletions = [each for name in order for each in search.deletions(name)]
    returns = [each for name in order for each in search.returns(name)]
    return PossibleLives(
        tuple(ways),
        tuple([round_ for _, round_ in rounds]),
        tuple([lead for lead, _ in rounds]),
        tuple(_losses(edges, came)),
        tuple(deletions),
        tuple(returns),
        tuple(_find_refused(topology, order)) or None,
        came.keys() <= edges.keys(),
    )


def _find_refused(topology: Topology, names: Iterable[str]) -> Iterator[RefusedQueue]:
    host = VirtualHost(topology.vhost, topology.profile)
    for name in names:
        try:
            refuse_queue(topology.queues[name], host.describe("queue", name), topology.profile)
        except BrokerError as error:
            yield RefusedQueue(name, str(error))
        crash = find_limits(topology.queues[name], topology.policies_in_force()).crash
        if crash:
            yield RefusedQueue(name, crash, True)


def goes_alone(round_: Iterable[Way]) -> bool:
    """Return whether a message goes round by itself: it expires or is dropped, and no consumer needs to reject it."""
    return all(way.reason in ("expired", "maxlen") for way in round_)


WALKS: Final[tuple[tuple[Reason, ...], ...]] = (("rejected",), ("expired", "rejected"))
"""Lives that are followed before all others: always rejected, and expired wherever that is possible."""

Steps = list[tuple[Way, "_Node | None"]]


class _StateSearch:
    """The states that a message may come to, as far as they are followed, and the steps from each."""

    def __init__(self, topology: Topology, router: Router) -> None:
        self.release: Final = topology.profile.lives
        self.steps: Final[dict[State, Steps]] = {}
        self._queues: Final = topology.queues
        self._router: Final = router
        self._profile: Final = topology.profile
        self._policies: Final = topology.policies_in_force()
        self._limits: Final[dict[str, list[tuple[Limits, str | None]]]] = {}
        self._count = 0

    def walk(self, starts: Sequence[_Node], reasons: Sequence[Reason]) -> None:
        """Follow the lives in which each queue does the first of these that it can, for a part of `STATES`."""
        stack, seen = [*reversed(starts)], set[State]()
        while stack and len(seen) < STATES // 4:
            node = stack.pop()
            if node.state in seen:
                continue
            seen.add(node.state)
            steps = self._expand(node)
            chosen = next((reason for reason in reasons if any(way.reason == reason for way, _ in steps)), None)
            stack += [target for way, target in reversed(steps) if way.reason == chosen and target is not None]

    def spread(self, starts: Sequence[_Node]) -> None:
        """Follow all lives, those with few deaths first."""
        pending, seen = deque(starts), set[State]()
        while pending and self._has_room:
            node = pending.popleft()
            if node.state not in seen:
                seen.add(node.state)
                pending += [target for _, target in self._expand(node) if target is not None]

    @property
    def _has_room(self) -> bool:
        return len(self.steps) < STATES and self._count < WAYS

    def _expand(self, node: _Node) -> Steps:
        """Return what may follow a state; nothing if too much was followed before."""
        steps = self.steps.get(node.state)
        if steps is None:
            if not self._has_room:
                return []
            steps = self.steps[node.state] = [*self._follow(node)]
            self._count += len(steps)
        return steps

    def _follow(self, node: _Node) -> Iterator[tuple[Way, _Node | None]]:
        for limits, condition, assumed in self._possible_limits(node.queue, node.assumed):
            for reason in _reasons(node.content, limits):
                for target, cause, dead in self._die(node, reason, limits, assumed):
                    after = _time_to_live(node.content, limits) if reason == "expired" else None
                    is_kept = cause is not None and limits.dead_letters.at_least_once
                    way = Way(node.queue, reason, target, cause, after, condition, is_kept)
                    yield way, None if target is None or dead is None else _make_node(target, dead, assumed)

    def _die(
        self, node: _Node, reason: Reason, limits: Limits, assumed: Assumed
    ) -> Iterator[tuple[str | None, Cause | None, Content | None]]:
        """Yield what comes of a death: each queue that may get the dead letter, and the cause if none may."""
        address = limits.dead_letter_address
        if address is None:
            yield None, NO_EXCHANGE, None
            return
        dead = record_death(node.content, node.queue, reason, address, 0, self.release)
        targets, cause, later = find_targets(self._router, dead, reason, self.release)
        for target in targets:
            yield target, None, dead
        for each in later:
            content = dead.after_delay(each.milliseconds, self._profile)
            for target in each.route.queues:
                yield target, None, content
        if later:
            return
        if cause is not None:
            yield None, cause, None
        elif not limits.dead_letters.at_least_once and all(
            any(each.loses_dead_letters for each, _, _ in self._possible_limits(target, assumed)) for target in targets
        ):
            yield None, "full queue", None

    def deletions(self, queue: str) -> Iterator[Deletion]:
        """Yield how a queue may end with its messages."""
        for limits, condition, _ in self._possible_limits(queue, frozenset()):
            if limits.expires is not None:
                yield Deletion(queue, limits.expires, condition)
        if self._queues[queue].auto_delete:
            yield Deletion(queue, None)

    def returns(self, queue: str) -> Iterator[Return]:
        """Yield how a message comes back to a queue, as far as settings of it say when."""
        for limits, condition, _ in self._possible_limits(queue, frozenset()):
            delay, timeout = limits.retry_delay, limits.consumer_timeout
            if delay is not None:
                least, most = delay.milliseconds(1), delay.most
                yield Return(queue, "retry", delay.kind, least, None if least == most else most, condition)
            if timeout is not None and timeout != self.release.consumer_timeout:
                yield Return(queue, "timeout", None, timeout, None, condition)

    def _possible_limits(self, queue: str, assumed: Assumed) -> Iterator[tuple[Limits, str | None, Assumed]]:
        """Yield the limits that a queue may have after what was assumed, their condition, and what is assumed then."""
        known = self._limits.get(queue)
        if known is None:
            known = self._limits[queue] = [*_limits_and_conditions(self._queues[queue], self._policies)]
        before = dict(assumed).get(queue)
        for at, (limits, condition) in enumerate(known):
            if condition is None:
                yield limits, None, assumed
            elif before in (None, at):
                yield limits, condition, assumed | {(queue, at)}


def _limits_and_conditions(queue: Queue, policies: Policies) -> Iterator[tuple[Limits, str | None]]:
    """Yield the limits that a queue may have, each with its condition; None for the only ones."""
    possible = policies.possible_settings(queue)
    found: dict[Limits, list[str]] = {}
    users = [_name("policy", settings.policy) for settings in possible]
    operators = [_name("operator policy", settings.operator_policy) for settings in possible]
    unknown = [names for names in (users, operators) if len(set(names)) > 1]
    for at, settings in enumerate(possible):
        names = " with ".join([each[at] for each in unknown])
        found.setdefault(build_limits(settings, queue, policies.profile), []).append(names)
    for limits, conditions in found.items():
        yield limits, None if len(found) == 1 else f"if {' or '.join(conditions)} is in force"


def _name(kind: str, policy: Policy | None) -> str:
    return f"no {kind}" if policy is None else f"{kind} '{policy.name}'"


def _reasons(content: Content, limits: Limits) -> Iterator[Reason]:
    """Yield what a message may die of in a queue with these limits."""
    if limits.type == "stream":
        return
    if not limits.crash:  # else no consumer gets it
        yield "rejected"
    if _time_to_live(content, limits) is not None:
        yield "expired"
    if limits.has_length and limits.overflow != "reject-publish":
        yield "maxlen"
    if limits.delivery_limit is not None and not limits.crash:
        yield "delivery_limit"


def _time_to_live(content: Content, limits: Limits) -> int | None:
    return min([time for time in (limits.ttl, content.ttl) if time is not None], default=None)


Edges = Mapping[State, list[tuple[Way, State | None]]]
Came = dict[State, tuple[State, Way] | None]
"""A state -> the state and the way that lead to it first; None for where the message begins."""


def _reach(edges: Edges, came: Came) -> Iterator[State]:
    """Yield the states that can be reached from those in ``came``, the nearest first, and add them there."""
    pending = deque(came)
    while pending:
        state = pending.popleft()
        yield state
        for way, target in edges.get(state, ()):
            if target is not None and target not in came:
                came[target] = state, way
                pending.append(target)


def _rounds(edges: Edges, came: Came) -> Iterable[tuple[tuple[Way, ...], tuple[Way, ...]]]:
    """Return the shortest ways from each state back to it, and how the message comes there.

    Of rounds that differ only in where they begin, there is the one that is come to with the fewest ways.
    """
    found: dict[frozenset[tuple[str, str]], tuple[tuple[Way, ...], tuple[Way, ...]]] = {}
    for state in came:
        round_ = _shortest_round(edges, state)
        if round_ is None:
            continue
        lead = [*_path(came, state)]
        while lead and lead[-1] == round_[-1]:  # the same endless life, one step earlier
            round_ = (lead.pop(), *round_[:-1])
        key = frozenset((way.queue, way.reason) for way in round_)
        if key not in found or len(lead) < len(found[key][0]):
            found[key] = tuple(lead), round_
    return found.values()


def _shortest_round(edges: Edges, state: State) -> tuple[Way, ...] | None:
    came: Came = {state: None}
    for last in _reach(edges, came):
        for way, target in edges.get(last, ()):
            if target == state:
                return (*_path(came, last), way)
    return None


def _losses(edges: Edges, came: Came) -> Iterator[tuple[Way, ...]]:
    """Yield the shortest ways to each end."""
    seen: set[Way] = set()
    for state in came:
        for way, _ in edges.get(state, ()):
            if way.target is None and not way.is_kept and way not in seen:
                seen.add(way)
                yield (*_path(came, state), way)


def _path(came: Came, state: State) -> tuple[Way, ...]:
    ways: list[Way] = []
    while (step := came[state]) is not None:
        state, way = step
        ways.append(way)
    return tuple(reversed(ways))
