"""Connections of RabbitMQ that an administrator closes or does not permit, and another program that reads first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import pika
import pika.exceptions

from tests.chaos.places import Queue, Writable
from tests.chaos.scenarios.pauses import let_flow
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

CLOSED: Final = 5
UNLIMITED: Final = '{"max-connections": -1}'
WITHOUT: Final = 20.0
"""Seconds without connections; in CI, until that is visible."""
HELD: Final = 10
"""Messages that the other program holds."""


def _queues(trial: Trial) -> tuple[Queue, Queue]:
    source = trial.use(Queue("classic", trial.brokers, "source", trial.folder))
    return source, trial.use(Queue("quorum", trial.brokers, "target", trial.folder))


def _close_all(trial: Trial) -> None:
    trial.brokers.rabbitmq().control("close_all_connections", "an administrator's decision")


def close_quietly(connection: pika.BlockingConnection) -> None:
    """Close a connection, if the broker has not."""
    with suppress(pika.exceptions.AMQPError):
        connection.close()


def _closed(trial: Trial) -> Sequence[Writable]:
    """Close all connections again and again, each time with messages under way."""
    source, target = _queues(trial)
    let_flow(trial, source, target)
    for _ in range(CLOSED):
        trial.wait_until_ready()
        trial.wait_until_flowing(source)
        trial.disconnect(partial(_close_all, trial))
        written = trial.count_written()
        trial.wait_until(lambda: trial.count_written() > written, "messages move again")  # noqa: B023
    trial.drain(source)
    return [target]


def _not_permitted(trial: Trial) -> Sequence[Writable]:
    """Permit no connection to the virtual host."""
    source, target = _queues(trial)
    control = trial.brokers.rabbitmq().control
    permit = partial(control, "set_vhost_limits", "-p", "/")
    trial.at_end(permit, UNLIMITED)
    let_flow(trial, source, target)
    permit('{"max-connections": 0}')  # those that are open stay
    trial.suffer(partial(_close_all, trial), partial(permit, UNLIMITED), seconds=0.0 if trial.short else WITHOUT)
    trial.drain(source)
    return [target]


def _foreign_reader(trial: Trial) -> Sequence[Writable]:
    """Let another program be the single active consumer, and hold messages until its connection is closed."""
    source, target = _queues(trial)
    assert source.broker is not None
    trial.put(source, 2_000)
    other = pika.BlockingConnection(pika.URLParameters(f"{source.broker.url}?heartbeat=0"))
    trial.at_end(close_quietly, other)
    channel = other.channel()
    channel.basic_qos(prefetch_count=HELD)
    channel.basic_consume(source.name, lambda *_: None, consumer_tag="another-program")
    source.more = f'management = "{trial.brokers.rabbitmq().management}"\n'
    trial.bridge(source, target)
    trial.wait_for_reason("another-program")
    _close_all(trial)  # if it cancelled its consumer, those behind what it holds would come first
    trial.faults += 1
    trial.drain(source)
    return [target]


SCENARIOS: Final = [
    Scenario("connections", "closed five times", ["rabbitmq"], _closed),
    Scenario("connections", "none is permitted", ["rabbitmq"], _not_permitted, short=True),
    Scenario("foreign-reader", "single active consumer", ["rabbitmq"], _foreign_reader, short=True),
]
