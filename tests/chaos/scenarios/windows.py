"""Full windows: they must not hide a lost source, or take more memory than they may."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.chaos.places import Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import LIMIT, Trial

WINDOW: Final = 50
MESSAGES: Final = 500
ROUTED: Final = 'vhost "/"\nexchange chaos: topic\nqueue out\nchaos -> out: "key.#"\n'
CLOSED: Final = "an operator's decision"

LARGE: Final = 900_000
"""Size of a body, in bytes."""
MANY: Final = 1_200
BATCH: Final = 20
WINDOW_BYTES: Final = "64 MiB"
MEMORY: Final = 300 << 20
"""Maximum memory of the bridge, in bytes."""
AWAY: Final = 40.0


def _close_of_the_source(trial: Trial, source: Queue) -> None:
    """Close the source's connection while the window is full; the bridge must notice, and read again."""
    began = time.monotonic()
    trial.disconnect(partial(trial.brokers.rabbitmq().control, "close_all_connections", CLOSED), "from", LIMIT)
    trial.note_shown(began)


def _hold_message(trial: Trial) -> Sequence[Writable]:
    """Hold an unroutable message until the window is full behind it, and then correct the configuration."""
    trial.window = WINDOW
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("quorum", trial.brokers, "target", trial.folder))
    source.put([("nowhere", b"unroutable")])
    trial.put(source, MESSAGES)
    hold = 'unroutable = "hold"\ndrain = "1 s"\n'
    daemon = trial.bridge(source, target, policy=hold, topology=ROUTED, dead_letters=False)
    trial.wait_until(lambda: daemon.count_unsettled() == WINDOW, "the window is full")
    _close_of_the_source(trial, source)
    trial.wait_until(lambda: source.count()[1] == 1, "the queue has a consumer again")
    trial.stop(1)  # with what is held unsettled
    daemon.configure(policy=trial.stalled_after, rest=trial.tables(), topology=ROUTED)
    trial.start(daemon)
    trial.drain(source)
    trial.expected_dead = lambda dead: dead == [b"unroutable"]
    trial.bound = trial.window * (trial.faults + 1)
    return [target]


def _target_away(trial: Trial) -> Sequence[Writable]:
    trial.window = WINDOW
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    daemon = trial.bridge(source, target)
    trial.put(source, MESSAGES)
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    kafka = trial.brokers["kafka"]
    kafka.pause()
    try:
        trial.put(source, MESSAGES)
        trial.wait_until(lambda: daemon.count_unsettled() == WINDOW, "the window is full")
        _close_of_the_source(trial, source)
    finally:
        kafka.unpause()
    ended, written = time.monotonic(), trial.count_written()
    trial.wait_until(lambda: trial.count_written() > written and daemon.is_ready, "messages move again")
    trial.result.recovered = time.monotonic() - ended
    trial.drain(source)
    return [target]


def _window_bytes(trial: Trial) -> Sequence[Writable]:
    source = trial.use(Queue("classic", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    trial.window = 2_000
    filling = b" " * LARGE
    trial.body_of = lambda body: body.rstrip(b" ")
    daemon = trial.bridge(source, target, policy=f'window_bytes = "{WINDOW_BYTES}"\n')
    trial.wait_until_ready()
    kafka = trial.brokers["kafka"]
    kafka.pause()
    began = time.monotonic()
    try:
        for _ in range(MANY // BATCH):
            source.put([(key, (number + filling)[:LARGE]) for key, number in trial.numbers(BATCH)])
        trial.note_shown(began)
        trial.let_pass(began + AWAY - time.monotonic())
        away = daemon.peak_memory
    finally:
        kafka.unpause()
    trial.faults += 1
    trial.drain(source, 300)
    for what, peak in (("while the target was away", away), ("in all", daemon.peak_memory)):
        trial.result.notes.append(f"memory {what}: {peak / 1e6:,.0f} MB at most")
        trial.require(peak < MEMORY, f"memory {what}: {peak / 1e6:,.0f} MB, and {MEMORY / 1e6:,.0f} are allowed")
    return [target]


SCENARIOS: Final = [
    Scenario("zombie", "window full behind a held message, source closed", ["rabbitmq"], _hold_message, short=True),
    Scenario("zombie", "window full without the target, source closed", ["rabbitmq", "kafka"], _target_away),
    Scenario("window-bytes", f"{MANY:,} messages of 900 kB without the target", ["rabbitmq", "kafka"], _window_bytes),
]
