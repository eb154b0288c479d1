"""Which partition a message goes to: chosen as the named client, in the named version, would have chosen.

A partitioner is a value; the hash is apart from the strategy; time, chance and what a producer remembers come from
outside. ``STRATEGIES`` (in `exchange.partition.partitioning.strategies`) names them all.
"""

from exchange.partition.partitioner import (
    Appended,
    Choice,
    Inputs,
    LoadStats,
    NewBatch,
    Partitioner,
    Producer,
)
from exchange.partition.partitions import Broker, Partition, Partitions

__all__ = (
    "Appended", "Broker", "Choice", "Inputs", "LoadStats", "NewBatch", "Partition", "Partitioner", "Partitions",
    "Producer",
)  # fmt: skip
