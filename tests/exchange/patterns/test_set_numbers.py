"""Sets of numbers get equal numbers if they are equal, whatever the order and the repeats of their elements."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exchange.patterns.columns.set_numbers import UNKNOWN, SetNumbers

SETS = st.lists(st.lists(st.integers(0, 300), max_size=6), max_size=12)


@given(SETS, SETS, st.sampled_from([0, 1, 3, 100]))
def test_equal_sets_have_equal_numbers_up_to_the_limit(
    first: list[list[int]], more: list[list[int]], limit: int
) -> None:
    numbers = SetNumbers(limit)
    known: dict[frozenset[int], int] = {}
    for lists in (first, more, first):
        pairs = [(at, element) for at, elements in enumerate(lists) for element in elements][::-1]
        which, elements = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
        found = numbers.number(len(lists), which, elements).tolist()
        for one, number in zip(map(frozenset, lists), found, strict=True):
            if number == UNKNOWN:
                assert one not in known
                assert len(known) == limit
            else:
                assert known.setdefault(one, number) == number
                assert numbers.elements(number).tolist() == sorted(one)
        assert len(numbers) == len(known) == len(set(known.values())) <= limit
    for one in map(frozenset, first):
        assert numbers.elements(numbers.number_of(sorted(one))).tolist() == sorted(one)
