"""Messages as records, each with its partition.

The partition is the one that the topology's partitioning chooses for the queue. For a queue that is not partitioned it
is the one that the Java producer chooses for the record: murmur2 of its key over the partitions that the topic has; and
without a key one partition until a batch is full, then another one (KIP-794). An empty routing key is no key there, as
each message of AMQP has one. librdkafka's own partitioners are never asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridge.endpoint import Outgoing
from bridge.endpoints.kafka.cluster.lazy import record_of
from bridge.endpoints.kafka.cluster.topics import KafkaTopic, check_partitions
from bridge.endpoints.topics import KeyCache, TopicDestination
from bridge.interop import IDENTITY, Record, to_kafka
from bridge.interop.kafka_guest import KEY
from bridge.interop.marks import HOP_TEXT, build_hop_header, mark_message
from bridge.interop.record import build_routing_key, read_whole_key
from bridge.interop.requests import find_reply_partition
from bridge.interop.return_address import ReturnAddress
from bridge.pump.placing import KeylessTurns
from bridge.pump.replies import AddressedReply
from exchange.amqp import get_content
from exchange.partition.clients.kafka import build_default_3_3
from exchange.partition.hashing.keys import serialize_key
from exchange.partition.hashing.librdkafka import murmur2_partition
from exchange.partition.partitioning.key_source import ROUTING_KEY
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitions import Partitions
from exchange.routing.route import Placement
from exchange.values.message import Message, assemble_message


class TopicPartitions:
    """Partitions of a topic, and which of them a key belongs to."""

    def __init__(self, topic: str, partitions: Partitions, turns: KeylessTurns) -> None:
        self.topic = topic
        self.partitions = partitions
        self.count = partitions.count
        self._turns = turns
        self._cache: Final = KeyCache[bytes](lambda key: murmur2_partition(key, self.count))
        self.accepted: dict[str, Partitioning] = {}
        """Queue -> its partitioning in the topology, whose number of partitions is this topic's."""

    def partition_of(self, key: bytes | None, outgoing: Outgoing, record: Record) -> int:
        """Return the partition of a record for a key, which may be another than its own."""
        if key is None:
            return self._turns.place(outgoing, self.topic, self.partitions, record.value)
        return self._cache.partition_for(key) or 0

    def accept(self, queue: str, partitioning: Partitioning) -> None:
        """Raise Disconnected if the topology spreads the queue over another number of partitions."""
        check_partitions(self.topic, self.count, queue, len(list(partitioning.partitions)))
        self.accepted[queue] = partitioning


class RecordWriter:
    """Makes records of messages, and chooses their partitions."""

    def __init__(
        self,
        destinations: Mapping[str, TopicDestination],
        topics: Mapping[str, KafkaTopic],
        turns: KeylessTurns | None = None,
    ) -> None:
        self.leaders: Final = {name: topic.leaders for name, topic in topics.items() if topic.leaders is not None}
        """Topic -> its partitions, with their leaders."""
        turns = turns or KeylessTurns(build_default_3_3())
        self.spreads: Final = {
            name: TopicPartitions(name, topic.leaders or Partitions.from_count(topic.partitions), turns)
            for name, topic in topics.items()
        }
        """Topic -> its partitions."""
        self._destinations = {
            queue: (each.topic, each.key, self.spreads[each.topic]) for queue, each in destinations.items()
        }

    def make_record(self, outgoing: Outgoing) -> tuple[Record, int]:
        """Return the record of a message and its partition.

        Raises Disconnected if topic and topology disagree; what is wrong with the message raises another of
        `HashstarError`, TypeError or ValueError.
        """
        topic, key_source, spread = self._destinations[outgoing.queue]
        if isinstance(outgoing.request, AddressedReply):
            return self._make_reply(outgoing, topic, spread, outgoing.request.address)
        placement = outgoing.placement
        if placement is not None:
            queue = outgoing.queue
            if spread.accepted.get(queue) is not placement.partitioning:
                spread.accept(queue, placement.partitioning)
            key = serialize_key(placement.key)
            record = _to_record(outgoing, topic, key)
            partition = placement.partition
            if record.key != key and placement.partitioning.key.by_routing_key:
                key, partition = _choose_by_own_key(outgoing.message, placement, record.key, key)
            if partition is not None:
                return record, partition
        elif key_source is None or key_source is ROUTING_KEY:
            record = _to_record(
                outgoing, topic, outgoing.message.routing_key.encode("utf-8", "surrogateescape") or None
            )
            key = record.key  # its own, if the message was a record of Kafka before
        else:
            key = serialize_key(key_source.read(with_whole_key(outgoing.message)))
            record = _to_record(outgoing, topic, key)
        return record, spread.partition_of(key, outgoing, record)

    def _make_reply(
        self, outgoing: Outgoing, topic: str, spread: TopicPartitions, caller: ReturnAddress
    ) -> tuple[Record, int]:
        """Return the record of a reply, at the partition where its caller waits; it has only a key of its own."""
        partition = find_reply_partition(caller, spread.count)
        record = _to_record(outgoing, topic, None)
        return record, spread.partition_of(record.key, outgoing, record) if partition is None else partition


