"""RocketMQ: which queue its clients choose, what they do when that fails, and how queues come, go and are shared out.

`selectors` holds the strategies one can name; `queues` makes the list they choose from. `round_robin`, `faults` and
`send` are what the Java client does without a selector; `allocation` is its consumers' side, `scaling` the operator's.
"""
