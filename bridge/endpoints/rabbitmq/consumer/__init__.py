"""Queues and streams as sources: reading, how many at once, what was read before, and what waits."""
