"""32x: messages that go round through dead letters, and messages that come back to the consumer that rejected them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Final

from bindings.checking.lives.places import MessageLocation, PlaceGraph, find_leads, walk_back
from bindings.checking.lives.trial import TRIED, is_confirmed
from bindings.checking.rules.finding import MAX_LISTED_NAMES, Finding, list_names
from bindings.checking.rules.life import Life, LifeEvent
from bindings.checking.rules.view import TopologyView
from exchange.entities.entities import Queue
from exchange.errors import BrokerError, InputError
from exchange.kinds import Decider, find_kind
from exchange.lifecycle.possible import Way, find_lives
from exchange.routing.router import Router
from exchange.text.display import list_some
from exchange.topology.graph import find_cycles
from exchange.values.message import Message

CHANCE: Final = "chosen by chance"
"""Type of an exchange that no release has, so that what it does is undecided."""
SEARCHES: Final = 1_000
"""Maximum number of places from which a way back with another key is looked for."""


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about messages that go round: HS321, HS322, HS325."""
    if not view.graph.dead_letters:
        return
    graph = view.build_once(PlaceGraph)
    rounds = _Rounds(graph)
    for circle in find_cycles(graph.edges):
        yield from rounds.judge(circle)
    yield from rounds.find_retries()
    yield from rounds.find_returns()
    many = "there are too many ways to follow all of them"
    if not graph.is_whole:
        text = f"not all rounds of dead letters were looked for: {many}"
        yield Finding("HS321", None, text, detail="limit")
    elif not rounds.has_all_returns:
        text = f"not all ways back with another routing key were looked for: {many}"
        yield Finding("HS322", None, text, detail="limit")


