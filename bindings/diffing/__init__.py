"""The difference of two topologies: what to do, and what it means for messages."""
