"""What the difference of two topologies means to publishers and consumers: which messages go elsewhere.

Every claim is about messages with one routing key (no CC or BCC header). Invariant: an effect comes with a shortest
message that shows it, and where nothing is claimed, nothing differs: that is proved for all keys and headers, or else
stands under ``undecided``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, NamedTuple

from bindings.analysis.crawl import Budget, Deadline, OutOfBudget
from bindings.diff.changed import Changes, Start
from bindings.diff.choices import TRIED, Trial, choosing, samples, shares, way_of_choosing
from bindings.diff.conditions import Probe
from bindings.diff.partitions import PartitionChange, partition_changes
from bindings.diff.reach import DEFAULT, Anywhere, Side, Ways
from bindings.diff.routes import Way, from_exchange, through
from bindings.diff.search import Demand, shortest_message
from bindings.diff.terms import Term, terms
from exchange.entities.entities import Destination, alternates_in_effect
from exchange.kinds import kind_of
from exchange.message import Message
from exchange.topology.topology import Topology

__all__ = ["Access", "Choice", "Effect", "Meaning", "Undecided", "Unroutable", "meaning"]

STEPS: Final = 200_000
"""What one question about an exchange and a queue may cost, see `bindings.analysis.crawl.Budget`."""
TOTAL: Final = 100_000_000
"""What all questions may cost together: some minutes."""

SHARE: Final = 4
"""How many times its equal share of the time left one destination may take."""

TOO_MANY: Final = "too many cases to look at"
OUT_OF_BUDGET: Final = "the budget of the comparison was used up"

Verdict = Literal["same", "changed", "undecided"]


class Access(NamedTuple):
    """An exchange that publishers may use on one side only."""

    exchange: str
    opened: bool
    """Whether they may now; else they might before."""
    reason: Literal["declared", "deleted", "internal"]


class Effect(NamedTuple):
    """Messages to an exchange that a queue gains, or loses."""

    exchange: str
    queue: str
    gained: bool
    witness: Message
    """A shortest such message, unless ``undecided`` names the exchange and the queue: then there may be a shorter."""
    terms: tuple[Term, ...]
    before: Fraction | None = Fraction(0)
    """How often the witness came there before; None where that depends on an exchange of unknown type."""
    after: Fraction | None = Fraction(0)

    @property
    def exact(self) -> bool:
        """Whether the terms say all that is gained or lost by ways without chance, and nothing else."""
        return bool(self.terms) and all(term.exact for term in self.terms)

    @property
    def certain(self) -> bool:
        """Whether the witness shows a difference."""
        return None not in (self.before, self.after) and self.before != self.after


class Unroutable(NamedTuple):
    """Messages to an exchange that now go nowhere, or no longer do."""

    exchange: str
    now: bool
    """Whether they go nowhere after; else before."""
    witness: Message


class Choice(NamedTuple):
    """Messages to an exchange that get to one that chooses by chance, by a hash or in an unknown way, and that changed.

    What of it has changed is the exchange itself, where it leads to, or which messages get there.
    """

    exchange: str
    at: str
    by: str
    """chance, hash or unknown."""
    witness: Message
    """A message that gets there."""
    before: tuple[tuple[str, Fraction], ...] | None
    """How often each queue gets the witness; None when that cannot be told."""
    after: tuple[tuple[str, Fraction], ...] | None
    certain: bool
    """Whether the witness shows a difference; else no message was found that does, and there may be one."""


class Undecided(NamedTuple):
    """What could not be decided."""

    exchange: str | None
    """None for all exchanges."""
    destination: Destination | None
    reason: str


@dataclass(frozen=True, slots=True)
class Meaning:
    """All that is different, in the order of names."""

    access: tuple[Access, ...] = ()
    effects: tuple[Effect, ...] = ()
    unroutable: tuple[Unroutable, ...] = ()
    choices: tuple[Choice, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    undecided: tuple[Undecided, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """``changed`` if anything differs for sure, ``same`` if it is proved that nothing does, else ``undecided``."""
        shown = (
            bool(self.access or self.unroutable)
            or any(effect.certain for effect in self.effects)
            or any(choice.certain for choice in self.choices)
            or any(change.certain for change in self.partitions)
        )
        if shown:
            return "changed"
        open_ = self.undecided or self.effects or self.choices or self.partitions
        return "undecided" if open_ else "same"


def meaning(
    before: Topology,
    after: Topology,
    *,
    steps: int = STEPS,
    total: int = TOTAL,
    deadline: Deadline | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Meaning:
    """Return what is different after from before, both under one profile, else ValueError.

    ``steps`` bounds the cost of a question about one exchange and one queue, ``total`` that of all. What is not
    decided within these and before the ``deadline`` is ``undecided``. ``progress`` is called with the numbers of
    destinations compared and to compare.
    """
    if before.profile != after.profile:
        raise ValueError(f"two profiles, {before.profile.name} and {after.profile.name}: see Topology.with_profile")
    return _Comparison(before, after, steps, total, deadline or Deadline()).result(progress)


class _Finding(NamedTuple):
    """A message that gets from an exchange to an end on one side only."""

    entry: str
    end: Destination
    number: int
    """The side where it gets there."""
    probe: Probe
    changed: tuple[tuple[Way, ...], ...]
    """The ways it may go that are changed, by what is changed; the shortest message's first."""


