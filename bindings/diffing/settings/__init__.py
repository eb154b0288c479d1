"""Which settings in force differ between two topologies, and what that means to the messages in queues."""
