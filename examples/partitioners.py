"""Partitioners as people write them for Kafka's Java producer, for ``python:examples.partitioners:NAME``.

Each is a function of a `PartitionRequest`, which has what `org.apache.kafka.clients.producer.Partitioner` is given.
Parameters in the text, ``by_host(host=kafka-1)``, are keyword arguments.
"""

from __future__ import annotations

import json

from exchange.partition import Partition, PartitionRequest
from exchange.partition.hashing.java import hash_code


def random_of_all(request: PartitionRequest) -> int:
    """Return any partition, with or without a leader: ``ThreadLocalRandom.current().nextInt(partitions.size())``."""
    return request.partitions.all[request.draw(request.partitions.count)].id


def by_hash_code(request: PartitionRequest) -> int:
    """Return ``Math.abs(key.hashCode()) % partitions.size()``; a record without a key goes anywhere.

    Raises ValueError where Java's producer refuses the record: the absolute value of ``Integer.MIN_VALUE`` is negative.
    """
    if request.key is None:
        return random_of_all(request)
    return _absolute(hash_code(request.key)) % request.partitions.count


def by_host(request: PartitionRequest, host: str) -> int:
    """Return a partition whose leader is at this host, by the key; of several always the same for one key.

    Raises ValueError if no leader is there, as Java's ``list.get(hash % 0)`` fails.
    """
    near = [each for each in request.partitions if each.leader and each.leader.host == host]
    if not near:
        raise ValueError(f"no partition has its leader at host {host!r}")
    return _choose(request, near)


def by_rack(request: PartitionRequest, racks: str) -> int:
    """Return a partition whose leader is in one of these racks, ``racks="eu-1 eu-2"``: a predicate over brokers."""
    wanted = racks.split()
    return _choose(request, [each for each in request.partitions if each.leader and each.leader.rack in wanted])


def by_tenant(request: PartitionRequest, large: str = "") -> int:
    """Give one large tenant, by a field of the value, the last partition for itself; all others share the rest."""
    tenant = json.loads(request.value_bytes or b"{}").get("tenant", "")
    last = request.partitions.count - 1
    if tenant == large:
        return last
    return _absolute(hash_code(tenant)) % last


def in_turn(request: PartitionRequest) -> tuple[int, int]:
    """Return the partitions in turn; the memory, a number here, comes back with the topic's next record."""
    turn: int = request.memory or 0
    return request.partitions.all[turn % request.partitions.count].id, turn + 1


def _choose(request: PartitionRequest, near: list[Partition]) -> int:
    """Return one of these partitions, of all if there are none, by the key or at random."""
    among = near or [*request.partitions.all]
    number = request.draw(len(among)) if request.key is None else _absolute(hash_code(request.key)) % len(among)
    return among[number].id


def _absolute(number: int) -> int:
    """Return ``Math.abs(number)``. Raises ValueError for the number whose absolute value Java cannot hold."""
    if number == -(2**31):
        raise ValueError("Math.abs(Integer.MIN_VALUE) is negative: Java's producer refuses such a partition")
    return abs(number)
