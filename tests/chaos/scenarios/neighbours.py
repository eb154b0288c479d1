"""Neighbours of faults that broke a bridge once: of the same kind, at another place or moment.

A virtual host is made anew with a stream where a classic queue was; RabbitMQ's application stops and its node does not;
a retention comes to a topic while the bridge is paused.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.chaos.places import Queue, Topic, Writable
from tests.chaos.scenarios.pauses import let_flow
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

COUNT: Final = 2_000
WITHOUT: Final = 20.0
"""Seconds for which it is away; in CI, until that is visible."""
RETENTION: Final = 60_000
"""Retention of a topic in milliseconds: the risk is reported after half of it."""


def _seconds(trial: Trial) -> float:
    return 0.0 if trial.short else WITHOUT


def _virtual_host(trial: Trial) -> Sequence[Writable]:
    """Delete the virtual host, and make it anew, with a stream of the queue's name that has messages at once."""
    control = trial.brokers.rabbitmq().control
    source = trial.use(Queue("classic", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    trial.bridge(source, target)
    trial.put(source, COUNT)
    trial.drain(source)

    def make() -> None:
        control("add_vhost", "/")
        control("set_permissions", "-p", "/", "guest", ".*", ".*", ".*")
        source.make("stream")
        trial.put(source, COUNT)

    trial.suffer(partial(control, "delete_vhost", "/"), make, seconds=_seconds(trial))
    trial.wait_for_written(trial.sent)
    trial.drain(source)
    return [target]


def _application(side: str, trial: Trial) -> Sequence[Writable]:
    """Stop RabbitMQ's application, and start it again."""
    control = trial.brokers.rabbitmq().control
    queue = trial.use(Queue("quorum", trial.brokers, side, trial.folder))
    topic = trial.use(Topic(False, trial.brokers, "target" if side == "source" else "source", trial.folder))
    source, target = (queue, topic) if side == "source" else (topic, queue)
    let_flow(trial, source, target)
    trial.suffer(partial(control, "stop_app"), partial(control, "start_app"), seconds=_seconds(trial))
    trial.drain(source)
    return [target]


def _retention(trial: Trial) -> Sequence[Writable]:
    """Set a retention for the topic while the bridge is paused, which names it before it has removed anything."""
    source = trial.use(Topic(False, trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    daemon = trial.bridge(source, target)
    trial.put(source, COUNT)
    trial.drain(source)
    daemon.pause()
    trial.put(source, COUNT)
    source.topics.configure(source.name, "retention.ms", RETENTION)
    began = time.monotonic()
    trial.wait_for_reason("retention.ms")
    trial.result.notes.append(f"named after {time.monotonic() - began:.0f} s, of {RETENTION // 1_000} s")
    daemon.unpause()
    trial.drain(source)
    trial.wait_until_ready()
    trial.bound = 0
    return [target]


BOTH: Final = ("rabbitmq", "kafka")
SCENARIOS: Final = [
    Scenario("delete", "virtual host, made anew with a stream", BOTH, _virtual_host, spoils=["rabbitmq"]),
    Scenario("stop", "RabbitMQ's application, source", BOTH, partial(_application, "source")),
    Scenario("stop", "RabbitMQ's application, target", BOTH, partial(_application, "target")),
    Scenario("retention", "that comes in a pause", BOTH, _retention),
]
