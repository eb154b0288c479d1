"""Assignments are even, and no even assignment moves fewer partitions: compared with all that there are."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition.slots import assign_sticky, count_moves

MEMBERS = st.sets(st.sampled_from("abcdefghijkl"), min_size=1)


def owners(assignment: dict[str, tuple[int, ...]]) -> list[str]:
    """Return the owner of each partition; it fails if one has none, or two."""
    owner = {partition: name for name, mine in assignment.items() for partition in mine}
    assert sum(map(len, assignment.values())) == len(owner)
    return [owner[partition] for partition in range(len(owner))]


@given(
    st.integers(0, 6),
    st.sets(st.sampled_from("abc"), min_size=1),
    st.dictionaries(st.sampled_from("abcd"), st.sets(st.integers(0, 7))),
)
def test_no_even_assignment_moves_fewer_partitions(
    partitions: int, members: set[str], previous: dict[str, set[int]]
) -> None:
    names = sorted(members)
    mine = owners(assign_sticky(partitions, members, previous))
    had: dict[int, str] = {}
    for name in names:
        for partition in previous.get(name, ()):
            had.setdefault(partition, name)

    def moves(owner: tuple[str, ...] | list[str]) -> int:
        return sum(had.get(partition, name) != name for partition, name in enumerate(owner))

    def is_even(owner: tuple[str, ...] | list[str]) -> bool:
        sizes = Counter(owner)
        counts = [sizes[name] for name in names]
        return max(counts) - min(counts) <= 1

    assert is_even(mine)
    assert moves(mine) == min(moves(owner) for owner in product(names, repeat=partitions) if is_even(owner))


@given(st.integers(0, 200), MEMBERS, MEMBERS)
def test_one_change_moves_no_more_than_a_share(partitions: int, before: set[str], after: set[str]) -> None:
    first = assign_sticky(partitions, before)
    second = assign_sticky(partitions, after, first)
    changed = len(before ^ after)
    assert count_moves(first, second) <= changed * (ceil(partitions / min(len(before), len(after))) + 1)


@given(st.integers(0, 200), MEMBERS)
def test_nothing_moves_if_nobody_comes_or_goes(partitions: int, members: set[str]) -> None:
    first = assign_sticky(partitions, members)
    assert assign_sticky(partitions, sorted(members, reverse=True), first) == first


@given(st.integers(0, 100), st.integers(0, 100), MEMBERS)
def test_new_partitions_move_none_of_the_others(before: int, more: int, members: set[str]) -> None:
    first = assign_sticky(before, members)
    assert count_moves(first, assign_sticky(before + more, members, first)) == 0


def test_without_members_nothing_is_assigned() -> None:
    assert assign_sticky(3, []) == {}


def test_a_negative_number_of_partitions_is_refused() -> None:
    with pytest.raises(InputError):
        assign_sticky(-1, ["a"])
