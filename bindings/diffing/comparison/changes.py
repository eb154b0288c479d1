"""Where two topologies differ, and so which messages could go elsewhere.

If every leg that a message takes on one side exists on the other side, too, the message takes the same path there. So
if it gets to a destination on one side only, some leg of its path is *changed*: a binding that the other side lacks; or
the leg to an alternate exchange that the other side lacks, or that it does not take there because a binding matches.

Invariant: each message that gets somewhere on one side only meets one of the demands of `ConditionChanges.starts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from bindings.diffing.comparison.search import ANY, Demand
from bindings.diffing.comparison.sides import Side, Ways
from exchange.entities.entities import Binding, Destination
from exchange.kinds import Decider
from exchange.kinds.condition import ALWAYS, NEVER, Condition
from exchange.kinds.headers import find_rules


class Start(NamedTuple):
    """A changed leg, and the conditions that all messages which take it meet."""

    exchange: str
    """The exchange at which the leg begins."""
    condition: Condition | None
    """The condition of the binding; None for the leg to an alternate exchange."""
    demand: Demand


class ConditionChanges:
    """What differs between ``before`` and ``after``, as far as conditions decide."""

    def __init__(self, before: Side, after: Side) -> None:
        self.sides: Final = (before, after)
        self.altered: Final[set[str]] = set()
        """Exchanges that only one side has, or that route by the conditions of another type on each side."""
        self.lacking: Final[tuple[dict[str, dict[Binding, None]], dict[str, dict[Binding, None]]]] = ({}, {})
        """For each side: exchange -> the bindings that the other side lacks, or has under another condition."""
        profiles = [side.topology.profile for side in self.sides]
        self._read_otherwise: Final = len({find_rules(profile) for profile in profiles}) > 1
        for name in dict.fromkeys((*before.topology.exchanges, *after.topology.exchanges)):
            if before.routed_as.get(name) != after.routed_as.get(name):
                self.altered.add(name)
            # Most exchanges have the same bindings on both sides: the differences are collected only for the others.
            mine, theirs = (side.topology.bindings_from(name) for side in self.sides)
            differ = self._may_mean_otherwise(name)
            if differ or len(mine) != len(theirs) or any(binding not in theirs for binding in mine):
                for number, (here, there) in enumerate(((mine, theirs), (theirs, mine))):
                    only = dict.fromkeys(
                        binding
                        for binding in here
                        if binding not in there
                        or (differ and before.condition_of(binding) != after.condition_of(binding))
                    )
                    if only:
                        self.lacking[number][name] = only

        by_alternate = {
            name
            for one, other in ((before, after), (after, before))
            for name, alternate in one.alternates.items()
            if other.alternates.get(name) != alternate
        }
        self._lacking_conditions: Final[dict[tuple[int, str], tuple[Condition, ...]]] = {}
        self._touched: Final = self.altered | by_alternate | self.lacking[0].keys() | self.lacking[1].keys()

    def _may_mean_otherwise(self, name: str) -> bool:
        """Return whether the bindings of an exchange may have other conditions by the profile of the other side."""
        if not self._read_otherwise or name in self.altered:
            return False
        kind = self.sides[0].kinds.get(name)
        return kind is not None and kind.decider is Decider.HEADERS

    def beginnings(self) -> Iterator[Destination]:
        """Yield the destinations to which a changed leg of either side leads; `ends` adds those beyond them."""
        before, after = self.sides
        for one, other in ((before, after), (after, before)):
            for queue in one.topology.queues:
                if queue not in other.topology.queues:
                    yield Destination("queue", queue)
            for name in one.loose:
                if name in one.topology.exchanges and name not in other.topology.exchanges:
                    yield Destination("exchange", name)
        for number, side in enumerate(self.sides):
            other = self.sides[1 - number]
            for name in self.altered:
                yield from (binding.destination for binding in side.topology.bindings_from(name))
            for bindings in self.lacking[number].values():
                yield from (binding.destination for binding in bindings)
            for name, alternate in side.alternates.items():
                if other.alternates.get(name) != alternate or self._emptiness_differs(name):
                    yield Destination("exchange", alternate)
            for name in side.published:
                if name not in other.published:
                    yield from (binding.destination for binding in side.topology.bindings_from(name))
                    if name in side.alternates:
                        yield Destination("exchange", side.alternates[name])
                    if name in side.loose:
                        yield Destination("exchange", name)

    def ends(self) -> list[Destination]:
        """Return the queues and loose ends that some message may reach on one side only."""
        seen: dict[Destination, None] = {}
        pending = list(self.beginnings())
        while pending:
            at = pending.pop()
            if at in seen:
                continue
            seen[at] = None
            if at.kind == "exchange":
                for side in self.sides:
                    if at.name not in side.loose:
                        pending += [binding.destination for binding in side.topology.bindings_from(at.name)]
                        if at.name in side.alternates:
                            pending.append(Destination("exchange", side.alternates[at.name]))
        loose = self.sides[0].loose
        return [at for at in seen if at.kind == "queue" or at.name in loose]

    def starts(self, number: int, ways: Ways) -> Iterator[Start]:
        """Yield the changed legs on ``ways``, the ways of side ``number`` to an end."""
        side, other = self.sides[number], self.sides[1 - number]
        changed: dict[tuple[str, Condition], None] = {}
        for name in sorted(self._touched & ways.exchanges):
            altered, onwards = name in self.altered, side.onwards.get(name, ())
            lacking = self.lacking[number].get(name, {})
            for binding in (*ways.last.get(name, ()), *(b for b in onwards if b.destination.name in ways.exchanges)):
                if altered or binding in lacking:
                    changed[name, side.condition_of(binding)] = None
            yield from self._alternate_starts(number, name, ways)
        if not other.exists(ways.end):  # then every last leg is changed
            for name, bindings in ways.last.items():
                for binding in bindings:
                    changed[name, side.condition_of(binding)] = None
        for name, condition in sorted(changed, key=lambda pair: pair[0]):
            if condition != NEVER:
                yield Start(name, condition, _demand(condition))

    def _alternate_starts(self, number: int, name: str, ways: Ways) -> Iterator[Start]:
        """Yield the changed legs to the alternate: one if the other side lacks it, else one per binding only there."""
        alternate, other = ways.alternate(name), self.sides[1 - number]
        if alternate is None:
            return
        if other.alternates.get(name) != alternate or name in self.altered:
            yield Start(name, None, ANY)
            return
        for condition in self._conditions_lacking(1 - number, name):
            yield Start(name, None, _demand(condition))

    def _conditions_lacking(self, number: int, name: str) -> tuple[Condition, ...]:
        """Return the conditions of the bindings that an exchange has on side ``number`` only; cached for all ends."""
        lacking = self._lacking_conditions.get((number, name))
        if lacking is None:
            side = self.sides[number]
            conditions = dict.fromkeys(side.condition_of(binding) for binding in self.lacking[number].get(name, ()))
            lacking = self._lacking_conditions[number, name] = tuple(c for c in conditions if c != NEVER)
        return lacking

    def _emptiness_differs(self, name: str) -> bool:
        """Return whether some message may match no binding of the exchange on one side only."""
        return name in self.altered or any(name in lacking for lacking in self.lacking)


def _demand(condition: Condition) -> Demand:
    return ANY if condition == ALWAYS else Demand((condition,))
