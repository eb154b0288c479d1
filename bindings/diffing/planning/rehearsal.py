"""Try steps in one order after another, on one message of each class, until no message goes astray.

Only for tangled exchanges (see `bindings.diffing.planning.tangles`), and not for exchange types that hash, choose at
random or are unknown. Messages with CC or BCC, which have several keys, are not looked at. Every combination of
conditions on headers is tried as if it could hold: that covers all possible messages, and perhaps some impossible ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations
from typing import Final, NamedTuple

from bindings.analysis.crawl import Deadline
from bindings.analysis.key_classes import find_key_classes
from bindings.diffing.planning.step import Step, StepState, Unit
from exchange.entities.entities import Binding
from exchange.errors import BrokerError, NotFound
from exchange.kinds import Decider, find_kind
from exchange.routing.router import Router
from exchange.topology.topology import Topology
from exchange.values.field_values import FieldTable
from exchange.values.message import Message

MAX_STATES: Final = 4_000
MAX_PATTERNS: Final = 4_000
MAX_CONDITIONS: Final = 6
MAX_ROUTES: Final = 400_000
"""Maximum numbers of what is looked at: a minute in the worst case, if no deadline comes before."""
ROUTES_PER_LOOK: Final = 256
"""Number of messages routed between two looks at the clock."""


class TooMuch(Exception):
    """Raised where there is too much to try; the message explains what."""


class Astray(NamedTuple):
    """A message that goes where neither topology sends it, or nowhere though both route it: ``queue`` is None then."""

    exchange: str
    key: str
    has_headers: bool
    """Whether it needs some headers."""
    queue: str | None

    def __str__(self) -> str:
        fate = "is unroutable" if self.queue is None else f"goes to queue {self.queue!r}"
        headers = ", with some headers," if self.has_headers else ""
        return f"{self.key!r} to exchange {self.exchange!r}{headers} {fate} meanwhile"


Messages = frozenset[Astray]


class Rehearsal:
    """What may happen to messages in some exchanges on the way from one topology to another.

    Raises TooMuch when that cannot be looked at as a whole, or not before the deadline.
    """

    def __init__(
        self,
        before: Topology,
        after: Topology,
        exchanges: AbstractSet[str],
        entries: AbstractSet[str],
        deadline: Deadline,
    ) -> None:
        self._deadline: Final = deadline
        self._names: Final = exchanges
        self._after: Final = after
        self._left = MAX_ROUTES
        self._conditions: Final[dict[FieldTable, str]] = {}
        patterns = set()
        for topology in (before, after):
            for name in exchanges & topology.exchanges.keys():
                exchange = topology.exchanges[name]
                kind = find_kind(exchange)
                for binding in topology.bindings_from(name):
                    if kind.decider is Decider.HEADERS:
                        self._conditions.setdefault(binding.arguments, f"condition {len(self._conditions)}")
                        continue
                    pattern = kind.pattern(binding)
                    if pattern is None:
                        raise TooMuch(f"exchange {name!r} is of type {exchange.type}")
                    patterns.add(pattern.words)
        if len(patterns) > MAX_PATTERNS or len(self._conditions) > MAX_CONDITIONS:
            raise TooMuch("they have many different bindings")
        keys = find_key_classes(patterns, MAX_STATES, deadline)
        if keys is None:
            self._require_time()
            raise TooMuch("their patterns match keys in too many ways")
        # Only messages to exchanges that publishers may use both before and after are looked at.
        ends = [
            {name for name, exchange in topology.exchanges.items() if not exchange.internal}
            for topology in (before, after)
        ]
        self._messages: Final = [
            Message(entry, key, headers)
            for entry in sorted(entries & ends[0] & ends[1])
            for key in keys
            for headers in self._headers()
        ]
        self._ends: Final = list(zip(self._routes(before), self._routes(after), strict=True))

    def safe_order(self, state: StepState, units: Sequence[Unit]) -> list[Unit] | None:
        """Return the units in an order in which no message goes astray, except in units that are dangerous anyway.

        Depth first over the sets of units left. The state depends only on which units are done, not on their order, so
        no set is tried twice. None if there is no such order. Raises TooMuch if that is not known.
        """
        self._require(len(units))
        everything = (1 << len(units)) - 1
        seen = {everything}
        order: list[int] = []
        trail = [(state, self.astray(state), everything, iter(range(len(units))))]
        while trail:
            here, known, left, candidates = trail[-1]
            if not left:
                return [units[index] for index in order]
            for index in candidates:
                rest = left & ~(1 << index)
                if rest in seen:
                    continue
                tried = self._try(here, known, units[index])
                if tried is not None:
                    seen.add(rest)
                    order.append(index)
                    trail.append((*tried, rest, iter(range(len(units)))))
                    break
            else:
                trail.pop()
                if order:
                    order.pop()
        return None

    def least_bad_order(self, state: StepState, units: Sequence[Unit]) -> Iterator[Unit]:
        """Yield the units in an order in which each next one does the least harm, marked where it does some.

        If there is too much to try, the rest follows in the given order, all marked.
        """
        self._left = MAX_ROUTES
        left = list(units)
        try:
            here, known = state.copy(), self.astray(state)
            while left:
                unit, (here, known), harm = self._best(here, known, left)
                left.remove(unit)
                yield mark(unit, str(min(harm, key=_plainness))) if harm else unit
        except TooMuch as error:
            yield from (mark(unit, f"not looked at any more: {error}") for unit in left)

    def astray(self, state: StepState) -> Messages:
        """Return the messages that go astray in this state."""
        messages = set()
        routes = self._routes(state.topology)
        for message, (first, last), queues in zip(self._messages, self._ends, routes, strict=True):
            if first and last and not queues:
                messages.add(Astray(message.exchange, message.routing_key, bool(message.headers), None))
            for queue in queues - first - last:
                messages.add(Astray(message.exchange, message.routing_key, bool(message.headers), queue))
        return frozenset(messages)

    def _best(
        self, here: StepState, known: Messages, left: Sequence[Unit]
    ) -> tuple[Unit, tuple[StepState, Messages], Messages]:
        """Return the unit that does the least harm now, the state and the astray messages after it, and its harm."""
        best: tuple[Unit, tuple[StepState, Messages], Messages] | None = None
        for unit in left:
            following = here.copy()
            refused: list[tuple[Step, BrokerError]] = []
            following.carry_out(unit, self._after, refused)
            if refused:
                continue
            astray = self.astray(following)
            harm = astray - known
            if best is None or _cost(harm) < _cost(best[2]):
                best = unit, (following, astray), harm
            if not harm:
                break
        if best is None:
            raise TooMuch("a broker would refuse some of them")
        return best

    def _try(self, here: StepState, known: Messages, unit: Unit) -> tuple[StepState, Messages] | None:
        """Return the state and the astray messages after a unit; None if it is refused or does new harm."""
        following = here.copy()
        refused: list[tuple[Step, BrokerError]] = []
        done = following.carry_out(unit, self._after, refused)
        if refused:
            return None
        astray = self.astray(following)
        dangerous = any(step.danger for step in unit)
        if not dangerous and (any(step.danger for step in done) or not astray <= known):
            return None
        return following, astray

    def _routes(self, topology: Topology) -> list[AbstractSet[str]]:
        """Return, for each message, the queues that it gets to. Raises TooMuch."""
        self._require(1)
        self._left -= len(self._messages)
        names = self._names & topology.exchanges.keys()
        part = topology.with_parts(
            exchanges=[topology.exchanges[name] for name in names],
            bindings=[self._simplify(binding) for name in names for binding in topology.bindings_from(name)],
        )
        router = Router(part, cache=0)
        routes: list[AbstractSet[str]] = []
        for number, message in enumerate(self._messages):
            if number % ROUTES_PER_LOOK == 0:
                self._require_time()
            try:
                routes.append(frozenset(router.route(message).queues))
            except NotFound:
                routes.append(frozenset())
        return routes

    def _headers(self) -> list[dict[str, bool]]:
        """Return headers for each subset of the conditions, whether these can hold together or not."""
        names = list(self._conditions.values())
        return [dict.fromkeys(chosen, True) for size in range(len(names) + 1) for chosen in combinations(names, size)]

    def _simplify(self, binding: Binding) -> Binding:
        """Return the binding with one header in place of its condition, so that conditions are independent."""
        name = self._conditions.get(binding.arguments)
        return binding if name is None else binding._replace(arguments=FieldTable({name: True}))

    def _require_time(self) -> None:
        if self._deadline.has_passed():
            raise TooMuch("the time for the order of steps was used up")

    def _require(self, times: int) -> None:
        self._require_time()
        if self._left < times * len(self._messages):
            raise TooMuch(f"too many kinds of messages pass them: {len(self._messages):,}")


def mark(unit: Unit, danger: str) -> Unit:
    """Return the unit with this danger on each step that has none."""
    return tuple([step if step.danger else step._replace(danger=danger) for step in unit])


def _cost(harm: Messages) -> tuple[int, int]:
    """Return the sort key of harm: one lost message is worse than any number of messages in wrong queues."""
    return sum(message.queue is None for message in harm), len(harm)


def _plainness(message: Astray) -> tuple[bool, bool, int, str, str]:
    return message.queue is not None, message.has_headers, len(message.key), message.key, message.exchange
