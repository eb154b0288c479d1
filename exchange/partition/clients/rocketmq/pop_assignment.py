"""Which queues each member of a RocketMQ group pops: the assignment that brokers of 5.x compute for them.

Unlike queues that are pulled, a queue may be popped by several members at once: the broker hides what one has popped
from the others. So a slow member delays no queue, and there may be more members than queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.allocation import Allocation
from exchange.partition.clients.rocketmq.message_queue import MessageQueue
from exchange.partition.partitions import Partition

__all__ = ["ANY_QUEUE", "assign_pop"]

ANY_QUEUE: Final = -1
"""Number that stands for all queues of a topic at a broker."""


def assign_pop(
    allocation: Allocation,
    topic: str,
    client: str,
    queues: Sequence[Partition],
    clients: Sequence[str],
    share_queues: int = 0,
) -> frozenset[MessageQueue]:
    """Return the queues that one client pops (`QueryAssignmentProcessor.allocate4Pop`).

    Both lists are sorted, as for `exchange.partition.clients.rocketmq.allocation.rebalance`. ``share_queues`` is
    ``popShareQueueNum``: 0, or as many as there are other clients, lets each client pop all queues of all brokers. Else
    a client pops its own queues by the allocation, and those of the next ``share_queues`` clients; where there are more
    clients than queues, each pops one. A client that is not in the list gets nothing with a share, everything without.
    Raises InputError where the allocation throws: the broker answers no assignment then.
    """
    if share_queues <= 0 or share_queues >= len(clients) - 1:
        return frozenset([MessageQueue(MessageQueue.of(queue).broker, ANY_QUEUE) for queue in queues])
    if len(clients) > len(queues):
        if not client.strip() or not queues:
            raise InputError("currentCID is empty" if queues else "mqAll is null or mqAll empty")
        if client not in clients:
            return frozenset()
        return frozenset([MessageQueue.of(queues[clients.index(client) % len(queues)])])
    ours = list(allocation.allocate(topic, client, queues, clients))
    if client in clients:
        index = clients.index(client)
        for step in range(1, share_queues + 1):
            ours += allocation.allocate(topic, clients[(index + step) % len(clients)], queues, clients)
    return frozenset(map(MessageQueue.of, ours))
