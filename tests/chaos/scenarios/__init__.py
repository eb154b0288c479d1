"""The scenarios: what can go wrong with a bridge, each as a trial that can be repeated."""

from __future__ import annotations

from typing import Final

from tests.chaos.scenarios import (
    administrators,
    alarms,
    batches,
    certificates,
    clusters,
    connections,
    copies,
    crashes,
    deliveries,
    disks,
    elections,
    exactly_once,
    expiries,
    keys,
    limits,
    logs,
    names,
    neighbours,
    oddities,
    operators,
    pauses,
    rejections,
    remade_queues,
    removals,
    rights,
    standby,
    takeovers,
    topics,
    unrouted,
    windows,
    wiped,
    withheld,
)
from tests.chaos.scenarios.scenario import Scenario, play

__all__ = ["SCENARIOS", "Scenario", "play"]

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *pauses.SCENARIOS, *alarms.SCENARIOS, *disks.SCENARIOS, *removals.SCENARIOS, *rights.SCENARIOS,
    *rejections.SCENARIOS, *topics.SCENARIOS, *oddities.SCENARIOS, *copies.SCENARIOS, *keys.SCENARIOS,
    *takeovers.SCENARIOS, *exactly_once.SCENARIOS, *deliveries.SCENARIOS, *windows.SCENARIOS,
    *limits.SCENARIOS, *remade_queues.SCENARIOS, *crashes.SCENARIOS, *batches.SCENARIOS, *withheld.SCENARIOS,
    *unrouted.SCENARIOS, *logs.SCENARIOS, *certificates.SCENARIOS,
    *operators.SCENARIOS, *clusters.SCENARIOS, *elections.SCENARIOS, *wiped.SCENARIOS, *expiries.SCENARIOS,
    *names.SCENARIOS, *administrators.SCENARIOS, *connections.SCENARIOS, *standby.SCENARIOS,
    *neighbours.SCENARIOS,
)  # fmt: skip
