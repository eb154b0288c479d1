"""A message of AMQP in RocketMQ, a message of RocketMQ in AMQP, and each of them home again unchanged.

Origin decides, as between AMQP and Kafka (`bridge.interop`), and the tables are made alike. What a record of Kafka is
in RocketMQ, and the other way round, is not a third scheme: it is what the record is in AMQP, carried on. So a record
that comes home from RocketMQ was ``x-kafka-...`` there, and each guest comes home over any way.

RocketMQ keeps properties, pairs of texts, in no order, each name once; a property without a value is lost, the control
characters 1 and 2 separate them, and all of them together have 32,767 bytes. A message has a body.

An AMQP message in RocketMQ is a message with these properties, of which ``amqp.routing_key`` or ``amqp.values`` is
always there:

==========================  ============================================================================================
``amqp.exchange``           the exchange it was published to; without it, the default exchange
``amqp.routing_key``        its routing key
``amqp.message_id`` ...     each property under its AMQP name, as in Kafka
each header                 under its own name: text as it came, numbers in digits, ``true`` and ``false``, an array or
                            table in the JSON of `exchange.field_json`; so SQL92 can select by it
``amqp.header.NAME``        a header whose own name begins with ``amqp.`` or is one of RocketMQ's own, ``TAGS`` say
``amqp.header-hex.DIGITS``  a header whose name is empty, not UTF-8, or has a control character 0, 1 or 2
``amqp.earlier-N.NAME``     the N-th of several headers of one name, if it is not the last
``amqp.types``              JSON: the types of headers that are not text, as in Kafka
``amqp.values``             JSON: of what RocketMQ cannot hold as it is, what there is in its place:
                            ``{"a": "null", "b": "empty", "c": "base64"}``; of the first two there is nothing
``amqp.order``              JSON, the names of the headers in their order; absent when that is ascending, as RabbitMQ 4
                            sorts headers
``amqp.headers``            ``empty``: there is a table of headers, and nothing in it
``amqp.flags``              the two flags without a meaning, if they are set
``amqp.body``               ``empty``: its body is empty, and a zero byte stands for it
``KEYS``                    the key that its queue was chosen by, where that is text
``TAGS``                    the tag that the target is told to give, where that is text
==========================  ============================================================================================

A message of RocketMQ in AMQP is a message with the header ``x-rocketmq-topic``. Its exchange is the topic, or the name
that the topic stands for (`bridge.interop.rocketmq_topics`), and its routing key the first of its keys:

================================  =====================================================================================
``x-rocketmq-topic``              longstr
``x-rocketmq-broker``             longstr: the broker's name
``x-rocketmq-queue``              signedint: the queueId at that broker
``x-rocketmq-offset``             long: the offset in that queue
``x-rocketmq-born``               long: when its producer sent it, in milliseconds
``x-rocketmq-stored``             long: when the broker stored it
``x-rocketmq-flag``               signedint: the user's flag; absent when it is 0
``x-rocketmq-TAGS`` ...           each property of RocketMQ's own: ``x-rocketmq-KEYS``, ``x-rocketmq-UNIQ_KEY``: longstr
each property                     under its own name: longstr
``x-rocketmq-property-NAME``      a property whose name means something to the broker or to us: ``CC``, ``x-death`` ...
================================  =====================================================================================

At home it has its properties again, and of RocketMQ's own those of `HOME`, which its producer gave; not those that
brokers and consumers gave, nor a delay, which is over. A header that was added abroad comes with it as a property, if
RocketMQ can hold its value; ``amqp.header.NAME`` if its name is one of RocketMQ's own.

What does not fit raises `Unmappable`: names of more than 255 bytes here, and in
`bridge.rocketmq.remoting.properties.checked_properties` more than 32,767 bytes of properties there.
"""

from __future__ import annotations

from bridge.interop import kafka_guest, rocketmq_amqp_guest, rocketmq_guest
from bridge.interop.record import Unmappable
from bridge.interop.rocketmq_guest import HOME
from bridge.interop.rocketmq_packing import held_text
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from bridge.rocketmq.remoting.properties import KEYS, TAGS
from exchange.amqp import content_of
from exchange.message import Message

__all__ = ["HOME", "from_rocketmq", "to_rocketmq"]


def to_rocketmq(message: Message, topic: str, key: bytes | None = None, tag: bytes | None = None) -> RocketMessage:
    """What a message is in RocketMQ, or the message of RocketMQ that it is of.

    ``key`` and ``tag`` are those of a message of AMQP; one that comes home has its own. Raises Unmappable,
    MalformedHeader.
    """
    content = content_of(message)
    # With both marks it is a record of Kafka, one of whose own headers has such a name: ours never has Kafka's.
    if content.find(rocketmq_guest.MARK) is not None and content.find(kafka_guest.MARK) is None:
        return rocketmq_guest.home(content, message.body, topic)
    properties, body = rocketmq_amqp_guest.abroad(content, message)
    for name, raw in ((KEYS, key), (TAGS, tag)):
        text = None if raw is None else held_text(raw)
        if text is not None:
            properties[name] = text
    return RocketMessage(topic, body, properties)


def from_rocketmq(message: StoredMessage, exchange: str | None = None, routing_key: str | None = None) -> Message:
    """What a message of RocketMQ is in AMQP, or the message of AMQP that it is of.

    Its exchange and routing key are those given, else of a message that comes home its own. Raises Unmappable.
    """
    if message.problem:
        raise Unmappable(message.problem)
    if message.is_packed:
        raise Unmappable("its body is marked as packed, and cannot be unpacked")
    if rocketmq_amqp_guest.is_guest(message.properties):
        return rocketmq_amqp_guest.home(message, exchange, routing_key)
    return rocketmq_guest.abroad(message, exchange, routing_key)
