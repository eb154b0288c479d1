"""The queue of a message with a priority: a broker of RocketMQ 5.4 or later chooses it, whatever the client chose.

`org.apache.rocketmq.broker.processor.SendMessageProcessor`: the broker that the client has chosen stores the message in
its queue with the number of the priority, or in its last one. A member of a group that pops a topic of the type
PRIORITY reads the queue with the highest number first. The type of the topic does not matter where messages are stored.

A message has its priority only alone in its request, and without a sharding key, delay or transaction. Others stay
where the client puts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import find_broker_name
from exchange.partition.clients.rocketmq.round_robin import RoundRobin
from exchange.partition.hashing.java import decode_string
from exchange.partition.hashing.keys import describe_key
from exchange.partition.partitioner import Choice, Inputs, Key
from exchange.partition.partitions import Partition, Partitions
from exchange.values.field_values import INTEGER_TYPES, Typed
from exchange.values.java_numbers import NotANumber, parse_integer

PRIORITY: Final = "_SYS_MSG_PRIORITY_"
"""The property that has the priority, in digits."""
GREATEST: Final = (1 << 31) - 1


def parse_priority(text: str) -> int | None:
    """Return the priority that a broker reads; None for what it takes for none (`NumberUtils.toInt`)."""
    try:
        priority = parse_integer(text)
    except NotANumber:
        return None
    return priority if priority >= 0 else None


@dataclass(frozen=True, slots=True)
class Priority(RoundRobin):
    """The key is the priority, a number or its digits; without one, the queue is that of `RoundRobin`.

    With several brokers the priority alone does not decide: the queue is at the broker whose turn it is, as for
    ``send(Message)`` of a client of this ``version``. Raises InputError for a key that is no number.
    """

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        priority = _read_priority(key)
        if priority is None:
            return RoundRobin.choose(self, None, partitions)
        if len({find_broker_name(each) for each in partitions.all}) > 1:
            return Choice(None, None, f"queue {priority}, or the last one, of the broker whose turn it is")
        return _take(priority, partitions.all)

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        return self.choose(key, partitions).partition

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        turn, memory = RoundRobin.choose_next(self, None, partitions, memory, inputs)
        priority = _read_priority(key)
        if priority is None or turn.partition is None:
            return turn, memory
        broker = find_broker_name(partitions[turn.partition])
        return _take(priority, [each for each in partitions.all if find_broker_name(each) == broker]), memory


def _take(priority: int, queues: list[Partition] | tuple[Partition, ...]) -> Choice:
    queue = queues[min(priority, len(queues) - 1)]
    return Choice(queue.id, None, f"min({priority}, {len(queues) - 1})")


def _read_priority(key: Key) -> int | None:
    if isinstance(key, Typed) and (key.type in INTEGER_TYPES or key.type == "longstr"):
        key = key.value
    if isinstance(key, bytes):
        key = decode_string(key)
    if key is None:
        return None
    if isinstance(key, str):
        return parse_priority(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return parse_priority(str(key)) if abs(key) <= GREATEST else None
    raise InputError(f"a priority is a number, not {describe_key(key)}")
