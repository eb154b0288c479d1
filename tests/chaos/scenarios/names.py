"""Name servers that do not answer: each look-up waits, and the bridge ends in time all the same."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.chaos.places import Queue, Readable, RocketmqTopic, Topic, Writable
from tests.chaos.scenarios.pauses import PLACES, place
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.hanging_resolver import IS_AVAILABLE, HangingResolver
from tests.support.starting import Unavailable
from tests.support.waiting import stretch

MESSAGES: Final = 1_500
DRAIN: Final = 3
HANGING: Final = 3.0
"""Seconds after which a bridge whose look-ups are answered would be connected again."""


def _hang(source_kind: str, target_kind: str, trial: Trial) -> Sequence[Writable]:
    """Cut all connections, so that names are looked up, and end the bridge while that hangs."""
    if not IS_AVAILABLE:
        raise Unavailable("a resolver that hangs needs a C compiler of Linux")
    source: Readable = place(trial, source_kind, "source")
    target: Queue | Topic | RocketmqTopic = place(trial, target_kind, "target")
    trial.put(source, MESSAGES)
    resolver = HangingResolver(trial.folder)
    daemon = trial.bridge(source, target, policy=f'rate = 200\ndrain = "{DRAIN} s"', start=False)
    daemon.config.write_text(daemon.config.read_text().replace("127.0.0.1", "localhost"))
    daemon.environment = resolver.environment
    trial.start(daemon)
    trial.wait_for_written(300)
    resolver.hang()
    began = time.monotonic()
    for each in (source, target):
        assert each.broker is not None
        each.broker.relays[each.side].cut()
    trial.faults += 2  # connections are cut, and what is not written when it ends is read again
    trial.note_shown(began)
    trial.let_pass(HANGING)
    trial.require(not daemon.is_ready, "the bridge has connected, though it looks names up")
    trial.running.remove(daemon)
    began = time.monotonic()
    code = daemon.stop()
    took = time.monotonic() - began
    trial.require(took < stretch(DRAIN + 5), f"SIGTERM took {took:.1f} s, with {DRAIN} s to drain")
    trial.require(code in (0, 1), f"SIGTERM did not end it in an orderly way: exit code {code}")
    trial.result.notes.append(f"ended after {took:.1f} s")
    resolver.recover()
    trial.start(daemon)
    trial.drain(source)
    return [target]


ROWS: Final = (("RabbitMQ", "Kafka"), ("Kafka", "RabbitMQ"), ("RabbitMQ", "RocketMQ"), ("RocketMQ", "RabbitMQ"))
SCENARIOS: Final = [
    Scenario(
        "hanging-names", f"SIGTERM, {source} -> {target}", [PLACES[source], PLACES[target]],
        partial(_hang, PLACES[source], PLACES[target]),
    )
    for source, target in ROWS
]  # fmt: skip
