"""Counts of what messages did in a topology: exact, in memory that does not grow with the number of keys.

Every message is routed. Which bindings it took is asked once per *case*: of the words of its key only those that some
binding names can make a difference, of its headers only those that some binding asks for, so messages that agree in
these take the same way. A million keys with a device's id in them are a handful of cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

from examples.demo.shapes import UNNAMED, Caught, Shapes
from exchange import Binding, BrokerError, Exchange, Explanation, Message, Router, Topology
from exchange.kinds import KINDS
from exchange.kinds.headers import comparable_headers
from exchange.parts import alternate_exchange

__all__ = ["Tally"]

REMEMBERED: Final = 65_536
"""So many keys lead to their case at once; then they are forgotten."""
HASHING: Final = ("x-consistent-hash", "x-modulus-hash")
"""The types of exchange to which no two keys are alike."""
MOST_CASES: Final = 20_000
"""So many cases are counted apart; then they are added up, and new ones begun."""


class Tally:
    """Route messages with ``add``; read the counts after ``settle``."""

    def __init__(self, router: Router) -> None:
        self._router: Final = router
        topology = router.topology
        self._profile: Final = topology.profile
        self._named: Final = _named_words(topology)
        self._ways: Final = {name: _Way.of(topology, name) for name in topology.exchanges}
        self._cases: Final[dict[Hashable, _Case]] = {}
        self._by_key: Final[dict[tuple[str, str], _Case]] = {}
        self._routed: Final[Counter[tuple[tuple[str, ...], bool | None]]] = Counter()

        self.messages = 0
        """All that were routed."""
        self.unroutable = 0
        """Those that no queue got."""
        self.undecided = 0
        """Those that no queue got unless an exchange of unknown type knows one."""
        self.copies = 0
        self.queues: Final[Counter[str]] = Counter()
        """Queue -> messages that it got."""
        self.bindings: Final[Counter[Binding]] = Counter()
        """Binding -> messages that it matched; without the default exchange's, which nobody made."""
        self.companions: Final[dict[Binding, frozenset[Binding]]] = {}
        """Binding -> others to the same destination that matched whatever it matched."""
        self.alternates: Final[Counter[Caught]] = Counter()
        """Exchange and its alternate -> messages that took it."""
        self.refused: Final[Counter[str]] = Counter()
        """The broker's error -> messages that got it."""
        self.lost: Final = Shapes()
        """What the unroutable messages looked like."""
        self.caught: Final = Shapes()
        """What those looked like that only an alternate exchange brought to a queue."""

    def add(self, message: Message) -> None:
        """Route a message and count it."""
        name = message.exchange
        try:
            way = self._ways.get(name)
            if way is not None and way.chance:
                explanation = self._router.explain(message)  # a second walk would choose again
                self._count_chance(message, explanation)
                return
            route = self._router.route(message)
        except BrokerError as error:
            self.refused[str(error)] += 1
            return
        self._routed[route.queues, route.unroutable] += 1
        headers = message.headers
        if way is None or (headers and (way.headers or "CC" in headers or "BCC" in headers)):
            self._case(message, way).count += 1
            return
        case = self._by_key.get((name, message.routing_key))
        if case is None:
            case = self._case(message, way)
            if case.fate is None:
                if len(self._by_key) >= REMEMBERED:
                    self._by_key.clear()
                self._by_key[name, message.routing_key] = case
        case.count += 1

    def settle(self) -> None:
        """Bring the public counts up to date."""
        for (queues, unroutable), count in self._routed.items():
            self._count_route(queues, unroutable, count)
        self._routed.clear()
        for case in self._cases.values():
            self._count_trail(case.explanation, case.count)
        self._cases.clear()
        self._by_key.clear()

    def _case(self, message: Message, way: _Way | None) -> _Case:
        keys = tuple([self._normalised(key) for key in message.routing_keys()])
        asked: tuple[tuple[str, Hashable], ...] = ()
        if message.headers and way is not None and way.headers:
            headers = comparable_headers(message, self._profile)
            asked = tuple([(name, headers[name]) for name in way.headers if name in headers])
        identity = (message.exchange, keys, asked)
        case = self._cases.get(identity)
        if case is None:
            if len(self._cases) >= MOST_CASES:
                self.settle()
            case = self._cases[identity] = _Case(self._router.explain(message))
        if case.fate is not None:
            self._count_shape(case.fate, message)
        return case

    def _normalised(self, key: str) -> str:
        named = self._named
        return ".".join([word if word in named else UNNAMED for word in key.split(".")])

    def _count_chance(self, message: Message, explanation: Explanation) -> None:
        self._count_route(explanation.route.queues, explanation.route.unroutable, 1)
        self._count_trail(explanation, 1)
        fate = _fate(explanation)
        if fate is not None:
            self._count_shape(fate, message)

    def _count_shape(self, fate: Caught, message: Message) -> None:
        shapes = self.caught if fate.alternate is not None else self.lost
        shapes.count(fate, self._normalised(message.routing_key), message)

    def _count_route(self, queues: tuple[str, ...], unroutable: bool | None, count: int) -> None:
        self.messages += count
        self.copies += count * len(queues)
        self.unroutable += count if unroutable else 0
        self.undecided += count if unroutable is None else 0
        for queue in queues:
            self.queues[queue] += count

    def _count_trail(self, explanation: Explanation, count: int) -> None:
        if not count:
            return
        for hop in explanation.hops:
            together: dict[Hashable, list[Binding]] = {}
            for binding in hop.matched if hop.exchange.name else ():
                self.bindings[binding] += count
                together.setdefault(binding.destination, []).append(binding)
            for bindings in together.values():
                for binding in bindings:
                    others = frozenset(other for other in bindings if other is not binding)
                    self.companions[binding] = self.companions.get(binding, others) & others
            if hop.alternate is not None and hop.alternate.taken:
                self.alternates[Caught(hop.exchange.name, hop.alternate.name)] += count


