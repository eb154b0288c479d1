"""Compute outcomes with the router: the bindings that a message takes and the queues that get it.

Nothing is drawn at random: where an exchange picks at random, all its choices are tried, and the outcome separates
certain results from possible ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from bindings.archive.sums import Span
from bindings.counts.sketch import Frequent, SampledKey, are_registers, join_registers, keep_sample, merge_summaries
from exchange.entities.entities import Binding
from exchange.errors import BrokerError
from exchange.kinds import Decider, find_kind
from exchange.routing.route import Route
from exchange.routing.router import Router
from exchange.routing.walk import Visit
from exchange.topology.topology import Topology
from exchange.values.message import Message

T = TypeVar("T", bound=Any)

BindingNumber: TypeAlias = Annotated[int, "int32"]
"""Index of a binding in `sort_bindings`; in a table, of this Arrow type."""

Fate: TypeAlias = Literal["routed", "unroutable", "undecided", "refused"]

MAX_CHOICES: Final = 1_024
"""Maximum number of combinations of random choices that are tried for a message; above it, it is undecided."""


class AlternateLink(NamedTuple):
    """An exchange, and its alternate exchange that a message took."""

    exchange: str
    alternate: str


class Outcome(NamedTuple):
    """The result of routing any message of one class to one exchange. Names and numbers are sorted."""

    exchange: str
    queues: tuple[str, ...] = ()
    """Queues that certainly receive the message."""
    bindings: tuple[BindingNumber, ...] = ()
    """Bindings that it certainly takes, on all hops."""
    exchanges: tuple[str, ...] = ()
    """Exchanges that it certainly passes, including the first one."""
    alternates: tuple[AlternateLink, ...] = ()
    """Alternate exchanges that it certainly takes."""
    routed: bool | None = False
    """Whether any queue receives it; None if that depends on a random choice or an exchange of unknown type."""
    undecided: tuple[str, ...] = ()
    """Exchanges of unknown type that it passes; also those that pick at random, if there are too many combinations."""
    refused: str = ""
    """Error with which the broker refuses it and closes the channel; "" if the broker accepts it."""
    possible_queues: tuple[str, ...] = ()
    """Queues that may receive the message, depending on a random choice. Disjoint from ``queues``."""
    possible_bindings: tuple[BindingNumber, ...] = ()
    possible_exchanges: tuple[str, ...] = ()
    possible_alternates: tuple[AlternateLink, ...] = ()

    @property
    def fate(self) -> Fate:
        """``routed`` if a queue certainly gets it, ``undecided`` if only possibly."""
        if self.refused:
            return "refused"
        if self.routed is None:
            return "undecided"
        return "routed" if self.routed else "unroutable"


def sort_bindings(topology: Topology) -> tuple[Binding, ...]:
    """Return the bindings in an order that depends on the bindings only, not on the order of their declaration."""
    return tuple(
        sorted(topology.bindings, key=lambda b: (b.source, b.destination, b.routing_key, repr(b.arguments.identity)))
    )


class Facts(NamedTuple):
    """The facts about the messages with one outcome."""

    span: Span = Span()
    keys: bytes = b""
    """HyperLogLog registers of their keys, for `bindings.counts.sketch.count_distinct`."""
    sample: tuple[SampledKey, ...] = ()
    """A bottom-k sample of their keys."""
    hot: Frequent = Frequent()
    """Their most frequent keys."""
    shapes: Frequent = Frequent()
    """Frequent shapes of keys, with ``*`` for words that no binding names.

    Only for messages that an alternate exchange takes, or that no queue certainly gets; else empty.
    """

    @property
    def messages(self) -> int:
        """Number of messages."""
        return self.span.messages

    def is_sound(self) -> bool:
        """Return whether messages can have these facts: a file may claim any."""
        return self.messages > 0 and are_registers(self.keys)

    def __add__(self, other: object) -> Facts:
        if not isinstance(other, Facts):
            return NotImplemented
        return Facts(
            self.span + other.span,
            join_registers(self.keys, other.keys),
            keep_sample((*self.sample, *other.sample)),
            merge_summaries(self.hot, other.hot),
            merge_summaries(self.shapes, other.shapes),
        )


class OutcomeExplorer:
    """Computes the outcomes of messages in one topology.

    A message that an exchange delays has the queues, bindings and exchanges of both times; with ``at_once``, only those
    before the delay, as a broker records them when the message is published.
    """

    def __init__(self, topology: Topology, *, at_once: bool = False) -> None:
        self._at_once: Final = at_once
        self._numbers: Final = {binding: number for number, binding in enumerate(sort_bindings(topology))}
        # The random choices of the current walk: the pick of each, and its number of possible picks. The next walk
        # repeats all picks but the last one, so walks try all combinations in order, like an odometer.
        self._path: list[list[int]] = []
        self._depth = 0
        self._router: Final = Router(topology, choose=self._choose, cache=0)

    def outcome(self, message: Message) -> Outcome:
        """Return the outcome of a message, over all combinations of random choices."""
        self._path = []
        try:
            leaves = [self._trace(message)]
            while self._advance() and len(leaves) < MAX_CHOICES:
                leaves.append(self._trace(message))
        except BrokerError as error:
            return Outcome(message.exchange, refused=str(error))
        if len(leaves) == 1:
            return self._of_one(message.exchange, *leaves[0])
        return self._of_several(message.exchange, leaves, complete=not self._path)

    def _trace(self, message: Message) -> tuple[Route, list[Visit]]:
        self._depth = 0
        return self._router.trace(message)

    def _choose(self, count: int) -> int:
        if self._depth == len(self._path):
            self._path.append([0, count])
        self._depth += 1
        return self._path[self._depth - 1][0]

    def _advance(self) -> bool:
        """Advance to the next combination of picks; return False, with an empty path, after the last combination."""
        while self._path:
            self._path[-1][0] += 1
            if self._path[-1][0] < self._path[-1][1]:
                return True
            self._path.pop()
        return False

    def _of_one(self, exchange: str, route: Route, visits: list[Visit]) -> Outcome:
        if self._at_once:
            route, visits = route.at_once, [visit for visit in visits if visit.after is None]
        unroutable = route.unroutable
        return Outcome(
            exchange,
            route.queues,
            tuple(sorted({*self._taken(visits)})),
            tuple(sorted({visit.exchange.name for visit in visits})),
            tuple(sorted({*_alternates(visits)})),
            None if unroutable is None else not unroutable,
            tuple(sorted(route.undecided)),
        )

    def _of_several(self, exchange: str, leaves: list[tuple[Route, list[Visit]]], *, complete: bool) -> Outcome:
        outcomes = [self._of_one(exchange, *leaf) for leaf in leaves]
        routed = {outcome.routed for outcome in outcomes}
        undecided = {name for outcome in outcomes for name in outcome.undecided}
        if not complete:
            undecided |= {
                visit.exchange.name
                for _, visits in leaves
                for visit in visits
                if find_kind(visit.exchange).decider is Decider.CHANCE
            }
        queues, bindings = _split_certain(o.queues for o in outcomes), _split_certain(o.bindings for o in outcomes)
        exchanges, alternates = (
            _split_certain(o.exchanges for o in outcomes),
            _split_certain(o.alternates for o in outcomes),
        )
        certain = routed.pop() if len(routed) == 1 else None
        return Outcome(
            exchange, queues[0], bindings[0], exchanges[0], alternates[0],
            certain if complete or queues[0] else None, tuple(sorted(undecided)), "",
            queues[1], bindings[1], exchanges[1], alternates[1],
        )  # fmt: skip

    def _taken(self, visits: Iterable[Visit]) -> Iterator[int]:
        for visit in visits:
            if visit.exchange.name:  # the default exchange's bindings are implicit, one for each queue
                for binding in visit.matched:
                    yield self._numbers[binding]


def _alternates(visits: Iterable[Visit]) -> Iterator[AlternateLink]:
    for visit in visits:
        if visit.taken_alternate is not None:
            yield AlternateLink(visit.exchange.name, visit.taken_alternate)


def _split_certain(sets: Iterable[tuple[T, ...]]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Return the elements that are in all sets, and those that are in at least one but not in all; both sorted."""
    listed = [frozenset(each) for each in sets]
    certain = frozenset.intersection(*listed)
    return tuple(sorted(certain)), tuple(sorted(frozenset().union(*listed) - certain))
