"""Draw the partitions behind queues: the topic of Kafka or RocketMQ, or the super stream, that a queue goes on to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from bindings.drawing.model import Drawing, Edge, Node, NodeId
from exchange.partition.partitioning.specification import Partitioning
from exchange.text.display import count_noun, list_some

__all__ = ["add_partitions"]

SYSTEMS: Final = {
    "kafka": ("Kafka topic", "partition"),
    "librdkafka": ("Kafka topic", "partition"),
    "sarama": ("Kafka topic", "partition"),
    "franz-go": ("Kafka topic", "partition"),
    "rocketmq": ("RocketMQ topic", "queue"),
    "rabbitmq": ("super stream", "partition"),
}
"""First word of a strategy -> what has the partitions, and what one of them is called there."""
NAMES: Final = 3
"""Maximum number of brokers or streams that are listed."""


def add_partitions(drawing: Drawing) -> Drawing:
    """Return the drawing with a node of the kind ``partitions`` behind each partitioned queue or bundle of queues."""
    nodes: list[Node] = []
    edges: list[Edge] = []
    for node in drawing.nodes:
        nodes.append(node)
        partitioning = node.partitioning
        if partitioning is not None and node.kind in ("queue", "bundle"):
            behind = NodeId("partitions", node.id.name, node.id.part)
            nodes.append(Node(behind, "partitions", _describe(partitioning), _name_system(partitioning),
                              partitioning=partitioning))  # fmt: skip
            label = f"{partitioning.strategy} by {partitioning.key}"
            edges.append(Edge(node.id, behind, (label,), "partitions"))
    return replace(drawing, nodes=tuple(nodes), edges=(*drawing.edges, *edges))


def _name_system(partitioning: Partitioning) -> str:
    """Return what has the partitions: ``Kafka topic``; ``topic`` for a partitioner that is not in the table."""
    return SYSTEMS.get(partitioning.strategy.partition(".")[0], ("topic", ""))[0]


def _describe(partitioning: Partitioning) -> str:
    """Return the number of partitions, and the brokers or streams that have them, where these are named."""
    noun = SYSTEMS.get(partitioning.strategy.partition(".")[0], ("", "partition"))[1]
    number = count_noun(partitioning.partitions.count, noun)
    if partitioning.partitions == type(partitioning.partitions).of(partitioning.partitions.count):
        return number
    brokers = Counter(partition.leader.name for partition in partitioning.partitions if partition.leader is not None)
    if any(brokers):
        return f"{number}: {list_some([f'{name} {n}' for name, n in brokers.items()], NAMES)}"
    return f"{number}: {list_some([partition.name for partition in partitioning.partitions], NAMES)}"
