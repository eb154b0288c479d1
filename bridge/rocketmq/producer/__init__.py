"""Sending messages to RocketMQ."""
