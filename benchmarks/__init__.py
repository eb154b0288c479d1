"""What hashstar costs, beside a floor and its peers in the same run: ``python -m benchmarks``.

Never a timed test: a number means something only next to another one measured with it, on the same machine, in the same
minute.
"""
