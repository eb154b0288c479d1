"""The partitioning of a queue, as written in configuration and ``.bindings`` files."""

from exchange.partition.partitioning.specification import Partitioning

__all__ = ["Partitioning"]
