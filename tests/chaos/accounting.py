"""The account of numbered messages: which were lost, which arrived out of order, and the number of duplicates.

Message n has the key n modulo the number of keys. So the numbers of each key rise, and its *first* arrivals must rise,
too. Later arrivals of a number are duplicates, in any order: they are only counted, as delivery is at least once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

NEVER = -1
AROUND = 2
"""Number of neighbours of the same key that are shown on each side of a wrong number."""


def key_of(number: int, keys: int) -> str:
    """Return the routing key of a message, which is also its key for the order."""
    return f"key.{number % keys}"


class Account:
    """The account of one run, from its arrivals in their order."""

    def __init__(self, messages: int, keys: int) -> None:
        self.messages = messages
        self.keys = keys
        self.arrivals = 0
        self.duplicates = 0
        self.out_of_order: list[int] = []
        """Numbers that first arrived after a higher one of their key."""
        self.strange: list[tuple[str, bytes]] = []
        """Keys and bodies that were never sent."""
        self._first = [NEVER] * messages
        self._last = [NEVER] * keys

    def take(self, arrivals: Iterable[tuple[str, bytes]]) -> None:
        """Add arrivals, keys with bodies, in their order; only the order within each key matters."""
        for key, body in arrivals:
            self.arrivals += 1
            number = int(body) if body.isdigit() else NEVER
            if not 0 <= number < self.messages or key != key_of(number, self.keys):
                self.strange.append((key, body))
            elif self._first[number] != NEVER:
                self.duplicates += 1
            else:
                self._first[number] = self.arrivals
                line = number % self.keys
                if number < self._last[line]:
                    self.out_of_order.append(number)
                self._last[line] = max(number, self._last[line])

    @property
    def lost(self) -> list[int]:
        """Numbers that never arrived."""
        return [number for number, arrival in enumerate(self._first) if arrival == NEVER]

    def excuse(self, confirmed: int) -> list[int]:
        """Count numbers as in order that came late, as a broker lost their first arrivals with what follows it lost.

        Return these: those behind the numbers that never arrived. None, unless the broker has ``confirmed`` so many
        more writings than have arrived that it has lost all numbers up to the last of these.
        """
        if not self.lost or not self.out_of_order:
            return []
        first, last = self.lost[0], max(self.out_of_order)
        again = [number for number in self.out_of_order if number > self.lost[-1]]
        if confirmed - self.arrivals <= last - first:
            return []
        self.out_of_order = [number for number in self.out_of_order if number not in again]
        return again

    def problems(self, bound: int, *, finished: bool = True, most: int = 10) -> Iterator[str]:
        """Yield the problems and their positions; of each kind at most ``most``.

        ``bound`` duplicates are allowed. After a run that is not ``finished``, no message counts as lost.
        """
        for what, numbers in (("lost", self.lost if finished else []), ("out of order", self.out_of_order)):
            for number in numbers[:most]:
                yield f"{what}: {key_of(number, self.keys)} number {number}; its key: {self._around(number)}"
            if len(numbers) > most:
                yield f"{what}: and {len(numbers) - most:,} more"
        for key, body in self.strange[:most]:
            yield f"strange: {body[:40]!r} was never sent with the key {key!r}"
        if self.duplicates > bound:
            yield f"duplicates: {self.duplicates:,}, and at most {bound:,} were promised"

    def _around(self, number: int) -> str:
        """Describe when the neighbours of a number first arrived."""
        reach = AROUND * self.keys
        near = range(number - reach, number + reach + 1, self.keys)
        return ", ".join([
            f"{each} {'never' if self._first[each] == NEVER else f'as arrival {self._first[each]:,}'}"
            for each in near
            if 0 <= each < self.messages
        ])  # fmt: skip
