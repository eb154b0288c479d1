"""The identity of a message: the same however often it is delivered, so that a consumer can drop duplicates.

It is in the header ``x-hashstar-id`` in all systems, and stays with the message from its first bridge on. What it is
made of, and what it promises, depends on what the origin knows of a message:

=================  ===================================================================================================
Kafka              topic, partition and offset. Stable for as long as the topic is the same one: a topic that is
                   deleted and made anew counts from 0 again, so that the source's name should tell them apart.
RocketMQ           topic, broker, queue and offset, with the same limits. The producer's own id, ``UNIQ_KEY``, would
                   also be one for what a producer wrote twice; but it is the same when an application sends one
                   message object twice on purpose, and may be the same in two containers, so that by it messages
                   could be lost. It stays with the message, for consumers who know that their producers do neither.
stream             stream and ``x-stream-offset``, as a topic.
queue, classic or  RabbitMQ gives nothing that survives a redelivery: delivery tags belong to the channel, and
quorum             ``redelivered`` means that there may have been an earlier delivery, not which. So the identity is the
                   publisher's ``message_id`` with the queue's name, since each copy of a message in two queues must
                   arrive. Where a publisher uses one id for several messages, do not ask for an identity.
queue, without     none. One made when a message is first read would be another one after a crash, which is when
message_id         duplicates arise. `fingerprint` is the substitute: equal for redeliveries, and also for two messages
                   of the same content; drop messages by it only where no two have the same content.
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
    "header_with_identity",
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
"""Headers that describe a message's way through brokers; no part of a `fingerprint`."""


def identity_of_record(source: str, record: Record) -> str | None:
    """Return the identity that a record has, else that of its position; None without a partition and an offset."""
    present = last_header(record.headers, IDENTITY)
    if present:
        return present.decode("utf-8", "replace")
    if record.partition is None or record.offset is None:
        return None
    return _join("kafka", source, record.topic, str(record.partition), str(record.offset))


def identity_of_stored(source: str, message: StoredMessage) -> str:
    """Return the identity that a message of RocketMQ has, else that of its position."""
    position = message.topic, message.broker, str(message.queue_id), str(message.queue_offset)
    return message.properties.get(IDENTITY) or _join("rocketmq", source, *position)


def identity_of_message(source: str, queue: str, content: ContentHeader) -> str | None:
    """Return the identity that a message from a queue or stream has, else one of what its origin knows, else None."""
    present = _text(content, IDENTITY, "longstr")
    if present:
        return present
    offset = _text(content, STREAM_OFFSET, "long")
    if offset is not None:
        return _join("stream", source, queue, offset)
    message_id = content.property("message_id")
    return _join("message", source, queue, message_id) if message_id else None


def fingerprint(source: str, queue: str, routing_key: str, content: ContentHeader, body: bytes) -> str:
    """Return an identity made of the content, which all messages of equal content share: see the head of this module.

    The order of headers does not count, as RabbitMQ 4 sorts them, nor do headers that describe the message's way.
    """
    fields = sorted(field for field in content.fields() if field[0] not in TRAVEL)
    pieces = [routing_key.encode("utf-8", "surrogateescape"), body]
    pieces += [piece for name, raw in content.parts() for piece in (name.encode(), raw)]
    pieces += [piece for field in fields for piece in field]
    # Each piece has its length before it, so that no two lists of pieces are the same bytes.
    digest = sha256(b"".join([len(piece).to_bytes(8) + piece for piece in pieces]))
    return _join("content", source, queue, digest.hexdigest())


def with_identity(message: Message, identity: str | None) -> Message:
    """Return the message with this identity, unless that is None or the message has one; no header is decoded."""
    if identity is None:
        return message
    content = content_of(message)
    marked = header_with_identity(content, identity)
    return message if marked is content else message_of(message.exchange, message.routing_key, marked, message.body)


def header_with_identity(content: ContentHeader, identity: str | None) -> ContentHeader:
    """Return the content header with this identity; see `with_identity`."""
    if identity is None or content.find(IDENTITY) is not None:
        return content
    return content.with_header(IDENTITY, identity)


def _text(content: ContentHeader, name: str, kind: str) -> str | None:
    """Return a header as text if it is of this type, else None."""
    if content.find(name) is None:
        return None
    actual, value = type_and_value(content.header(name))
    if actual != kind:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _join(*parts: str) -> str:
    return "/".join([quote(part.encode("utf-8", "surrogateescape"), safe="") for part in parts])
