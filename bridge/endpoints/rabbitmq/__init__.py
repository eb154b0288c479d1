"""Queues, streams and exchanges of RabbitMQ: pika opens and keeps the connection, frequent frames bypass it."""
