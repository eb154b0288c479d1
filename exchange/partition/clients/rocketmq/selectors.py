"""How RocketMQ's clients choose one of a topic's queues, and the table of all its strategies.

Partitions are the publish queue list (`exchange.partition.clients.rocketmq.queues`). The client calls a selector with
this list, the message and an argument, which is the key here; it tries the queue that the selector returns once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.grpc import GrpcJava, GrpcProxy, require_text
from exchange.partition.clients.rocketmq.priority import Priority
from exchange.partition.clients.rocketmq.queues import find_broker_name
from exchange.partition.clients.rocketmq.round_robin import RoundRobin
from exchange.partition.hashing.hashes import to_absolute
from exchange.partition.hashing.java import LEAST_INT, JavaRandom, compute_remainder, hash_code, string_hash
from exchange.partition.hashing.librdkafka import fnv1a_hash
from exchange.partition.partitioner import Choice, Inputs, Key, Partitioner, Strategy
from exchange.partition.partitions import Partition, Partitions


class MQClientException(InputError):
    """The error that a client's ``send`` throws when it cannot choose (`org.apache.rocketmq.client.exception`)."""


@dataclass(frozen=True, slots=True)
class ByHash(Partitioner):
    """`SelectMessageQueueByHash` since 4.8.0: the absolute value of the remainder of the hash.

    Raises MQClientException without a key, InputError for a key without a hashCode.
    """

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        hashed = _hash_code(key)
        count = partitions.count
        return Choice(partitions.all[abs(compute_remainder(hashed, count))].id, hashed, f"abs(hash % {count})")

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        return partitions.all[abs(_hash_code(key)) % partitions.count].id


@dataclass(frozen=True, slots=True)
class ByHash40(Partitioner):
    """`SelectMessageQueueByHash` of 4.0-4.7: the remainder of the absolute value of the hash.

    Integer.MIN_VALUE has no absolute value: a key with this hash raises MQClientException, unless the number of queues
    divides the hash. All other keys have the same queue as with `ByHash`.
    """

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        hashed = _hash_code(key)
        position = compute_remainder(to_absolute(hashed), partitions.count)
        return Choice(_at(position, partitions, "rocketmq.hash").id, hashed, f"abs(hash) % {partitions.count}")

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        hashed = _hash_code(key)
        if hashed == LEAST_INT:
            return self.choose(key, partitions).partition
        return partitions.all[abs(hashed) % partitions.count].id


@dataclass(frozen=True, slots=True)
class ByRandom(Partitioner):
    """`SelectMessageQueueByRandom` since 4.2.0: a java.util.Random, seeded with the time of the selector's creation.

    So two selectors that were created in the same millisecond choose the same queues. A producer has one selector.
    """

    one_memory: ClassVar = True

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        return Choice(None, None, "Random(the selector's birth in milliseconds)")

    def memory(self, inputs: Inputs) -> JavaRandom:
        return JavaRandom.seeded(inputs.now)

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        position, memory = memory.next_int(partitions.count)
        return Choice(partitions.all[position].id, None, f"nextInt({partitions.count})"), memory


@dataclass(frozen=True, slots=True)
class ByRandoom(ByRandom):
    """`SelectMessageQueueByRandoom` of 4.0 and 4.1: the remainder of the absolute value of 32 bits of the same Random.

    It fails for Integer.MIN_VALUE as `ByHash40` does.
    """

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        value, memory = memory.next(32)
        queue = _at(compute_remainder(to_absolute(value), partitions.count), partitions, "rocketmq.random")
        return Choice(queue.id, None, f"abs(nextInt()) % {partitions.count}"), memory


