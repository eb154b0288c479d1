"""Turns: never more than allowed at work, one of a key at a time, in the order of arrival, and all get their turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.dispatch.turns import ConcurrentTurns


@given(
    st.integers(1, 4),
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from([None, "a", "b", "c"])),
            st.tuples(st.just("leave"), st.integers(0, 3)),
        )
    ),
)
def test_lanes_equal_the_obvious_search(concurrency: int, steps: list[tuple[str, object]]) -> None:
    """The oracle: of all that wait, the first whose key has nothing at work; counted each time."""
    turns: ConcurrentTurns[int] = ConcurrentTurns(concurrency)
    waiting: list[tuple[int, object]] = []
    at_work: list[tuple[int, object]] = []
    started: list[int] = []
    number = 0
    for step, value in steps:
        if step == "add":
            waiting.append((number, value))
            turns.add(number, value)
            number += 1
        elif at_work:
            item = at_work.pop(int(value) % len(at_work))  # type: ignore[call-overload]
            turns.leave(item[1])
        while (item := turns.start()) is not None:  # type: ignore[assignment]
            busy = {key for _, key in at_work if key is not None}
            assert len(at_work) < concurrency
            assert item in waiting
            assert item[1] not in busy
            assert item == next(each for each in waiting if each[1] == item[1])  # the first of its key
            waiting.remove(item)
            at_work.append(item)
            started.append(item[0])
        busy = {key for _, key in at_work if key is not None}
        assert len(at_work) == concurrency or all(key in busy for _, key in waiting)  # none idles that could start
        assert (turns.at_work, turns.waiting) == (len(at_work), len(waiting))
    assert sorted(turns.clear()) == [item for item, _ in waiting]
    while at_work:
        turns.leave(at_work.pop()[1])
    assert (turns.start(), turns.at_work, turns.waiting) == (None, 0, 0)
    turns.add(-1, "a")
    assert turns.start() == (-1, "a")


def test_no_concurrency_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        ConcurrentTurns(0)
