"""A broker for tests that any AMQP client can connect to."""

from bindings.testing.server.server import AmqpServer

__all__ = ["AmqpServer"]
