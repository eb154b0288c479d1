"""Pairs of places: what ``make chaos`` moves messages between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.chaos.kinds import Brokers
from tests.chaos.places import Folder, Queue, Readable, RocketmqTopic, Topic, Writable


class Pair(NamedTuple):
    """A source and a target; each is made from the brokers of a run, its side, and the folder of the run."""

    name: str
    source: Callable[[Brokers, str, Path], Readable]
    target: Callable[[Brokers, str, Path], Writable]
    exactly_once: bool = False


PAIRS: Final[Mapping[str, Pair]] = {
    "rabbitmq-kafka": Pair("RabbitMQ -> Kafka", partial(Queue, "quorum"), partial(Topic, False)),
    "kafka-rabbitmq": Pair("Kafka -> RabbitMQ", partial(Topic, False), partial(Queue, "quorum")),
    "rabbitmq-rabbitmq": Pair("RabbitMQ -> RabbitMQ", partial(Queue, "classic"), partial(Queue, "classic")),
    "rabbitmq-rocketmq": Pair("RabbitMQ -> RocketMQ", partial(Queue, "quorum"), RocketmqTopic),
    "rocketmq-rabbitmq": Pair("RocketMQ -> RabbitMQ", RocketmqTopic, partial(Queue, "quorum")),
    "kafka-rocketmq": Pair("Kafka -> RocketMQ", partial(Topic, False), RocketmqTopic),
    "rocketmq-kafka": Pair("RocketMQ -> Kafka", RocketmqTopic, partial(Topic, False)),
    "rabbitmq-archive": Pair("RabbitMQ -> archive", partial(Queue, "quorum"), Folder),
    "kafka-kafka": Pair("Kafka -> Kafka, once", partial(Topic, True), partial(Topic, True), exactly_once=True),
}
