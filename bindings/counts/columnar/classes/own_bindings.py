"""Find the outcomes of many key classes at once whose messages take only bindings of the exchange of publication.

The key class says which of these bindings match. If all of them lead to queues, they are the outcome, and the router
need not be asked. The work is done in columns of pairs of a key class and a binding: there may be a hundred thousand
outcomes of a hundred bindings each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from bindings.counts.columnar.arrays.ranges import compute_offsets, expand_ranges
from bindings.counts.outcome import Outcome, sort_bindings
from exchange.arrays.table import KeyArray
from exchange.kinds import Decider, can_delay, find_kind
from exchange.routing.columns.key_classes import KeyClasses, MetConditions
from exchange.topology.topology import Topology

Indices = npt.NDArray[np.int64]


class OwnBindings:
    """The bindings of exchanges that only compare keys, by the conditions of key classes."""

    def __init__(self, topology: Topology, key_classes: KeyClasses) -> None:
        self._key_classes: Final = key_classes
        bindings = sort_bindings(topology)
        self._of_key: Final[dict[tuple[str, str], list[int]]] = {}
        """Exchange that only compares keys, and key of bindings -> their numbers."""
        compares = {n for n, each in topology.exchanges.items() if n and find_kind(each).decider is Decider.KEY}
        for number, binding in enumerate(bindings):
            if binding.source in compares and not can_delay(topology.exchanges[binding.source]):
                self._of_key.setdefault((binding.source, binding.routing_key), []).append(number)
        ends = [binding.destination for binding in bindings]
        self._goes_on: Final = np.array(
            [end.kind == "exchange" and end.name in topology.exchanges for end in ends], np.bool_
        )
        """Number of a binding -> whether it leads to another exchange."""
        self._queues: Final = sorted({end.name for end in ends if end.kind == "queue" and end.name in topology.queues})
        ranks = {name: rank for rank, name in enumerate(self._queues)}
        self._queue_of: Final = np.array(
            [ranks.get(end.name, -1) if end.kind == "queue" else -1 for end in ends], np.int64
        )
        """Number of a binding -> index of the queue that it leads to; -1 if it leads to an exchange or nowhere."""
        self._of_groups: Final[dict[str, tuple[Indices, Indices]]] = {}
        """Exchange of publication -> offsets, for each group of conditions, and numbers of its bindings in groups."""

    def list_outcomes(self, key_classes: KeyArray) -> list[Outcome | None]:
        """Return the outcome of each key class; None if it meets none of the bindings, or another exchange routes, too.

        No key class may be ``NO_CLASS``.
        """
        outcomes: list[Outcome | None] = [None] * len(key_classes)
        for met in self._key_classes.conditions_of(key_classes):
            self._list(met, outcomes)
        return outcomes

    def _list(self, met: MetConditions, outcomes: list[Outcome | None]) -> None:
        name, number = met.exchange, len(self._queue_of)
        if not number:
            return
        pairs = self._pair(met)
        pairs.sort()
        rows, bindings = np.divmod(pairs, number)
        own = np.bincount(rows, minlength=len(met.classes)) > 0
        own[rows[self._goes_on[bindings]]] = False
        queues = self._queue_of[bindings]
        got = np.sort((rows * number + queues)[queues >= 0])
        got = got[np.diff(got, prepend=-1) != 0]
        ends = compute_offsets(rows, len(met.classes)).tolist()
        queue_ends = compute_offsets(got // number, len(met.classes)).tolist()
        listed, names = bindings.tolist(), [self._queues[queue] for queue in (got % number).tolist()]
        passed, classes = (name,), met.classes.tolist()
        for row in np.flatnonzero(own).tolist():
            queues_of_row = tuple(names[queue_ends[row] : queue_ends[row + 1]])
            taken = tuple(listed[ends[row] : ends[row + 1]])
            outcomes[classes[row]] = Outcome(name, queues_of_row, taken, passed, (), bool(queues_of_row))

    def _pair(self, met: MetConditions) -> Indices:
        """Return the pairs of a row of conditions and a binding that it takes: the row, times all bindings, plus it."""
        if met.exchange not in self._of_groups:
            numbers = [self._of_key.get(each, ()) if each[0] == met.exchange else () for each in met.groups]
            self._of_groups[met.exchange] = _join(numbers)
        offsets, bindings = self._of_groups[met.exchange]
        width = len(self._queue_of)
        parts = [met.rows[which] * width + bindings[at] for which, at in expand_ranges(offsets, met.members)]
        for row, conditions in met.literals.items():
            taken = [self._of_key.get(each, ()) for each in conditions if each[0] == met.exchange]
            parts += [np.array(numbers, np.int64) + row * width for numbers in taken]
        return np.concatenate([np.zeros(0, np.int64), *parts])


def _join(lists: Sequence[Sequence[int]]) -> tuple[Indices, Indices]:
    """Return where each of the lists begins and the last one ends, and all of them as one."""
    offsets = np.cumsum([0, *map(len, lists)])
    return offsets, np.array([number for each in lists for number in each], np.int64)
