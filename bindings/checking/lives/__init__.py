"""What may become of messages in the queues of a topology, for all messages at once: the rules 32x."""
