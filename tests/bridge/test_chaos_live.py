"""A short chaos: what ``make chaos`` shows of many messages and faults, of fewer, for each pair, on live brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.brokers import Brokers
from tests.chaos.places import PAIRS
from tests.chaos.plan import Kind
from tests.chaos.run import Amount, run
from tests.chaos.table import told
from tests.servers import Unavailable, missing

pytestmark = pytest.mark.live

SHORT = Amount(messages=8_000, keys=80, kills=2, restarts=1, cuts=3, window=200)
SEED = 6


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with Brokers() as started:
        yield started


@pytest.mark.parametrize("name", PAIRS)
def test_whatever_fails_nothing_is_lost_or_out_of_order_and_few_come_twice(
    name: str, brokers: Brokers, tmp_path: Path
) -> None:
    try:
        outcome = run(PAIRS[name], SHORT, SEED, brokers, tmp_path, lambda _: None)
    except Unavailable as reason:
        missing(str(reason))
    print("\n".join(told([outcome])))
    assert not outcome.problems
    assert outcome.faults.total() == SHORT.faults
    assert (outcome.faults[Kind.KILL], outcome.faults[Kind.RESTART]) == (SHORT.kills, SHORT.restarts)
    assert min(outcome.in_flight) > 0
    assert outcome.account is not None
    assert outcome.account.arrivals == SHORT.messages + outcome.account.duplicates
