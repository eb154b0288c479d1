"""Formats of what RabbitMQ and its tools write: traces, queues that were dumped, answers of the management API."""
