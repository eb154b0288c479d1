"""A short chaos: ``make chaos`` with fewer messages and faults, for each pair, on live brokers.

Most of a run is waiting for what was broken. So two lines of pairs run at the same time, each with brokers of its own:
a restart is a fault of the one pair that it is meant for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle

import pytest

from tests.chaos.kinds import Brokers
from tests.chaos.pairs import PAIRS
from tests.chaos.run import Amount, Outcome, run
from tests.chaos.table import outcome_lines
from tests.support.servers import missing
from tests.support.starting import Unavailable

SHORT = Amount(messages=8_000, keys=80, kills=2, restarts=1, broker_kills=0, cuts=3, window=200)
HARD = replace(SHORT, restarts=0, broker_kills=1)
AMOUNTS = dict(zip(PAIRS, cycle((SHORT, HARD))))
"""A broker's start takes long: each pair sees one, of a broker that was stopped or of one that was killed."""
SEED = 6


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Outcome]]]:
    """Run the pairs that are asked for, in two threads; RocketMQ, which is large, is in only one of them."""
    import testcontainers.core.container  # noqa: F401  which two threads cannot do at once

    asked = {item.callspec.params["name"] for item in request.session.items if item.path == request.path}  # type: ignore[attr-defined]
    with_rocketmq = [name for name in PAIRS if name in asked and "rocketmq" in name]
    without = [name for name in PAIRS if name in asked and "rocketmq" not in name]
    found: dict[str, Future[Outcome]] = {name: Future() for name in asked}
    folder = tmp_path_factory.mktemp("chaos")

    def run_all(names: Sequence[str], brokers: Brokers) -> None:
        for name in names:
            try:
                found[name].set_result(run(PAIRS[name], AMOUNTS[name], SEED, brokers, folder / name, lambda _: None))
            except BaseException as error:  # noqa: BLE001  it is raised in the test
                found[name].set_exception(error)

    with Brokers() as some, Brokers() as others, ThreadPoolExecutor(2) as pool:
        pool.submit(run_all, without, some)
        pool.submit(run_all, with_rocketmq, others)
        yield found


@pytest.mark.parametrize("name", PAIRS)
def test_whatever_fails_no_message_is_lost_or_out_of_order_and_few_are_duplicated(
    name: str, outcomes: Mapping[str, Future[Outcome]]
) -> None:
    try:
        outcome = outcomes[name].result()
    except Unavailable as reason:
        missing(str(reason))
    print("\n".join(outcome_lines([outcome])))
    assert not outcome.problems
    amount = AMOUNTS[name]
    assert outcome.faults.total() == amount.faults
    assert {kind: outcome.faults[kind] for kind in amount.process_faults} == amount.process_faults
    assert min(outcome.in_flight) > 0
    assert outcome.account is not None
    assert outcome.account.arrivals == amount.messages + outcome.account.duplicates
