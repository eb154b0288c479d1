"""Clients whose partitioners have other names here are named with the strategy that chooses alike."""

from __future__ import annotations

import pytest

from exchange import InputError
from exchange.partition.partitioning.strategies import OTHER_CLIENTS, STRATEGIES, find_strategy
from tests.support.cases import with_each


@with_each(("name", "says"), [
    ("kafkajs", "kafka.default_0_10_2"), ("kafka-go", "sarama.hash"), ("kafka_go.Hash", "sarama.hash"),
    ("kafka-python", "librdkafka.murmur2_random"), ("aiokafka", "librdkafka.murmur2_random"),
    ("Sarama.NewCustomHashPartitioner(crc32.NewIEEE)", "is not here: write it as python:MODULE:FUNCTION"),
    ("confluent-kafka", "librdkafka.NAME"),
    ("node-rdkafka", "librdkafka.consistent_random"), ("rust-rdkafka", "librdkafka.consistent_random"),
    ("rdkafka", "rust-rdkafka without a Partitioner chooses as librdkafka.consistent_random"),
    ("krafka.DefaultPartitioner", "kafka.murmur2"), ("krafka.RoundRobinPartitioner", "it ignores the key"),
    ("karafka", "waterdrop key: of karafka's producer chooses as librdkafka.consistent_random"),
    ("waterdrop", "as many bytes as they have characters"), ("rdkafka-ruby", "waterdrop partition_key:"),
    ("spring-kafka", "KafkaTemplate: none of its own chooses as kafka.murmur2"),
    ("spring-kafka.DeadLetterPublishingRecoverer", "the failed record's partition, not its key"),
])  # fmt: skip
def test_a_name_that_people_ask_about_is_answered(name: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        find_strategy(name)
    assert says in str(error.value)


def test_the_strategies_of_other_clients_exist() -> None:
    named = {row.strategy for row in OTHER_CLIENTS} - {None, "librdkafka.NAME"}
    assert named <= set(STRATEGIES)
    with pytest.raises(InputError, match=r"did you mean 'kafka\.murmur2'"):
        find_strategy("kafka.murmur")


def test_no_partitioner_is_said_to_be_missing_that_a_strategy_mirrors() -> None:
    missing = [(row.client, row.partitioner) for row in OTHER_CLIENTS if row.strategy is None]
    mirrored = [strategy.mirrors.lower() for strategy in STRATEGIES.values()]
    assert [each for each in missing if any(all(word.lower() in text for word in each) for text in mirrored)] == []
