"""Patterns of routing keys: parsing, matching one key, and matching a key against many patterns at once."""
