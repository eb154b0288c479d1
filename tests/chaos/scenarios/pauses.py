"""Brokers that freeze, that stop, and that lose their network: each kind as source and as target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tests.chaos.places import Queue, Readable, RocketmqTopic, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import LEFT, Trial

PAUSE: Final = 60.0
"""Duration of a pause in seconds; in CI it lasts until it is visible."""
STOP: Final = 20.0
UNPLUGGED: Final = 90.0

PLACES: Final = {"RabbitMQ": "rabbitmq", "Kafka": "kafka", "RocketMQ": "rocketmq"}
"""Name -> the kind of broker."""


def place(trial: Trial, kind: str, side: str, heartbeat: int | None = None) -> Queue | Topic | RocketmqTopic:
    """Return a queue or topic; RabbitMQ's heartbeats are the bridge's default, unless another is given."""
    if kind == "rabbitmq":
        return trial.use(Queue("quorum", trial.brokers, side, trial.folder, heartbeat=heartbeat))
    if kind == "kafka":
        return trial.use(Topic(False, trial.brokers, side, trial.folder))
    return trial.use(RocketmqTopic(trial.brokers, side, trial.folder))


def let_flow(trial: Trial, source: Readable, target: Writable) -> None:
    """Let messages flow slowly, so that most of them are left for the fault."""
    trial.put(source, 2_000 if trial.short else 6_000)
    trial.bridge(source, target, policy=f"rate = {400 if trial.short else 200}")
    trial.wait_until_flowing(source)


def _pause(source_kind: str, target_kind: str, side: str, trial: Trial) -> Sequence[Writable]:
    source, target = place(trial, source_kind, "source"), place(trial, target_kind, "target")
    let_flow(trial, source, target)
    broker = trial.brokers[source_kind if side == "source" else target_kind]
    trial.suffer(broker.pause, broker.unpause, seconds=0.0 if trial.short else PAUSE)
    trial.drain(source)
    return [target]


def _stop(source_kind: str, target_kind: str, side: str, trial: Trial) -> Sequence[Writable]:
    source, target = place(trial, source_kind, "source"), place(trial, target_kind, "target")
    let_flow(trial, source, target)
    broker = trial.brokers[source_kind if side == "source" else target_kind]
    trial.suffer(broker.stop, broker.start, seconds=0.0 if trial.short else STOP)
    trial.drain(source)
    return [target]


def _stop_read_ahead(trial: Trial) -> Sequence[Writable]:
    """Restart Kafka while all messages are read ahead: the bridge is ready before it needs the brokers again."""
    source, target = place(trial, "kafka", "source"), place(trial, "rabbitmq", "target")
    trial.put(source, 6_000)
    trial.bridge(source, target, policy="rate = 60")
    trial.wait_until_flowing(source)
    broker = trial.brokers["kafka"]
    trial.suffer(broker.stop, broker.start, seconds=STOP, within=2 * STOP)
    trial.require(trial.count_written() < trial.sent - LEFT, "the bridge needed the broker before it was ready")
    trial.drain(source, 300)
    return [target]


def _unplug(source_kind: str, target_kind: str, side: str, trial: Trial) -> Sequence[Writable]:
    source, target = place(trial, source_kind, "source"), place(trial, target_kind, "target")
    let_flow(trial, source, target)
    broker = trial.brokers[source_kind if side == "source" else target_kind]
    trial.suffer(broker.unplug, broker.plug_in, seconds=UNPLUGGED)
    trial.drain(source)
    return [target]


def _scenarios(name: str, act: Callable[..., Sequence[Writable]]) -> list[Scenario]:
    rows = (
        ("RabbitMQ", "Kafka", "source"), ("RabbitMQ", "Kafka", "target"), ("Kafka", "RabbitMQ", "source"),
        ("Kafka", "RabbitMQ", "target"), ("RocketMQ", "RabbitMQ", "source"), ("RabbitMQ", "RocketMQ", "target"),
    )  # fmt: skip
    found = []
    for source, target, side in rows:
        kinds = [PLACES[source], PLACES[target]]
        what = f"{source if side == 'source' else target} as {side}"
        short = name == "pause" and (source, target) == ("RabbitMQ", "Kafka")
        found.append(Scenario(name, what, kinds, partial(act, *kinds, side), short))
    return found


SCENARIOS: Final = [
    *_scenarios("pause", _pause), *_scenarios("stop", _stop), *_scenarios("unplug", _unplug)[:4],
    Scenario("stop", "Kafka as source, read ahead", ["kafka", "rabbitmq"], _stop_read_ahead),
]  # fmt: skip
