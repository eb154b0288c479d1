"""Which is a guest where: the two ways across, by the origin of what crosses.

Raises of both ways: `Unmappable` and `exchange.amqp.MalformedHeader`, for what the other side cannot hold.
"""

from __future__ import annotations

from bridge.interop import amqp_guest, kafka_guest
from bridge.interop.record import Record
from exchange.amqp import content_of
from exchange.message import Message

__all__ = ["to_amqp", "to_kafka"]


def to_kafka(message: Message, topic: str, key: bytes | None = None) -> Record:
    """The record of a message, or the one that the message is of.

    ``key`` is the record's key, of a message of AMQP; a record that comes home has its own.
    """
    content = content_of(message)
    if content.find(kafka_guest.MARK) is not None:
        return kafka_guest.home(content, message.body, topic)
    headers = amqp_guest.abroad(content, message.exchange, message.routing_key)
    return Record(topic, key, message.body, headers)


def to_amqp(record: Record, exchange: str | None = None, routing_key: str | None = None) -> Message:
    """The message of a record, or the one that the record is of.

    Its exchange and routing key are those given, else of a message that comes home its own, else topic and key (of no
    key, an empty one).
    """
    for name, _ in record.headers:
        if name == amqp_guest.MARK:
            return amqp_guest.home(record, exchange, routing_key)
    return kafka_guest.abroad(record, exchange, routing_key)
