"""Compare two topologies: find the messages that go elsewhere when one becomes the other.

Every claim is about messages with one routing key (no CC or BCC header). Invariant: an effect comes with a shortest
message that shows it, and where nothing is claimed, nothing differs: that is proved for all keys and headers, or else
stands under ``undecided``; unless parts of a topology were not read, which stand under ``unread``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from bindings.analysis.crawl import Deadline, OutOfBudget
from bindings.diffing.comparison.changes import ConditionChanges, Start
from bindings.diffing.comparison.choices import ChoiceComparison
from bindings.diffing.comparison.conditions import Probe
from bindings.diffing.comparison.delayed import add_delayed, has_delays, make_view, without_readers
from bindings.diffing.comparison.inquiry import TOO_MANY_CASES, Divergence, Inquiry
from bindings.diffing.comparison.meaning import Access, Effect, Meaning, UndecidedQuestion, UnroutableChange
from bindings.diffing.comparison.partitions import find_partition_changes
from bindings.diffing.comparison.paths import PathConditions, find_changed_paths, find_paths
from bindings.diffing.comparison.sides import DEFAULT, Anywhere, Ways
from bindings.diffing.comparison.terms import describe
from exchange.entities.entities import Binding, Destination
from exchange.text.display import count_noun
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread

MAX_STEPS: Final = 200_000
"""Maximum cost of one question about an exchange and a queue, see `bindings.analysis.crawl.Budget`."""
TOTAL: Final = 100_000_000
"""Maximum cost of all questions together: some minutes."""

SHARE: Final = 4
"""One destination may take this many times its equal share of the time left."""


def compare(
    before: Topology,
    after: Topology,
    *,
    upgraded: bool = False,
    keeps_refused: bool = False,
    steps: int = MAX_STEPS,
    total: int = TOTAL,
    deadline: Deadline | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Meaning:
    """Return which messages go elsewhere after the change.

    If the broker is ``upgraded`` between the two, as it is between two profiles, nothing is proved of an exchange whose
    choice depends on the broker's metadata store: the upgrade may change that, and each start of a node may reorder
    what it has.

    ``steps`` bounds the cost of a question about one exchange and one queue, ``total`` that of all. What is not
    decided within these and before the ``deadline`` is ``undecided``. If an exchange delays messages, those with a
    delay are compared apart. ``progress`` is called with the numbers of destinations compared and to compare. Each
    topology routes by the rules of its own profile.

    Bindings that RabbitMQ refuses are left out, unless the broker ``keeps_refused`` ones, which it has from before an
    upgrade, as it may between two profiles. If the verdict would be another one with them, that is ``undecided``, too.
    """
    upgraded = upgraded or before.profile != after.profile
    deadline = deadline or Deadline()

    def look(first: Topology, second: Topology) -> Meaning:
        return _Comparison(Inquiry(first, second, steps, total, deadline), upgraded=upgraded).compare(progress)

    def ask(first: Topology, second: Topology) -> Meaning:
        if not (has_delays(first) or has_delays(second)):
            return look(first, second)
        meaning = look(without_readers(first), without_readers(second))
        meaning = replace(meaning, unread=find_unread(first, second))
        return add_delayed(meaning, look(make_view(first), make_view(second)))

    refused = {} if upgraded or keeps_refused else {**before.find_refused(), **after.find_refused()}
    if not refused:
        return ask(before, after)
    made = [each.with_parts(bindings=[it for it in each.bindings if it not in refused]) for each in (before, after)]
    return _judge_refused(ask(*made), ask(before, after), [*refused])


def _judge_refused(meaning: Meaning, as_written: Meaning, refused: Sequence[Binding]) -> Meaning:
    """Return what differs without the bindings that RabbitMQ refuses, and whether they would matter."""
    if meaning.verdict == as_written.verdict:
        return meaning
    first, *others = refused
    reason = "RabbitMQ refuses a binding" + (f", as {count_noun(len(others), 'other')}," if others else "")
    reason += ", and the answer is another one for a broker that has it"
    return replace(meaning, undecided=(*meaning.undecided, UndecidedQuestion(first.source, first.destination, reason)))


class _Comparison:
    """One comparison: destination by destination, which messages get there on one side only."""

    def __init__(self, inquiry: Inquiry, *, upgraded: bool) -> None:
        self._inquiry: Final = inquiry
        self._sides: Final = inquiry.sides
        self._changes: Final = ConditionChanges(*inquiry.sides)
        self._choices: Final = ChoiceComparison(inquiry, upgraded=upgraded)
        # Where messages start: at publishers, and at exchanges that loose ends lead them on to.
        beyond = self._choices.beyond
        self._entries: Final = tuple(
            {name for name in side.topology.exchanges if name in side.published or name in beyond}
            for side in inquiry.sides
        )
        self._anywhere: Final = (Anywhere(self._sides[0]), Anywhere(self._sides[1]))
        self._lost: Final[dict[tuple[str, int], Probe]] = {}
        """Exchange and side -> a shortest message that is routed on this side and unroutable on the other."""

    def compare(self, progress: Callable[[int, int], None] | None) -> Meaning:
        """Return all that differs."""
        divergences: list[Divergence] = []
        effects: list[Effect] = []
        inquiry = self._inquiry
        ends = sorted(self._changes.ends())
        for number, end in enumerate(ends):
            if progress is not None:
                progress(number, len(ends))
            # A destination that is hard to decide leaves time for the others.
            inquiry.allot(max(1, (len(ends) - number) // SHARE))
            if inquiry.is_over():
                inquiry.give_up(None, end)
                continue
            both = Ways(self._sides[0], end), Ways(self._sides[1], end)
            for divergence in self._diverge(end, both):
                divergences.append(divergence)
                if end.kind == "queue" and inquiry.is_published(divergence.entry):
                    effects.append(self._effect(divergence, both))
                    self._look_for_unroutable(divergence, both[divergence.number])
        inquiry.allot(1)
        return Meaning(
            tuple(self._access()),
            tuple(sorted(effects, key=lambda e: (e.exchange, e.queue, e.gained))),
            tuple(
                UnroutableChange(entry, number == 0, probe.message(entry))
                for (entry, number), probe in sorted(self._lost.items())
            ),
            tuple(self._choices.compare(divergences)),
            tuple(find_partition_changes(*(side.topology for side in self._sides))),
            tuple(sorted(dict.fromkeys(inquiry.undecided), key=_order_of)),
            find_unread(*(side.topology for side in self._sides)),
        )

    def _access(self) -> Iterator[Access]:
        before, after = self._sides
        for name in sorted({*before.topology.exchanges, *after.topology.exchanges}):
            was, is_ = name in before.published, name in after.published
            if was != is_:
                both = name in before.topology.exchanges and name in after.topology.exchanges
                yield Access(name, is_, "internal" if both else "declared" if is_ else "deleted")

    def _diverge(self, end: Destination, both: tuple[Ways, Ways]) -> Iterator[Divergence]:
        """Yield, for each exchange and side, a shortest message that gets to the end on that side only, if any does."""
        inquiry = self._inquiry
        for number, ways in enumerate(both):
            changed: dict[str, list[list[PathConditions]]] = {}  # entry -> for each changed leg the paths over it
            for start in self._changes.starts(number, ways):
                if inquiry.is_over():
                    inquiry.give_up(None, end)
                    return
                for entry, changed_paths in self._paths_through(ways, start).items():
                    if all(entry in entries for entries in self._entries):
                        changed.setdefault(entry, []).append(changed_paths)
            for entry in (self._entries[number] - self._entries[1 - number]) & ways.exchanges:
                changed[entry] = [self._all_paths(entry, ways)]
            for entry in sorted(changed):
                if inquiry.is_over():
                    inquiry.give_up(None, end)
                    return
                divergence = self._divergence(entry, end, number, both, changed[entry])
                if divergence is not None:
                    yield divergence

    def _paths_through(self, ways: Ways, start: Start) -> dict[str, list[PathConditions]]:
        """Return entry -> the paths that have a changed leg.

        Where those are too many, each entry gets one path instead, which requires only what the leg itself requires:
        all messages that take a path over the leg take this one.
        """
        with self._inquiry.budget() as budget:
            try:
                return find_changed_paths(ways, start, budget)
            except OutOfBudget:
                return {name: [PathConditions(start.demand.all_of)] for name in ways.side.before([start.exchange])}

    def _all_paths(self, entry: str, ways: Ways) -> list[PathConditions]:
        """Return all paths to the end from an exchange at which messages start on one side only."""
        with self._inquiry.budget() as budget:
            try:
                return find_paths(ways, entry, PathConditions(), budget)
            except OutOfBudget:
                return [PathConditions()]

    def _divergence(
        self,
        entry: str,
        end: Destination,
        number: int,
        both: tuple[Ways, Ways],
        changed: Sequence[Sequence[PathConditions]],
    ) -> Divergence | None:
        """Return a shortest message that diverges on one of the changed paths; None if none does."""
        shown: list[tuple[Probe, tuple[PathConditions, ...]]] = []
        for changed_paths in changed:
            try:
                probe = self._inquiry.ask(entry, both[number], self._other_ways(entry, number, both), changed_paths)
            except OutOfBudget:
                self._inquiry.give_up(entry, end, TOO_MANY_CASES)
                continue
            if probe is not None:
                shown.append((probe, tuple(changed_paths)))
        if not shown:
            return None
        shown.sort(key=lambda pair: pair[0].cost)
        return Divergence(entry, end, number, shown[0][0], tuple(changed_paths for _, changed_paths in shown))

    def _other_ways(self, entry: str, number: int, both: tuple[Ways, Ways]) -> Ways | None:
        """Return the ways of the other side; None if no message starts at the entry on that side."""
        return both[1 - number] if entry in self._entries[1 - number] else None

    def _effect(self, divergence: Divergence, both: tuple[Ways, Ways]) -> Effect:
        """Return what a divergence means to a queue: the messages that it gains or loses, with a witness."""
        entry, end, number, _, changed = divergence
        message = divergence.message
        all_changed = [path for changed_paths in changed for path in changed_paths]
        others = self._other_ways(entry, number, both)
        terms = describe(entry, both[number], others, all_changed, self._inquiry.deadline)
        if self._choices.can_be_reached(entry):
            before, after = (self._choices.share(side, message, end.name) for side in (0, 1))
        else:
            before, after = Fraction(number == 0), Fraction(number == 1)
        return Effect(entry, end.name, number == 1, message, terms, before, after)

    def _look_for_unroutable(self, divergence: Divergence, ways: Ways) -> None:
        """Keep a shortest message of a divergence that is unroutable on the other side, if there is one."""
        entry, number, probe = divergence.entry, divergence.number, divergence.probe
        if not all(entry in side.published for side in self._sides):
            return
        known = self._lost.get((entry, number))
        for changed_paths in divergence.changed:
            if known is not None and probe.cost >= known.cost:
                return  # no message of this divergence is shorter
            if entry == DEFAULT:
                lost: Probe | None = probe
            else:
                try:
                    lost = self._inquiry.ask(entry, ways, self._anywhere[1 - number], changed_paths)
                except OutOfBudget:
                    self._inquiry.give_up(entry, None, f"{TOO_MANY_CASES}, of unroutable keys")
                    continue
            if lost is not None and (known is None or lost.cost < known.cost):
                known = self._lost[entry, number] = lost


def _order_of(undecided: UndecidedQuestion) -> tuple[bool, str, tuple[str, ...], str]:
    return undecided.exchange is None, undecided.exchange or "", undecided.destination or (), undecided.reason
