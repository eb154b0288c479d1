"""Consumption by POP: messages of shared queues are hidden for a time, and acknowledged one by one (RocketMQ 5)."""