@dataclass(frozen=True, slots=True)
class ByMachineRoom(Partitioner):
    """What the name of `SelectMessageQueueByMachineRoom` promises: only queues in the consumers' machine rooms.

    RocketMQ never implemented it: its ``select`` returns null, and ``send`` fails, as it does here with ``faithful``.
    Without ``faithful``, a broker's room is taken from its name ``room@broker``, as by
    `AllocateMessageQueueByMachineRoom`, and the choice is that of `ByHash` among the queues of brokers in one of
    ``consumeridcs``. Raises MQClientException if there are none.
    """

    consumeridcs: frozenset[str]
    """Machine rooms of the consumers."""
    faithful: bool = False
    """Whether it fails as RocketMQ's does."""

    def __init__(self, consumeridcs: Iterable[str] = (), *, faithful: bool = False) -> None:
        object.__setattr__(self, "consumeridcs", frozenset(consumeridcs))
        object.__setattr__(self, "faithful", faithful)

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        if self.faithful:
            raise MQClientException("MQClientException: select message queue return null.")
        here = self._queues_near_by(partitions)
        hashed = _hash_code(key)
        rule = f"abs(hash % {len(here)}) of the queues in {', '.join(sorted(self.consumeridcs))}"
        return Choice(here[abs(compute_remainder(hashed, len(here)))].id, hashed, rule)

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        here = () if self.faithful else _queues_in(partitions, self.consumeridcs)
        if not here:
            return self.choose(key, partitions).partition
        return here[abs(_hash_code(key)) % len(here)].id

    def _queues_near_by(self, partitions: Partitions) -> tuple[Partition, ...]:
        here = _queues_in(partitions, self.consumeridcs)
        if not here:
            rooms = sorted({room for room in map(_room, partitions) if room is not None})
            raise MQClientException(
                f"no queue is in the machine rooms {', '.join(sorted(self.consumeridcs)) or '(none given)'}; brokers "
                f"named room@broker are in {', '.join(rooms) or 'none'}"
            )
        return here


@dataclass(frozen=True, slots=True)
class Explicit(Partitioner):
    """The queue of ``send(Message, MessageQueue)``: the key is its name, ``broker-a:1``."""

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        name = require_text(key, "queue's name")
        for partition in partitions:
            if partition.name == name:
                return Choice(partition.id, None, f"the queue {name}")
        raise InputError(f"no queue {name!r}; there are {', '.join([partition.name for partition in partitions])}")


@dataclass(frozen=True, slots=True)
class GoHash(Partitioner):
    """The Go client's `hashQueueSelector` (apache/rocketmq-client-go v2): FNV-1a of the sharding key.

    Without a sharding key, or with an empty one, the queue is random.
    """

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        sharding_key = require_text(key, "sharding key")
        if not sharding_key:
            return Choice(None, None, "no sharding key: a random queue")
        hashed = fnv1a_hash(sharding_key.encode("utf-8", "replace"))
        return Choice(partitions.all[hashed % partitions.count].id, hashed, f"hash % {partitions.count}")

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        sharding_key = require_text(key, "sharding key")
        if not sharding_key:
            return None
        return partitions.all[fnv1a_hash(sharding_key.encode("utf-8", "replace")) % partitions.count].id

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        choice = self.choose(key, partitions)
        if choice.partition is None:
            choice = choice._replace(partition=partitions.all[inputs.draw(partitions.count)].id)
        return choice, memory


def _hash_code(key: Key) -> int:
    if type(key) is str:
        return string_hash(key)
    if key is None:
        raise MQClientException(
            "MQClientException: select message queue threw exception. (NullPointerException: a selector hashes its "
            "argument and here is none; without a selector queues take turns: rocketmq.round_robin)"
        )
    return hash_code(key)


def _at(position: int, partitions: Partitions, mended: str) -> Partition:
    """Return ``mqs.get(position)``. Raises MQClientException, naming the ``mended`` strategy, if it is negative."""
    if position < 0:
        raise MQClientException(
            "MQClientException: select message queue throwed exception. (IndexOutOfBoundsException: Math.abs leaves "
            f"Integer.MIN_VALUE negative, {position} of {partitions.count} queues; {mended} is its later version)"
        )
    return partitions.all[position]


