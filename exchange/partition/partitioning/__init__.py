"""How the messages of a queue are partitioned, as it is written in configuration and ``.bindings`` files."""

from exchange.partition.partitioning.specification import Partitioning

__all__ = ["Partitioning"]
