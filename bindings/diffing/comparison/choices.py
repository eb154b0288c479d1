"""Exchanges that do not decide by conditions: which of them differ, and what becomes of a message that gets to one.

An exchange that chooses by chance picks one of its bindings, so the outcome is a distribution: which queues get the
message together, and how often. A hash picks one for each key, in a way that no pattern describes, so messages are
tried. An exchange of a type unknown here (of a plugin) can only be compared: do both sides have the same exchange with
the same bindings, on the same release?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from fractions import Fraction
from typing import Final, TypeAlias

from bindings.analysis.crawl import OutOfBudget
from bindings.diffing.comparison.conditions import Probe
from bindings.diffing.comparison.inquiry import TOO_MANY_CASES, Divergence, Inquiry
from bindings.diffing.comparison.meaning import ChoiceChange
from bindings.diffing.comparison.paths import PathConditions
from bindings.diffing.comparison.sides import Side, Ways
from exchange.entities.entities import Destination, Exchange
from exchange.entities.in_force import find_alternates_in_effect
from exchange.errors import BrokerError
from exchange.kinds import Decider, find_kind
from exchange.routing.router import Router
from exchange.values.message import Message

SAMPLES: Final = 200
"""Number of messages tried to show that two choices differ."""

TRIED: Final = frozenset({Decider.HASH.value, Decider.SELECTOR.value})
"""Results of `find_choice_kind` for exchanges that look at the message: where it shows no difference, others may."""
Outcomes: TypeAlias = Mapping[frozenset[str], Fraction]
"""Queues that get a message together -> the probability. An exchange of unknown type stands there as ``?NAME``."""

MAX_WAYS: Final = 2_000
"""Maximum number of ways in which chance may route one message."""


def find_choice_kind(exchange: Exchange) -> str:
    """Return how an exchange chooses: ``chance``, ``hash``, ``selector`` or ``unknown``."""
    decider = find_kind(exchange).decider
    return Decider.UNKNOWN.value if decider.has_conditions else decider.value


def find_choice_inputs(side: Side, name: str) -> Hashable:
    """Return all that the choice of an exchange depends on, except the message: equal values mean equal choices."""
    exchange = side.topology.exchanges.get(name)
    if exchange is None:
        return None
    kind = find_kind(exchange)
    possible = find_alternates_in_effect(exchange, side.topology.policies)
    alternate = tuple([other for other in possible if other in side.topology.exchanges])
    bindings = side.topology.bindings_from(name)
    if kind.decider is Decider.CHANCE:
        counted = Counter((b.destination, side.exists(b.destination)) for b in kind.candidates(bindings))
        return "chance", frozenset(counted.items()), () if counted else alternate
    sequence = kind.sequence(bindings)
    what = frozenset(bindings) if sequence is None else sequence
    there = frozenset(b.destination for b in bindings if side.exists(b.destination))
    if kind.decider.value in TRIED:
        profile = side.topology.profile
        reads, rules = kind.reads(exchange, bindings, profile), kind.rules(exchange, bindings, profile)
        return kind.routes_as, reads, rules, what, there, alternate
    # Of an unknown type anything may count, the release too, except these flags, which decide nothing about routing.
    declared = replace(exchange, durable=True, auto_delete=False, internal=False)
    return declared, what, there, alternate, side.topology.profile.name


def depends_on_store(side: Side, name: str) -> bool:
    """Return whether the choice of an exchange depends on the metadata store of the broker."""
    exchange = side.topology.exchanges.get(name)
    bindings = side.topology.bindings_from(name)
    return exchange is not None and find_kind(exchange).depends_on_store(bindings, side.topology.profile)


class ChoiceComparison:
    """What differs for the messages that get to an exchange that does not decide by conditions: a loose end."""

    def __init__(self, inquiry: Inquiry, *, upgraded: bool) -> None:
        self._inquiry: Final = inquiry
        self._sides: Final = inquiry.sides
        self._upgraded: Final = upgraded
        self._loose: Final = inquiry.loose
        self._trials: Final = Trial(self._sides[0]), Trial(self._sides[1])
        self._onwards: Final = {
            name: {target for side in self._sides for target in side.graph.next.get(name, ())} for name in self._loose
        }
        self._ways: Final[dict[str, tuple[Ways, Ways]]] = {}
        self._reachable: Final[dict[str, bool]] = {}

    @property
    def beyond(self) -> AbstractSet[str]:
        """The exchanges that loose ends may hand messages to."""
        return frozenset().union(*self._onwards.values())

    def can_be_reached(self, entry: str) -> bool:
        """Return whether messages from an exchange may get to a loose end, on either side."""
        if not self._loose:
            return False
        if entry not in self._reachable:
            self._reachable[entry] = any(
                not self._loose.isdisjoint(side.graph.downstream([entry])) for side in self._sides
            )
        return self._reachable[entry]

    def share(self, number: int, message: Message, queue: str) -> Fraction | None:
        """Return the probability that a queue gets a message on one side; None where it is not known."""
        outcomes = self._trials[number].outcomes(message)
        if outcomes is None:
            return None
        share = _shares(outcomes).get(queue, Fraction(0))
        unknown = any(name.startswith("?") for queues in outcomes for name in queues)
        return None if unknown and share != 1 else share

    def compare(self, divergences: Sequence[Divergence]) -> Iterator[ChoiceChange]:
        """Yield what differs at loose ends: at most one choice for each exchange and loose end, a certain one if any.

        There are two causes. A message gets to a loose end on one side only, which is a divergence; or the loose end
        itself has changed, or an exchange beyond it.
        """
        if not self._loose:
            return
        inquiry = self._inquiry
        unsettled: set[str | None] = {divergence.entry for divergence in divergences}
        unsettled |= {undecided.exchange for undecided in inquiry.undecided if undecided.destination is not None}
        # None: for some end it is undecided for all exchanges, so every loose end may be affected.
        affected = sorted(self._loose) if None in unsettled else self._find_affected(unsettled)
        choices: dict[tuple[str, str], ChoiceChange] = {}

        def keep(choice: ChoiceChange) -> None:
            if choice.certain or (choice.exchange, choice.at) not in choices:
                choices[choice.exchange, choice.at] = choice

        for divergence in divergences:
            if divergence.end.kind == "exchange" and inquiry.is_published(divergence.entry):
                if inquiry.is_over():
                    inquiry.give_up(divergence.entry, divergence.end)
                    continue
                keep(self._choice(divergence.entry, divergence.end.name, divergence.probe))
        for name in affected:
            end = Destination("exchange", name)
            if inquiry.is_over():
                inquiry.give_up(None, end)
                continue
            both = self._ways_to(name)
            for entry in sorted(both[0].exchanges | both[1].exchanges):
                known = choices.get((entry, name))
                if known is not None and known.certain:
                    continue
                for number in (1, 0):
                    if entry not in self._sides[number].published:
                        continue
                    try:
                        probe = inquiry.ask(entry, both[number], None, [PathConditions()])
                    except OutOfBudget:
                        inquiry.give_up(entry, end, TOO_MANY_CASES)
                        continue
                    if probe is not None:
                        keep(self._choice(entry, name, probe))
        yield from (choices[key] for key in sorted(choices))

    def _find_affected(self, unsettled: AbstractSet[str | None]) -> list[str]:
        """Return the loose ends that have changed, or that hand messages to an exchange whose messages go elsewhere."""
        before, after = self._sides
        affected = {name for name in self._loose if find_choice_inputs(before, name) != find_choice_inputs(after, name)}
        affected |= {name for name in self._loose if self._onwards[name] & unsettled}
        if self._upgraded:
            affected |= {name for name in self._loose if any(depends_on_store(side, name) for side in self._sides)}
        while True:
            to_affected = affected.union(*(ways.exchanges for name in affected for ways in self._ways_to(name)))
            more = {name for name in self._loose - affected if not self._onwards[name].isdisjoint(to_affected)}
            if not more:
                return sorted(affected)
            affected |= more

    def _ways_to(self, name: str) -> tuple[Ways, Ways]:
        """Return the ways of both sides to a loose end."""
        ways = self._ways.get(name)
        if ways is None:
            before, after = self._sides
            end = Destination("exchange", name)
            ways = self._ways[name] = Ways(before, end), Ways(after, end)
        return ways

    def _choice(self, entry: str, name: str, probe: Probe) -> ChoiceChange:
        """Return where a loose end sends a message on both sides; if another sample shows a difference, that one."""
        exchanges = tuple(side.topology.exchanges.get(name) for side in self._sides)
        exchange = exchanges[1] or exchanges[0]
        first: tuple[Message, list[dict[str, Fraction] | None]] | None = None
        by = "unknown" if exchange is None else find_choice_kind(exchange)
        for message in draw_samples(probe.message(entry), self._sides if by in TRIED else (), name):
            outcomes = [trial.outcomes(message) for trial in self._trials]
            shared = [None if outcome is None else _shares(outcome) for outcome in outcomes]
            unknown = any(queue.startswith("?") for by_queue in shared if by_queue is not None for queue in by_queue)
            certain = None not in outcomes and outcomes[0] != outcomes[1] and not unknown
            if certain or first is None:
                first = message, shared
            if certain or by not in TRIED:
                break
        assert first is not None  # there is always one sample  # noqa: S101
        ratios = [None if by_queue is None else tuple(by_queue.items()) for by_queue in first[1]]
        return ChoiceChange(entry, name, by, first[0], ratios[0], ratios[1], certain)


def draw_samples(message: Message, sides: Iterable[Side], name: str) -> Iterator[Message]:
    """Yield the message, then variants of it for which the exchange may choose otherwise, on either side."""
    yield message
    headers: set[str] = set()
    properties: set[str] = set()
    for side in sides:
        exchange = side.topology.exchanges.get(name)
        if exchange is not None:
            reads = find_kind(exchange).reads(exchange, side.topology.bindings_from(name), side.topology.profile)
            headers |= reads.headers
            properties |= reads.properties
    words = message.routing_key.split(".")
    for number in range(SAMPLES):
        text = f"k{number}"
        if headers or properties:
            values: dict[str, object] = {name: number if name == "timestamp" else text for name in sorted(properties)}
            carried = {**message.headers, **dict.fromkeys(sorted(headers - {"CC", "BCC"}), text)}
            yield replace(message, headers=carried, properties=values)
        position = number % (len(words) + 1)
        yield replace(message, routing_key=".".join([*words[:position], text, *words[position + 1 :]]))
    for header in sorted(headers - {"CC", "BCC"}):
        yield replace(message, headers={**message.headers, header: ()})  # which some releases cannot hash


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

        None if chance has more than `MAX_WAYS` ways to route it. Each way is a script: the numbers that chance picks,
        one for each exchange that asks for one. A script that turns out too short goes on with zeros; the other numbers
        that could have been picked there become scripts to run later.
        """
        exchange = self._topology.exchanges.get(message.exchange)
        if exchange is None or exchange.internal:
            return {frozenset(): Fraction(1)}
        router = self._router(message.exchange)
        outcomes: dict[frozenset[str], Fraction] = {}
        pending: list[list[int]] = [[]]
        for number in range(MAX_WAYS):
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
            if len(pending) + number > MAX_WAYS:
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
            part = topology.with_parts(
                exchanges=[topology.exchanges[name] for name in reached if name],
                queues=[replace(queue, partitioning=None) for queue in topology.queues.values()],
                bindings=bindings,
            )
            router = self._routers[entry] = Router(part, choose=self._choose, cache=0)
        return router


def _shares(outcomes: Outcomes) -> dict[str, Fraction]:
    """Return queue -> the probability that it gets the message, in the order of names."""
    by_queue: dict[str, Fraction] = {}
    for queues, share in outcomes.items():
        for queue in queues:
            by_queue[queue] = by_queue.get(queue, Fraction(0)) + share
    return dict(sorted(by_queue.items()))
