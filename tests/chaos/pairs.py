"""Pairs of places: what ``make chaos`` moves messages between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.chaos.kinds import Brokers
from tests.chaos.places import HEARTBEAT, Folder, Queue, Readable, RocketmqTopic, Topic, Writable


class Pair(NamedTuple):
    """A source and a target; each is made from the brokers of a run, its side, and the folder of the run."""

    name: str
    source: Callable[[Brokers, str, Path], Readable]
    target: Callable[[Brokers, str, Path], Writable]


QUORUM: Final = partial(Queue, "quorum", heartbeat=HEARTBEAT)
CLASSIC: Final = partial(Queue, "classic", heartbeat=HEARTBEAT)
PAIRS: Final[Mapping[str, Pair]] = {
    "rabbitmq-kafka": Pair("RabbitMQ -> Kafka", QUORUM, partial(Topic, False)),
    "kafka-rabbitmq": Pair("Kafka -> RabbitMQ", partial(Topic, False), QUORUM),
    "rabbitmq-rabbitmq": Pair("RabbitMQ -> RabbitMQ", CLASSIC, CLASSIC),
    "rabbitmq-rocketmq": Pair("RabbitMQ -> RocketMQ", QUORUM, RocketmqTopic),
    "rocketmq-rabbitmq": Pair("RocketMQ -> RabbitMQ", RocketmqTopic, QUORUM),
    "kafka-rocketmq": Pair("Kafka -> RocketMQ", partial(Topic, False), RocketmqTopic),
    "rocketmq-kafka": Pair("RocketMQ -> Kafka", RocketmqTopic, partial(Topic, False)),
    "rabbitmq-archive": Pair("RabbitMQ -> archive", QUORUM, Folder),
    "kafka-kafka": Pair("Kafka -> Kafka, once", partial(Topic, True), partial(Topic, True)),
}
