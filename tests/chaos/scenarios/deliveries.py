"""Quorum queues count how often a message was delivered, and RabbitMQ 4 drops it at the 21st time.

So no bridge may have messages delivered that it cannot move: not one that only checks its configuration, not one that
is started again and again while its target is wrong, and not one whose channel the broker closes as nothing is
acknowledged while the target is away.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

import pika

from tests.chaos.daemon import TOPOLOGY, Daemon
from tests.chaos.places import PARTITIONS, Queue, Topic, Writable
from tests.chaos.scenarios.connections import close_quietly
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.waiting import find_limit

TIMES: Final = 25
"""Number of kills: more than the 20 deliveries that a quorum queue of RabbitMQ 4 allows by default."""
MESSAGES: Final = 300
CONSUMER_TIMEOUT: Final = 5.0
"""Seconds after which the broker closes a channel that acknowledges nothing; 30 minutes by default."""
TICK: Final = 1.0
"""Seconds between the broker's checks for that; a minute by default."""
FEWER: Final = 3


def _quorum_to_topic(trial: Trial) -> tuple[Queue, Topic]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    return source, trial.use(Topic(False, trial.brokers, "target", trial.folder))


def _check(trial: Trial, daemon: Daemon) -> None:
    """Run ``hashstar bridge check``, which must find nothing wrong."""
    command = [sys.executable, "-m", "bridge.cli", "bridge", "check", str(daemon.config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=find_limit(), check=False)
    trial.require(done.returncode == 0, f"check: exit code {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}")


def _check_alone(trial: Trial) -> Sequence[Writable]:
    source, target = _quorum_to_topic(trial)
    trial.put(source, MESSAGES)
    daemon = trial.bridge(source, target, start=False)
    for _ in range(TIMES):
        _check(trial, daemon)
    trial.start(daemon)
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    redelivered = trial.metric("hashstar_redelivered_messages_total")
    trial.require(redelivered == [0], f"messages had been delivered before: {redelivered}")
    trial.bound = 0
    return [target]


def _check_beside(trial: Trial) -> Sequence[Writable]:
    """Check beside a running bridge, with a queue that gives every consumer a share."""
    arguments = {"x-single-active-consumer": False}
    source = trial.use(Queue("classic", trial.brokers, "source", trial.folder, arguments))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    daemon = trial.bridge(source, target, policy="rate = 300")
    for _ in range(3 if trial.short else TIMES):
        trial.put(source, 1_000)  # for some seconds of each check
        _check(trial, daemon)
    trial.drain(source)
    trial.bound = 0
    return [target]


def _crash_loop(trial: Trial) -> Sequence[Writable]:
    """Let the bridge wait for a topic with other partitions than the topology, and kill it again and again."""
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder, partitions=FEWER))
    trial.put(source, MESSAGES)
    partitioned = TOPOLOGY.replace("queue out", f"queue out: partitioned kafka.murmur2 over {PARTITIONS}")
    daemon = trial.bridge(source, target, topology=partitioned, start=False)
    for _ in range(TIMES):
        trial.start(daemon)
        trial.wait_for_reason("partitions")
        trial.let_pass(1.0)  # it may have been reading in these
        trial.kill(daemon)
    target.delete_topic()
    target.make(PARTITIONS)
    trial.start(daemon)
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    trial.bound = 0
    return [target]


def _hold_until_timeout(trial: Trial) -> None:
    """Hold a message of a queue until the broker takes it back, which shows that its timeout is in force."""
    queue = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    queue.put([("key.0", b"held")])
    assert queue.broker is not None
    other = pika.BlockingConnection(pika.URLParameters(f"{queue.broker.url}?heartbeat=0"))
    trial.at_end(close_quietly, other)
    next(other.channel().consume(queue.name))
    trial.wait_until(lambda: queue.count()[0] == 1, "the broker has taken back what is held")


def _consumer_timeout(trial: Trial) -> Sequence[Writable]:
    """Stop the target for so long that the broker would close the channel 21 times."""
    control = trial.brokers.rabbitmq().control
    for name, seconds in (("consumer_timeout", CONSUMER_TIMEOUT), ("channel_tick_interval", TICK)):
        control("eval", f"application:set_env(rabbit, {name}, {seconds * 1_000:.0f}).")
    _hold_until_timeout(trial)
    source, target = _quorum_to_topic(trial)
    daemon = trial.bridge(source, target)
    trial.put(source, 100)
    trial.wait_for_written(100)
    trial.drain(source)
    kafka = trial.brokers["kafka"]
    kafka.pause()
    began = time.monotonic()
    try:
        trial.put(source, 500)
        trial.note_shown(began)
        trial.let_pass(began + 21 * (CONSUMER_TIMEOUT + TICK) - time.monotonic())
        trial.kill(daemon)
    finally:
        kafka.unpause()
    trial.faults += 1
    ended = time.monotonic()
    trial.start(daemon)
    trial.wait_until(lambda: trial.count_written() > 0, "messages move again")
    trial.result.recovered = time.monotonic() - ended
    trial.drain(source)
    return [target]


KINDS: Final = ("rabbitmq", "kafka")
SCENARIOS: Final = [
    Scenario("check-loop", f"{TIMES} checks of a quorum queue", KINDS, _check_alone),
    Scenario("check-loop", "beside a running bridge", KINDS, _check_beside, short=True),
    Scenario("crash-loop", f"{TIMES} starts with a wrong target", KINDS, _crash_loop),
    Scenario(
        "consumer-timeout", "21 times 5 s without the target, then killed", KINDS, _consumer_timeout,
        spoils=("rabbitmq",),
    ),
]  # fmt: skip
