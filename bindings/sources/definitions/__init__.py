"""RabbitMQ's definitions as values: entries, positions in the text, warnings of an import, what only we add."""

from bindings.sources.definitions.definitions import Definitions, load_topology

__all__ = ["Definitions", "load_topology"]
