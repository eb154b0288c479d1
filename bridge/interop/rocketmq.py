"""A message of AMQP in RocketMQ, a message of RocketMQ in AMQP, and each of them back unchanged.

Origin decides, as between AMQP and Kafka (`bridge.interop`), and the tables are similar. There is no third scheme for
records of Kafka in RocketMQ, or the reverse: a record is wrapped as a message of AMQP, and that one as a message of
RocketMQ. So in RocketMQ a record has properties ``x-kafka-...``, and each guest is restored by any route.

RocketMQ keeps properties, pairs of texts, in no order, each name once; a property without a value is lost, the control
characters 1 and 2 separate them, and all of them together have at most 32,767 bytes. A message must have a body.

An AMQP message in RocketMQ is a message with these properties, of which ``amqp.routing_key`` or ``amqp.values`` is
always there:

==========================  ============================================================================================
``amqp.exchange``           the exchange it was published to; without it, the default exchange
``amqp.routing_key``        its routing key
``amqp.message_id`` ...     each property under its AMQP name, as in Kafka
each header                 under its own name: text as it came, numbers in digits, ``true`` and ``false``, an array or
                            table in the JSON of `exchange.values.field_json`; so SQL92 can select by it
``amqp.header.NAME``        a header whose own name begins with ``amqp.`` or is one of RocketMQ's own, ``TAGS`` say
``amqp.header-hex.DIGITS``  a header whose name is empty, not UTF-8, or has a control character 0, 1 or 2
``amqp.earlier-N.NAME``     the N-th of several headers of one name, if it is not the last
``amqp.types``              JSON: the types of headers that are not text, as in Kafka
``amqp.values``             JSON: how values are represented that RocketMQ cannot hold as they are:
                            ``{"a": "null", "b": "empty", "c": "base64"}``; the first two have no property
``amqp.order``              JSON, the names of the headers in their order; absent when that is ascending, as RabbitMQ 4
                            sorts headers
``amqp.headers``            ``empty``: there is a table of headers, and nothing in it
``amqp.flags``              the two flags without a meaning, if they are set
``amqp.body``               ``empty``: its body is empty, and a zero byte stands for it
``KEYS``                    the key that its queue was chosen by, where that is text
``TAGS``                    the tag that the target is configured to give, where that is text
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

Back in RocketMQ it has its properties again. Of RocketMQ's own properties it has those that its producer gave
(`PRODUCER_PROPERTIES`), not those that brokers and consumers gave, nor a delay, which is over. A header that was added
in AMQP becomes a property, if RocketMQ can hold its value; ``amqp.header.NAME`` if its name is one of RocketMQ's own.

What does not fit raises `Unmappable`: names of more than 255 bytes here, and in
`bridge.rocketmq.remoting.properties.encode_checked_properties` more than 32,767 bytes of properties there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from bridge.interop import amqp_guest, kafka_guest, rocketmq_guest
from bridge.interop.amqp_guest import ESCAPED, EXCHANGE, HEX, MARK, PREFIX
from bridge.interop.record import Record, Unmappable
from bridge.interop.rocketmq_guest import PRODUCER_PROPERTIES, is_own
from bridge.interop.rocketmq_packing import VALUES, format_property, pack_headers, unpack_headers
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from bridge.rocketmq.remoting.properties import KEYS, SYSTEM, TAGS, TRANSIENT
from exchange.amqp import ContentHeader, get_content
from exchange.values.message import Message

__all__ = [
    "PRODUCER_PROPERTIES", "convert_from_rocketmq", "format_property_name", "is_guest", "to_rocketmq", "unwrap", "wrap",
]  # fmt: skip


def to_rocketmq(message: Message, topic: str, key: bytes | None = None, tag: bytes | None = None) -> RocketMessage:
    """Return a message of AMQP as one of RocketMQ: the one that it carries, if it is of RocketMQ, else one that
    carries it.

    ``key`` and ``tag`` are for one that carries a message of AMQP; one that is unwrapped has its own. Raises
    Unmappable, MalformedHeader.
    """
    content = get_content(message)
    # With both marks it carries a record of Kafka that has a header with the name of RocketMQ's mark: a message of
    # RocketMQ that we have wrapped never has Kafka's mark.
    if content.find(rocketmq_guest.MARK) is not None and content.find(kafka_guest.MARK) is None:
        return rocketmq_guest.unwrap(content, message.body, topic)
    properties, body = wrap(content, message)
    for name, raw in ((KEYS, key), (TAGS, tag)):
        text = None if raw is None else format_property(raw)
        if text is not None:
            properties[name] = text
    return RocketMessage(topic, body, properties)


def convert_from_rocketmq(
    message: StoredMessage, exchange: str | None = None, routing_key: str | None = None
) -> Message:
    """Return a message of RocketMQ as one of AMQP: the one that it carries, if it is of AMQP, else one that carries it.

    Exchange and routing key are those given; else a message that is unwrapped has its own, and one that carries a
    message of RocketMQ has the topic's name and the first key. Raises Unmappable.
    """
    if message.problem:
        raise Unmappable(message.problem)
    if message.is_packed:
        raise Unmappable("its body is marked as packed, and cannot be unpacked")
    if is_guest(message.properties):
        return unwrap(message, exchange, routing_key)
    return rocketmq_guest.wrap(message, exchange, routing_key)


BODY: Final = "amqp.body"
EMPTY: Final = "empty"
NOTHING: Final = b"\0"
"""Body of a message whose own is empty, which brokers would refuse."""

OWN: Final = "x-rocketmq-"
CALLER_PROPERTIES: Final = ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "CLUSTER")
"""Properties of RocketMQ's own by which it finds who waits for a reply; see `bridge.interop.requests`."""


