"""Messages as RocketMQ's messages, each with the queue it goes to.

Queues are the publish queue list of the topic's route, as producers see it now. The queue of a message is the one that
the topology's partitioning says: by its name, where the topology names brokers, ``rocketmq.hash over a:4,b:4``; by its
place in the list, where it only says how many there are. Of a queue that is not partitioned it is the one that Java's
`SelectMessageQueueByHash` chooses for the key, over the queues that there are: as with Java's producers, keys move when
a broker comes or goes, unless the topic has an order configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.endpoint import Disconnected, Outgoing
from bridge.interop import to_rocketmq
from bridge.interop.marks import HOPS, mark_message
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.message_queue import MessageQueue
from exchange.partition.clients.rocketmq.queues import TopicRoute, publish_queues
from exchange.partition.hashing.keys import serialize_key
from exchange.partition.partitioning.key_source import ROUTING_KEY, KeySource
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitions import Partitions

__all__ = ["Destination", "Spread", "Writer", "route_of"]

REMEMBERED: Final = 65_536
"""Keys of a topic whose queue is remembered, at most."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where messages of a topology's queue go."""

    topic: str
    """As RocketMQ spells it."""
    key: KeySource | None = None
    """What decides the queue where the topology does not, and is in KEYS of messages that have none of their own; None:
    the routing key."""
    tag: KeySource | None = None
    """What is in TAGS of messages that have none of their own."""


class Spread:
    """The queues of a topic, and which of them a message belongs to."""

    def __init__(self, topic: str, partitions: Partitions) -> None:
        self.topic = topic
        self.queues = tuple([MessageQueue.of(partition) for partition in partitions])
        self._by_name = {queue.name: queue for queue in self.queues}
        self._hash = Partitioning("rocketmq.hash", partitions)
        self._known: dict[str, int] = {}
        self._agreed: dict[str, Partitioning] = {}
        """Queue of the topology -> its partitioning, which was compared with this."""

    @classmethod
    def of(cls, topic: str, route: TopicRoute) -> Spread:
        """Of a topic's route. Raises Disconnected if there is nothing to write to."""
        try:
            return cls(topic, publish_queues(route))
        except InputError as error:
            raise Disconnected(f"topic {topic!r}: {error}") from None

    def queue_for(self, key: Any, number: int) -> MessageQueue:
        """A key's queue; without a key any will do, and this one is the same in every run."""
        at = self._known.get(key) if type(key) is str else None
        if at is None:
            chosen = None if key is None else self._hash.choose_for(key).partition
            if chosen is None:
                return self.queues[number % len(self.queues)]
            at = chosen
            if type(key) is str:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[key] = at
        return self.queues[at]

    def queue_of(self, name: str, partitioning: Partitioning, partition: int) -> MessageQueue:
        """The queue that a partition of the topology's queue ``name`` is. Raises Disconnected if it is not there."""
        if self._agreed.get(name) is not partitioning:
            self.agree(name, partitioning)
        if _is_a_number(partitioning.partitions):
            return self.queues[partition]
        wanted = partitioning.partitions[partition].name
        queue = self._by_name.get(wanted)
        if queue is None:
            raise Disconnected(f"topic {self.topic!r} has no queue {wanted} now, to which {name!r} is spread")
        return queue

    def agree(self, name: str, partitioning: Partitioning) -> None:
        """Raises Disconnected if the topology spreads its queue ``name`` over other queues than there are."""
        wanted = partitioning.partitions
        if _is_a_number(wanted) and wanted.count != len(self.queues):
            there = ", ".join(queue.name for queue in self.queues)
            raise Disconnected(
                f"topic {self.topic!r} has {len(self.queues)} queues now ({there}), and the topology spreads {name!r} "
                f"over {wanted.count}: change one of them, or name the brokers, as in rocketmq.hash over a:4,b:4"
            )
        self._agreed[name] = partitioning


class Writer:
    """Makes messages of RocketMQ, and chooses their queues."""

    def __init__(self, destinations: Mapping[str, Destination]) -> None:
        self._destinations = destinations
        self.spreads: dict[str, Spread] = {}
        """Topic -> its queues, as of now."""

    def placed(self, outgoing: Outgoing) -> tuple[RocketMessage, MessageQueue]:
        """The message, and its queue.

        Raises Disconnected if topic and topology disagree; what is wrong with the message raises another of
        `HashstarError`, TypeError or ValueError.
        """
        destination = self._destinations[outgoing.queue]
        spread = self.spreads[destination.topic]
        message = outgoing.message
        placement = outgoing.placement
        key = (destination.key or ROUTING_KEY).of(message) if placement is None else placement.key
        tag = None if destination.tag is None else serialize_key(destination.tag.of(message))
        marked, hops = mark_message(message, outgoing.delivery.identity)
        made = to_rocketmq(marked, destination.topic, _bytes_of(key), tag)
        made.properties[HOPS] = str(hops)  # type: ignore[index]  # a dict that was made for this message
        if placement is None:
            return made, spread.queue_for(key, outgoing.number)
        if placement.partition is None:
            return made, spread.queue_for(None, outgoing.number)
        return made, spread.queue_of(outgoing.queue, placement.partitioning, placement.partition)


async def route_of(client: Client, topic: str) -> TopicRoute:
    """The route of a topic. Raises Disconnected if there is no such topic, RemotingError."""
    try:
        return await client.route(topic)
    except ClientError as error:
        if error.code == ResponseCode.TOPIC_NOT_EXIST:
            raise Disconnected(f"there is no topic {topic!r}; create it") from None
        raise


def _is_a_number(partitions: Partitions) -> bool:
    """Whether it only says how many there are."""
    return partitions == Partitions.of(partitions.count)


def _bytes_of(key: Any) -> bytes | None:
    """The key as it is written into KEYS: numbers in digits, as people search for them."""
    if isinstance(key, str):
        return key.encode("utf-8", "surrogateescape")
    if isinstance(key, int) and not isinstance(key, bool):
        return b"%d" % key
    return serialize_key(key)
