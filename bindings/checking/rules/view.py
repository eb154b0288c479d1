"""A topology as rules see it: the patterns of its bindings, the bindings that match a key, the exits to queues.

What RabbitMQ refuses to make is not there: no rule may rely on it, and it is no reason to remove anything else.
Invariant: nothing here claims more than the router would do. An exchange that chooses by chance, by a hash or in a
plugin is opaque: no rule may rely on what it hands on, nor on what it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

from exchange.entities.entities import Binding, Destination
from exchange.entities.queue_arguments import refuse_queue
from exchange.errors import BrokerError
from exchange.kinds import Kind, UnknownExchange, find_kind
from exchange.kinds.condition import ALWAYS, EVERYTHING
from exchange.lifecycle.limits import Limits, build_limits
from exchange.patterns.pattern import AMQP, Pattern
from exchange.topology import rules
from exchange.topology.graph import Graph, TopologyGraph
from exchange.topology.topology import Topology
from exchange.values.message import Message

NOTHING: Final[dict[Binding, None]] = {}
Built = TypeVar("Built")


class TopologyView:
    """A topology without the bindings that RabbitMQ refuses, with the questions that several rules ask."""

    def __init__(self, topology: Topology, filled_in: Collection[Binding] = ()) -> None:
        self.long_keys: Final = [each for each in topology.bindings if is_too_long(each.routing_key)]
        """The bindings whose keys are longer than AMQP can carry."""
        self.refused: Final = topology.find_refused()
        """The other bindings that RabbitMQ refuses to make, each with its answer."""
        gone = {*self.long_keys, *self.refused}
        if gone:
            topology = topology.with_parts(bindings=[each for each in topology.bindings if each not in gone])
        self.topology: Final = topology
        self.filled_in: Final = filled_in
        """Bindings whose keys a program fills in where its author wrote none."""
        self.graph: Final = TopologyGraph(topology)
        self.alternates: Final = {
            name: possible[0]
            for name, possible in self.graph.possible_alternates.items()
            if len(possible) == 1 and possible[0] is not None
        }
        """Exchange -> its alternate exchange in force, whether that exists or not."""
        self._limits: Final[dict[str, Limits | None]] = {}
        self._kinds: Final[dict[str, type[Kind]]] = {}
        self._routers: Final[dict[str, Kind]] = {}
        self._built: Final[dict[Any, Any]] = {}

    def kind_of(self, exchange: str) -> type[Kind]:
        """Return the kind of an exchange that decides by conditions; `UnknownExchange` if it is opaque."""
        known = self._kinds.get(exchange)
        if known is None:
            part = self.topology.exchanges.get(exchange)
            kind = UnknownExchange if part is None or exchange in self.graph.unsure else find_kind(part)
            known = self._kinds[exchange] = kind if kind.decider.has_conditions else UnknownExchange
        return known

    def is_opaque(self, exchange: str) -> bool:
        """Return whether the exchange does not exist, or does not decide by conditions that are known."""
        return self.kind_of(exchange) is UnknownExchange

    @cached_property
    def deciding(self) -> Mapping[str, tuple[type[Kind], Collection[Binding]]]:
        """Exchange -> its kind and its bindings, for those that are not opaque."""
        return {
            name: (self.kind_of(name), self.topology.bindings_from(name))
            for name in self.topology.exchanges
            if not self.is_opaque(name)
        }

    @cached_property
    def refused_queues(self) -> Mapping[str, BrokerError]:
        """Queue -> why RabbitMQ would refuse to declare it."""
        host = rules.VirtualHost(self.topology.vhost, self.topology.profile)
        refused = {}
        for name, queue in self.topology.queues.items():
            # A queue without arguments is never refused for one, and there can be very many.
            if queue.arguments:
                try:
                    refuse_queue(queue, host.describe("queue", name), self.topology.profile)
                except BrokerError as error:
                    refused[name] = error
        return refused

    def pattern_of(self, binding: Binding) -> Pattern | None:
        """Return the pattern of the keys that a binding matches.

        None if more than the key decides, or if it is not known what decides.
        """
        kind = self.kind_of(binding.source)
        pattern = kind.pattern(binding)
        if pattern is None and kind.condition(binding, self.topology.profile) == ALWAYS:
            return EVERYTHING
        return pattern

    def match(self, exchange: str, key: str) -> Collection[Binding]:
        """Return the bindings that a message with this key and no headers takes; none of an opaque exchange."""
        if not exchange or self.is_opaque(exchange):  # nobody can bind the default exchange
            return NOTHING
        router = self._routers.get(exchange)
        if router is None:
            part = self.topology.exchanges[exchange]
            router = self._routers[exchange] = self.kind_of(exchange)(part, self.topology.profile, _first)
            for binding in self.topology.bindings_from(exchange):
                router.bind(binding)
        return router.match(Message(exchange, key), (key,))

    def alternate_of(self, exchange: str) -> str | None:
        """Return the existing alternate exchange that messages get to; None if there is none or it is unknown."""
        return self.graph.alternates.get(exchange)

    def always_matches(self, exchange: str) -> bool:
        """Return whether every message takes a binding of the exchange, as its type always chooses one."""
        part, bindings = self.topology.exchanges[exchange], self.topology.bindings_from(exchange)
        return bool(bindings) and find_kind(part).always_takes_one

    @cached_property
    def exits(self) -> frozenset[str]:
        """The exchanges from which a queue may be reached, if opaque exchanges take any of their bindings."""
        queues = self.topology.queues
        into_queues = {"", *self.graph.unsure} | {
            name
            for name in self.topology.exchanges
            if any(kind == "queue" and queue in queues for _, (kind, queue), _, _ in self.topology.bindings_from(name))
        }
        backwards = Graph()
        for name, bindings in self.graph.bindings.items():
            for binding in bindings:
                backwards.add(binding.destination.name, name)
        for name, alternate in self.graph.alternates.items():
            backwards.add(alternate, name)
        return frozenset(backwards.downstream(into_queues))

    @cached_property
    def catch_alls(self) -> Mapping[str, Sequence[Destination]]:
        """Exchange -> where its bindings lead that match every message, for those that have any."""
        found = {
            name: [each.destination for each in bindings if self.pattern_of(each) == EVERYTHING]
            for name, (_, bindings) in self.deciding.items()
        }
        return {name: targets for name, targets in found.items() if targets}

    @cached_property
    def safe(self) -> frozenset[str]:
        """The exchanges from which every message surely gets to a queue.

        A binding that matches every message leads there, or the alternate and all bindings do: a message takes one of
        these, whatever its key. It is found backwards from the queues, so that a chain is walked once.
        """
        into_queue, queues = Destination("queue", ""), self.topology.queues
        waiting: dict[tuple[str, bool], int] = {}
        """Exchange, and whether all its ways must be safe -> the number of ways that must still be found to be."""
        before: dict[Destination, list[tuple[str, bool]]] = {}
        for name, (_, bindings) in self.deciding.items():
            ways = [(each, False) for each in self.catch_alls.get(name, ())]
            alternate = self.alternate_of(name)
            if alternate is not None:
                everywhere = {Destination("exchange", alternate), *(each.destination for each in bindings)}
                ways += [(each, True) for each in everywhere]
            for (kind, target), needs_all in ways:
                waiting[name, needs_all] = waiting.get((name, needs_all), 0) + 1 if needs_all else 1
                end = into_queue if kind == "queue" and target in queues else Destination(kind, target)
                before.setdefault(end, []).append((name, needs_all))
        safe: set[str] = set()
        found = [into_queue]
        for end in found:  # grows while it is walked
            for way in before.get(end, ()):
                waiting[way] -= 1
                if not waiting[way] and way[0] not in safe:
                    safe.add(way[0])
                    found.append(Destination("exchange", way[0]))
        return frozenset(safe)

    @cached_property
    def loses_empty_key(self) -> frozenset[str]:
        """The exchanges that hand a message with the key "" and no headers on, at most, until no binding matches it."""
        backwards, taken = Graph(), set()
        for name in self.topology.exchanges:
            targets = [binding.destination for binding in self.match(name, "")]
            alternate = self.alternate_of(name)
            if not targets and alternate is not None:
                targets = [Destination("exchange", alternate)]
            for kind, target in targets:
                if kind == "exchange" and target in self.topology.exchanges:
                    backwards.add(target, name)
                else:
                    taken.add(name)
            if self.is_opaque(name):
                taken.add(name)
        return frozenset(self.topology.exchanges.keys() - backwards.downstream(taken))

    def limits_of(self, queue: str) -> Limits | None:
        """Return the limits of a queue; None if they depend on which policy is in force, and that is not known."""
        if queue not in self._limits:
            part, profile = self.topology.queues[queue], self.topology.profile
            possible = {build_limits(settings, part, profile) for settings in self.graph.possible_settings(queue)}
            self._limits[queue] = possible.pop() if len(possible) == 1 else None
        return self._limits[queue]

    def build_once(self, build: Callable[[TopologyView], Built]) -> Built:
        """Return what several rules build of the view: one object for all of them."""
        if build not in self._built:
            self._built[build] = build(self)
        built: Built = self._built[build]
        return built

    @cached_property
    def dead_letters(self) -> dict[str, list[str]]:
        """Dead letter exchange -> the queues whose dead letters go there, or may, by argument or policy."""
        queues: dict[str, list[str]] = {}
        for queue, possible in self.graph.dead_letters.items():
            for name in {letters.exchange for letters in possible}:
                if name is not None:
                    queues.setdefault(name, []).append(queue)
        return queues


def is_too_long(key: str) -> bool:
    """Return whether a key or name is too long for AMQP 0-9-1."""
    # A character has at most four bytes, so shorter texts need no encoding.
    return len(key) * 4 > AMQP.max_bytes and len(key.encode("utf-8", "surrogatepass")) > AMQP.max_bytes


def _first(_: int) -> int:
    raise AssertionError("exchanges that choose by chance are opaque")
