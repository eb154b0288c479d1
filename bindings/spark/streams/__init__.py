"""Streams and super streams of RabbitMQ as sources of Spark."""
