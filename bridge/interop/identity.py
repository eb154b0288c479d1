"""The identity of a message: the same however often it is delivered, so that a consumer can drop duplicates.

It is in the header ``x-hashstar-id`` in all systems, and stays with the message from its first bridge on. It ends with
a checksum of the key and the body, by which it is bound to its message: an application that copies the headers of one
message to another copies the id, too, and consumers that drop known ids would lose the other one. So an id that a
message has is believed only if the checksum is that of its body and of its key, or of the key that headers of a bridge
keep for it (`KEPT_KEYS`); any other is replaced, as is one of an empty body, which proves nothing.

What else it is made of, and what it promises, depends on what the origin knows of a message:

=================  ===================================================================================================
Kafka              topic, partition and offset. A topic that is deleted and made anew counts from 0 again: keys and
                   bodies distinguish its messages, and where both may be equal, the source's name should.
RocketMQ           topic, broker, queue and offset, with the same limits. The producer's own id, ``UNIQ_KEY``, would
                   also be one for what a producer wrote twice; but it is the same when an application sends one
                   message object twice on purpose, and may be the same in two containers, so that by it messages
                   could be lost. It stays with the message, for consumers who know that their producers do neither.
stream             stream and ``x-stream-offset``, as a topic.
queue, classic or  RabbitMQ gives nothing that survives a redelivery: delivery tags belong to the channel, and
quorum             ``redelivered`` means that there may have been an earlier delivery, not which. So the identity is the
                   publisher's ``message_id`` with the queue's name, since each copy of a message in two queues must
                   arrive. Where a publisher uses one id for several messages, keys and bodies distinguish them.
queue, without     none. One made when a message is first read would be another one after a crash, which is when
message_id         duplicates arise. `compute_fingerprint` is the substitute: equal for redeliveries, and also for two
messages
                   of the same content; drop messages by it only where no two have the same content.
=================  ===================================================================================================

An identity is ``kafka/SOURCE/TOPIC/PARTITION/OFFSET/CRC``, ``rocketmq/SOURCE/TOPIC/BROKER/QUEUE/OFFSET/CRC``,
``stream/SOURCE/STREAM/OFFSET/CRC``, ``message/SOURCE/QUEUE/MESSAGE_ID/CRC`` or ``content/SOURCE/QUEUE/HASH/CRC``, its
parts quoted as in a URL, ``CRC`` being the CRC-32 of the key and the body in eight hexadecimal digits. The key is the
routing key, the record's key, or the first of the keys of a message of RocketMQ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from typing import Final, TypeAlias
from urllib.parse import quote
from zlib import crc32

from bridge.interop.record import Record, find_last_header
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.amqp import ContentHeader
from exchange.amqp.streams import read_offset

IDENTITY: Final = "x-hashstar-id"

ROCKETMQ_KEYS: Final = "x-rocketmq-KEYS"
KEPT_KEYS: Final = ("x-kafka-key", ROCKETMQ_KEYS, "x-hashstar-routing-key", "amqp.routing_key")
"""Headers in which bridges keep the key of a message's origin in other systems, that of the earliest origin first."""

Read: TypeAlias = Callable[[str], bytes | None]
"""Returns the value of a header; None if there is none, or it is no text."""

TRAVEL: Final = frozenset({
    b"x-death", b"x-first-death-exchange", b"x-first-death-queue", b"x-first-death-reason", b"x-last-death-exchange",
    b"x-last-death-queue", b"x-last-death-reason", b"x-delivery-count", b"x-acquired-count", b"x-stream-offset",
    b"x-received-from", b"x-shovelled",
})  # fmt: skip
"""Headers that describe a message's way through brokers; no part of a `compute_fingerprint`."""


def bind_identity(position: str, key: bytes | None, body: bytes | None) -> str:
    """Return the identity of the message at this position that has this key and this body."""
    return f"{position}/{crc32(body or b'', crc32(key or b'')):08x}"


def choose_identity(read: Read, position: str | None, key: bytes | None, body: bytes | None) -> str | None:
    """Return the identity that a message carries if it is its own, else that of its position, if it has one.

    ``read`` returns a header. A carried one is the message's own if it was made for this body, and for its key or one
    that a bridge keeps for it.
    """
    key = key or b""
    carried = read(IDENTITY)
    if carried and body:
        for candidate in {key, *_kept_keys(read)}:
            if carried.endswith(b"/%08x" % crc32(body, crc32(candidate))):
                return carried.decode("utf-8", "replace")
    return None if position is None else bind_identity(position, next(_kept_keys(read), key), body)


def _kept_keys(read: Read) -> Iterator[bytes]:
    """Yield the keys that bridges keep for a message, beginning with that of the earliest origin."""
    for name in KEPT_KEYS:
        key = read(name)
        if name == ROCKETMQ_KEYS and read("x-rocketmq-topic") is not None:
            yield (key or b"").partition(b" ")[0]
        elif key is not None:
            yield key


def identify_record(source: str, record: Record) -> str | None:
    """Return the identity that a record has, else that of its position; None without a partition and an offset."""
    position = None
    if record.partition is not None and record.offset is not None:
        position = _join("kafka", source, record.topic, str(record.partition), str(record.offset))
    return choose_identity(partial(find_last_header, record.headers), position, record.key, record.value)


def identify_stored(position: str, message: StoredMessage) -> str:
    """Return the identity that a message of RocketMQ has, else that of its position."""

    def read(name: str) -> bytes | None:
        text = message.properties.get(name)
        return None if text is None else text.encode("utf-8", "surrogateescape")

    key = next(iter(message.keys), "").encode("utf-8", "surrogateescape")
    return choose_identity(read, position, key, message.body) or position


def identify_message(source: str, queue: str, key: bytes, content: ContentHeader, body: bytes) -> str | None:
    """Return the identity that a message from a queue or stream has, else one of what its origin knows, else None."""
    offset = read_offset(content)
    position = None if offset is None else _join("stream", source, queue, str(offset))
    if position is None and (message_id := content.property("message_id")):
        position = _join("message", source, queue, message_id)
    return choose_identity(partial(_read_text, content), position, key, body)


def _read_text(content: ContentHeader, name: str) -> bytes | None:
    """Return a header in bytes if it is text, or null, which is empty; None if there is none, or of another type."""
    span = content.find(name)
    if span is None or content.raw[span[1]] not in b"SV":
        return None
    return content.raw[span[1] + 5 : span[2]]


def compute_fingerprint(source: str, queue: str, routing_key: str, content: ContentHeader, body: bytes) -> str:
    """Return an identity made of the content, which all messages of equal content share: see the head of this module.

    The order of headers does not count, as RabbitMQ 4 sorts them, nor do headers that describe the message's way.
    """
    fields = sorted(field for field in content.fields() if field[0] not in TRAVEL)
    pieces = [routing_key.encode("utf-8", "surrogateescape"), body]
    pieces += [piece for name, raw in content.parts() for piece in (name.encode(), raw)]
    pieces += [piece for field in fields for piece in field]
    # Each piece has its length before it, so that no two lists of pieces are the same bytes.
    digest = sha256(b"".join([len(piece).to_bytes(8) + piece for piece in pieces]))
    key = routing_key.encode("utf-8", "surrogateescape")
    return bind_identity(_join("content", source, queue, digest.hexdigest()), key, body)


def _join(*parts: str) -> str:
    return "/".join([quote(part.encode("utf-8", "surrogateescape"), safe="") for part in parts])
