"""The queue of a message that is sent by RocketMQ 5's gRPC protocol, by its message group, or else its lite topic.

The client chooses first, then the proxy. The client picks a queue and sends the message to the endpoint of its broker;
the proxy there chooses the queue in which the message is stored, whatever queue the client picked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import group_by_broker
from exchange.partition.hashing.compiled import get_hashes
from exchange.partition.hashing.hashes import to_signed
from exchange.partition.hashing.java import decode_string
from exchange.partition.hashing.keys import describe_key
from exchange.partition.partitioner import Choice, Inputs, Key, Partitioner
from exchange.partition.partitions import Partition, Partitions
from exchange.values.field_values import Typed

NOT_SPACE_TO_JAVA: Final = frozenset("\x85\xa0\u2007\u202f")
"""Characters that are white space to Python, but not to ``Character.isWhitespace``."""


def require_text(key: Key, called: str) -> str | None:
    """Return the text of a key that must be a text, None for no key. Raises InputError for other types."""
    if type(key) is str:
        return key
    if isinstance(key, Typed) and key.type == "longstr":
        key = decode_string(key.value) if isinstance(key.value, bytes) else key.value
    if key is None or isinstance(key, str):
        return key
    raise InputError(f"a {called} is a string, not {describe_key(key)}")


@dataclass(frozen=True, slots=True)
class _Grpc(Partitioner):
    """A choice by message group; without a group the queues take turns, beginning at random."""

    empty_is_none: ClassVar[bool]
    rule: ClassVar[str]

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        group = self._group(key)
        if group is None:
            return Choice(None, None, "no message group: the queues take turns")
        hashed = self._hash(group)
        queue = self._queues(partitions)[self._position(hashed, partitions.count)]
        return Choice(queue.id, hashed, self.rule.format(partitions.count))

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        group = self._group(key)
        if group is None:
            return None
        return self._queues(partitions)[self._position(self._hash(group), partitions.count)].id

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        choice = self.choose(key, partitions)
        if choice.partition is not None:
            return choice, memory
        queue = self._queues(partitions)[memory % partitions.count]
        return Choice(queue.id, None, f"turn {memory} mod {partitions.count}"), to_signed(memory + 1)

    def _queues(self, partitions: Partitions) -> tuple[Partition, ...]:
        return partitions.all

    def _group(self, key: Key) -> str | None:
        """Return the message group; None for no group."""
        group = require_text(key, "message group")
        return None if self.empty_is_none and not group else group

    def _hash(self, group: str) -> int:
        raise NotImplementedError

    def _position(self, hashed: int, count: int) -> int:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class GrpcProxy(_Grpc):
    """The proxy's choice: Guava's consistent hash of the group's hashCode, over the queues sorted by broker.

    Of a message without a group it is the hash of the lite topic (5.5), if it has one; brokers give the consumers of a
    lite topic to the broker of that queue (`LiteShardingImpl`).
    `org.apache.rocketmq.proxy.grpc.v2.producer.SendMessageActivity.SendMessageQueueSelector`. A request with several
    messages is treated as one without a group. The turns are those of a proxy that serves only this producer. Raises
    InputError for a blank group, which the proxy refuses. The proxy also refuses groups with control characters and,
    unless ``maxMessageGroupSize`` is raised, of 64 bytes or more; for these, the choice is as if it did not.
    """

    empty_is_none: ClassVar = True
    rule: ClassVar = "consistentHash(hash, {})"

    def memory(self, inputs: Inputs) -> int:
        return to_signed(inputs.draw(1 << 32))

    def _queues(self, partitions: Partitions) -> tuple[Partition, ...]:
        return group_by_broker(partitions)

    def _hash(self, group: str) -> int:
        if group.isspace() and NOT_SPACE_TO_JAVA.isdisjoint(group):
            raise InputError("the proxy refuses a blank message group (ILLEGAL_MESSAGE_GROUP): send none, or a name")
        return get_hashes().string_hash(group)

    def _position(self, hashed: int, count: int) -> int:
        return get_hashes().consistent_hash(hashed, count)


@dataclass(frozen=True, slots=True)
class GrpcJava(_Grpc):
    """The Java client's pick: SipHash of the group, over the writable queues of masters in the order of the route.

    `org.apache.rocketmq.client.java.impl.producer.PublishingLoadBalancer`; the Go client's is the same. The turns are
    those of a client that excludes no endpoint.
    """

    empty_is_none: ClassVar = False
    rule: ClassVar = "floorMod(hash, {})"

    def memory(self, inputs: Inputs) -> int:
        return inputs.draw((1 << 31) - 1)

    def _hash(self, group: str) -> int:
        return get_hashes().sip_hash_24(group.encode("utf-8", "replace"))

    def _position(self, hashed: int, count: int) -> int:
        return hashed % count
