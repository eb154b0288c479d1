"""RabbitMQ's partitioners: that of the Java stream client for super streams, and the two exchange types that hash.

In RabbitMQ, exchanges distribute messages to queues: `exchange.kinds` has these exchange types, with bindings, weights
and the differences between releases. Here the same arithmetic is applied to a list of partitions. All three hash a text
as its bytes in UTF-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from exchange.errors import InputError
from exchange.partition.hashing.compiled import get_hashes
from exchange.partition.hashing.erlang import UNDEFINED, jump_key
from exchange.partition.hashing.hashes import to_signed
from exchange.partition.hashing.keys import describe_key, resolve_key_type
from exchange.partition.partitioner import Choice, Key, Partitioner, Strategy
from exchange.partition.partitions import Partitions
from exchange.values.erlang_terms import encode_binary


@dataclass(frozen=True, slots=True)
class SuperStream(Partitioner):
    """`com.rabbitmq.stream.impl.HashRoutingStrategy`: murmur3 over the streams in the order of their exchange.

    The client asks the broker for this order, which the bindings' argument ``x-stream-partition-order`` defines.
    """

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        """Return the stream of a routing key, a text. Raises InputError for anything else, None included."""
        h = self._hash(key)
        return Choice(
            partitions.all[h % partitions.count].id, to_signed(h), f"remainderUnsigned(hash, {partitions.count})"
        )

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        return partitions.all[self._hash(key) % partitions.count].id

    def _hash(self, key: Key) -> int:
        # String.getBytes replaces a lone surrogate, which UTF-8 cannot encode, by a question mark.
        return get_hashes().murmur3(key.encode("utf-8", "replace") if isinstance(key, str) else _text(key))


@dataclass(frozen=True, slots=True)
class ConsistentHash(Partitioner):
    """x-consistent-hash with each partition bound in turn, with the same weight (RabbitMQ 3.13 and later)."""

    weight: int = 1
    """Binding key of each partition; a larger one makes the partitions' shares more equal."""

    def __post_init__(self) -> None:
        if self.weight < 1:
            raise ValueError(f"a weight is at least 1, not {self.weight}")

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        """Return the partition of a routing key or of the value of a hash header; None stands for a missing header."""
        count = partitions.count * self.weight
        seed = _seed(key)
        rule = f"jump(hash, {count})" + (f" // {self.weight}" if self.weight > 1 else "")
        return Choice(partitions.all[get_hashes().jump(seed, count) // self.weight].id, seed, rule)

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        return partitions.all[get_hashes().jump(_seed(key), partitions.count * self.weight) // self.weight].id


@dataclass(frozen=True, slots=True)
class ModulusHash(Partitioner):
    """x-modulus-hash over partitions in the order of their names, as the broker sorts them since 4.3."""

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        """Return the partition of a routing key, a text. Raises InputError for anything else, None included."""
        h = get_hashes().phash2_of_list(_text(key))
        return Choice(partitions.all[h % partitions.count].id, h, f"hash % {partitions.count}")

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        return partitions.all[get_hashes().phash2_of_list(_text(key)) % partitions.count].id


def _text(key: Key) -> bytes:
    if isinstance(key, str):
        return encode_binary(key)
    if isinstance(key, bytes):
        return key
    raise InputError(f"{describe_key(key)} is no routing key: that is a text")


def _seed(key: Key) -> int:
    return get_hashes().phash2(encode_binary(key)) if isinstance(key, str) else jump_key(_value(key))


def _value(key: Key) -> Any:
    if key is None:
        return UNDEFINED
    try:
        kind, value = resolve_key_type(key)
    except InputError:
        kind, value = "nothing", None
    if not isinstance(value, (bytes, bool, int, float)):
        raise InputError(f"{describe_key(key)} is no key for x-consistent-hash: give a text, bytes, a number or a bool")
    return value * 1000 if kind == "timestamp" else value


STRATEGIES: Final = (
    Strategy(
        "rabbitmq.super_stream",
        SuperStream,
        mirrors="RabbitMQ Java stream client: HashRoutingStrategy with HashUtils.MURMUR3 (the default)",
        promise="a routing key goes to one stream, the same from every client that hashes as Java's",
        cost="with other streams nearly all keys move; the Python client rstream hashes otherwise",
    ),
    Strategy(
        "rabbitmq.consistent_hash",
        ConsistentHash,
        mirrors="RabbitMQ 3.13 and later: exchange type x-consistent-hash, equal weights",
        promise="a key goes to one queue; a queue bound last takes its share of keys, and no others move",
        cost="unbinding any but the last one moves keys between those that stay",
        parameters={"weight": int},
    ),
    Strategy(
        "rabbitmq.modulus_hash",
        ModulusHash,
        mirrors="RabbitMQ: exchange type x-modulus-hash, the destinations in order of name (4.3 and later)",
        promise="a routing key goes to one queue",
        cost="with one queue more or less nearly all keys move",
    ),
)
