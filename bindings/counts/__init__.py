"""What adds: tallies, comparisons and verifications, each with ``+`` and a file format."""
