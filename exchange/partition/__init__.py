"""Choose the partition of a message as the named client, in the named version, would have chosen it.

A partitioner is a value; the time, random numbers and the memory of a producer are arguments. Hashes are in a folder of
their own. ``STRATEGIES`` (in `exchange.partition.partitioning.strategies`) lists all strategies.
"""

from exchange.partition.hashing.compiled import compile_hashes
from exchange.partition.partitioner import (
    Appended,
    Choice,
    Inputs,
    LoadStats,
    NewBatch,
    Partitioner,
    PartitionRequest,
    Producer,
)
from exchange.partition.partitions import Broker, Partition, Partitions

__all__ = (
    "Appended", "Broker", "Choice", "Inputs", "LoadStats", "NewBatch", "Partition", "PartitionRequest",
    "Partitioner", "Partitions", "Producer", "compile_hashes",
)  # fmt: skip