class _Comparison:
    def __init__(self, before: Topology, after: Topology, steps: int, total: int, deadline: Deadline) -> None:
        loose = frozenset(
            name
            for topology in (before, after)
            for name, x in topology.exchanges.items()
            if not kind_of(x).decider.has_conditions or (name and len(alternates_in_effect(x, topology.policies)) > 1)
        )
        self._sides = (Side(before, loose), Side(after, loose))
        self._loose = loose
        self._changes = Changes(*self._sides)
        self._trials = (Trial(self._sides[0]), Trial(self._sides[1]))
        self._steps = steps
        self._left = total
        self._whole = self._deadline = deadline
        self._undecided: list[Undecided] = []
        self._onwards = {name: {x for side in self._sides for x in side.graph.next.get(name, ())} for name in loose}
        self._beyond = frozenset().union(*self._onwards.values())
        # Where messages start: at publishers, and at exchanges that loose ends lead them on to.
        self._entries = tuple(
            {name for name in side.topology.exchanges if side.publishable(name) or name in self._beyond}
            for side in self._sides
        )
        self._ways: dict[str, tuple[Ways, Ways]] = {}  # to loose ends
        self._anywhere = (Anywhere(self._sides[0]), Anywhere(self._sides[1]))
        self._lost: dict[tuple[str, int], Probe] = {}
        self._chooses: dict[str, bool] = {}

    def result(self, progress: Callable[[int, int], None] | None = None) -> Meaning:
        findings: list[_Finding] = []
        effects: list[Effect] = []
        ends = sorted(self._changes.ends())
        for number, end in enumerate(ends):
            if progress is not None:
                progress(number, len(ends))
            # A destination that is hard to decide leaves time for the others.
            self._deadline = self._whole.share(max(1, (len(ends) - number) // SHARE))
            if self._is_over():
                self._undecided.append(Undecided(None, end, OUT_OF_BUDGET))
                continue
            both = Ways(self._sides[0], end), Ways(self._sides[1], end)
            for found in self._findings(end, both):
                findings.append(found)
                if end.kind == "queue" and any(side.publishable(found.entry) for side in self._sides):
                    effects.append(self._effect(found, both))
                    self._look_for_unroutable(found, both[found.number])
        self._deadline = self._whole
        return Meaning(
            tuple(self._access()),
            tuple(sorted(effects, key=lambda e: (e.exchange, e.queue, e.gained))),
            tuple(
                Unroutable(entry, number == 0, _message(entry, probe))
                for (entry, number), probe in sorted(self._lost.items())
            ),
            tuple(self._choices(findings)),
            tuple(partition_changes(*(side.topology for side in self._sides))),
            tuple(sorted(dict.fromkeys(self._undecided), key=_place_of)),
        )

    def _is_over(self) -> bool:
        """Return whether no question can be answered any more."""
        return self._left <= 0 or self._deadline.passed()

    def _budget(self) -> Budget:
        return Budget(min(self._steps, self._left), self._deadline)

    def _access(self) -> Iterator[Access]:
        before, after = self._sides
        for name in sorted({*before.topology.exchanges, *after.topology.exchanges}):
            was, is_ = before.publishable(name), after.publishable(name)
            if was != is_:
                both = name in before.topology.exchanges and name in after.topology.exchanges
                yield Access(name, is_, "internal" if both else "declared" if is_ else "deleted")

    def _both_ways(self, loose_end: str) -> tuple[Ways, Ways]:
        found = self._ways.get(loose_end)
        if found is None:
            before, after = self._sides
            end = Destination("exchange", loose_end)
            found = self._ways[loose_end] = Ways(before, end), Ways(after, end)
        return found

    def _findings(self, end: Destination, both: tuple[Ways, Ways]) -> Iterator[_Finding]:
        for number, ways in enumerate(both):
            changed: dict[str, list[list[Way]]] = {}  # by entry, for each changed leg the ways that have it
            for start in self._changes.starts(number, ways):
                if self._is_over():
                    self._undecided.append(Undecided(None, end, OUT_OF_BUDGET))
                    return
                for at, several in self._through(ways, start).items():
                    if all(at in entries for entries in self._entries):
                        changed.setdefault(at, []).append(several)
            for entry in (self._entries[number] - self._entries[1 - number]) & ways.exchanges:
                changed[entry] = [self._all_ways(entry, ways)]
            for entry in sorted(changed):
                if self._is_over():
                    self._undecided.append(Undecided(None, end, OUT_OF_BUDGET))
                    return
                others = both[1 - number] if entry in self._entries[1 - number] else None
                found = self._finding(entry, end, number, ways, others, changed[entry])
                if found is not None:
                    yield found

    def _through(self, ways: Ways, start: Start) -> dict[str, list[Way]]:
        """The ways that have a changed leg; where those are too many, what messages that take it match at least."""
        budget = self._budget()
        try:
            return through(ways, start, budget)
        except OutOfBudget:
            return {name: [Way(start.demand.all_of)] for name in ways.side.before([start.exchange])}
        finally:
            self._spent(budget)

    def _all_ways(self, entry: str, ways: Ways) -> list[Way]:
        """The ways from an exchange that messages can be published to on one side only."""
        budget = self._budget()
        try:
            return from_exchange(ways, entry, Way(), budget)
        except OutOfBudget:
            return [Way()]
        finally:
            self._spent(budget)

    def _finding(
        self,
        entry: str,
        end: Destination,
        number: int,
        ways: Ways,
        others: Ways | None,
        changed: Sequence[Sequence[Way]],
    ) -> _Finding | None:
        shown: list[tuple[Probe, tuple[Way, ...]]] = []
        for several in changed:
            try:
                probe = self._ask(entry, ways, others, several)
            except OutOfBudget:
                self._undecided.append(Undecided(entry, end, TOO_MANY))
                continue
            if probe is not None:
                shown.append((probe, tuple(several)))
        if not shown:
            return None
        shown.sort(key=lambda pair: pair[0].cost)
        return _Finding(entry, end, number, shown[0][0], tuple(several for _, several in shown))

    def _ask(self, entry: str, there: Ways | None, not_there: Ways | None, ways: Iterable[Way]) -> Probe | None:
        budget = self._budget()
        try:
            return shortest_message(entry, there, not_there, [Demand(way.matching) for way in ways], budget)
        finally:
            self._spent(budget)

    def _spent(self, budget: Budget) -> None:
        self._left -= min(self._steps, self._left) - max(budget.left, 0)

    def _effect(self, found: _Finding, both: tuple[Ways, Ways]) -> Effect:
        entry, end, number, probe, changed = found
        message = _message(entry, probe)
        others = both[1 - number] if entry in self._entries[1 - number] else None
        all_changed = [way for several in changed for way in several]
        said = terms(entry, both[number], others, all_changed, self._deadline)
        if self._leads_to_choices(entry):
            before, after = (self._share(side, message, end.name) for side in (0, 1))
        else:
            before, after = Fraction(number == 0), Fraction(number == 1)
        return Effect(entry, end.name, number == 1, message, said, before, after)

    def _look_for_unroutable(self, found: _Finding, ways: Ways) -> None:
        entry, number = found.entry, found.number
        if not all(side.publishable(entry) for side in self._sides):
            return
        known = self._lost.get((entry, number))
        for several in found.changed:
            if known is not None and found.probe.cost >= known.cost:
                return  # no message that it is about is shorter
            if entry == DEFAULT:
                probe: Probe | None = found.probe
            else:
                try:
                    probe = self._ask(entry, ways, self._anywhere[1 - number], several)
                except OutOfBudget:
                    self._undecided.append(Undecided(entry, None, f"{TOO_MANY}, of unroutable keys"))
                    continue
            if probe is not None and (known is None or probe.cost < known.cost):
                known = self._lost[entry, number] = probe

    def _share(self, number: int, message: Message, queue: str) -> Fraction | None:
        outcomes = self._trials[number].outcomes(message)
        if outcomes is None:
            return None
        share = shares(outcomes).get(queue, Fraction(0))
        unknown = any(name.startswith("?") for queues in outcomes for name in queues)
        return None if unknown and share != 1 else share

    def _leads_to_choices(self, entry: str) -> bool:
        if entry not in self._chooses:
            self._chooses[entry] = any(
                not self._loose.isdisjoint(side.graph.downstream([entry])) for side in self._sides if self._loose
            )
        return self._chooses[entry]

    def _choices(self, findings: Sequence[_Finding]) -> Iterator[Choice]:
        if not self._loose:
            return
        unsettled: set[str | None] = {found.entry for found in findings}
        unsettled |= {undecided.exchange for undecided in self._undecided if undecided.destination is not None}
        # Where all exchanges are undecided to some end, so is what any of these makes of a message.
        affected = sorted(self._loose) if None in unsettled else self._affected_choices(unsettled)
        told: dict[tuple[str, str], Choice] = {}
        for found in findings:
            if found.end.kind == "exchange" and any(side.publishable(found.entry) for side in self._sides):
                if self._is_over():
                    self._undecided.append(Undecided(found.entry, found.end, OUT_OF_BUDGET))
                    continue
                choice = self._choice(found.entry, found.end.name, found.probe)
                if choice.certain or (found.entry, found.end.name) not in told:
                    told[found.entry, found.end.name] = choice
        for name in affected:
            end = Destination("exchange", name)
            if self._is_over():
                self._undecided.append(Undecided(None, end, OUT_OF_BUDGET))
                continue
            both = self._both_ways(name)
            for entry in sorted(both[0].exchanges | both[1].exchanges):
                if not any(side.publishable(entry) for side in self._sides):
                    continue
                known = told.get((entry, name))
                if known is not None and known.certain:
                    continue
                for number in (1, 0):
                    if not self._sides[number].publishable(entry):
                        continue
                    try:
                        probe = self._ask(entry, both[number], None, [Way()])
                    except OutOfBudget:
                        self._undecided.append(Undecided(entry, end, TOO_MANY))
                        continue
                    if probe is not None:
                        choice = self._choice(entry, name, probe)
                        if choice.certain or (entry, name) not in told:
                            told[entry, name] = choice
        yield from (told[key] for key in sorted(told))

    def _affected_choices(self, unsettled: AbstractSet[str | None]) -> list[str]:
        before, after = self._sides
        affected = {name for name in self._loose if way_of_choosing(before, name) != way_of_choosing(after, name)}
        affected |= {name for name in self._loose if self._onwards[name] & unsettled}
        while True:
            more = {
                name
                for name in self._loose - affected
                if any(
                    other in affected or any(other in ways.exchanges for ways in self._ways_to(affected))
                    for other in self._onwards[name]
                )
            }
            if not more:
                return sorted(affected)
            affected |= more

    def _ways_to(self, names: Iterable[str]) -> Iterator[Ways]:
        for name in names:
            yield from self._both_ways(name)

    def _choice(self, entry: str, name: str, probe: Probe) -> Choice:
        exchanges = tuple(side.topology.exchanges.get(name) for side in self._sides)
        exchange = exchanges[1] or exchanges[0]
        first: tuple[Message, list[dict[str, Fraction] | None]] | None = None
        by = "unknown" if exchange is None else choosing(exchange)
        for message in samples(_message(entry, probe), self._sides if by in TRIED else (), name):
            outcomes = [trial.outcomes(message) for trial in self._trials]
            told = [None if found is None else shares(found) for found in outcomes]
            unknown = any(queue.startswith("?") for found in told if found is not None for queue in found)
            certain = None not in outcomes and outcomes[0] != outcomes[1] and not unknown
            if certain or first is None:
                first = message, told
            if certain or by not in TRIED:
                break
        assert first is not None  # there is always one sample  # noqa: S101
        ratios = [None if found is None else tuple(found.items()) for found in first[1]]
        return Choice(entry, name, by, first[0], ratios[0], ratios[1], certain)


def _place_of(undecided: Undecided) -> tuple[bool, str, tuple[str, ...], str]:
    return undecided.exchange is None, undecided.exchange or "", undecided.destination or (), undecided.reason


def _message(entry: str, probe: Probe) -> Message:
    return Message(entry, probe.key, dict(probe.headers))