class _Case:
    """Messages that take the same way."""

    __slots__ = ("count", "explanation", "fate")

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation
        self.fate = _fate(explanation)
        self.count = 0


def _fate(explanation: Explanation) -> Caught | None:
    """What caught it, None when the bindings of the exchange it was published to led it to a queue."""
    first = explanation.hops[0]
    if explanation.route.unroutable:
        return Caught(first.exchange.name, None)
    if explanation.route.queues and first.alternate is not None and first.alternate.taken:
        return Caught(first.exchange.name, first.alternate.name)
    return None


class _Way(NamedTuple):
    """What, besides the key, decides how messages published to an exchange go on."""

    headers: tuple[str, ...]
    chance: bool
    """Whether messages that are alike in these may go different ways: by chance or by a hash."""

    @classmethod
    def of(cls, topology: Topology, start: str) -> _Way:
        headers: set[str] = set()
        chance = False
        for exchange in _reachable(topology, start):
            kind = exchange.type
            if kind == "x-delayed-message":
                kind = str(exchange.arguments.get("x-delayed-type", ""))
            if kind == "headers":
                headers.update(*(binding.arguments for binding in topology.bindings_from(exchange.name)))
            elif kind in HASHING or (kind in KINDS and not KINDS[kind].by_key):
                chance = True
        return cls(tuple(sorted(headers)), chance)


def _reachable(topology: Topology, start: str) -> Iterator[Exchange]:
    seen, pending = {start}, [start]
    while pending:
        exchange = topology.exchanges.get(pending.pop())
        if exchange is None:
            continue
        yield exchange
        onwards = [
            b.destination.name for b in topology.bindings_from(exchange.name) if b.destination.kind == "exchange"
        ]
        alternate = alternate_exchange(exchange, topology.policies)
        for name in [*onwards, *([alternate] if alternate is not None else [])]:
            if name not in seen:
                seen.add(name)
                pending.append(name)


def _named_words(topology: Topology) -> frozenset[str]:
    """The words that can make a difference; the empty one among them, for the empty key has no words at all."""
    keys: set[str] = {binding.routing_key for binding in topology.bindings} | set(topology.queues)
    return frozenset({""}.union(*(key.split(".") for key in keys)))
