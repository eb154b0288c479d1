"""Slots move between old and new partitions only, and the partitions stay even."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.limits import SLOTS
from exchange.partition.slots import find_moved_slots, place_slots

SIZES = st.integers(1, 300).flatmap(cache(lambda slots: st.tuples(st.just(slots), *[st.integers(1, slots)] * 2)))


@given(SIZES)
def test_each_partition_has_its_even_share_of_slots(sizes: tuple[int, int, int]) -> None:
    slots, partitions, _ = sizes
    shares = Counter(place_slots(slots, partitions))
    assert set(shares) == set(range(partitions))
    assert max(shares.values()) - min(shares.values()) <= 1


@given(SIZES)
def test_slots_move_only_to_new_partitions_or_from_removed_ones(sizes: tuple[int, int, int]) -> None:
    slots, before, after = sizes
    stays = min(before, after)
    for old, new in find_moved_slots(slots, before, after).values():
        assert (old < stays <= new) if after > before else (new < stays <= old)


@given(SIZES)
def test_no_more_slots_move_than_the_new_partitions_need(sizes: tuple[int, int, int]) -> None:
    slots, before, after = sizes
    moved = find_moved_slots(slots, before, after)
    placed = place_slots(slots, max(before, after))
    assert len(moved) == sum(partition >= min(before, after) for partition in placed)


@given(SIZES)
def test_the_way_back_moves_the_same_slots(sizes: tuple[int, int, int]) -> None:
    slots, before, after = sizes
    back = {slot: (new, old) for slot, (old, new) in find_moved_slots(slots, before, after).items()}
    assert find_moved_slots(slots, after, before) == back


@pytest.mark.parametrize(("slots", "partitions"), [(0, 1), (SLOTS + 1, 1), (8, 0), (8, 9), (-1, -1)])
def test_numbers_that_cannot_be_are_refused(slots: int, partitions: int) -> None:
    with pytest.raises(InputError):
        place_slots(slots, partitions)
