"""What the questions of a comparison share: the two sides, the steps and the time left, and what stays undecided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from bindings.analysis.crawl import Budget, Deadline
from bindings.diffing.comparison.conditions import Probe
from bindings.diffing.comparison.meaning import UndecidedQuestion
from bindings.diffing.comparison.paths import PathConditions
from bindings.diffing.comparison.search import Demand, find_shortest_message
from bindings.diffing.comparison.sides import Side, Ways
from exchange.entities.entities import Destination
from exchange.kinds import find_kind
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology
from exchange.values.message import Message

TOO_MANY_CASES: Final = "too many cases to look at"
OUT_OF_BUDGET: Final = "the budget of the comparison was used up"


class Divergence(NamedTuple):
    """A message that gets from an exchange to an end on one side only."""

    entry: str
    end: Destination
    number: int
    """The side on which it gets there: 0 is before, 1 after."""
    probe: Probe
    changed: tuple[tuple[PathConditions, ...], ...]
    """The changed paths that such messages may take, by changed leg; those of the shortest message first."""

    @property
    def message(self) -> Message:
        """The message as it is published."""
        return self.probe.message(self.entry)


class Inquiry:
    """The two sides of a comparison, and questions about them.

    ``steps`` bounds the cost of one question, ``total`` that of all; after the ``deadline`` none is answered any more.
    """

    def __init__(self, before: Topology, after: Topology, steps: int, total: int, deadline: Deadline) -> None:
        graphs = TopologyGraph(before), TopologyGraph(after)
        self.loose: Final = frozenset(
            name
            for graph in graphs
            for name, exchange in graph.topology.exchanges.items()
            if name in graph.unsure or not find_kind(exchange).decider.has_conditions
        )
        """Exchanges that do not decide by conditions on one side at least."""
        self.sides: Final = Side(graphs[0], self.loose), Side(graphs[1], self.loose)
        self.undecided: Final[list[UndecidedQuestion]] = []
        self.deadline = deadline
        """The deadline of the present question; no later than that of the whole comparison."""
        self._whole: Final = deadline
        self._steps: Final = steps
        self._left = total

    def allot(self, parts: int) -> None:
        """Limit the next questions to the time left divided by ``parts``, so that later ones have time, too."""
        self.deadline = self._whole.share(parts)

    def is_over(self) -> bool:
        """Return whether no question can be answered any more."""
        return self._left <= 0 or self.deadline.has_passed()

    def give_up(self, entry: str | None, end: Destination | None, reason: str = OUT_OF_BUDGET) -> None:
        """Record as undecided whether messages from an exchange get to an end; None stands for all of them."""
        self.undecided.append(UndecidedQuestion(entry, end, reason))

    @contextmanager
    def budget(self) -> Iterator[Budget]:
        """Yield the budget of one question; at its end, subtract what it has spent from the total."""
        granted = min(self._steps, self._left)
        budget = Budget(granted, self.deadline)
        try:
            yield budget
        finally:
            self._left -= granted - max(budget.left, 0)

    def ask(
        self, entry: str, there: Ways | None, not_there: Ways | None, paths: Iterable[PathConditions]
    ) -> Probe | None:
        """Return a shortest message that meets the conditions of one of these paths; see `find_shortest_message`.

        Raises OutOfBudget.
        """
        with self.budget() as budget:
            return find_shortest_message(entry, there, not_there, [Demand(path.matching) for path in paths], budget)

    def is_published(self, entry: str) -> bool:
        """Return whether publishers may use an exchange on either side."""
        return any(entry in side.published for side in self.sides)
