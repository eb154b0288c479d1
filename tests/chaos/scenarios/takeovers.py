"""Bridges that are frozen or killed while others wait to take over, or share their work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from tests.chaos.daemon import Daemon
from tests.chaos.places import HEARTBEAT, Queue, Readable, Topic, Writable
from tests.chaos.scenarios.pauses import place
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.waiting import find_limit

FROZEN: Final = 65.0
"""Minimum number of seconds of a freeze; in CI it lasts until the broker gives up the reader."""


def _flow(trial: Trial, source: Readable, target: Writable, bridges: int = 1) -> list[Daemon]:
    """Let messages flow slowly, so that most are left."""
    trial.put(source, 2_000 if trial.short else 8_000)
    policy = f"rate = {400 // bridges}"
    daemons = [trial.bridge(source, target, policy=policy, name=f"bridge-{n + 1}") for n in range(bridges)]
    trial.wait_until_flowing(source)
    return daemons


def count_readers(source: Readable) -> int:
    """Return the number of consumers of a queue, or of members of a topic's group that have partitions."""
    if isinstance(source, Queue):
        return source.count()[1]
    assert isinstance(source, Topic)
    group: Any = source.topics.admin.describe_consumer_groups([source.name])[source.name].result(find_limit())
    return sum(bool(member.assignment.topic_partitions) for member in group.members)


def _sigstop(source_kind: str, target_kind: str, trial: Trial) -> Sequence[Writable]:
    """Freeze a bridge until brokers give up its connections, and deliver what was under way to the next reader."""
    heartbeat = HEARTBEAT if trial.short else None
    source = place(trial, source_kind, "source", heartbeat)
    target = place(trial, target_kind, "target", heartbeat)
    (daemon,) = _flow(trial, source, target)

    def freeze() -> None:
        daemon.suspend()
        time.sleep(0.0 if trial.short else FROZEN)
        trial.wait_until(lambda: count_readers(source) == 0, "the source's broker has given up its reader")

    trial.suffer(freeze, daemon.resume, shows=False)
    trial.drain(source)
    return [target]


def _kill_the_active(trial: Trial) -> Sequence[Writable]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    daemons = _flow(trial, source, target, bridges=2)
    active = max(daemons, key=lambda daemon: sum(_read_by(trial, daemon)))
    trial.faults += 1
    trial.kill(active)
    began, written = time.monotonic(), trial.count_written()
    trial.wait_until(lambda: trial.count_written() > written, "the other bridge goes on")
    trial.result.recovered = time.monotonic() - began
    trial.drain(source)
    return [target]


def _read_by(trial: Trial, daemon: Daemon) -> list[float]:
    running, trial.running = trial.running, [daemon]
    try:
        return trial.metric("hashstar_read_messages_total")
    finally:
        trial.running = running


def _group_of_two(trial: Trial) -> Sequence[Writable]:
    """Freeze one bridge until the group has removed it, kill the other one, and let the first continue."""
    source = trial.use(Topic(False, trial.brokers, "source", trial.folder))
    target = trial.use(Queue("quorum", trial.brokers, "target", trial.folder))
    frozen, killed = _flow(trial, source, target, bridges=2)
    trial.wait_until(lambda: count_readers(source) == 2, "both share the partitions")
    trial.faults += 2
    trial.running.remove(frozen)
    frozen.suspend()
    trial.wait_until(lambda: count_readers(source) == 1, "the other one has all partitions")
    trial.kill(killed)
    frozen.resume()
    trial.running.append(frozen)
    began, written = time.monotonic(), trial.count_written()
    trial.wait_until(lambda: trial.count_written() > written, "the bridge that was frozen goes on")
    trial.result.recovered = time.monotonic() - began
    trial.drain(source)
    return [target]


SCENARIOS: Final = [
    Scenario(
        "sigstop", "65 s, RabbitMQ -> Kafka", ["rabbitmq", "kafka"],
        lambda trial: _sigstop("rabbitmq", "kafka", trial), short=True,
    ),
    Scenario(
        "sigstop", "65 s, Kafka -> RabbitMQ", ["kafka", "rabbitmq"],
        lambda trial: _sigstop("kafka", "rabbitmq", trial),
    ),
    Scenario("takeover", "two on one queue, the active is killed", ["rabbitmq", "kafka"], _kill_the_active, short=True),
    Scenario("takeover", "group of two, one frozen, one killed", ["kafka", "rabbitmq"], _group_of_two),
]  # fmt: skip
