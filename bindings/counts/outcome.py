"""What becomes of a message, without the message: bindings it takes and queues that get it, asked of the router.

Chance is not played: where an exchange picks at random, all that it may pick is tried, and an outcome says apart what
is certain and what is possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from exchange.entities.entities import Binding
from exchange.errors import BrokerError
from exchange.kinds import Decider, kind_of
from exchange.message import Message
from exchange.routing.route import Explanation
from exchange.routing.router import Router
from exchange.topology.topology import Topology

__all__ = ["Explorer", "Outcome", "numbered"]

T = TypeVar("T", bound=Any)

MOST_CHOICES: Final = 1_024
"""So many ends of a walk through exchanges that pick at random are looked at; if there are more, it is undecided."""


class Outcome(NamedTuple):
    """What becomes of all messages of one sort, published to one exchange."""

    exchange: str
    queues: tuple[str, ...] = ()
    """Those that get it, by name."""
    bindings: tuple[int, ...] = ()
    """Those it takes, on all hops, by their numbers in `numbered`."""
    exchanges: tuple[str, ...] = ()
    """Those it goes through, the first one included, by name."""
    alternates: tuple[tuple[str, str], ...] = ()
    """An exchange and its alternate exchange, where that was taken."""
    routed: bool | None = False
    """Whether a queue gets it; None when that depends on chance, or on an exchange of unknown type."""
    undecided: tuple[str, ...] = ()
    """Exchanges of unknown type on the way; and those that pick at random, when there is too much to pick from."""
    refused: str = ""
    """What the broker answers to the publisher instead, as it closes the channel."""
    possible_queues: tuple[str, ...] = ()
    """Those that get it if chance will have it so; none of ``queues``."""
    possible_bindings: tuple[int, ...] = ()
    possible_exchanges: tuple[str, ...] = ()
    possible_alternates: tuple[tuple[str, str], ...] = ()


def numbered(topology: Topology) -> tuple[Binding, ...]:
    """The bindings in an order of their own: the same for equal topologies, whatever order the bindings came in."""
    return tuple(
        sorted(topology.bindings, key=lambda b: (b.source, b.destination, b.routing_key, repr(b.arguments.identity)))
    )


class Explorer:
    """Asks a router what becomes of messages."""

    def __init__(self, topology: Topology) -> None:
        self._numbers: Final = {binding: number for number, binding in enumerate(numbered(topology))}
        self._path: list[list[int]] = []  # of each choice on the way, what was picked and of how many
        self._depth = 0
        self._router: Final = Router(topology, choose=self._choose, cache=0)

    def outcome(self, message: Message) -> Outcome:
        """What becomes of the message."""
        self._path = []
        try:
            leaves = [self._explain(message)]
            while self._advance() and len(leaves) < MOST_CHOICES:
                leaves.append(self._explain(message))
        except BrokerError as error:
            return Outcome(message.exchange, refused=str(error))
        if len(leaves) == 1:
            return self._of_one(leaves[0])
        return self._of_some(leaves, complete=not self._path)

    def _explain(self, message: Message) -> Explanation:
        self._depth = 0
        return self._router.explain(message)

    def _choose(self, count: int) -> int:
        if self._depth == len(self._path):
            self._path.append([0, count])
        self._depth += 1
        return self._path[self._depth - 1][0]

    def _advance(self) -> bool:
        """Go on to the next way to choose; False, and no path, after the last one."""
        while self._path:
            self._path[-1][0] += 1
            if self._path[-1][0] < self._path[-1][1]:
                return True
            self._path.pop()
        return False

    def _of_one(self, explanation: Explanation) -> Outcome:
        route = explanation.route
        unroutable = route.unroutable
        return Outcome(
            explanation.message.exchange,
            route.queues,
            tuple(sorted(self._taken(explanation))),
            tuple(sorted([hop.exchange.name for hop in explanation.hops])),
            tuple(sorted(_alternates(explanation))),
            None if unroutable is None else not unroutable,
            tuple(sorted(route.undecided)),
        )

    def _of_some(self, leaves: list[Explanation], *, complete: bool) -> Outcome:
        outcomes = [self._of_one(leaf) for leaf in leaves]
        routed = {outcome.routed for outcome in outcomes}
        undecided = {name for outcome in outcomes for name in outcome.undecided}
        if not complete:
            undecided |= {
                hop.exchange.name
                for leaf in leaves
                for hop in leaf.hops
                if kind_of(hop.exchange).decider is Decider.CHANCE
            }
        queues, bindings = _shared(o.queues for o in outcomes), _shared(o.bindings for o in outcomes)
        exchanges, alternates = _shared(o.exchanges for o in outcomes), _shared(o.alternates for o in outcomes)
        certain = routed.pop() if len(routed) == 1 else None
        return Outcome(
            outcomes[0].exchange, queues[0], bindings[0], exchanges[0], alternates[0],
            certain if complete or queues[0] else None, tuple(sorted(undecided)), "",
            queues[1], bindings[1], exchanges[1], alternates[1],
        )  # fmt: skip

    def _taken(self, explanation: Explanation) -> Iterator[int]:
        for hop in explanation.hops:
            if hop.exchange.name:  # the default exchange's bindings are the queues' names, and nobody made them
                for binding in hop.matched:
                    yield self._numbers[binding]


def _alternates(explanation: Explanation) -> Iterator[tuple[str, str]]:
    for hop in explanation.hops:
        if hop.alternate is not None and hop.alternate.taken:
            yield hop.exchange.name, hop.alternate.name


def _shared(sets: Iterable[tuple[T, ...]]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """What is in all of them, and what is in some only; sorted."""
    listed = [frozenset(each) for each in sets]
    certain = frozenset.intersection(*listed)
    return tuple(sorted(certain)), tuple(sorted(frozenset().union(*listed) - certain))
