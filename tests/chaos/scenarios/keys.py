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
    starts = [b'{"schema":%d,"payload":"%s' % (n, b"k" * LENGTH) for n in range(KEYS)]
    wholes = {f"key.{n}": start[: LENGTH - 2] + b'"}' for n, start in enumerate(starts)}
    trial.keys, trial.bound = KEYS, 0
    first.put_records([(wholes[key], body) for key, body in trial.numbers(MESSAGES)])
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
    keys = {whole: key for key, whole in wholes.items()}
    trial.arrived += [(keys.get(record.key(), "another"), record.value()) for record in last.records()]
    return []


SCENARIOS: Final = [
    Scenario("long-key", f"{LENGTH} bytes, Kafka -> RabbitMQ -> Kafka", ["kafka", "rabbitmq"], _long_key, short=True)
]
