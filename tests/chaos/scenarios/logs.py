"""A log that nobody reads: the pipe that it goes to is full, and no write returns."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Final

from tests.chaos.places import Queue, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

HALF: Final = 500
ENDS_WITHIN: Final = 10.0
"""Maximum number of seconds from SIGTERM to the end of a bridge that has nothing to do."""


def _fill_pipe() -> tuple[int, int]:
    """Return the ends of a pipe that has no room."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"." * 1_000)
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer


def _no_room(trial: Trial) -> Sequence[Writable]:
    """Have a log on a disk that is full: each line is refused."""
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("quorum", trial.brokers, "target", trial.folder))
    daemon = trial.bridge(source, target, start=False)
    full = os.open("/dev/full", os.O_WRONLY)
    daemon.log = full
    trial.start(daemon)
    os.close(full)
    trial.put(source, HALF)
    trial.wait_for_written(HALF)
    trial.disconnect(trial.brokers.rabbitmq().relays["source"].cut)
    trial.put(source, HALF)
    trial.drain(source)
    trial.wait_until(lambda: sum(trial.metric("hashstar_dropped_log_lines_total")) > 0, "lost lines are counted")
    return [target]


def _nobody_reads(trial: Trial) -> Sequence[Writable]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("quorum", trial.brokers, "target", trial.folder))
    daemon = trial.bridge(source, target, start=False)
    reader, writer = _fill_pipe()
    trial.at_end(os.close, reader)
    daemon.log = writer
    trial.start(daemon)
    os.close(writer)
    trial.put(source, HALF)
    trial.wait_for_written(HALF)
    trial.disconnect(trial.brokers.rabbitmq().relays["source"].cut)  # which has lines in the log, too
    trial.put(source, HALF)
    trial.drain(source)
    began = time.monotonic()
    trial.stop()
    took = time.monotonic() - began
    trial.require(took < ENDS_WITHIN, f"the bridge needed {took:.0f} s to end")
    return [target]


SCENARIOS: Final = [
    Scenario("stuck-log", "a pipe that is full", ["rabbitmq"], _nobody_reads, short=True),
    Scenario("stuck-log", "a disk that is full", ["rabbitmq"], _no_room),
]
