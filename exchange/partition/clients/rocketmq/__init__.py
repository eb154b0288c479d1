"""RocketMQ: which queue its clients choose, what they do when sending fails, and how consumers divide the queues.

`selectors` has the strategies by name; `queues` makes the list that they choose from. `round_robin`, `faults` and
`send` are what the Java client does without a selector; `allocation` is for consumers, `scaling` for operators.
"""
