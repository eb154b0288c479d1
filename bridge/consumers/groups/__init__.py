"""Consumer groups on RabbitMQ: a queue in partitions, whose members share them, in order for each key.

Needs the extra ``aio-pika``. `PartitionedQueue` names what is declared, `create` and `resize`
declare it, a `Publisher` chooses partitions by key, a `ConsumerGroup` is one member, `describe` looks at all of them.
"""

from __future__ import annotations

from bridge.consumers.groups.description import Description, describe
from bridge.consumers.groups.group import ConsumerGroup
from bridge.consumers.groups.names import PartitionedQueue
from bridge.consumers.groups.publisher import Publisher
from bridge.consumers.groups.resizing import create, resize

__all__ = ["ConsumerGroup", "Description", "PartitionedQueue", "Publisher", "create", "describe", "resize"]
