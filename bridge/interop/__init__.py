"""A message of AMQP in Kafka, a record of Kafka in AMQP, and each of them back in its own system unchanged.

**Origin decides.** A message that travels through another system than its own is a guest there: what that system has
no field for travels in headers with names of ours (it is *wrapped*), and is restored from them when the message is back
in its own system (it is *unwrapped*). All else is written as the other system's own messages have it, so that consumers
there read it without knowing of us. What is added to a guest on its way (``x-death``, a trace id) stays with it, as an
ordinary header.

An AMQP message in Kafka is a record with the header ``amqp.routing_key``:

=========================  ============================================================================================
``amqp.exchange``          the exchange it was published to; without it, the default exchange
``amqp.routing_key``       its routing key, in the bytes that came
``amqp.message_id`` ...    each property under its AMQP name: text as it came, numbers in digits, timestamp in seconds
each header                under its own name: text as it came, numbers in digits, ``true`` and ``false``, binary as it
                           is, an array or table as `exchange.values.field_json` writes it, void as null; a header
                           that is there twice is there twice
``amqp.header.NAME``       a header whose own name begins with ``amqp.``
``amqp.header-hex.DIGITS``  a header whose name is empty, not UTF-8, or has a NUL, where Kafka's C clients cut names
``amqp.types``             JSON: the types of headers that are not text: ``{"count": "signedint"}``
``amqp.headers``           ``empty``: there is a table of headers, and nothing in it
``amqp.flags``             the two flags without a meaning, if they are set
=========================  ============================================================================================

The caller gives the key of the record; its timestamp is set by the producer. The message's own timestamp may be years
old or nonsense, and Kafka's retention could delete a record with that timestamp at once.

A record of Kafka in AMQP is a message with the header ``x-kafka-topic``. Headers exchanges ignore names that begin with
``x-``, and none of our headers is an array or a table, which streams would drop:

============================  =========================================================================================
``x-kafka-topic``             longstr
``x-kafka-partition``         signedint
``x-kafka-offset``            long
``x-kafka-timestamp``         long: milliseconds; absent when the record has none
``x-kafka-timestamp-type``    longstr: ``CreateTime`` or ``LogAppendTime``
``x-kafka-key``               longstr of any bytes; void: no key, which is not an empty one
``x-kafka-tombstone``         bool, true: it has no value, which is not an empty one
``x-kafka-order``             longstr: JSON, the names of the headers in their order; absent when that is ascending, as
                              RabbitMQ 4 sorts headers
each header                   under its own name: longstr of any bytes, or void for null; of several with one name, the
                              last, which is the one that Kafka's ``lastHeader`` gives
``x-kafka-earlier-N-NAME``    the N-th of several, if it is not the last
``x-kafka-header-NAME``       a header whose name means something to the broker or to us: ``CC``, ``x-death`` ...
``x-kafka-name-DIGEST``       longstr: the name of a header that is too long for AMQP; ``~DIGEST`` stands for it in
                              ``x-kafka-header-~DIGEST`` or ``x-kafka-earlier-N-~DIGEST``, which has the value
============================  =========================================================================================

The message is persistent (delivery mode 2), as a record survives the restart of its broker. Partition and offset are
those that the record had; back in Kafka it gets new ones. The timestamp type LogAppendTime is kept, although a producer
can only ask for CreateTime.

**Request and reply** need ``reply_to`` and ``correlation_id``, which are carried in both directions. How a bridge
passes requests on so that servers reply in the way of their own system, and brings the replies back, is in
`bridge.interop.requests`. Without that, a server may reply through the mapping alone:

- *AMQP asks, Kafka answers.* The request has ``amqp.reply_to`` and ``amqp.correlation_id``. The answer is a record with
  an empty ``amqp.exchange`` (the default one), the request's ``amqp.reply_to`` as ``amqp.routing_key``, and the same
  correlation id. When it is published to RabbitMQ with this exchange and key, it reaches the queue that the requester
  reads: also ``amq.rabbitmq.reply-to.*``, direct reply-to, as long as the requester's channel is open.
- *Kafka asks, AMQP answers.* The request is a record with its destination in ``amqp.routing_key`` (and
  ``amqp.exchange``), with an ``amqp.reply_to`` that names a queue whose messages the bridge writes to the topic of
  answers, and with ``amqp.correlation_id``. To the service it is an ordinary request; its answer is a record in that
  topic, with ``amqp.correlation_id``.

**Limits.** AMQP allows 255 bytes for names, routing keys and properties, and one frame for all headers: RabbitMQ's
``frame_max`` is 131,072. Kafka's ``max.message.bytes`` counts headers. Of a record whose key is longer than 255 bytes
the routing key is the beginning of that key, ``~`` and a digest of it: different keys stay different, and the key
itself is in ``x-kafka-key``. All other names and properties that do not fit raise `Unmappable`, with a text
that names what is too long.

RabbitMQ itself changes headers: 4.x sorts those of a message and keeps the first of each name, writes an integer of tag
``L`` as ``l`` and any true as 1; a stream drops arrays and tables (4.x keeps those whose names begin with ``x-``), has
binary as longstr (4.x) and closes the connection over a decimal. This mapping changes nothing.

`bridge.interop.rocketmq` has the same for RocketMQ.
"""

from bridge.interop.identity import (
    IDENTITY,
    bind_identity,
    choose_identity,
    compute_fingerprint,
    identify_message,
    identify_record,
    identify_stored,
)
from bridge.interop.kafka_guest import to_amqp, to_kafka
from bridge.interop.record import Record, Unmappable
from bridge.interop.rocketmq import convert_from_rocketmq, to_rocketmq
from bridge.interop.rocketmq_guest import find_headers_for_property
from bridge.interop.rocketmq_topics import build_topic, group_of, name_of

__all__ = [
    "IDENTITY", "Record", "Unmappable", "bind_identity", "choose_identity", "compute_fingerprint",
    "convert_from_rocketmq", "group_of", "find_headers_for_property", "identify_message", "identify_record",
    "identify_stored", "name_of", "to_amqp", "to_kafka", "to_rocketmq", "build_topic",
]  # fmt: skip
