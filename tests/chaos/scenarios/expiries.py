"""Source queues that remove messages which nobody reads, while the target is away: said before, and counted after.

What such a queue removes is gone by its own settings. So these messages are no numbers, and none of them is expected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from exchange.amqp import ContentHeader
from tests.chaos.brokers import CommandFailed
from tests.chaos.places import PERSISTENT, Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

MESSAGES: Final = 300
WINDOW: Final = 100
TIME: Final = 30_000
"""Time of an unused queue, or of a message, in milliseconds; the risk is reported after half of it."""
MOST: Final = 200
REMOVED: Final = b"removed"
EXPIRING: Final = ContentHeader.encode({}, {"delivery_mode": 2, "expiration": str(TIME)})


def _removing(
    setting: str,
    policy: Mapping[str, int],
    trial: Trial,
    *,
    is_cut: bool = False,
    is_late: bool = False,
    counted: int = 0,
    header: ContentHeader = PERSISTENT,
) -> Sequence[Writable]:
    """Take away the target, and perhaps the source's connection, until the risk is named and ``counted`` counted."""
    trial.window = WINDOW
    broker, kafka = trial.brokers.rabbitmq(), trial.brokers["kafka"]
    own = {"x-single-active-consumer": False}
    source = trial.use(Queue("classic", trial.brokers, "source", trial.folder, own, auto_delete=is_cut and not policy))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    source.more = f'management = "{broker.management}"\n'

    def clear_policy() -> None:
        with suppress(CommandFailed):  # there is none
            broker.control("clear_policy", source.name)

    def set_policy() -> None:
        broker.control("set_policy", source.name, source.name, json.dumps(policy), "--apply-to", "queues")

    if policy and not is_late:
        set_policy()
    trial.at_end(clear_policy)
    trial.at_end(kafka.unpause)
    trial.bridge(source, target)
    # The times begin when the bridge reads, however long it took to start: a queue is in use while it is asked for.
    trial.wait_until(lambda: source.count()[1] > 0, "the bridge reads")
    source.put_with(header, trial.numbers(WINDOW))
    trial.wait_for_written(WINDOW)
    trial.drain(source)
    if is_late:
        set_policy()
    kafka.pause()
    source.put_with(header, [("key.0", REMOVED)] * MESSAGES)
    if is_cut:
        trial.wait_until(lambda: trial.running[0].count_unsettled() == WINDOW, "the window is full")
        broker.relays["source"].cut()
    trial.wait_for_reason(f"({setting})")
    if counted:
        trial.wait_until(
            lambda: sum(trial.metric("hashstar_vanished_messages_total")) == counted, f"{counted} removed are counted"
        )
    clear_policy()
    kafka.unpause()
    source.make()
    trial.put(source, MESSAGES)
    trial.faults += 1
    trial.drain(source)
    trial.stop()
    trial.collect(target)
    trial.arrived = [each for each in trial.arrived if each[1] != REMOVED]
    return []


def _scenario(title: str, act: partial[Sequence[Writable]]) -> Scenario:
    return Scenario("removing-source", title, ("rabbitmq", "kafka"), act)


SCENARIOS: Final = [
    _scenario("an expiry, not connected", partial(_removing, "expires", {"expires": TIME}, is_cut=True)),
    _scenario("auto-delete, not connected", partial(_removing, "auto-delete", {}, is_cut=True)),
    _scenario(
        "a TTL behind a full window",
        partial(_removing, "message-ttl", {"message-ttl": TIME}, counted=MESSAGES - WINDOW),
    ),
    _scenario(
        "expirations of messages behind a full window",
        partial(_removing, "expiration", {}, header=EXPIRING, counted=MESSAGES - WINDOW),
    ),
    _scenario(
        "a max-length that comes while it runs, behind a full window",
        partial(_removing, "max-length", {"max-length": MOST}, is_late=True),
    ),
]
