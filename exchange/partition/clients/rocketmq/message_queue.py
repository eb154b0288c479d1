"""A queue as RocketMQ's clients represent it: the name of its broker, and its number there."""

from __future__ import annotations

from typing import NamedTuple

from exchange.partition.clients.rocketmq.queues import broker_name
from exchange.partition.hashing.java import code_units
from exchange.partition.partitions import Partition

__all__ = ["MessageQueue"]


class MessageQueue(NamedTuple):
    """`org.apache.rocketmq.common.message.MessageQueue` without the topic, as all queues here are of one topic."""

    broker: str
    queue_id: int

    @classmethod
    def of(cls, partition: Partition) -> MessageQueue:
        """Return the queue of a partition, whose name ends with its number: ``broker-a:1``."""
        return cls(broker_name(partition), int(partition.name.rpartition(":")[2]))

    @property
    def name(self) -> str:
        """Name of its partition."""
        return f"{self.broker}:{self.queue_id}"

    @property
    def order(self) -> tuple[bytes, int]:
        """Key to sort the queues of one topic by (`compareTo`)."""
        return code_units(self.broker), self.queue_id

    def text(self, topic: str) -> str:
        """Return ``toString()``, which consistent hashing hashes."""
        return f"MessageQueue [topic={topic}, brokerName={self.broker}, queueId={self.queue_id}]"
