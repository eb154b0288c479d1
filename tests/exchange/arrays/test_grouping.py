"""Rows are grouped by key where that costs less than it saves, which two samples that lie apart decide."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from exchange.arrays import grouping
from exchange.arrays.grouping import group_keys

ROWS = 1 << 17


def keys_of(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Return a key for each number."""
    return pa.array([f"order.{number}.created" for number in numbers.tolist()])


@pytest.mark.parametrize(("distinct", "grouped"), [(100, True), (30_000, True), (60_000, True), (10**9, False)])
def test_keys_that_come_again_after_many_others_repeat(distinct: int, grouped: bool) -> None:
    """Of 60,000 keys in any order, a sample of 8,192 has hardly one twice; of all rows it has each key twice."""
    keys = keys_of(np.random.default_rng(1).integers(0, distinct, ROWS))
    found = group_keys(keys, None, 1)
    assert (found is not None) == grouped
    if found is not None:
        assert found[0].take(pa.array(found[2])).equals(keys)
        assert len(found[0]) == len(keys.unique())


def test_keys_that_repeat_only_near_to_each_other_are_not_encoded() -> None:
    """One of ten keys comes twice, one row after the other: nine tenths are distinct, wherever one looks."""
    numbers = np.arange(ROWS)
    numbers[::10] = numbers[1::10][: len(numbers[::10])]
    assert not grouping._repeat(keys_of(numbers), None, grouping.WORTH)


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_few_rows_are_grouped_if_a_key_repeats(rows: int) -> None:
    found = group_keys(pa.array(["a"] * rows, pa.string()), None, 1)
    assert (found is None) == (rows == 1)