@lru_cache(maxsize=64)
def _queues_in(partitions: Partitions, rooms: frozenset[str]) -> tuple[Partition, ...]:
    return tuple([partition for partition in partitions if _room(partition) in rooms])


def _room(partition: Partition) -> str | None:
    room, *broker = find_broker_name(partition).rstrip("@").split("@")  # Java's split drops empty texts at the end
    return room if len(broker) == 1 else None


KEYED: Final = "a key has one queue as long as the queue list stays; the key's Java type is part of the key"
MOVES: Final = (
    "a lost master or another number of write queues moves nearly all keys, unless an order configuration keeps the "
    "list; a queue chosen by key is tried once"
)
EVEN: Final = "the same number of messages for each queue and thread; no order"
FOR_NO_KEY: Final = "keys are not looked at"


def _rooms(text: str) -> list[str]:
    return [room.strip() for room in text.split(",")]


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("true or false")
    return text == "true"


def _row(name: str, make: Callable[..., Partitioner], mirrors: str, promise: str, cost: str, **read: Any) -> Strategy:
    return Strategy(f"rocketmq.{name}", make, mirrors, promise, cost, lists_queues=True, parameters=read)


STRATEGIES: Final = (
    _row("hash", ByHash, "rocketmq-client 4.8+ SelectMessageQueueByHash", KEYED, MOVES),
    _row("hash_4_0", ByHash40, "rocketmq-client 4.0-4.7 SelectMessageQueueByHash",
         f"{KEYED}; the queue of rocketmq.hash", f"{MOVES}; sending fails for keys whose hash is Integer.MIN_VALUE"),
    _row("random", ByRandom, "rocketmq-client 4.2+ SelectMessageQueueByRandom",
         "about the same number of messages for each queue; no order", "selectors made at one time choose the same"),
    _row("random_4_0", ByRandoom, "rocketmq-client 4.0-4.1 SelectMessageQueueByRandoom",
         "about the same number of messages for each queue; no order", "fails once in some 4 billion messages"),
    _row("machine_room", ByMachineRoom, "what rocketmq-client SelectMessageQueueByMachineRoom announces; it returns "
         "null, as faithful=true does", f"only queues of brokers room@broker in consumeridcs (a,b); {KEYED}",
         f"queues elsewhere stay empty; {MOVES}", consumeridcs=_rooms, faithful=_truth),
    _row("round_robin", RoundRobin, "rocketmq-client TopicPublishInfo.selectOneMessageQueue, of the version given",
         EVEN, FOR_NO_KEY, version=str),
    _row("priority", Priority, "RocketMQ 5.4+ broker SendMessageProcessor, for messages with a priority, the key here",
         "the queue with the number of the priority, or the last one; pop consumers of PRIORITY topics read that first",
         "which broker is up to the client: in turn here; a message in a batch, with a sharding key, a delay or in a "
         "transaction has no priority", version=str),
    _row("explicit", Explicit, "rocketmq-client send(Message, MessageQueue)",
         "the queue that is named, broker-a:1", "an error when the list has lost it"),
    _row("grpc_proxy", GrpcProxy, "RocketMQ 5 proxy SendMessageActivity.SendMessageQueueSelector, for gRPC clients in "
         "any language",
         "the queue in which the proxy stores a message group's messages, or a lite topic's; not rocketmq.hash's",
         "one queue more moves 1/n of the groups, to the new one; a queue lost in the middle of the list moves others; "
         "several messages in one request lose their group"),
    _row("grpc_java", GrpcJava, "rocketmq-clients Java 5 PublishingLoadBalancer; Go's too",
         "the queue whose broker's endpoint gets the request, and no more: the message is stored where "
         "rocketmq.grpc_proxy says", "it shows nothing of the order of messages"),
    _row("go", GoHash, "rocketmq-client-go 2 NewHashQueueSelector", "a sharding key has one queue as long as the queue "
         "list stays; not rocketmq.hash's", "a lost master or another number of write queues moves nearly all keys"),
)  # fmt: skip
