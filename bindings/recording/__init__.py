"""A proxy between clients and a broker that records what clients declare and ask, without passwords and messages."""
