"""Keys and names of headers that AMQP cannot hold, on their way from Kafka through RabbitMQ to Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.chaos.daemon import TOPOLOGY
from tests.chaos.places import Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

MESSAGES: Final = 200
KEYS: Final = 8
LENGTH: Final = 294
"""Length in bytes of a key in JSON with its schema, as in a real trial; AMQP's short strings have at most 255."""

THROUGH: Final = f"{TOPOLOGY}exchange home: fanout\nqueue back\nhome -> back\n"


def _long_key(trial: Trial) -> Sequence[Writable]:
    """Move records through a queue to another topic: keys and values must be the same, in order for each key."""
    first = trial.use(Topic(False, trial.brokers, "source", trial.folder))
    last = trial.use(Topic(False, trial.brokers, "target", trial.folder))
    queue = trial.use(Queue("quorum", trial.brokers, "target", trial.folder))
    keys = [b'{"schema":%d,"payload":"%s"}' % (n, b"k" * LENGTH) for n in range(KEYS)]
    keys = [key[: LENGTH - 2] + b'"}' for key in keys]
    records = [(keys[n % KEYS], b"%d" % n) for n in range(MESSAGES)]
    first.put_records(records)
    queue.side = "source"  # for its second table
    rest = (
        f'[sources.queue]\nexchange = "home"\n{queue.table()}'
        f"[targets.last]\n{last.table().replace('queues.out', 'queues.back')}"
    )
    queue.side = "target"
    trial.bridge(first, queue, rest=rest, topology=THROUGH)
    trial.wait_for_written(2 * MESSAGES)
    trial.drain(first)
    trial.stop()
    found = [(record.key(), record.value()) for record in last.records()]
    for key in keys:
        sent, arrived = ([value for its, value in each if its == key] for each in (records, found))
        trial.require(sent == arrived, f"{len(sent)} values of the key {key[:40]!r}..., and {len(arrived)} arrived")
    trial.require(len(found) == MESSAGES, f"{len(found):,} records arrived of {MESSAGES:,}")
    return []


SCENARIOS: Final = [
    Scenario("long-key", f"{LENGTH} bytes, Kafka -> RabbitMQ -> Kafka", ["kafka", "rabbitmq"], _long_key, short=True)
]
