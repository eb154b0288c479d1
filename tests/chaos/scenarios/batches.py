"""A broker refuses a batch for some of its messages, or for its size: nobody else's message becomes a dead letter.

Wrong messages lie between right ones, in the order of their keys. Each of them, and nothing else, is a dead letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from tests.chaos.places import Queue, RocketmqTopic, Topic, Writable
from tests.chaos.scenarios.limits import set_limit
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

MESSAGES: Final = 3_000
WRONG: Final = 60
EVERY: Final = MESSAGES // WRONG
LEAST: Final = 5_000
"""Maximum size of a message of the topic, in bytes (``max.message.bytes``), once it is lowered."""
LARGE: Final = b"x" * 10_000
TRANSACTIONS: Final = "kafka for transactions"
COMPACTED: Final = {"cleanup.policy": "compact"}
KEYLESS: Final = b"keyless"

LEAST_OF_A_BROKER: Final = 64 << 10
USUAL: Final = 4 << 20
"""RocketMQ's ``maxMessageSize`` in bytes, lowered, and as it is by default; it is that of a batch, too."""
FILLING: Final = 5_000
"""Size of a body, in bytes; random, as others are compressed."""


def _mix(trial: Trial, wrong: bytes, *, keyless: bool = False) -> list[tuple[str, bytes]]:
    """Return all messages, with a wrong one after each `EVERY` right ones, of the same key unless it has none."""
    mixed: list[tuple[str, bytes]] = []
    for key, body in trial.numbers(MESSAGES):
        mixed.append((key, body))
        if len(mixed) % (EVERY + 1) == EVERY:
            mixed.append(("" if keyless else key, wrong))
    trial.expected_dead = lambda dead: dead == [wrong] * WRONG
    trial.bound = 0
    return mixed


def _lower_in_flow(trial: Trial) -> Sequence[Writable]:
    """Lower the topic's limit under a bridge that knows the old one."""
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    trial.bridge(source, target)
    trial.wait_until_ready()
    set_limit(target, LEAST)
    source.put(_mix(trial, LARGE))
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    return [target]


def _lower_at_rabbitmq(trial: Trial) -> Sequence[Writable]:
    """Lower the limit of RabbitMQ, which closes a channel for a message that is larger, with all that is under way."""
    control = trial.brokers.rabbitmq().control

    def set_largest(size: int) -> None:
        control("eval", f"persistent_term:put(max_message_size, {size}).")
        control("close_all_connections", "a new limit")  # channels keep the one that they began with

    source = trial.use(Topic(False, trial.brokers, "source", trial.folder))
    target = trial.use(Queue("quorum", trial.brokers, "target", trial.folder))
    trial.bridge(source, target)
    trial.wait_until_ready()
    trial.at_end(set_largest, USUAL)
    set_largest(LEAST)
    source.put(_mix(trial, LARGE))
    trial.bound = None
    trial.faults = WRONG  # each closes the channel of its target
    trial.wait_for_written(MESSAGES)
    trial.drain(source, 300)
    return [target]


def _compacted(trial: Trial) -> Sequence[Writable]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder, config=COMPACTED))
    source.put(_mix(trial, KEYLESS, keyless=True))
    trial.bridge(source, target)
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    return [target]


def _compacted_once(trial: Trial) -> Sequence[Writable]:
    source = trial.use(Topic(True, trial.brokers, "source", trial.folder))
    target = trial.use(Topic(True, trial.brokers, "target", trial.folder, config=COMPACTED))
    records = [(key.encode() or None, body) for key, body in _mix(trial, KEYLESS, keyless=True)]
    # Spread over the partitions: behind one that waits, exactly once, nothing of its partition can be written.
    source.put_records(records, **{"sticky.partitioning.linger.ms": 0})
    trial.bridge(source, target)
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    return [target]


def _small_batches(trial: Trial) -> Sequence[Writable]:
    """Have a broker that takes a dozen messages at once, and the bridge writes up to 200."""
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(RocketmqTopic(trial.brokers, "target", trial.folder))
    target.configure(f"maxMessageSize={LEAST_OF_A_BROKER}")
    trial.at_end(target.configure, f"maxMessageSize={USUAL}")
    random = Random(1)
    too_large = random.randbytes(LEAST_OF_A_BROKER)
    trial.body_of = lambda body: body.partition(b" ")[0]
    source.put([(key, body + b" " + random.randbytes(FILLING)) for key, body in trial.numbers(1_000)])
    source.put([("key.0", too_large)])  # which shows that the broker is as it should be
    trial.expected_dead = lambda dead: dead == [too_large]
    trial.bridge(source, target)
    trial.wait_for_written(1_000)
    trial.drain(source)
    trial.bound = 0
    return [target]


def _scenario(variant: str, kinds: Sequence[str], act: object, *, short: bool = False) -> Scenario:
    return Scenario("refused-batch", variant, kinds, act, short)  # type: ignore[arg-type]


BOTH: Final = ("rabbitmq", "kafka")
SCENARIOS: Final = [
    _scenario("max.message.bytes lowered below some", BOTH, _lower_in_flow, short=True),
    _scenario("RabbitMQ's max_message_size lowered below some", BOTH, _lower_at_rabbitmq),
    _scenario("some without a key, into a compacted topic", BOTH, _compacted),
    _scenario("the same exactly once", [TRANSACTIONS], _compacted_once),
    _scenario("maxMessageSize of 64 kB, messages of 5 kB", ["rabbitmq", "rocketmq"], _small_batches),
]
