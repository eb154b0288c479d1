"""RabbitMQ's memory alarm: the broker blocks publishers (`connection.blocked`), and their connections stay open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.chaos.places import Queue, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

ALARM: Final = 30.0
"""Duration in seconds; in CI it lasts until it is visible."""
WATERMARK: Final = "512MiB"
"""The watermark that the images have."""


def _alarm(trial: Trial) -> Sequence[Writable]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    control = trial.brokers.rabbitmq().control
    trial.put(source, 2_000 if trial.short else 6_000)
    trial.bridge(source, target, policy=f"rate = {400 if trial.short else 200}")
    trial.wait_until_flowing(source)
    trial.suffer(
        lambda: control("set_vm_memory_high_watermark", "absolute", "1"),
        lambda: control("set_vm_memory_high_watermark", "absolute", WATERMARK),
        seconds=0.0 if trial.short else ALARM,
    )
    trial.drain(source)
    trial.bound = 0  # no connection was lost
    return [target]


SCENARIOS: Final = [Scenario("alarm", "RabbitMQ out of memory", ["rabbitmq"], _alarm, short=True)]
