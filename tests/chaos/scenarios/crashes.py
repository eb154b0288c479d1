"""A bridge that is killed again and again soon after its start, as by the kernel when memory runs out.

A quorum queue counts each delivery that was not settled, and drops a message at its delivery limit: 20 by default from
RabbitMQ 4.0 on. What was prefetched at each kill must be so little that no message comes to that. Order is not looked
at, each message has a key of its own: RabbitMQ gives what comes back to such a queue behind what was never delivered.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.chaos.places import Queue, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

LIFE: Final = 1.2
"""Seconds from the first written message to the kill; in CI it comes at once."""
DEFAULT: Final = 20
LOW: Final = 3
LEAST: Final = 1
AGAIN: Final = "hashstar_redelivered_messages_total"


def _kill_again_and_again(
    limit: int, arguments: dict[str, int], policy: dict[str, int], trial: Trial
) -> Sequence[Writable]:
    trial.window = trial.keys = 500 if trial.short else 2_000
    broker = trial.brokers.rabbitmq()
    # With a single active consumer the whole prefetch is taken at once, as the guide says.
    own = {"x-single-active-consumer": False, **arguments}
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder, own))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    source.more = f'management = "{broker.management}"\n'
    if policy:
        broker.control("set_policy", source.name, source.name, json.dumps(policy), "--apply-to", "queues")
        trial.at_end(broker.control, "clear_policy", source.name)
    trial.put(source, trial.window)
    daemon = trial.bridge(source, target, policy="rate = 20", start=False)
    again = 0.0
    for _ in range(limit + 1):
        trial.start(daemon)
        trial.wait_for_written(1)
        trial.let_pass(0.0 if trial.short else LIFE)
        again += sum(trial.metric(AGAIN))
        trial.kill(daemon)
        trial.faults += 1
    daemon.configure(policy=trial.stalled_after, rest=trial.tables())
    trial.start(daemon)
    trial.drain(source)
    trial.require(again + sum(trial.metric(AGAIN)) > 0, "each kill came when nothing was delivered and not settled")
    return [target]


def _scenario(variant: str, limit: int, arguments: dict[str, int], policy: dict[str, int]) -> Scenario:
    act: partial[Sequence[Writable]] = partial(_kill_again_and_again, limit, arguments, policy)
    return Scenario("oom-loop", f"{limit + 1} kills of the reader of a quorum queue, {variant}", ["rabbitmq"], act)


SCENARIOS: Final = [
    _scenario("default limit", DEFAULT, {}, {}),
    _scenario("x-delivery-limit = 3", LOW, {"x-delivery-limit": LOW}, {}),
    _scenario("x-delivery-limit = 1", LEAST, {"x-delivery-limit": LEAST}, {}),
    _scenario("a policy with delivery-limit 3", LOW, {}, {"delivery-limit": LOW}),
]
