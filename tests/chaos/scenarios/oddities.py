"""Odd messages: too large for the target, with another user's id, nested deeply, with an impossible time.

What is wrong with a message is that message's alone: its neighbours arrive, in order, and nothing comes twice as no
connection ends for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import pyarrow.parquet as pq

from exchange.amqp import ContentHeader
from exchange.values.field_values import Typed
from tests.chaos.places import Folder, Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.archives.parts import find_parts

MESSAGES: Final = 600
LEAST: Final = 100_000
"""Maximum size of a message of the topic, in bytes (``max.message.bytes``)."""
LARGE: Final = b"x" * 200_000
USER: Final = "other"
OTHER: Final = "x-hashstar-user-id"
EVERY: Final = 100
DEEP: Final = 5_000
MICROSECONDS: Final = 1_763_800_000_000_000
"""The timestamp of a publisher that writes microseconds instead of AMQP's seconds."""


def _too_large(trial: Trial) -> Sequence[Writable]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    config = {"max.message.bytes": str(LEAST)}
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder, config=config))
    for n in range(4):
        trial.put(source, MESSAGES // 4)
        if n < 3:
            source.put([(f"key.{n}", LARGE)])
    trial.bridge(source, target)
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    trial.bound = 0
    trial.expected_dead = lambda dead: dead == [LARGE] * 3
    return [target]


def _user_id(trial: Trial) -> Sequence[Writable]:
    """Give messages a ``user_id`` that brokers refuse, as the bridge publishes as guest."""
    control = trial.brokers.rabbitmq().control
    control("add_user", USER, USER)
    trial.at_end(control, "delete_user", USER)
    control("set_permissions", USER, ".*", ".*", ".*")
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("quorum", trial.brokers, "target", trial.folder))
    own = ContentHeader.encode({}, {"delivery_mode": 2, "user_id": USER})
    for _ in range(MESSAGES // EVERY):
        source.put_with(own, trial.numbers(1), f"{USER}:{USER}")
        trial.put(source, EVERY - 1)
    trial.bridge(source, target)
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    trial.bound = 0
    trial.stop()
    found = [
        (method.routing_key, body, (properties.headers or {}).get(OTHER))
        for method, properties, body in target.deliveries()
    ]
    trial.arrived += [(key, body) for key, body, _ in found]
    marked = [int(body) for _, body, user in found if user == USER]
    trial.require(marked == [*range(0, MESSAGES, EVERY)], f"these have the header {OTHER}: {marked}")
    return []


def _nested_header(depth: int) -> ContentHeader:
    """Return the content header of a message with deeply nested tables."""
    table = b""
    for _ in range(depth):
        table = b"\x01nF" + struct.pack(">I", len(table)) + table
    return ContentHeader.from_parts({"delivery_mode": b"\x02"}, table)


def _nest_headers(trial: Trial) -> Sequence[Writable]:
    """Move deeply nested headers: a dead letter where they cannot be read; they may arrive where they need not be."""
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Folder(trial.brokers, "target", trial.folder))
    trial.put(source, MESSAGES // 2)
    source.put_with(_nested_header(DEEP), [("key.0", b"nested")])
    trial.put(source, MESSAGES // 2)
    trial.bridge(source, target)
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    trial.stop()
    trial.collect(target)
    arrived = [each for each in trial.arrived if each[1] == b"nested"]
    trial.arrived = [each for each in trial.arrived if each[1] != b"nested"]
    trial.bound = 0
    trial.expected_dead = lambda dead: len(arrived) + len(dead) == 1 and dead in ([], [b"nested"])
    return []


def _odd_timestamp(trial: Trial) -> Sequence[Writable]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Folder(trial.brokers, "target", trial.folder))
    odd = ContentHeader.encode({}, {"delivery_mode": 2, "timestamp": Typed("timestamp", MICROSECONDS)})
    for _ in range(3):
        trial.put(source, MESSAGES // 3 - 1)
        source.put_with(odd, trial.numbers(1))
    trial.bridge(source, target)
    trial.wait_for_written(MESSAGES)
    trial.drain(source)
    trial.bound = 0
    trial.stop()
    parts = [pq.read_table(part, columns=["properties"]) for part in find_parts(target.path)]
    rows = [str(row) for part in parts for row in part.column("properties").to_pylist()]
    found = sum(str(MICROSECONDS) in row for row in rows)
    trial.require(found == 3, f"{found} rows of 3 have the timestamp")
    return [target]


SCENARIOS: Final = [
    Scenario("too-large", "3 messages over max.message.bytes", ["rabbitmq", "kafka"], _too_large, short=True),
    Scenario("user-id", "of another, every 100th message", ["rabbitmq"], _user_id, short=True),
    Scenario("nested", "headers 5,000 deep, into an archive", ["rabbitmq"], _nest_headers, short=True),
    Scenario("odd-timestamp", "in microseconds, into an archive", ["rabbitmq"], _odd_timestamp, short=True),
]
