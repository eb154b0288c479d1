"""Exchanges that do not decide by conditions: what of them differs, and what becomes of a message that gets to one.

Chance picks one of some bindings, so the outcome is a distribution: which queues together, how often. A hash picks one
for each key, in a way that no pattern tells; messages are tried. Of a plugin's type that we do not know, nothing can be
said but that both sides have the same exchange with the same bindings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final, TypeAlias

from bindings.diff.reach import Side
from exchange.entities.entities import Exchange, alternates_in_effect
from exchange.errors import BrokerError
from exchange.kinds import Decider, kind_of
from exchange.message import Message
from exchange.routing.router import Router
from exchange.topology.topology import Topology

__all__ = ["Outcomes", "Trial", "choosing", "samples", "shares", "way_of_choosing"]

Outcomes: TypeAlias = Mapping[frozenset[str], Fraction]
"""Which queues together get a message, each with how often. An exchange of unknown type is in it as ``?NAME``."""

MOST: Final = 2_000
"""So many ways of how chance may have it are told apart."""
SAMPLES: Final = 200

TRIED: Final = frozenset({Decider.HASH.value, Decider.SELECTOR.value})
"""Ways of choosing, as `choosing` returns them, of which other messages may show a difference that one does not."""


def choosing(exchange: Exchange) -> str:
    """Return how it chooses, in a word: chance, hash, selector or unknown."""
    decider = kind_of(exchange).decider
    return Decider.UNKNOWN.value if decider.has_conditions else decider.value


def way_of_choosing(side: Side, name: str) -> Hashable:
    """All that an exchange's choice depends on but the message: equal for two that choose alike."""
    exchange = side.topology.exchanges.get(name)
    if exchange is None:
        return None
    kind = kind_of(exchange)
    possible = alternates_in_effect(exchange, side.topology.policies)
    alternate = tuple([other for other in possible if other in side.topology.exchanges])
    bindings = side.topology.bindings_from(name)
    if kind.decider is Decider.CHANCE:
        counted = Counter((b.destination, side.exists(b.destination)) for b in kind.candidates(bindings))
        return "chance", frozenset(counted.items()), () if counted else alternate
    sequence = kind.sequence(bindings)
    what = frozenset(bindings) if sequence is None else sequence
    there = frozenset(b.destination for b in bindings if side.exists(b.destination))
    if kind.decider.value in TRIED:
        return kind.routes_as, kind.reads(exchange, bindings, side.topology.profile), what, there, alternate
    return replace(exchange, durable=True, auto_delete=False, internal=False), what, there, alternate


class Trial:
    """Routes messages by one topology and tells all that can come of each. Builds no more than an entry leads to."""

    def __init__(self, side: Side) -> None:
        self._topology: Final = side.topology
        self._graph: Final = side.graph
        self._routers: Final[dict[str, Router]] = {}
        self._script: list[int] = []
        self._sizes: list[int] = []

    def outcomes(self, message: Message) -> Outcomes | None:
        """What can come of a message; no queues where it is refused; None when chance has it in too many ways."""
        exchange = self._topology.exchanges.get(message.exchange)
        if exchange is None or exchange.internal:
            return {frozenset(): Fraction(1)}
        router = self._router(message.exchange)
        found: dict[frozenset[str], Fraction] = {}
        pending: list[list[int]] = [[]]
        for number in range(MOST):
            if not pending:
                return found
            self._script, self._sizes = pending.pop(), []
            planned = len(self._script)
            try:
                route = router.route(message)
            except BrokerError:
                return {frozenset(): Fraction(1)}
            chosen = self._script
            for place in range(planned, len(self._sizes)):
                pending += [[*chosen[:place], other] for other in range(1, self._sizes[place])]
            queues = frozenset((*route.queues, *(f"?{name}" for name in route.undecided)))
            weight = Fraction(1)
            for size in self._sizes:
                weight /= size
            found[queues] = found.get(queues, Fraction(0)) + weight
            if len(pending) + number > MOST:
                return None
        return None if pending else found

    def _choose(self, size: int) -> int:
        place = len(self._sizes)
        self._sizes.append(size)
        if place == len(self._script):
            self._script = [*self._script, 0]
        return self._script[place]

    def _router(self, entry: str) -> Router:
        router = self._routers.get(entry)
        if router is None:
            topology = self._topology
            reached = sorted(self._graph.downstream([entry]))
            bindings = [binding for name in reached for binding in topology.bindings_from(name)]
            part = Topology(
                [topology.exchanges[name] for name in reached if name],
                [replace(queue, partitioning=None) for queue in topology.queues.values()],
                bindings,
                topology.policies.values(),
                vhost=topology.vhost,
                profile=topology.profile,
            )
            router = self._routers[entry] = Router(part, choose=self._choose, cache=0)
        return router


def shares(outcomes: Outcomes) -> dict[str, Fraction]:
    """How often each queue gets the message."""
    found: dict[str, Fraction] = {}
    for queues, share in outcomes.items():
        for queue in queues:
            found[queue] = found.get(queue, Fraction(0)) + share
    return {queue: found[queue] for queue in sorted(found)}


def samples(message: Message, sides: Iterable[Side], name: str) -> Iterator[Message]:
    """Yield the message, and others like it that an exchange of either side may take otherwise."""
    yield message
    headers: set[str] = set()
    properties: set[str] = set()
    for side in sides:
        exchange = side.topology.exchanges.get(name)
        if exchange is not None:
            reads = kind_of(exchange).reads(exchange, side.topology.bindings_from(name), side.topology.profile)
            headers |= reads.headers
            properties |= reads.properties
    words = message.routing_key.split(".")
    for number in range(SAMPLES):
        text = f"k{number}"
        if headers or properties:
            values: dict[str, object] = {name: number if name == "timestamp" else text for name in sorted(properties)}
            carried = {**message.headers, **dict.fromkeys(sorted(headers - {"CC", "BCC"}), text)}
            yield replace(message, headers=carried, properties=values)
        place = number % (len(words) + 1)
        yield replace(message, routing_key=".".join([*words[:place], text, *words[place + 1 :]]))
