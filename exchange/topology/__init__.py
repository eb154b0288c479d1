"""A set of entities, and RabbitMQ's rules for changing it."""

from exchange.topology.topology import Topology

__all__ = ["Topology"]
