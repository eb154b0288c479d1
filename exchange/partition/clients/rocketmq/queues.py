"""The list of queues that a RocketMQ client makes of a topic's route: which are in it, and in which order.

The order matters more than any hash, since selectors choose a position in this list. Brokers are sorted by name; a
broker without a master or without write permission is left out, which changes the positions of all queues after it. An
order configuration (``orderTopicConf``) prevents that: the list then always has its brokers, in its order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from exchange.errors import InputError
from exchange.limits import PARTITIONS
from exchange.partition.hashing.java import encode_code_units
from exchange.partition.partitions import Broker, Partition, Partitions

READ: Final = 4
"""Bit of ``perm``: the queues may be read."""
WRITE: Final = 2
"""Bit of ``perm``: the queues may be written."""
MASTER: Final = 0
"""The brokerId of a master."""

INTEGER: Final = re.compile(r"[+-]?\d+")

Queue = tuple[Broker, int]
"""A broker and a queueId."""


class QueueData(NamedTuple):
    """The number of queues that a broker has for the topic (`org.apache.rocketmq...route.QueueData`)."""

    broker: str
    read_queues: int
    write_queues: int
    perm: int = READ | WRITE
    """Sum of 4 (read) and 2 (write)."""


class BrokerData(NamedTuple):
    """The servers of a broker name (`BrokerData`)."""

    broker: str
    addresses: tuple[tuple[int, str], ...]
    """brokerId and ``host:port``; the id of the master is 0."""


class QueueMapping(NamedTuple):
    """The logical queues of a static topic, as one broker has them (`TopicQueueMappingInfo`)."""

    total_queues: int
    scope: str | None = "__global__"
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The route of a topic, as a name server has it (`TopicRouteData`)."""

    queues: tuple[QueueData, ...] = ()
    brokers: tuple[BrokerData, ...] = ()
    order_topic_conf: str | None = None
    """``broker-a:4;broker-b:4``"""
    mappings: tuple[QueueMapping, ...] = ()
    """For a static topic (RocketMQ 5) one for each of its brokers; else empty."""

    @classmethod
    def from_json(cls, route: Mapping[str, Any]) -> TopicRoute:
        """Parse a route in the form of name servers and ``mqadmin topicRoute``. Raises InputError."""
        try:
            queues = [
                QueueData(
                    str(data["brokerName"]),
                    _count(data["readQueueNums"]),
                    _count(data["writeQueueNums"]),
                    _count(data["perm"]),
                )
                for data in route.get("queueDatas") or ()
            ]
            brokers = [
                BrokerData(
                    str(data["brokerName"]), tuple((int(at), str(host)) for at, host in data["brokerAddrs"].items())
                )
                for data in route.get("brokerDatas") or ()
            ]
            mappings = [
                QueueMapping(_count(data["totalQueues"]), data.get("scope", "__global__"), int(data.get("epoch", 0)))
                for data in (route.get("topicQueueMappingByBroker") or {}).values()
            ]
            order = route.get("orderTopicConf")
            return cls(tuple(queues), tuple(brokers), None if order is None else str(order), tuple(mappings))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"not a topic route: {type(error).__name__} {error}") from None


def publish_queues(route: TopicRoute) -> Partitions:
    """Return the queues that a producer chooses among (`MQClientInstance.topicRouteData2TopicPublishInfo`).

    Raises InputError where the client finds none, or fails.
    """
    if route.order_topic_conf:
        counts = _parse_order(route.order_topic_conf)
        return _list_queues(_number_queues((Broker(name), count) for name, count in counts))
    if route.order_topic_conf is None and route.mappings:
        return _list_queues(_static_queues(route))
    masters = _masters(route)
    return _list_queues(
        _number_queues(
            (Broker(data.broker, _host_of(masters[data.broker])), data.write_queues)
            for data in sorted(route.queues, key=lambda data: encode_code_units(data.broker))
            if data.perm & WRITE and data.broker in masters
        )
    )


def subscribe_queues(route: TopicRoute) -> Partitions:
    """Return the queues of a consumer group, sorted as for its allocation (`topicRouteData2TopicSubscribeInfo`).

    Brokers without a master are included: their replicas are read. Raises InputError where there is no queue.
    """
    if route.mappings:
        return _list_queues(_static_queues(route))
    queues = _number_queues((Broker(data.broker), data.read_queues) for data in route.queues if data.perm & READ)
    return _list_queues(sorted(set(queues), key=_order))


