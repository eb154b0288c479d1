"""Consuming messages from RocketMQ as a member of a group."""
