"""The queue of a message that is sent by RocketMQ 5's gRPC protocol, by its message group.

The client chooses first, then the proxy. The client picks a queue and sends the message to the endpoint of its broker;
the proxy there chooses the queue in which the message is stored, whatever queue the client picked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from exchange.errors import InputError
from exchange.field_values import Typed
from exchange.partition.clients.rocketmq.queues import by_broker
from exchange.partition.hashing.guava import consistent_hash, sip_hash_24
from exchange.partition.hashing.hashes import signed
from exchange.partition.hashing.java import decode_string, string_hash
from exchange.partition.hashing.keys import describe_key
from exchange.partition.partitioner import Choice, Inputs, Key, Partitioner
from exchange.partition.partitions import Partition, Partitions

__all__ = ["GrpcJava", "GrpcProxy", "text_of"]

NOT_SPACE_TO_JAVA: Final = frozenset("\x85\xa0\u2007\u202f")
"""Characters that are white space to Python, but not to ``Character.isWhitespace``."""


def text_of(key: Key, called: str) -> str | None:
    """Return the text of a key that must be a text, None for no key. Raises InputError for other types."""
    if isinstance(key, Typed) and key.type == "longstr":
        key = decode_string(key.value) if isinstance(key.value, bytes) else key.value
    if key is None or isinstance(key, str):
        return key
    raise InputError(f"a {called} is a string, not {describe_key(key)}")


@dataclass(frozen=True, slots=True)
class _Grpc(Partitioner):
    """A choice by message group; without a group the queues take turns, beginning at random."""

    empty_is_none: ClassVar[bool]

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        group = text_of(key, "message group")
        if group is None or (self.empty_is_none and not group):
            return Choice(None, None, "no message group: the queues take turns")
        return self._of_group(group, partitions)

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        choice = self.choose(key, partitions)
        if choice.partition is not None:
            return choice, memory
        queue = self._queues(partitions)[memory % partitions.count]
        return Choice(queue.id, None, f"turn {memory} mod {partitions.count}"), signed(memory + 1)

    def _queues(self, partitions: Partitions) -> tuple[Partition, ...]:
        return partitions.all

    def _of_group(self, group: str, partitions: Partitions) -> Choice:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class GrpcProxy(_Grpc):
    """The proxy's choice: Guava's consistent hash of the group's hashCode, over the queues sorted by broker.

    `org.apache.rocketmq.proxy.grpc.v2.producer.SendMessageActivity.SendMessageQueueSelector`. A request with several
    messages is treated as one without a group. The turns are those of a proxy that serves only this producer. Raises
    InputError for a blank group, which the proxy refuses. The proxy also refuses groups with control characters and,
    unless ``maxMessageGroupSize`` is raised, of 64 bytes or more; for these, the choice is as if it did not.
    """

    empty_is_none: ClassVar = True

    def memory(self, inputs: Inputs) -> int:
        return signed(inputs.draw(1 << 32))

    def _queues(self, partitions: Partitions) -> tuple[Partition, ...]:
        return by_broker(partitions)

    def _of_group(self, group: str, partitions: Partitions) -> Choice:
        if group.isspace() and NOT_SPACE_TO_JAVA.isdisjoint(group):
            raise InputError("the proxy refuses a blank message group (ILLEGAL_MESSAGE_GROUP): send none, or a name")
        hashed = string_hash(group)
        queue = self._queues(partitions)[consistent_hash(hashed, partitions.count)]
        return Choice(queue.id, hashed, f"consistentHash(hash, {partitions.count})")


@dataclass(frozen=True, slots=True)
class GrpcJava(_Grpc):
    """The Java client's pick: SipHash of the group, over the writable queues of masters in the order of the route.

    `org.apache.rocketmq.client.java.impl.producer.PublishingLoadBalancer`; the Go client's is the same. The turns are
    those of a client that excludes no endpoint.
    """

    empty_is_none: ClassVar = False

    def memory(self, inputs: Inputs) -> int:
        return inputs.draw((1 << 31) - 1)

    def _of_group(self, group: str, partitions: Partitions) -> Choice:
        hashed = sip_hash_24(group.encode("utf-8", "replace"))
        return Choice(partitions.all[hashed % partitions.count].id, hashed, f"floorMod(hash, {partitions.count})")
