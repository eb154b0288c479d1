"""Records that were consumed as deliveries, and messages as records with their partition.

The partition is the one that the topology's partitioning says of the queue; of a queue that is not partitioned it is
the one that the Java producer chooses for the record: murmur2 of its key over the partitions that the topic has.
librdkafka's own partitioners are never asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from bridge.endpoint import Delivery, Disconnected, Outgoing, known_time
from bridge.endpoints.kafka.lazy import message_of_record, record_of
from bridge.endpoints.kafka.topics import Topic
from bridge.interop import IDENTITY, Record, Unmappable, identity_of_record, to_amqp, to_kafka
from bridge.interop.amqp_guest import MARK
from bridge.interop.kafka_guest import KEY
from bridge.interop.marks import HOPS, carried, hop_header, hops_of
from bridge.interop.record import routing_key_for, whole_key
from bridge.interop.refused import crosses, refused
from exchange.amqp import assembled, content_of
from exchange.message import Message
from exchange.partition.hashing.keys import serialized
from exchange.partition.partitioning.key_source import ROUTING_KEY, KeySource
from exchange.partition.partitioning.specification import Partitioning
from exchange.routing.route import Placement

__all__ = ["Destination", "Reader", "Writer", "with_whole_key"]

FIXED_BYTES: Final = 512
"""What a delivery takes beside its value, about."""

REMEMBERED_CHARACTERS: Final = 256
"""Maximum length of a name that is remembered."""

REMEMBERED: Final = 65_536
"""Keys of a topic whose partition is remembered, at most."""


class Reader:
    """Makes deliveries of the records of one partition."""

    __slots__ = ("_identity", "_origin", "_partition", "_plain", "_source", "_topic")

    def __init__(self, source: str, topic: str, partition: int) -> None:
        self._source = source
        self._topic = topic
        self._partition = partition
        self._identity = "/".join(["kafka", *[quote(part, safe="") for part in (source, topic, str(partition))], ""])
        self._origin = f"{topic}-{partition} at "
        self._plain: set[str] = set()
        """Names of headers that were met, and are nothing but a header's."""

    def delivery(self, found: Any, lane: Any) -> Delivery:
        """The delivery of a `confluent_kafka.Message` that is no error."""
        kind, time = found.timestamp()
        offset, key, value, headers = found.offset(), found.key(), found.value(), found.headers() or ()
        record = _record(
            Record, (self._topic, key, value, headers, time if kind else None, kind == 2, self._partition, offset)
        )
        identity = f"{self._identity}{offset}"
        plain = self._plain
        for name, _ in headers:
            if name not in plain and not self._is_plain(name):
                break
        else:
            return self._delivery_of(message_of_record(record), lane, record, identity)
        identity = identity_of_record(self._source, record) or identity
        try:
            message = to_amqp(record)
        except Unmappable as error:
            message = refused_record(record, error)
        return self._delivery_of(message, lane, record, identity)

    def refused(self, found: Any, lane: Any, problem: Exception) -> Delivery:
        """Return the delivery of a message that could not be read, without its headers: a dead letter that says why."""
        kind, time = found.timestamp()
        record = Record(
            self._topic, found.key(), found.value(), (), time if kind else None, kind == 2, self._partition,
            found.offset(),
        )  # fmt: skip
        message = refused_record(record, Unmappable(f"it cannot be read: {problem}"))
        return self._delivery_of(message, lane, record, f"{self._identity}{record.offset}")

    def _delivery_of(self, message: Message, lane: Any, record: Record, identity: str) -> Delivery:
        time, value, offset = record.timestamp, record.value, record.offset
        return Delivery(
            message,
            lane,
            offset,
            identity,
            None if time is None else known_time(time * 1_000),
            False,
            FIXED_BYTES if value is None else FIXED_BYTES + len(value),
            f"{self._origin}{offset}",
        )

    def _is_plain(self, name: str) -> bool:
        """Whether a name needs no look at its value."""
        if name in TELLING:
            return False
        if len(self._plain) < REMEMBERED and len(name) < REMEMBERED_CHARACTERS:
            self._plain.add(name)
        return True


_record: Final = tuple.__new__
"""Of a named tuple, without the call of a function written in Python."""

TELLING: Final = frozenset({IDENTITY, HOPS, MARK})
"""Headers by which a record is another message's, or has an identity of another place."""


def refused_record(record: Record, problem: Unmappable) -> Message:
    """A record that AMQP cannot hold, as far as it can: for dead letters, which say where all of it is."""
    headers = [(name, value) for name, value in record.headers if crosses(name)]
    return refused(to_amqp(record._replace(headers=headers), None, ""), problem)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where messages of a topology's queue go."""

    topic: str
    key: KeySource | None = None
    """What decides the partition of a queue that the topology does not partition, and is the key of records that have
    none of their own; None: the routing key."""


