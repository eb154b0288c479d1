"""Faults are as many as asked for, spread over the messages, and the same for the same seed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.plan import ENDED_BY_TIME, Kind, plan
from tests.chaos.run import Amount

ENDED = (Kind.KILL, Kind.RESTART, Kind.BROKER_KILL)
counts = st.integers(0, 60)


@given(st.dictionaries(st.sampled_from(ENDED), counts), counts, st.integers(1, 2), st.integers())
def test_the_plan_has_as_many_faults_as_asked_for_in_order(
    ended: dict[Kind, int], cuts: int, sides: int, seed: int
) -> None:
    faults = plan(200_000, ended, cuts, sides, Random(seed))
    found = Counter(fault.kind for fault in faults)
    assert {kind: found[kind] for kind in ended} == ended
    assert len(faults) == sum(ended.values()) + cuts
    assert max(found[kind] for kind in (Kind.CUT, Kind.STALL, Kind.SLOW)) <= cuts // 3 + 1
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert all(0 < fault.at < 200_000 and fault.side < sides for fault in faults)
    assert faults == plan(200_000, ended, cuts, sides, Random(seed))


@given(st.integers())
def test_each_tenth_of_the_run_and_each_side_has_its_share_of_faults(seed: int) -> None:
    faults = plan(200_000, Amount().process_faults, 50, 2, Random(seed))
    tenths = Counter(fault.at * 10 // 200_000 for fault in faults)
    assert all(7 <= tenths[tenth] <= 9 for tenth in range(10))
    for kind in Kind:
        sides = Counter(fault.side for fault in faults if fault.kind is kind)
        assert abs(sides[0] - sides[1]) <= 1


@given(st.integers())
def test_faults_come_together_only_where_one_lasts(seed: int) -> None:
    faults = plan(200_000, Amount().process_faults, 50, 2, Random(seed))
    for before, fault in pairwise(faults):
        if fault.at == before.at:
            assert before.kind in ENDED_BY_TIME
            assert fault.kind not in ENDED_BY_TIME
            assert before.seconds > 0