def with_whole_key(message: Message) -> Message:
    """Return the message with the key of its record as its routing key, where that was too long for AMQP."""
    if message.routing_key[-33:-32] != "~":
        return message
    record = record_of(message)
    key: bytes | None
    if record is not None:
        key = record.key
    else:
        content = get_content(message)
        span = content.find(KEY)
        field = b"" if span is None else content.raw[span[1] : span[2]]
        key = field[5:] if field[:1] == b"S" else None
    whole = read_whole_key(message.routing_key, key)
    if whole is None:
        return message
    return assemble_message(message.exchange, whole, message.headers, message.properties, message.body)


def choose_partitioner_key(message: Message, placement: Placement) -> Any:
    """Return the key for a partitioner of the owner: all bytes of a record's own key, else the placement's."""
    source = placement.partitioning.key
    if not source.by_routing_key:
        return placement.key
    changed = with_whole_key(message)
    record = record_of(changed)
    own = None if record is None else record.key
    if source == ROUTING_KEY and own is not None and build_routing_key(own) == message.routing_key:
        return own
    return placement.key if changed is message else source.read(changed)


def _choose_by_own_key(
    message: Message, placement: Placement, own: bytes | None, key: bytes | None
) -> tuple[bytes | None, int | None]:
    """Return the key and the partition of a record that has a key of its own: chosen by all bytes of that key.

    The topology has chosen by the routing key, which is text, and shortened where AMQP cannot hold the whole key.
    """
    partitioning = placement.partitioning
    if partitioning.key == ROUTING_KEY:
        if own is None or build_routing_key(own) != message.routing_key:
            return key, placement.partition
        whole: Any = own
    else:
        changed = with_whole_key(message)
        if changed is message:
            return key, placement.partition
        whole = partitioning.key.read(changed)
    chosen = partitioning.partition_for(whole)
    return serialize_key(whole), placement.partition if chosen is None else chosen


def _to_record(outgoing: Outgoing, topic: str, key: bytes | None) -> Record:
    """Return the record of a message, with its marks. One that came from Kafka unchanged needs no mapping."""
    message, identity = outgoing.message, outgoing.delivery.identity
    record = record_of(message)
    if record is None:
        message, hops = mark_message(message, identity)
        made = to_kafka(message, topic, key)
        for name, _ in made.headers:
            if not name.isascii():
                name.encode()  # the client ends the process over a name that is not UTF-8; this is an error of its own
        made.headers.append(build_hop_header(hops))  # type: ignore[attr-defined]  # a list that was made for this record
        return made
    # A record that has passed a bridge, or has an identity of its own, has no lazy message.
    marks = (HOP_TEXT,) if identity is None else ((IDENTITY, identity.encode()), HOP_TEXT)
    headers = [*record.headers, *marks]
    return Record(topic, record.key, record.value, headers, record.timestamp, record.is_append_time)
