"""The scenarios of ``make chaos`` that take little time, on live brokers: what broke a bridge once does so no more.

Brokers are started once for all. A fault lasts only until it was seen; `--short` plays them the same way by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.kinds import Brokers
from tests.chaos.scenarios import SCENARIOS, Scenario, play
from tests.chaos.table import trial_lines
from tests.support.servers import missing
from tests.support.starting import Unavailable

SHORT = [scenario for scenario in SCENARIOS if scenario.short]
SMOKE = frozenset({
    "delete-source-queue", "delete-target-queue-by-its-name", "remake-topic-source-a-shorter-one-at-once",
    "takeover-two-on-one-queue-the-active-is-killed", "too-large-3-messages-over-max.message.bytes",
})  # fmt: skip


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    with Brokers() as found:
        yield found


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, marks=[pytest.mark.smoke] * (each.key in SMOKE), id=each.key) for each in SHORT],
)
def test_nothing_is_lost_and_a_bridge_that_cannot_move_shows_it(
    scenario: Scenario, brokers: Brokers, tmp_path: Path
) -> None:
    try:
        result = play(scenario, brokers, tmp_path / scenario.key, short=True)
    except Unavailable as reason:
        missing(str(reason))
    print("\n".join(trial_lines([result])))
    assert not result.problems