def _host_of(address: str) -> str:
    """Return the host of an address, ``10.0.0.1:10911``: what a function of a user compares, as for Kafka's leaders."""
    return address.rpartition(":")[0].strip("[]") or address


@lru_cache(maxsize=64)
def group_by_broker(partitions: Partitions) -> tuple[Partition, ...]:
    """Return the partitions sorted by the names of their brokers as in Java; those of one broker keep their order."""
    return tuple(sorted(partitions.all, key=lambda partition: encode_code_units(find_broker_name(partition))))


def find_broker_name(partition: Partition) -> str:
    """Return the name of a queue's broker (``MessageQueue.getBrokerName``)."""
    return partition.leader.name if partition.leader else ""


def _count(value: Any) -> int:
    """Return a number of queues that Java can have. Raises ValueError."""
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise ValueError(f"{str(value)[:40]!r} is no number of queues")
    return value


def _parse_order(order_topic_conf: str) -> list[tuple[str, int]]:
    """Return the brokers and their numbers of queues; Java's split drops empty texts at the end."""
    counts = []
    text = order_topic_conf.rstrip(";")
    for item in text.split(";") if text else ():
        name, *count = item.split(":")
        if not count or not INTEGER.fullmatch(count[0]):
            raise InputError(f"orderTopicConf {order_topic_conf!r}: {item!r} is not BROKER:NUMBER as in a:4;b:4")
        counts.append((name, int(count[0])))
    return counts


def _order(queue: Queue) -> tuple[bytes, int]:
    return encode_code_units(queue[0].name), queue[1]


def _masters(route: TopicRoute) -> dict[str, str]:
    """Return the address of each broker's master; if the route has a broker twice, its first entry counts."""
    first = {data.broker: dict(data.addresses) for data in reversed(route.brokers)}
    return {name: addresses[MASTER] for name, addresses in first.items() if MASTER in addresses}


def _static_queues(route: TopicRoute) -> list[Queue]:
    """Return the logical queues of a static topic (`topicRouteData2EndpointsForStaticTopic`).

    All of them belong to one broker, a name without servers. So a retry never finds another broker.
    """
    totals: dict[str, int] = {}
    for mapping in route.mappings:
        if mapping.scope is not None and mapping.epoch >= -1:
            totals[mapping.scope] = max(mapping.total_queues, totals.get(mapping.scope, 0))
    if len(totals) > 1:
        raise InputError(f"a static topic of {len(totals)} scopes ({', '.join(totals)}): their order is not defined")
    return _number_queues(
        (Broker("__syslo__" + ("global__" if scope == "__global__" else scope)), total)
        for scope, total in totals.items()
    )


def _number_queues(counts: Iterable[tuple[Broker, int]]) -> list[Queue]:
    """Return the queues of brokers by their numbers. A hostile route, of billions, is refused before one is listed."""
    counted = list(counts)
    if sum(max(count, 0) for _, count in counted) > PARTITIONS:
        raise InputError(f"the route has more than {PARTITIONS:,} queues")
    return [(broker, number) for broker, count in counted for number in range(count)]


def _list_queues(queues: Sequence[Queue]) -> Partitions:
    if not queues:
        raise InputError("the route has no queue (the client: No route info of this topic)")
    try:
        return Partitions(
            [Partition(position, broker, f"{broker.name}:{number}") for position, (broker, number) in enumerate(queues)]
        )
    except ValueError:
        raise InputError("the route names a queue twice") from None


class MessageQueue(NamedTuple):
    """`org.apache.rocketmq.common.message.MessageQueue` without the topic, as all queues here are of one topic."""

    broker: str
    queue_id: int

    @classmethod
    def from_partition(cls, partition: Partition) -> MessageQueue:
        """Return the queue of a partition, whose name ends with its number: ``broker-a:1``."""
        return cls(find_broker_name(partition), int(partition.name.rpartition(":")[2]))

    @property
    def name(self) -> str:
        """Name of its partition."""
        return f"{self.broker}:{self.queue_id}"

    @property
    def order(self) -> tuple[bytes, int]:
        """Key to sort the queues of one topic by (`compareTo`)."""
        return encode_code_units(self.broker), self.queue_id

    def text(self, topic: str) -> str:
        """Return ``toString()``, which consistent hashing hashes."""
        return f"MessageQueue [topic={topic}, brokerName={self.broker}, queueId={self.queue_id}]"