class Spread:
    """Which partition of a topic a key belongs to."""

    def __init__(self, topic: str, count: int) -> None:
        self.topic = topic
        self.count = count
        self._murmur2 = Partitioning.parse(f"kafka.murmur2 over {count}")
        self._known: dict[bytes, int] = {}
        self.agreed: dict[str, Partitioning] = {}
        """Queue -> its partitioning in the topology, whose number of partitions is this topic's."""

    def partition_of(self, key: bytes | None, number: int) -> int:
        """A message's partition; without a key any will do, and this one is the same in every run."""
        if key is None:
            return number % self.count
        partition = self._known.get(key)
        if partition is None:
            chosen = self._murmur2.choose_for(key).partition
            partition = number % self.count if chosen is None else chosen
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = partition
        return partition

    def agree(self, queue: str, partitioning: Partitioning) -> None:
        """Raises Disconnected if the topology spreads the queue over another number of partitions."""
        count = len(list(partitioning.partitions))
        if count != self.count:
            raise Disconnected(
                f"topic {self.topic!r} has {self.count} partitions, and the topology spreads queue {queue!r} over "
                f"{count}: change one of them"
            )
        self.agreed[queue] = partitioning


class Writer:
    """Makes records of messages, and chooses their partitions."""

    def __init__(self, destinations: Mapping[str, Destination], topics: Mapping[str, Topic]) -> None:
        self._spreads = {name: Spread(name, topic.partitions) for name, topic in topics.items()}
        self._destinations = {
            queue: (each.topic, each.key, self._spreads[each.topic]) for queue, each in destinations.items()
        }

    def record(self, outgoing: Outgoing) -> tuple[Record, int]:
        """The record of a message and its partition.

        Raises Disconnected if topic and topology disagree; what is wrong with the message raises another of
        `HashstarError`, TypeError or ValueError.
        """
        topic, key_source, spread = self._destinations[outgoing.queue]
        placement = outgoing.placement
        if placement is not None:
            queue = outgoing.queue
            if spread.agreed.get(queue) is not placement.partitioning:
                spread.agree(queue, placement.partitioning)
            key = serialized(placement.key)
            record = written(outgoing, topic, key)
            partition = placement.partition
            if record.key != key and placement.partitioning.key.by_routing_key:
                key, partition = _replaced(outgoing.message, placement, record.key, key)
            if partition is not None:
                return record, partition
        elif key_source is None or key_source is ROUTING_KEY:
            record = written(outgoing, topic, outgoing.message.routing_key.encode("utf-8", "surrogateescape"))
            key = record.key  # its own, of one that comes home
        else:
            key = serialized(key_source.of(with_whole_key(outgoing.message)))
            record = written(outgoing, topic, key)
        return record, spread.partition_of(key, outgoing.number)


def with_whole_key(message: Message) -> Message:
    """Return the message with the key of its record as its routing key, where that was too long for AMQP."""
    if message.routing_key[-33:-32] != "~":
        return message
    record = record_of(message)
    key: bytes | None
    if record is not None:
        key = record.key
    else:
        content = content_of(message)
        found = content.find(KEY)
        field = b"" if found is None else content.raw[found[1] : found[2]]
        key = field[5:] if field[:1] == b"S" else None
    whole = whole_key(message.routing_key, key)
    if whole is None:
        return message
    return assembled(message.exchange, whole, message.headers, message.properties, message.body)


def _replaced(
    message: Message, placement: Placement, own: bytes | None, key: bytes | None
) -> tuple[bytes | None, int | None]:
    """Return the key and the partition of a record that has a key of its own: those of its bytes, all of them.

    The topology's choice was made for the routing key, which is text, and never longer than AMQP allows.
    """
    partitioning = placement.partitioning
    if partitioning.key == ROUTING_KEY:
        if own is None or routing_key_for(own) != message.routing_key:
            return key, placement.partition
        whole: Any = own
    else:
        changed = with_whole_key(message)
        if changed is message:
            return key, placement.partition
        whole = partitioning.key.of(changed)
    chosen = partitioning.choose_for(whole).partition
    return serialized(whole), placement.partition if chosen is None else chosen


def written(outgoing: Outgoing, topic: str, key: bytes | None) -> Record:
    """The record of a message, with its marks. One that was a record all the time is that, without a way abroad."""
    message, identity = outgoing.message, outgoing.delivery.identity
    record = record_of(message)
    if record is None:
        message, hops = carried(message, identity)
        made = to_kafka(message, topic, key)
        for name, _ in made.headers:
            if not name.isascii():
                name.encode()  # the client ends the process over a name that is not UTF-8; this is an error of its own
        made.headers.append(hop_header(hops))  # type: ignore[attr-defined]  # a list that was made for this record
        return made
    headers, hops = record.headers, 1
    for name, _ in headers:
        if name == HOPS:
            hops = hops_of(message) + 1
            headers = [header for header in headers if header[0] != HOPS]
            break
    if identity is None:
        headers = [*headers, hop_header(hops)]
    else:  # of its place, as a record with an identity of its own is no such message
        headers = [*headers, (IDENTITY, identity.encode()), hop_header(hops)]
    return Record(topic, record.key, record.value, headers, record.timestamp, record.is_append_time)
