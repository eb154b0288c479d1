"""Rows of the table of scenarios: what may befall a bridge, each a trial that can be had again."""

from __future__ import annotations

from typing import Final

from tests.chaos.scenarios import alarms, pauses, rejections, removals, rights
from tests.chaos.scenarios.scenario import Scenario, play

__all__ = ["SCENARIOS", "Scenario", "play"]

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *pauses.SCENARIOS, *alarms.SCENARIOS, *removals.SCENARIOS, *rights.SCENARIOS, *rejections.SCENARIOS,
)  # fmt: skip
