"""Number the outcomes of a router: each route as the numbers of its queues, so that most are made only when read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import IntArray
from exchange.errors import BrokerError
from exchange.patterns.columns.set_numbers import SetNumbers
from exchange.patterns.columns.signatures import NumberSets
from exchange.routing.route import Route


class _Special(NamedTuple):
    """An outcome that is more than a set of queues."""

    route: Route
    error: BrokerError | None


class Outcomes:
    """The outcomes so far, numbered from 1: sets of queues, routes with undecided exchanges, and refusals.

    `numbering` adds at most ``limit`` sets of queues. No number is ever used for another outcome, so outcomes may be
    read while another thread adds some.
    """

    def __init__(self, queues: Collection[str], limit: int) -> None:
        self.queues: Final = sorted(queues)
        """Number of a queue -> its name. Routes have the names of their queues in this order."""
        self._ranks: Final = {name: number for number, name in enumerate(self.queues)}
        self._sets: Final = SetNumbers(limit)
        """Outcome -> its queues. A special outcome is a set of one number that no queue has, so it is distinct, too."""
        self._special: Final[dict[int, _Special]] = {}
        self._special_numbers: Final[dict[Route | str, int]] = {}

    def __len__(self) -> int:
        """Return the number of outcomes so far; it is also the highest number."""
        return len(self._sets)

    def number(self, route: Route) -> int:
        """Return the number of a route without placements."""
        if route.undecided or route.delayed is not None:
            return self._number_special(route, _Special(route, None))
        return self._sets.number_of([self._ranks[name] for name in route.queues])

    def number_refusal(self, error: BrokerError) -> int:
        """Return the number of a refusal: equal if type and text are."""
        return self._number_special(f"{type(error).__name__}: {error}", _Special(Route(()), error))

    def numbering(self, groups: Sequence[Collection[str]]) -> NumberSets:
        """Return the function that numbers sets of groups as outcomes, given the existing queues of each group."""
        ranks = np.array([self._ranks[name] for group in groups for name in group], np.int64)
        sizes = np.array(list(map(len, groups)), np.int64)
        if (sizes == 1).all():
            return lambda size, which, members: self._sets.number(size, which, ranks[members])
        starts = np.cumsum(sizes) - sizes

        def number(size: int, which: npt.NDArray[np.int64], members: npt.NDArray[np.int64]) -> IntArray:
            counts = sizes[members]
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            return self._sets.number(size, np.repeat(which, counts), ranks[np.repeat(starts[members], counts) + within])

        return number

    def route(self, number: int) -> Route:
        """Return the route of an outcome; of a refusal, the empty route."""
        special = self._special.get(number)
        return Route(tuple(self._names(number))) if special is None else special.route

    def errors(self, numbers: npt.NDArray[np.integer]) -> dict[int, BrokerError]:
        """Return the refusals among these ascending outcomes: index -> error."""
        return {at: each.error for at, each in self._special_among(numbers) if each.error is not None}

    def undecided(self, numbers: npt.NDArray[np.integer]) -> dict[int, tuple[str, ...]]:
        """Return the undecided exchanges of these ascending outcomes: index -> names, where there are any."""
        return {at: each.route.undecided for at, each in self._special_among(numbers) if each.route.undecided}

    def queues_of(self, numbers: npt.NDArray[np.intp]) -> tuple[IntArray, IntArray]:
        """Return the queues of these outcomes, as their numbers one after another, and where those of each begin.

        The last offset is the end.
        """
        parts = [self._queues_of(number) for number in numbers.tolist()]
        offsets = np.cumsum([0, *map(len, parts)]).astype(np.int32)
        return np.concatenate([np.zeros(0, np.int32), *parts]), offsets

    def reach(self, numbers: npt.NDArray[np.intp], queue: str) -> npt.NDArray[np.bool_]:
        """Return whether each of these outcomes has this queue."""
        queues, offsets = self.queues_of(numbers)
        result = np.zeros(len(numbers), np.bool_)
        positions = np.flatnonzero(queues == self._ranks.get(queue, -1))
        result[np.searchsorted(offsets, positions, "right") - 1] = True
        return result

    def _special_among(self, numbers: npt.NDArray[np.integer]) -> list[tuple[int, _Special]]:
        known = np.fromiter(list(self._special), np.int64)
        return [(at, self._special[int(numbers[at])]) for at in np.flatnonzero(np.isin(numbers, known)).tolist()]

    def _number_special(self, identity: Route | str, special: _Special) -> int:
        number = self._special_numbers.get(identity)
        if number is None:
            number = self._sets.number_of([len(self.queues) + len(self._special)])
            self._special_numbers[identity] = number
            self._special[number] = special
        return number

    def _queues_of(self, number: int) -> IntArray:
        special = self._special.get(number)
        if special is None:
            return self._sets.elements(number)
        return np.array([self._ranks[name] for name in special.route.queues], np.int32)

    def _names(self, number: int) -> list[str]:
        return [self.queues[rank] for rank in self._sets.elements(number).tolist()]
