"""A growing array has what was appended and not cut off."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bindings.counts.columnar.arrays.growing import GrowingArray
from tests.support.tiers import examples


@examples(50)
@given(st.lists(st.one_of(st.integers(0, 3000), st.floats(0, 1))))
def test_a_growing_array_is_the_list_of_what_was_appended(steps: list[int | float]) -> None:
    """A whole number appends as many items, a share cuts the array to it."""
    array = GrowingArray(np.int32)
    expected: list[int] = []
    for step in steps:
        if isinstance(step, int):
            more = [*range(len(expected), len(expected) + step)]
            array.append(np.array(more, np.int64))
            expected += more
        else:
            del expected[int(step * len(expected)) :]
            array.cut(len(expected))
        assert array.items.tolist() == expected
        assert len(array) == len(expected)
