"""The graph of dead letters: the places that messages come to, and where their dead letters go from there.

A place is a queue or a dead letter exchange, each with the routing key that the message has there. Reasons of death are
left out: all dead letters of a queue take the same way. What RabbitMQ drops because it comes back is not dropped here,
so a way of this graph is one that a message may take if it is rejected in each queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Final, Literal, NamedTuple

from bindings.analysis.crawl import Budget, OutOfBudget
from bindings.analysis.key_classes import find_key_classes
from bindings.checking.rules.leaks import find_key_among
from bindings.checking.rules.view import TopologyView
from exchange.entities.entities import Destination
from exchange.errors import BrokerError, InputError
from exchange.kinds.condition import EVERYTHING
from exchange.lifecycle.limits import Limits
from exchange.patterns.pattern import Pattern
from exchange.routing.router import Router
from exchange.values.message import Message

MAX_STEPS: Final = 1_000_000
"""Maximum number of dead letters that are followed from one place to another, and of messages that are tried."""
SMALL: Final = 60
"""Maximum number of bindings and queues of a topology of which keys of all classes are tried."""
STATES: Final = 2_000
"""Maximum number of states of the search for these keys."""
WAYS: Final = 100
"""Maximum number of bindings to one queue whose keys are tried in larger topologies."""
EXAMPLES: Final = 10
"""Maximum number of bindings of a dead letter exchange whose keys are tried, too."""

FEW_BYTES: Final = 64
"""Maximum size of a message without a body: its properties, which quorum queues count since 4.3."""


class MessageLocation(NamedTuple):
    """A queue, or an exchange that dead letters are published to, and the routing key of the message."""

    kind: Literal["exchange", "queue"]
    name: str
    key: str
    """``""`` in a queue that gives dead letters a key of its own: there all messages go the same way."""


class Publish(NamedTuple):
    """Where a message without headers is published to."""

    exchange: str
    routing_key: str


class PlaceGraph:
    """The places that dead letters come to, from queues whose settings are known.

    ``edges`` lead from a queue to its dead letter exchange, and from there to the queues that have dead letters, too.
    ``starts`` are the queues that published messages come to, each with such a message.
    """

    def __init__(self, view: TopologyView) -> None:
        self.view: Final = view
        self.router: Final = Router(view.topology, choose=lambda _: 0)
        self.edges: Final[dict[MessageLocation, tuple[MessageLocation, ...]]] = {}
        self.starts: Final[dict[MessageLocation, Publish]] = {}
        self.routes: Final[dict[Publish, tuple[str, ...]]] = {}
        self.is_whole = True
        """Whether all places were found, and no search ended at `MAX_STEPS`."""
        self._examples: Final[dict[str, Collection[str]]] = {}
        self._budget: Final = Budget(MAX_STEPS)
        try:
            for queue in view.graph.dead_letters:
                self._find_starts(queue)
            self._follow()
        except OutOfBudget:
            self.is_whole = False

    @cached_property
    def came(self) -> Mapping[MessageLocation, MessageLocation | None]:
        """Each place that published messages come to -> the place before it, as `find_leads` returns it."""
        return find_leads(self.edges, self.starts)

    def route(self, exchange: str, key: str) -> tuple[str, ...]:
        """Return the queues that get a dead letter without headers; none where the broker would refuse it."""
        address = Publish(exchange, key)
        found = self.routes.get(address)
        if found is None:
            try:
                found = self.router.route_dead_letter(Message(exchange, key)).queues
            except (BrokerError, InputError):
                found = ()
            self._budget.spend(1 + len(found))
            self.routes[address] = found
        return found

    def targets(self, place: MessageLocation) -> tuple[str, ...]:
        """Return all queues that get the dead letters of a queue."""
        [exchange] = self.edges[place]
        return self.route(exchange.name, exchange.key)

    def place_in(self, queue: str, key: str) -> MessageLocation | None:
        """Return the place of a message with this key in a queue; None if the queue has no dead letters or no room."""
        limits = self.view.limits_of(queue) if queue in self.view.graph.dead_letters else None
        address = None if limits is None or not holds_messages(limits) else limits.dead_letter_address
        return None if address is None else MessageLocation("queue", queue, key if address[1] is None else "")

    def expiry(self, place: MessageLocation) -> int | None:
        """Return the milliseconds after which messages expire in a queue, None for never."""
        limits = self.view.limits_of(place.name)
        return None if limits is None else find_expiry(limits)

    def pauses(self, place: MessageLocation) -> bool:
        """Return whether messages wait in a queue until they expire; a time of zero lets none wait."""
        limits = self.view.limits_of(place.name) if place.kind == "queue" else None
        return limits is not None and bool(limits.ttl) and find_expiry(limits) is not None

    def _follow(self) -> None:
        pending = deque(self.starts)
        while pending:
            place = pending.popleft()
            if place in self.edges:
                continue
            found: Iterable[MessageLocation | None]
            if place.kind == "queue":
                limits = self.view.limits_of(place.name)
                address = None if limits is None else limits.dead_letter_address
                if address is None:
                    continue
                exchange, key = address
                found = [MessageLocation("exchange", exchange, place.key if key is None else key)]
            else:
                found = [self.place_in(queue, place.key) for queue in self.route(place.name, place.key)]
            self.edges[place] = tuple([each for each in found if each is not None])
            pending += [each for each in self.edges[place] if each not in self.edges]

    def _find_starts(self, queue: str) -> None:
        place = self.place_in(queue, queue)
        if place is None:
            return
        for publish in self._publishes_to(queue):
            if queue in self._route_published(publish):
                here = place._replace(key=publish.routing_key) if place.key else place
                self.starts.setdefault(here, publish)
                if not place.key:
                    return  # whatever the key, its messages go the same way
        if not place.key or not self.view.topology.bindings_to(Destination("queue", queue)):
            self.starts.setdefault(place, Publish("", queue))

    def _publishes_to(self, queue: str) -> Iterator[Publish]:
        """Yield messages that may come to a queue over its bindings."""
        view = self.view
        for binding in islice(view.topology.bindings_to(Destination("queue", queue)), WAYS):
            source = view.topology.exchanges.get(binding.source)
            if source is None or view.is_opaque(binding.source):
                continue
            pattern = view.pattern_of(binding)
            entries = sorted(view.graph.graph.upstream([source.name]))[:WAYS] if source.internal else [source.name]
            for key in self._keys_of(queue, pattern):
                for entry in entries:
                    yield Publish(entry, key)

    def _keys_of(self, queue: str, pattern: Pattern | None) -> Iterator[str]:
        """Yield keys that a pattern may match and that the dead letter exchange of the queue may route differently."""
        if self._classes is not None:
            yield from self._classes
            return
        key = queue if pattern is None else find_key_among(pattern)
        if key is not None:
            yield key
        limits = self.view.limits_of(queue)
        address = None if limits is None else limits.dead_letter_address
        if address is None or address[1] is not None or pattern is None or pattern.literal:
            return
        yield from filter(pattern.matches, self._examples_of(address[0]))

    def _examples_of(self, exchange: str) -> Collection[str]:
        """Return a key for each of the first bindings of an exchange."""
        if exchange not in self._examples:
            ways = () if self.view.is_opaque(exchange) else self.view.topology.bindings_from(exchange)
            found = map(self.view.pattern_of, islice(ways, EXAMPLES))
            patterns = [pattern for pattern in found if pattern not in (None, EVERYTHING)]
            keys = [find_key_among(pattern) for pattern in patterns if pattern is not None]
            self._examples[exchange] = dict.fromkeys(key for key in keys if key is not None)
        return self._examples[exchange]

    @cached_property
    def _classes(self) -> Collection[str] | None:
        """One key of each class of keys that the bindings and the names of queues distinguish; None for too many."""
        topology = self.view.topology
        if len(topology.bindings) + len(topology.queues) > SMALL:
            return None
        known = [name for name in topology.exchanges if not self.view.is_opaque(name)]
        patterns = [
            self.view.pattern_of(binding) for name in known for binding in self.view.topology.bindings_from(name)
        ]
        words = [pattern.words for pattern in patterns if pattern is not None]
        return find_key_classes([*words, *(tuple(name.split(".")) for name in topology.queues)], STATES)

    def _route_published(self, publish: Publish) -> tuple[str, ...]:
        exchange = self.view.topology.exchanges.get(publish.exchange)
        return () if exchange is None or exchange.internal else self.route(*publish)


def holds_messages(limits: Limits) -> bool:
    """Return whether a message of a few bytes stays in a queue."""
    return limits.max_length != 0 and (limits.max_bytes is None or limits.max_bytes >= FEW_BYTES)


def find_expiry(limits: Limits) -> int | None:
    """Return the milliseconds after which messages expire by these limits; None for never, or if the queue ends first.

    A quorum queue takes zero for one.
    """
    if limits.ttl is None or (limits.expires is not None and limits.expires <= limits.ttl):
        return None
    return limits.ttl or int(limits.type == "quorum")


def find_leads(
    edges: Mapping[MessageLocation, Iterable[MessageLocation]], starts: Iterable[MessageLocation]
) -> dict[MessageLocation, MessageLocation | None]:
    """Return each place that is reached from the starts -> the place before it on a shortest way, None for a start."""
    came: dict[MessageLocation, MessageLocation | None] = dict.fromkeys(starts)
    pending = deque(came)
    while pending:
        place = pending.popleft()
        for target in edges.get(place, ()):
            if target not in came:
                came[target] = place
                pending.append(target)
    return came


def walk_back(came: Mapping[MessageLocation, MessageLocation | None], place: MessageLocation) -> list[MessageLocation]:
    """Return the way that `find_leads` found to a place: its queues and exchanges, the place last."""
    way: list[MessageLocation] = []
    here: MessageLocation | None = place
    while here is not None:
        way.append(here)
        here = came[here]
    return way[::-1]
