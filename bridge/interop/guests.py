"""AMQP and Kafka, in both directions: a guest is unwrapped, every other message or record is wrapped.

Both functions raise `Unmappable` and `exchange.amqp.MalformedHeader` for what the other system cannot hold.
"""

from __future__ import annotations

from bridge.interop import amqp_guest, kafka_guest
from bridge.interop.record import Record
from exchange.amqp import content_of
from exchange.values.message import Message

__all__ = ["to_amqp", "to_kafka"]


def to_kafka(message: Message, topic: str, key: bytes | None = None) -> Record:
    """Return a message as a record: the one that it carries, if it is a record of Kafka, else one that carries it.

    ``key`` is the key of a record that carries a message of AMQP; a record that is unwrapped has its own.
    """
    content = content_of(message)
    if content.find(kafka_guest.MARK) is not None:
        return kafka_guest.unwrap(content, message.body, topic)
    headers = amqp_guest.wrap(content, message.exchange, message.routing_key)
    return Record(topic, key, message.body, headers)


def to_amqp(record: Record, exchange: str | None = None, routing_key: str | None = None) -> Message:
    """Return a record as a message: the one that it carries, if it is a message of AMQP, else one that carries it.

    Exchange and routing key are those given; else a message that is unwrapped has its own, and one that carries a
    record has the topic and the key (without a key, an empty one).
    """
    for name, _ in record.headers:
        if name == amqp_guest.MARK:
            return amqp_guest.unwrap(record, exchange, routing_key)
    return kafka_guest.wrap(record, exchange, routing_key)
