"""The identity of a message: the same however often it is delivered, so that a consumer can drop duplicates.

It stands in the header ``x-hashstar-id`` in all systems, and stays with the message from its first bridge on. What
it can be made of depends on what the origin knows of a message, and no more can be promised than that:

=================  ===================================================================================================
Kafka              topic, partition and offset. Stable for as long as the topic is the same one: a topic that is
                   deleted and made anew counts from 0 again, so that the source's name should tell them apart.
RocketMQ           topic, broker, queue and offset, with the same limits. The producer's own id, ``UNIQ_KEY``, would
                   also be one for what a producer wrote twice; but it is the same when an application sends one
                   message object twice on purpose, and may be the same in two containers, so that by it messages
                   could be lost. It stays with the message, for who knows his producers.
stream             stream and ``x-stream-offset``, as a topic.
queue, classic or  RabbitMQ tells nothing that survives a redelivery: delivery tags are of the channel, and
quorum             ``redelivered`` says that there may have been an earlier delivery, not which. So the identity is the
                   publisher's ``message_id``, with the queue's name, since of a message in two queues each copy is
                   to arrive. Publishers that use one id for several messages have to be told apart from here: for
                   their queues do not ask for it.
queue, without     none. One made at first sight would be another after a crash, which is when duplicates arise, and
message_id         could only pretend. `fingerprint` is what can be had: equal for redeliveries, and also for two
                   messages that say the same; only who knows that no two do may drop messages by it.
=================  ===================================================================================================

An identity is ``kafka/SOURCE/TOPIC/PARTITION/OFFSET``, ``rocketmq/SOURCE/TOPIC/BROKER/QUEUE/OFFSET``,
``stream/SOURCE/STREAM/OFFSET``, ``message/SOURCE/QUEUE/MESSAGE_ID`` or ``content/SOURCE/QUEUE/HASH``, its parts quoted
as in a URL.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final
from urllib.parse import quote

from bridge.interop.record import Record, last_header
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.amqp import ContentHeader, content_of, message_of
from exchange.field_values import type_and_value
from exchange.message import Message

__all__ = [
    "IDENTITY",
    "fingerprint",
    "identified",
    "identity_of_message",
    "identity_of_record",
    "identity_of_stored",
    "with_identity",
]

IDENTITY: Final = "x-hashstar-id"
STREAM_OFFSET: Final = "x-stream-offset"

TRAVEL: Final = frozenset({
    b"x-death", b"x-first-death-exchange", b"x-first-death-queue", b"x-first-death-reason", b"x-last-death-exchange",
    b"x-last-death-queue", b"x-last-death-reason", b"x-delivery-count", b"x-acquired-count", b"x-stream-offset",
    b"x-received-from", b"x-shovelled",
})  # fmt: skip
"""Headers that tell what happened to a message on its way."""


def identity_of_record(source: str, record: Record) -> str | None:
    """The identity that a record carries, else that of its place; None without a partition and an offset."""
    carried = last_header(record.headers, IDENTITY)
    if carried:
        return carried.decode("utf-8", "replace")
    if record.partition is None or record.offset is None:
        return None
    return _joined("kafka", source, record.topic, str(record.partition), str(record.offset))


def identity_of_stored(source: str, message: StoredMessage) -> str:
    """The identity that a message of RocketMQ carries, else that of its place."""
    place = message.topic, message.broker, str(message.queue_id), str(message.queue_offset)
    return message.properties.get(IDENTITY) or _joined("rocketmq", source, *place)


def identity_of_message(source: str, queue: str, content: ContentHeader) -> str | None:
    """The identity that a message from a queue or stream carries, else what its origin knows, else None."""
    carried = _text(content, IDENTITY, "longstr")
    if carried:
        return carried
    offset = _text(content, STREAM_OFFSET, "long")
    if offset is not None:
        return _joined("stream", source, queue, offset)
    message_id = content.property("message_id")
    return _joined("message", source, queue, message_id) if message_id else None


def fingerprint(source: str, queue: str, routing_key: str, content: ContentHeader, body: bytes) -> str:
    """An identity by content, which all messages that say the same share: see the head of this module.

    Headers count in any order, as RabbitMQ 4 sorts them, and without those that tell of the way here.
    """
    fields = sorted(field for field in content.fields() if field[0] not in TRAVEL)
    parts = [routing_key.encode("utf-8", "surrogateescape"), body]
    parts += [part for name, raw in content.parts() for part in (name.encode(), raw)]
    parts += [part for field in fields for part in field]
    # With its length before each part, no two lists of parts are the same bytes.
    digest = sha256(b"".join([len(part).to_bytes(8) + part for part in parts]))
    return _joined("content", source, queue, digest.hexdigest())


def with_identity(message: Message, identity: str | None) -> Message:
    """The message with this identity in its header, unless it is None or one is there; no header is decoded."""
    if identity is None:
        return message
    content = content_of(message)
    marked = identified(content, identity)
    return message if marked is content else message_of(message.exchange, message.routing_key, marked, message.body)


def identified(content: ContentHeader, identity: str | None) -> ContentHeader:
    """As `with_identity`, of the header alone."""
    if identity is None or content.find(IDENTITY) is not None:
        return content
    return content.with_header(IDENTITY, identity)


def _text(content: ContentHeader, name: str, kind: str) -> str | None:
    """A header as text if it is of this type."""
    if content.find(name) is None:
        return None
    found, value = type_and_value(content.header(name))
    if found != kind:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _joined(*parts: str) -> str:
    return "/".join([quote(part.encode("utf-8", "surrogateescape"), safe="") for part in parts])