@lru_cache(4096)
def format_property_name(raw: bytes) -> str:
    """Return the name of the property for an AMQP header of this name."""
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        return HEX + raw.hex()
    if not name or any(character in name for character in "\0\x01\x02"):
        return HEX + raw.hex()
    return ESCAPED + name if name.startswith((PREFIX, TRANSIENT)) or name in SYSTEM else name


def is_guest(properties: Mapping[str, str]) -> bool:
    """Return whether a message with these properties carries one of AMQP.

    Then it has the property of the routing key, or, as an empty key gives no property, `VALUES` with an entry for it.
    """
    return MARK in properties or VALUES in properties


def wrap(content: ContentHeader, message: Message) -> tuple[dict[str, str], bytes]:
    """Return the properties and the body of the message of RocketMQ that carries this one."""
    own, headers = [], []
    for header in amqp_guest.wrap(content, message.exchange, message.routing_key, format_property_name):
        name = header[0]
        if name.startswith((ESCAPED, HEX)) or not name.startswith(PREFIX):
            headers.append(header)
        elif name != EXCHANGE or header[1]:
            own.append(header)
    properties = pack_headers(own, headers)
    if message.body:
        return properties, message.body
    properties[BODY] = EMPTY
    return properties, NOTHING


def unwrap(message: StoredMessage, exchange: str | None, routing_key: str | None) -> Message:
    """Return the message of AMQP that a message of RocketMQ carries. Raises Unmappable."""
    properties = {name: value for name, value in message.properties.items() if not is_own(name)}
    body = message.body
    if properties.pop(BODY, None) == EMPTY and body == NOTHING:
        body = b""
    headers = unpack_headers(properties)
    if "REPLY_TO_CLIENT" in message.properties:  # of a request or a reply, which is still one outside RocketMQ
        kept = {name: message.properties[name] for name in CALLER_PROPERTIES if name in message.properties}
        headers += [(OWN + name, text.encode("utf-8", "surrogateescape")) for name, text in kept.items()]
        headers.append((OWN + "broker", message.broker.encode()))
    return amqp_guest.unwrap(Record(message.topic, None, body, headers), exchange, routing_key)
