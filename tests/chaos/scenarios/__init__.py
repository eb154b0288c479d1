"""The scenarios: what can go wrong with a bridge, each as a trial that can be repeated."""

from __future__ import annotations

from typing import Final

from tests.chaos.scenarios import (
    alarms,
    copies,
    deliveries,
    disks,
    exactly_once,
    keys,
    limits,
    oddities,
    pauses,
    rejections,
    removals,
    rights,
    takeovers,
    topics,
    windows,
)
from tests.chaos.scenarios.scenario import Scenario, play

__all__ = ["SCENARIOS", "Scenario", "play"]

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *pauses.SCENARIOS, *alarms.SCENARIOS, *disks.SCENARIOS, *removals.SCENARIOS, *rights.SCENARIOS,
    *rejections.SCENARIOS, *topics.SCENARIOS, *oddities.SCENARIOS, *copies.SCENARIOS, *keys.SCENARIOS,
    *takeovers.SCENARIOS, *exactly_once.SCENARIOS, *deliveries.SCENARIOS, *windows.SCENARIOS,
    *limits.SCENARIOS,
)  # fmt: skip
