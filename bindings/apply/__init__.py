"""Carrying out a plan on a live RabbitMQ."""
