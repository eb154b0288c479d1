"""Helpers of ``+`` for tallies, comparisons and verifications, which add only if they are for the same topologies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from exchange.errors import InputError


class Addable(Protocol):
    """A value with ``+``."""

    def __add__(self, other: Any, /) -> Any: ...


K = TypeVar("K")
V = TypeVar("V", bound=Addable)


def sum_by_key(*counts: Mapping[K, V] | Iterable[tuple[K, V]]) -> dict[K, V]:
    """Return key -> sum of its values in all ``counts``."""
    total: dict[K, V] = {}
    for each in counts:
        for key, value in each.items() if isinstance(each, Mapping) else each:
            known = total.get(key)
            total[key] = value if known is None else known + value
    return total


def check_same(what: str, one: tuple[str, ...], other: tuple[str, ...], way_out: str) -> None:
    """Raise InputError if two counts are for different topologies, given by their fingerprints."""
    if one != other:
        names = " and ".join([" to ".join([fingerprint[:12] for fingerprint in each]) for each in (one, other)])
        raise InputError(f"these {what} are for different topologies ({names}): their counts do not add; {way_out}")
