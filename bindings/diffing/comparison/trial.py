"""What may become of a message where chance decides: which queues get it together, with which probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final, TypeAlias

from bindings.diffing.comparison.sides import Side
from exchange.errors import BrokerError
from exchange.routing.router import Router
from exchange.topology.topology import Topology
from exchange.values.message import Message

__all__ = ["Outcomes", "Trial", "shares"]

Outcomes: TypeAlias = Mapping[frozenset[str], Fraction]
"""Queues that get a message together -> the probability. An exchange of unknown type stands there as ``?NAME``."""

MOST: Final = 2_000
"""Maximum number of ways in which chance may route one message."""


class Trial:
    """Routes messages through one topology, in every way that chance allows.

    For each exchange that messages are published to, a router is built of the exchanges that it leads to.
    """

    def __init__(self, side: Side) -> None:
        self._topology: Final = side.topology
        self._graph: Final = side.graph
        self._routers: Final[dict[str, Router]] = {}
        self._script: list[int] = []
        self._sizes: list[int] = []

    def outcomes(self, message: Message) -> Outcomes | None:
        """Return the sets of queues that may get a message together; only the empty set if the broker refuses it.

        None if chance has more than `MOST` ways to route it. Each way is a script: the numbers that chance picks, one
        for each exchange that asks for one. A script that turns out too short goes on with zeros; the other numbers
        that could have been picked there become scripts to run later.
        """
        exchange = self._topology.exchanges.get(message.exchange)
        if exchange is None or exchange.internal:
            return {frozenset(): Fraction(1)}
        router = self._router(message.exchange)
        outcomes: dict[frozenset[str], Fraction] = {}
        pending: list[list[int]] = [[]]
        for number in range(MOST):
            if not pending:
                return outcomes
            self._script, self._sizes = pending.pop(), []
            planned = len(self._script)
            try:
                route = router.route(message)
            except BrokerError:
                return {frozenset(): Fraction(1)}
            chosen = self._script
            # The positions beyond the script were zeros; each other number there begins a way that no script has yet.
            for position in range(planned, len(self._sizes)):
                pending += [[*chosen[:position], other] for other in range(1, self._sizes[position])]
            queues = frozenset((*route.queues, *(f"?{name}" for name in route.undecided)))
            weight = Fraction(1)
            for size in self._sizes:
                weight /= size
            outcomes[queues] = outcomes.get(queues, Fraction(0)) + weight
            if len(pending) + number > MOST:
                return None
        return None if pending else outcomes

    def _choose(self, size: int) -> int:
        """Return the next number of the script, and note below which size it was asked for."""
        position = len(self._sizes)
        self._sizes.append(size)
        if position == len(self._script):
            self._script = [*self._script, 0]
        return self._script[position]

    def _router(self, entry: str) -> Router:
        """Return the router of the exchanges that an entry leads to; it gets its random numbers from the script."""
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
    """Return queue -> the probability that it gets the message, in the order of names."""
    by_queue: dict[str, Fraction] = {}
    for queues, share in outcomes.items():
        for queue in queues:
            by_queue[queue] = by_queue.get(queue, Fraction(0)) + share
    return dict(sorted(by_queue.items()))
