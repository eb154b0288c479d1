"""A month of messages through a sample topology, and a report of what became of them: `python -m examples.demo`."""
