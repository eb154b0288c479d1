"""Bridges that wait: a member of a group without partitions is well, and goes on where the other one has stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.chaos.places import Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

WAITING: Final = 20.0
"""Seconds for which the other one waits: longer than after which a member that gets nothing is in trouble."""


def _without_partitions(trial: Trial) -> Sequence[Writable]:
    source = trial.use(Topic(False, trial.brokers, "source", trial.folder, partitions=1))
    target = trial.use(Queue("quorum", trial.brokers, "target", trial.folder))
    trial.put(source, 8_000)
    active = trial.bridge(source, target, policy="rate = 200", name="bridge-1")
    trial.wait_until_flowing(source)
    standby = trial.bridge(source, target, policy="rate = 200", name="bridge-2")
    trial.faults += 1  # the partition may go to it
    trial.wait_until_ready()
    trial.let_pass(WAITING)
    trial.wait_until_ready()
    trial.require(active.is_ready and standby.is_ready, "one of the two is not ready")
    both = [active, standby]
    reading = max(both, key=lambda daemon: daemon.count_unsettled() or 0)
    trial.faults += 1
    trial.kill(reading)
    written = trial.count_written()
    trial.wait_until(lambda: trial.count_written() > written, "the other one goes on")
    trial.drain(source)
    return [target]


SCENARIOS: Final = [Scenario("standby", "two on one partition", ["kafka", "rabbitmq"], _without_partitions)]
