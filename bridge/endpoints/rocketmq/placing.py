"""Messages for RocketMQ, each with the queue that it goes to.

Queues are the publish queue list of the topic's route, as producers see it now. The topology's partitioning decides the
queue of a message: by its name, where the topology names brokers, ``rocketmq.hash over a:4,b:4``; by its position in
the list, where the topology only has their number. For a queue that is not partitioned it is the one that Java's
`SelectMessageQueueByHash` chooses for the key, among all queues: as with Java's producers, keys move when a broker
comes or goes, unless the topic has an order configuration. Without a key, and an empty routing key is none there, the
queues of the topic take turns, as for Java's ``send(Message)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bridge.endpoint import Disconnected, Outgoing
from bridge.endpoints.topics import ANY_SIZE, KeyCache, TopicDestination, describe_missing
from bridge.interop import to_rocketmq
from bridge.interop.marks import HOPS, mark_message
from bridge.interop.requests import build_rocketmq_request
from bridge.pump.placing import KeylessTurns
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.command import now_ms
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import WRITE, MessageQueue, TopicRoute, publish_queues
from exchange.partition.clients.rocketmq.round_robin import RoundRobin
from exchange.partition.hashing.keys import serialize_key
from exchange.partition.partitioning.key_source import ROUTING_KEY
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitions import Partitions
from exchange.text.display import count_noun


class WritableQueues:
    """The queues of a topic, over which messages are spread."""

    def __init__(self, topic: str, partitions: Partitions) -> None:
        self.topic = topic
        self.partitions = partitions
        self.queues = tuple([MessageQueue.from_partition(partition) for partition in partitions])
        self._by_name = {queue.name: queue for queue in self.queues}
        self._hash = Partitioning("rocketmq.hash", partitions)
        self._cache: Final = KeyCache[str](self._hash.partition_for)
        self._agreed: dict[str, Partitioning] = {}
        """Queue of the topology -> its partitioning, which `agree` has accepted."""

    @classmethod
    def from_route(cls, topic: str, route: TopicRoute) -> WritableQueues:
        """Take the queues of a topic's route. Raises Disconnected if it has none to write to."""
        try:
            return cls(topic, publish_queues(route))
        except InputError as error:
            is_read_only = bool(route.queues) and not any(data.perm & WRITE for data in route.queues)
            reason = f"perm {route.queues[0].perm} lets nobody write to it" if is_read_only else str(error)
            raise Disconnected(f"topic {topic!r}: {reason}; give it write queues, perm 6 and a master") from None

    def queue_for(self, key: Any) -> MessageQueue | None:
        """Return the queue for a key; None if it decides nothing, as it is none, or has no hashCode in Java."""
        if key is None or key == "":
            return None
        position = (self._cache if type(key) is str else self._hash).partition_for(key)
        return None if position is None else self.queues[position]

    def queue_of(self, name: str, partitioning: Partitioning, partition: int) -> MessageQueue:
        """Return the queue for a partition of the topology's queue ``name``. Raises Disconnected if there is none."""
        if self._agreed.get(name) is not partitioning:
            self.agree(name, partitioning)
        if partitioning.partitions.is_numbered:
            return self.queues[partition]
        wanted = partitioning.partitions[partition].name
        queue = self._by_name.get(wanted)
        if queue is None:
            raise Disconnected(f"topic {self.topic!r} has no queue {wanted} now, to which {name!r} is spread")
        return queue

    def agree(self, name: str, partitioning: Partitioning) -> None:
        """Accept the partitioning of the topology's queue ``name``.

        Raises Disconnected if it is over another number of queues than the topic has.
        """
        wanted = partitioning.partitions
        if wanted.is_numbered and wanted.count != len(self.queues):
            names = ", ".join(queue.name for queue in self.queues)
            raise Disconnected(
                f"topic {self.topic!r} has {count_noun(len(self.queues), 'queue')} now ({names}), and the topology "
                f"spreads {name!r} over {wanted.count}: change one of them, or name the brokers, as in rocketmq.hash "
                "over a:4,b:4"
            )
        self._agreed[name] = partitioning


def list_sizes(destinations: Mapping[str, TopicDestination], partitioned: Mapping[str, Partitioning]) -> dict[str, int]:
    """Return topic -> number of queues over which the topology spreads one of its queues, wherever they are."""
    return {
        destinations[queue].topic: partitioning.partitions.count
        for queue, partitioning in partitioned.items()
        if partitioning.partitions.is_numbered
    }


class MessageWriter:
    """Makes messages for RocketMQ, and chooses their queues."""

    def __init__(
        self, destinations: Mapping[str, TopicDestination], client_id: str = "", turns: KeylessTurns | None = None
    ) -> None:
        self._destinations = destinations
        self._client_id = client_id
        """Id of the client to which brokers push replies."""
        self._turns = turns or KeylessTurns(RoundRobin())
        self.spreads: dict[str, WritableQueues] = {}
        """Topic -> its present queues."""

    def place(self, outgoing: Outgoing) -> tuple[RocketMessage, MessageQueue]:
        """Return a message as one of RocketMQ, and its queue.

        Raises Disconnected if topic and topology disagree, and for a message that RocketMQ cannot hold another
        `HashstarError`, TypeError or ValueError.
        """
        destination = self._destinations[outgoing.queue]
        spread = self.spreads[destination.topic]
        message = outgoing.message
        placement = outgoing.placement
        key = (destination.key or ROUTING_KEY).read(message) if placement is None else placement.key
        tag = None if destination.tag is None else serialize_key(destination.tag.read(message))
        marked, hops = mark_message(message, outgoing.delivery.identity)
        to_send = to_rocketmq(marked, destination.topic, _encode_key(key), tag)
        to_send.properties[HOPS] = str(hops)  # type: ignore[index]  # a dict that was made for this message
        if outgoing.request is not None:
            own = build_rocketmq_request(outgoing.request, self._client_id, now_ms())
            to_send.properties.update(own)  # type: ignore[attr-defined]  # as above
        if placement is None or placement.partition is None:
            queue = spread.queue_for(key) if placement is None else None
            return to_send, queue or spread.queues[self._turns.place(outgoing, spread.topic, spread.partitions)]
        return to_send, spread.queue_of(outgoing.queue, placement.partitioning, placement.partition)


async def route_of(client: Client, topic: str, wanted: Mapping[str, int] = ANY_SIZE) -> TopicRoute:
    """Return the route of a topic, as `routes_of`."""
    return (await routes_of(client, [topic], wanted))[topic]


async def routes_of(
    client: Client, topics: Iterable[str], wanted: Mapping[str, int] = ANY_SIZE
) -> dict[str, TopicRoute]:
    """Return topic -> its route.

    Raises Disconnected, which names all topics that are missing, with the numbers of queues that are ``wanted``, and
    RemotingError.
    """
    routes: dict[str, TopicRoute] = {}
    missing: list[str] = []
    for topic in topics:
        try:
            routes[topic] = await client.route(topic)
        except ClientError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            missing.append(topic)
    if missing:
        raise Disconnected(describe_missing(missing, wanted, "queue"))
    return routes


def _encode_key(key: Any) -> bytes | None:
    """Return the key for KEYS: numbers in digits, as people search for them."""
    if isinstance(key, str):
        return key.encode("utf-8", "surrogateescape")
    if isinstance(key, int) and not isinstance(key, bool):
        return b"%d" % key
    return serialize_key(key)
