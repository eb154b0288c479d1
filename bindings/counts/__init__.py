"""Counts of messages that add up: tallies, comparisons and verifications, each with ``+`` and a file format."""
