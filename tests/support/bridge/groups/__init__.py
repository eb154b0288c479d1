"""A consumer group of processes, which are killed and stopped, and what must hold of all that they handled."""
