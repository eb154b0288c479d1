"""`hashstar rocketmq scale`: change the number of queues of a RocketMQ topic while it is in use, without a loss.

The order of the steps is decided by `exchange.partition.clients.rocketmq.scaling`. `topic_state` reads the brokers,
`scaling` carries the steps out. There is no file with a state: the brokers' numbers are the state, so a run that was
ended is continued by the next one.
"""
