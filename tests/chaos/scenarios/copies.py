"""CC between two queues of one broker: the engine has applied it when it routed, so the broker must not do so again.

Messages are put through a fanout exchange, which ignores CC, with a header that names the source queue or another
queue. A target that publishes by the default exchange, and leaves the header as it was, has its broker copy each
message to those queues, and from the source queue it comes again, without end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridge.interop.identity import IDENTITY
from exchange.amqp import ContentHeader
from tests.chaos.places import Queue, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

MESSAGES: Final = 200
LOOP_SECONDS: Final = 3.0
"""Seconds in which a loop makes thousands of messages."""

DIRECT: Final = """\
vhost "/"
exchange chaos: direct
queue out
queue copy
chaos -> out: "key.0"
chaos -> copy: "{copy}"
"""


def _put(trial: Trial, source: Queue, copy_to: str) -> None:
    trial.keys = 1
    header = ContentHeader.encode({"CC": [copy_to]}, {"delivery_mode": 2})
    source.put_with(header, trial.numbers(MESSAGES))


def _source_and_target(trial: Trial) -> tuple[Queue, Queue]:
    source = trial.use(Queue("classic", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    target.through_exchange = False
    trial.key_of = lambda _: "key.0"
    trial.bound = 0
    return source, target


def _to_the_source(trial: Trial) -> Sequence[Writable]:
    source, target = _source_and_target(trial)
    trial.bridge(source, target)
    _put(trial, source, source.name)
    trial.wait_for_written(MESSAGES)
    trial.let_pass(LOOP_SECONDS)
    trial.drain(source)
    read = sum(trial.metric("hashstar_read_messages_total"))
    trial.require(read == MESSAGES, f"{read:,.0f} messages were read of {MESSAGES:,} that were put")
    return [target]


def _to_another(trial: Trial) -> Sequence[Writable]:
    """Move messages with a CC for a queue that no binding of the topology leads to: nothing may arrive there."""
    source, target = _source_and_target(trial)
    other = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    trial.bridge(source, target)
    _put(trial, source, other.name)
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    copies = other.count()[0]
    trial.require(copies == 0, f"{copies:,} copies in the queue that CC names, and no binding leads there")
    return [target]


def _routed_to_another(trial: Trial) -> Sequence[Writable]:
    """Have a binding with the key that CC names, so that the engine copies each message once."""
    source, target = _source_and_target(trial)
    other = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    rest = f"[targets.other]\n{other.table().replace('queues.out.exchange', 'queues.copy.exchange')}"
    trial.bridge(source, target, rest=rest, topology=DIRECT.format(copy=other.name))
    _put(trial, source, other.name)
    trial.wait_for_written(2 * MESSAGES)
    trial.drain(source)
    copies = other.count()[0]
    trial.require(copies == MESSAGES, f"{copies:,} copies in the queue that CC names, where {MESSAGES:,} are right")
    return [target]


def _copied_id(trial: Trial) -> Sequence[Writable]:
    """Have an application copy the headers of one message to the messages with which it answers.

    A reader that drops messages whose id it has seen must get them all.
    """
    source = trial.use(Queue("classic", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    trial.bridge(source, target)
    source.put_with(ContentHeader.encode({}, {"delivery_mode": 2, "message_id": "first"}), trial.numbers(1))
    trial.wait_for_written(1)
    first = list(target.deliveries())
    headers = {IDENTITY: first[0][1].headers[IDENTITY]}
    for properties in ({}, {"message_id": "first"}):
        source.put_with(ContentHeader.encode(headers, {"delivery_mode": 2, **properties}), trial.numbers(MESSAGES))
    trial.wait_for_written(2 * MESSAGES + 1)
    trial.drain(source)
    seen: set[str] = set()
    for method, properties, body in [*first, *target.deliveries()]:
        identity = (properties.headers or {}).get(IDENTITY)
        if identity is None or identity not in seen:
            trial.arrived.append((method.routing_key, body))
        if identity is not None:
            seen.add(identity)
    trial.require(len(seen) == MESSAGES + 1, f"{len(seen):,} different ids, where {MESSAGES + 1:,} are right")
    trial.bound = 0
    return []


SCENARIOS: Final = [
    Scenario("cc-loop", "CC to the source queue", ["rabbitmq"], _to_the_source, short=True),
    Scenario("cc-loop", "CC to another queue, without a binding", ["rabbitmq"], _to_another),
    Scenario("cc-loop", "CC to another queue, with a binding", ["rabbitmq"], _routed_to_another, short=True),
    Scenario("copied-id", "by an application, with the headers", ["rabbitmq"], _copied_id, short=True),
]
