"""A limit that is wrong for most messages: ten become dead letters, then the source stops until it is right again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from bridge.endpoints.kafka.producer.target import ASK_EVERY
from tests.chaos.accounting import key_of
from tests.chaos.places import Queue, RocketmqTopic, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

WHOLE: Final = 1_000
"""Number of messages before the limit is lowered, and after that."""
PADDING: Final = b" " * 3_000
LEAST: Final = 2_000
"""Maximum size of a message of the topic, in bytes (``max.message.bytes``), while it is wrong."""
DEAD: Final = 10
WRONG: Final = 30
"""Number of messages at first that are too large, each of a key of its own, with others for ten keys behind them."""
LIMIT: Final = "max.message.bytes"
RAISED: Final = 5_000_000
"""Limit of a topic, in bytes, that is raised from its default of 1 MB."""
LARGE_ONES: Final = 30
"""More than become dead letters before the source stops."""
LARGER: Final = b" " * 2_000_000
WRONG_FOR: Final = 90.0
"""Seconds for which it is wrong, beyond the minute that is looked at; in CI, until that is visible."""


def set_limit(topic: Topic, size: int) -> None:
    """Set the maximum size of a message of a topic, in bytes."""
    topic.topics.configure(topic.name, LIMIT, size)


def _too_low_at_kafka(trial: Trial) -> Sequence[Writable]:
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    return _too_low(trial, target, partial(set_limit, target))


def _too_low_at_rocketmq(trial: Trial) -> Sequence[Writable]:
    target = trial.use(RocketmqTopic(trial.brokers, "target", trial.folder))
    trial.at_end(target.configure, f"maxMessageSize={4 << 20}")
    return _too_low(trial, target, lambda size: target.configure(f"maxMessageSize={size}"))


def _too_low(trial: Trial, target: Writable, limit: Callable[[int], None]) -> Sequence[Writable]:
    trial.body_of = lambda body: body.strip()
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))

    def put() -> None:
        source.put([(key, body + PADDING) for key, body in trial.numbers(WHOLE)])

    trial.bridge(source, target)
    put()
    trial.drain(source)

    def lower() -> None:
        limit(LEAST)
        put()

    trial.collect(target)
    trial.suffer(lower, lambda: limit(1_000_000), seconds=0.0 if trial.short else WRONG_FOR)
    trial.drain(source)
    trial.stop()
    dead = [int(body) for body in trial.dead_letters()]
    # What is in neither place is lost. Of each key they are the first messages after the change.
    trial.arrived += [(key_of(number, trial.keys), b"%d" % number) for number in sorted(dead)]
    trial.expected_dead = lambda bodies: 0 < len(bodies) <= DEAD
    return [target]


def _let_be(transactional: bool, trial: Trial) -> Sequence[Writable]:
    """Leave the limit as it is: most of what comes behind is taken, so all that is not becomes a dead letter."""
    trial.body_of = lambda body: body.strip()
    source = trial.use(Topic(transactional, trial.brokers, "source", trial.folder, partitions=1))
    target = trial.use(Topic(transactional, trial.brokers, "target", trial.folder))
    set_limit(target, LEAST)
    source.put([(key, body + PADDING if int(body) < WRONG else body) for key, body in trial.numbers(WHOLE)])
    trial.bridge(source, target)
    trial.wait_for_written(WHOLE - WRONG)
    trial.drain(source)
    trial.stop()
    trial.arrived += [(key_of(number, trial.keys), b"%d" % number) for number in range(WRONG)]
    trial.expected_dead = lambda bodies: sorted([int(body) for body in bodies]) == [*range(WRONG)]
    return [target]


def _raised(transactional: bool, trial: Trial) -> Sequence[Writable]:
    """Raise the limit of a topic, and write larger messages than it took when the bridge began."""
    trial.body_of = lambda body: body.strip()
    source = trial.use(Topic(transactional, trial.brokers, "source", trial.folder, config={LIMIT: str(RAISED)}))
    target = trial.use(Topic(transactional, trial.brokers, "target", trial.folder))
    trial.put(source, WHOLE)
    trial.bridge(source, target)
    trial.drain(source)
    trial.let_pass(ASK_EVERY)
    set_limit(target, RAISED)
    large = [(key.encode(), body + LARGER) for key, body in trial.numbers(LARGE_ONES)]
    source.put_records(large, **{"message.max.bytes": RAISED})
    trial.drain(source)
    trial.bound = 0
    return [target]


TOO_LARGE: Final = "the first 30 of 1,000 are too large"
SCENARIOS: Final = [
    Scenario(
        "dead-letter-limit",
        "max.message.bytes below all messages",
        ["rabbitmq", "kafka"],
        _too_low_at_kafka,
        short=True,
    ),
    Scenario("dead-letter-limit", "maxMessageSize below all messages", ["rabbitmq", "rocketmq"], _too_low_at_rocketmq),
    Scenario("raised-limit", "of the target", ["kafka"], partial(_raised, False)),
    Scenario("raised-limit", "of the target, exactly once", ["kafka for transactions"], partial(_raised, True)),
    Scenario("dead-letter-limit", TOO_LARGE, ["kafka"], partial(_let_be, False)),
    Scenario("dead-letter-limit", f"exactly once, {TOO_LARGE}", ["kafka for transactions"], partial(_let_be, True)),
]
