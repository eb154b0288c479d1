"""Partitions for whole columns of keys. Needs numpy (extra ``batch``), which no other module of the engine imports."""

from exchange.partition.batch.rules import UNDECIDED, PartitionArray, partition_batch

__all__ = ("UNDECIDED", "PartitionArray", "partition_batch")
