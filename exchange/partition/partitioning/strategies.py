"""The table of all strategies, and that of other clients: which strategy chooses as their partitioners do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from exchange.errors import InputError
from exchange.partition.clients import go, kafka, kafka_classic, kafka_producer, librdkafka, rabbitmq
from exchange.partition.clients.rocketmq import selectors as rocketmq
from exchange.partition.partitioner import Partitioner, Strategy
from exchange.partition.python_function import PREFIX, STRATEGY
from exchange.text.display import suggest

STRATEGIES: Final[Mapping[str, Strategy]] = MappingProxyType({
    strategy.name: strategy
    for module in (kafka, kafka_classic, kafka_producer, librdkafka, go, rocketmq, rabbitmq)
    for strategy in module.STRATEGIES
})  # fmt: skip
"""Name -> strategy. A name has the client that it mirrors, and the version from which on if clients changed."""


def find_strategy(name: str) -> Strategy:
    """Return the strategy of a name, ``kafka.murmur2``. Raises InputError, which lists or suggests names."""
    if name.startswith(PREFIX):
        return STRATEGY
    strategy = STRATEGIES.get(name)
    if strategy is None:
        others = describe_others(name)
        if others:
            raise InputError(f"no partitioner {name!r}; {'; '.join(others)}")
        raise InputError(f"no partitioner {name!r}{suggest(name, STRATEGIES, or_list=True)}")
    return strategy


def build_partitioner(name: str, **parameters: str) -> Partitioner:
    """Build the partitioner of a strategy; parameters are texts. Raises InputError for one that it does not take."""
    strategy = find_strategy(name)
    values = {key: _parse_parameter(strategy, key, text) for key, text in parameters.items()}
    try:
        return strategy.make(**values)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def _parse_parameter(strategy: Strategy, parameter: str, text: str) -> Any:
    read = strategy.parameters.get(parameter)
    if read is None:
        takes = f"takes {', '.join(strategy.parameters)}" if strategy.parameters else "takes none"
        raise InputError(f"{strategy.name} has no parameter {parameter!r}; it {takes}")
    try:
        return read(text)
    except ValueError as error:
        raise InputError(f"{strategy.name}({parameter}={text}): {error}") from None


class OtherClient(NamedTuple):
    """A partitioner of a client that has no strategy of its own."""

    client: str
    partitioner: str
    strategy: str | None
    """The strategy that chooses the same partition for each key; None if none does."""
    note: str = ""

    def __str__(self) -> str:
        chooses = f"chooses as {self.strategy}" if self.strategy else "is not here: write it as python:MODULE:FUNCTION"
        return f"{self.client} {self.partitioner} {chooses}{f' ({self.note})' if self.note else ''}"


OTHER_CLIENTS: Final = (
    OtherClient("kafkajs", "DefaultPartitioner of 2.x, JavaCompatiblePartitioner of 1.x", "kafka.default_0_10_2"),
    OtherClient(
        "kafkajs", "LegacyPartitioner, default of 1.x", None, "its murmur2 multiplies doubles, which lose bits"
    ),
    OtherClient("kafka-python", "DefaultPartitioner, StickyPartitioner", "librdkafka.murmur2_random", "keys alike"),
    OtherClient("aiokafka", "DefaultPartitioner", "librdkafka.murmur2_random"),
    OtherClient("kafka-go", "Hash", "sarama.hash", "keys; without one, in turn"),
    OtherClient("kafka-go", "ReferenceHash", "sarama.reference_hash", "without a key, at random"),
    OtherClient("kafka-go", "CRC32Balancer", "librdkafka.consistent_random", "with Consistent: librdkafka.consistent"),
    OtherClient("kafka-go", "Murmur2Balancer", "librdkafka.murmur2_random", "with Consistent: librdkafka.murmur2"),
    OtherClient("kafka-go", "RoundRobin (its default) or LeastBytes", None, "it ignores the key"),
    OtherClient("sarama", "NewCustomHashPartitioner(fnv.New32a)", "sarama.hash"),
    OtherClient("sarama", "NewCustomHashPartitioner(crc32.NewIEEE)", None, "its hash is signed, sarama.crc32's is not"),
    OtherClient("confluent-kafka", "partitioner=NAME", "librdkafka.NAME", "confluent-kafka-python, -go, -dotnet"),
    OtherClient("kafka-javascript", "its API of kafkajs", "librdkafka.murmur2_random", "unless partitioner is set"),
    OtherClient("node-rdkafka", "partition null or -1", "librdkafka.consistent_random", "unless partitioner is set"),
    OtherClient("rust-rdkafka", "without a Partitioner", "librdkafka.consistent_random", "unless partitioner is set"),
    OtherClient("krafka", "DefaultPartitioner, StickyPartitioner", "kafka.murmur2", "the empty key is none"),
    OtherClient("krafka", "HashPartitioner", "kafka.murmur2", "without a key, or with the empty one, partition 0"),
    OtherClient("krafka", "RoundRobinPartitioner", None, "it ignores the key"),
    OtherClient("waterdrop", "key: of karafka's producer", "librdkafka.consistent_random", "unless partitioner is set"),
    OtherClient(
        "waterdrop", "partition_key:", "librdkafka.consistent_random",
        "of ASCII; of other texts as many bytes as they have characters",
    ),
    OtherClient("ruby-kafka", "Partitioner with crc32, its default", "sarama.crc32", "the empty key is a key"),
    OtherClient("ruby-kafka", "Partitioner with murmur2", "sarama.murmur2"),
    OtherClient("spring-kafka", "KafkaTemplate: none of its own", "kafka.murmur2", "that of its kafka-clients, 3.3+"),
    OtherClient("spring-kafka", "DeadLetterPublishingRecoverer", None, "the failed record's partition, not its key"),
    OtherClient("spring-cloud", "Stream's partitionKeyExpression", None, "kafka.hash_code, with 0 for MIN_VALUE"),
)  # fmt: skip
ALIASES: Final = {"karafka": "waterdrop", "rdkafka-ruby": "waterdrop", "rdkafka": "rust-rdkafka"}
"""Another name of a client -> its name in the table."""
NAME: Final = re.compile(r"[a-z]+(?:[-_][a-z]+)?")


def describe_others(name: str) -> list[str]:
    """Return what is known of a client that a name begins with: ``kafkajs``, ``kafka-go.Hash``."""
    found = NAME.match(name.lower())
    client = found[0].replace("_", "-") if found else ""
    rows = [row for row in OTHER_CLIENTS if row.client == ALIASES.get(client, client)]
    exact = [row for row in rows if row.partitioner.lower() in name.lower()]
    return [str(row) for row in exact or rows]