class _Rounds:
    """The rounds of one topology."""

    def __init__(self, graph: PlaceGraph) -> None:
        self._graph: Final = graph
        self._view: Final = graph.view
        self._release: Final = graph.view.topology.profile.lives
        self._came: Final = graph.came
        self._reported: set[str] = set()
        """Queues that findings are about."""
        self._retries: Final[dict[str, tuple[Life, list[str]]]] = {}
        """Queues that messages wait in, as text -> a life, and the queues to which rejected messages come back."""
        self.has_all_returns = True
        """Whether all ways back with another routing key were looked for."""

    def judge(self, circle: Sequence[MessageLocation]) -> Iterator[Finding]:
        """Yield the findings about places that can all reach each other."""
        members = {place for place in circle if place in self._came}
        queues = [place for place in circle if place.kind == "queue" and place in members]
        expiring = {place for place in queues if self._graph.expiry(place) is not None}
        if len(expiring) == len(queues):
            if self._release.overlooks_cycles and queues[0].name not in self._reported:
                yield from self._judge_alone(queues)
            names = {place.name for place in queues}
            if not names <= self._reported:
                yield from self._report(queues[0], members, queues)
            self._reported |= names
            return
        pausing = {place for place in expiring if self._graph.pauses(place)}
        hot = find_cycles({place: self._graph.edges[place] for place in members - pausing})
        for inner in hot:
            rejecting = [
                place
                for place in inner
                if place.kind == "queue" and place not in expiring and place.name not in self._reported
            ]
            if rejecting:
                yield from self._report(rejecting[0], set(inner), rejecting)
        others = [place for place in queues if place not in expiring and place.name not in self._reported]
        if others:
            yield from self._report(others[0], members, others)

    def find_returns(self) -> Iterator[Finding]:
        """Yield a finding for each queue that rejected messages come back to, with another key, and not for ever."""
        places: dict[str, list[MessageLocation]] = {}
        for place in self._came:
            if place.kind == "queue":
                places.setdefault(place.name, []).append(place)
        edges = self._graph.edges
        given = {
            edges[place][0].key for place in self._came if place in edges and place.kind == "queue" and not place.key
        }
        count = 0
        for name, several in places.items():
            if len(several) < 2 or name in self._reported or given.isdisjoint(place.key for place in several):
                continue
            for place in several:
                count += 1
                if count > SEARCHES:
                    self.has_all_returns = False
                    return
                came = find_leads(edges, edges.get(place, ()))
                back = next((other for other in several if other in came), None)
                life = None if back is None else self._find_life(place, walk_back(came, back), is_round=False)
                if life is not None:
                    message = f"a message that is rejected in queue '{name}' comes back to it, with another routing key"
                    self._reported.add(name)
                    yield self._finding("HS322", message, life, [name])
                    break

    def _report(
        self, start: MessageLocation, members: Collection[MessageLocation], about: Sequence[MessageLocation]
    ) -> Iterator[Finding]:
        """Yield a finding about the shortest round from a place, within members; ``about`` are queues with such rounds.

        There is none if headers of dead letters, which the graph does not know, keep messages from going round.
        """
        came = find_leads(
            {place: [target for target in self._graph.edges[place] if target in members] for place in members},
            [target for target in self._graph.edges[start] if target in members],
        )
        way = walk_back(came, start)
        life = self._find_life(start, way, is_round=True)
        if life is None:
            return
        yield from self._find_bystanders(start, [start, *way], life)
        names = list(dict.fromkeys(place.name for place in about))
        self._reported.update(names, (event.queue for event in life.round))
        waits = sorted({place.name for place in members if self._graph.pauses(place)})
        passed = {event.queue for event in life.round if event.what == "expired"}
        if not passed.isdisjoint(waits):
            through = list_some(_quote(waits), MAX_LISTED_NAMES, "and" if passed.issuperset(waits) else "or")
            self._retries.setdefault(through, (life, []))[1].extend(names)
        else:
            text = (
                f"a message that is rejected in {_any_of(names)} goes round without a pause, for ever if it always is"
            )
            yield self._finding("HS321", text, life, names)

    def _find_bystanders(self, start: MessageLocation, way: Sequence[MessageLocation], life: Life) -> Iterator[Finding]:
        """Yield a finding if dead letters on a round also get to queues that had the message when it was published."""
        try:
            first = self._graph.router.route(Message(life.exchange, life.routing_key)).queues
            again = {
                queue: None
                for place in way
                if place.kind == "exchange"
                for queue in self._certain.route_dead_letter(Message(place.name, place.key)).queues
            }
        except (BrokerError, InputError):
            return
        others = [queue for queue in again if queue in first and all(place.name != queue for place in way)]
        if others:
            text = f"each retry of '{start.name}' is delivered to {list_names(others)} again"
            finding = self._finding("HS325", text, life, [start.name])
            queues = self._view.topology.queues
            yield replace(finding, related=tuple(dict.fromkeys([*(queues[name] for name in others), *finding.related])))

    @cached_property
    def _certain(self) -> Router:
        """Routes to the queues that get a message whatever is chosen by chance: where that decides, it is undecided."""
        topology = self._graph.router.topology
        exchanges = [
            replace(each, type=CHANCE) if find_kind(each).decider is Decider.CHANCE else each
            for each in topology.exchanges.values()
        ]
        return Router(topology.with_parts(exchanges=exchanges))

    def find_retries(self) -> Iterator[Finding]:
        """Yield a finding for each way of waiting, about all queues to which messages come back by it."""
        for through, (life, names) in self._retries.items():
            what = f"a message that is rejected in {_any_of(names)} comes back there as often as it is rejected"
            yield self._finding("HS322", f"{what}: through {through}, where it expires", life, names)

    def _judge_alone(self, queues: Sequence[MessageLocation]) -> Iterator[Finding]:
        """Yield a finding if messages go round here that only expire: up to 3.13.2, RabbitMQ may not notice."""
        if self._release.sorts_deaths:  # it does not if they were rejected in a queue whose name comes first
            least = min(place for place in self._leading_to(queues[0]) if place.kind == "queue")
        elif len(queues) > 1:
            least = queues[0]
        else:
            return
        first = walk_back(self._came, least)[0]
        message = Message(*self._graph.starts[first])
        lives = find_lives(self._view.topology, self._graph.router, message)
        names = {place.name for place in queues}
        for lead, round_ in zip(lives.leads, lives.rounds, strict=True):
            if all(way.reason == "expired" and way.queue in names for way in round_):
                events, turn = (map(self._event_of, ways) for ways in (lead, round_))
                life = Life(message.exchange, message.routing_key, tuple(events), tuple(turn))
                around = list_names(dict.fromkeys(event.queue for event in life.round))
                text = f"a message goes round for ever, without a consumer, through {around}, where it expires"
                self._reported |= names
                yield self._finding("HS321", text, life, sorted(names))
                return

    def _leading_to(self, place: MessageLocation) -> Collection[MessageLocation]:
        """Return the places that messages come to, and from which they may get to a place, which is one of them."""
        edges: dict[MessageLocation, list[MessageLocation]] = {}
        for start, targets in self._graph.edges.items():
            for target in targets:
                edges.setdefault(target, []).append(start)
        return [each for each in find_leads(edges, [place]) if each in self._came]

    def _event_of(self, way: Way) -> LifeEvent:
        after = self._graph.expiry(MessageLocation("queue", way.queue, "")) if way.reason == "expired" else None
        return LifeEvent(way.queue, way.reason, way.target, after)

    def _find_life(self, start: MessageLocation, way: Sequence[MessageLocation], *, is_round: bool) -> Life | None:
        """Return a life that leads to a queue, where the message is rejected, and on this way back to the queue.

        Elsewhere it expires, if it can, or is rejected. None if what is found does not come true.
        """
        lead = walk_back(self._came, start)
        publish = self._graph.starts[lead[0]]
        for always_rejected in (False, True):
            before = self._events(lead, start, always_rejected=always_rejected)
            turn = self._events([start, *way], start, always_rejected=always_rejected)
            life = Life(*publish, before, turn) if is_round else Life(*publish, (*before, *turn))
            if len(before) + len(turn) > TRIED:
                if always_rejected:  # RabbitMQ never breaks this
                    return life
            elif is_confirmed(self._graph, life):
                return life
        return None

    def _events(
        self, way: Sequence[MessageLocation], rejecting: MessageLocation, *, always_rejected: bool
    ) -> tuple[LifeEvent, ...]:
        """Return what happens in the queues on a way; in the last one nothing yet."""
        queues = [place for place in way if place.kind == "queue"]
        events = []
        for place, target in pairwise(queues):
            after = None if place == rejecting or always_rejected else self._graph.expiry(place)
            events.append(LifeEvent(place.name, "rejected" if after is None else "expired", target.name, after))
        return tuple(events)

    def _finding(self, code: str, message: str, life: Life, names: Sequence[str]) -> Finding:
        queues: Mapping[str, Queue] = self._view.topology.queues
        related = tuple(
            queues[name]
            for name in dict.fromkeys([*names[1:], *(event.queue for event in life.round)])
            if name != names[0]
        )
        return Finding(code, queues[names[0]], message, life.routing_key, related, life=life)


def _any_of(names: Sequence[str]) -> str:
    return list_some(_quote(names), MAX_LISTED_NAMES, "or")


def _quote(names: Sequence[str]) -> list[str]:
    return [f"'{name}'" for name in names]
