"""Requests and replies as each system has them: reading return addresses and tokens, and writing them.

`bridge.interop.return_address` describes them. All functions work on AMQP messages, as the pump has them. These cannot
hold RocketMQ's own properties, so `build_rocketmq_request` and `build_rocketmq_reply` return the properties separately.

Time limits travel, too: RabbitMQ's ``expiration`` and RocketMQ's ``TTL`` are milliseconds from the publishing on, the
header ``x-hashstar-deadline`` of a record of Kafka is a time, in milliseconds since 1970, in digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from bridge.interop.record import NAME_LIMIT, Unmappable
from bridge.interop.return_address import ReturnAddress
from bridge.interop.texts import format_wire
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.text.numbers import is_digits
from exchange.values.field_values import Typed
from exchange.values.message import Message

RABBITMQ, KAFKA, ROCKETMQ = "rabbitmq", "kafka", "rocketmq"

REPLY_TOPIC: Final = "kafka_replyTopic"
REPLY_PARTITION: Final = "kafka_replyPartition"
CORRELATION: Final = "kafka_correlationId"
DEADLINE: Final = "x-hashstar-deadline"
MARKS_OF_KAFKA: Final = (REPLY_TOPIC, REPLY_PARTITION, CORRELATION, DEADLINE)

OF_ROCKETMQ: Final = "x-rocketmq-"
"""Prefix of RocketMQ's own properties in the headers of a message of AMQP."""
CORRELATION_ID, REPLY_TO_CLIENT, TTL, CLUSTER, BROKER = "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "CLUSTER", "broker"
MSG_TYPE, REPLY = "MSG_TYPE", "reply"
MARKS_OF_ROCKETMQ: Final = tuple([
    OF_ROCKETMQ + name for name in (CORRELATION_ID, REPLY_TO_CLIENT, TTL, CLUSTER, MSG_TYPE, "PUSH_REPLY_TIME")
])  # fmt: skip

MAX_DIGITS: Final = 15
"""Maximum number of digits of a time limit in milliseconds: about 30,000 years."""


class Caller(NamedTuple):
    """The fields of a request that name its caller and how long the caller waits."""

    address: ReturnAddress
    limit: int | None = None
    """Milliseconds from its publishing on; None if the request has no such limit."""
    deadline: int | None = None
    """Time until which the caller waits, in milliseconds since 1970; None if the request has none."""


class ReplyRequest(NamedTuple):
    """How a request asks for its reply in the system that it goes to."""

    place: str
    """The queue or topic where the bridge reads replies; "" for RocketMQ, which has one topic for all replies."""
    token: str
    deadline: int
    """Time until which the caller waits, in milliseconds since 1970."""

    def left(self, now: int) -> int:
        """Return the milliseconds that are left at a time in milliseconds since 1970, at least 1."""
        return max(1, self.deadline - now)


def _rabbitmq_caller(content: ContentHeader) -> Caller | None:
    reply_to, correlation = content.property("reply_to"), content.property("correlation_id")
    if not reply_to:
        return None
    expiration = content.property("expiration")
    return Caller(ReturnAddress(reply_to, _bytes(correlation)), None if expiration is None else _number(expiration))


def _kafka_caller(content: ContentHeader) -> Caller | None:
    topic = _last(content, REPLY_TOPIC)
    if not topic:
        return None
    raw = _last(content, REPLY_PARTITION)
    if raw is not None and len(raw) != 4:
        raise Unmappable(f"header {REPLY_PARTITION}: it has {len(raw)} bytes; a partition has 4, big-endian")
    detail = "" if raw is None else str(int.from_bytes(raw, signed=True))
    address = ReturnAddress(_text(topic), _last(content, CORRELATION), detail)
    deadline = _last(content, DEADLINE)
    return Caller(address, deadline=None if deadline is None else _number(_text(deadline)))


def _rocketmq_caller(content: ContentHeader) -> Caller | None:
    client, correlation, cluster, broker, limit = (
        _last(content, OF_ROCKETMQ + name) for name in (REPLY_TO_CLIENT, CORRELATION_ID, CLUSTER, BROKER, TTL)
    )
    if not client or not cluster:
        return None
    address = ReturnAddress(_text(client), correlation, f"{_text(cluster)}:{_text(broker or b'')}")
    return Caller(address, None if limit is None else _number(_text(limit)))


def _ask_rabbitmq(content: ContentHeader, request: ReplyRequest, now: int) -> ContentHeader:
    if len(request.token) > NAME_LIMIT:
        raise Unmappable(f"its return address takes {len(request.token)} bytes; correlation_id has {NAME_LIMIT}")
    content = content.with_property("correlation_id", request.token).with_property("reply_to", request.place)
    return content.with_property("expiration", str(request.left(now)))


def _ask_kafka(content: ContentHeader, request: ReplyRequest, _: int) -> ContentHeader:
    for name in MARKS_OF_KAFKA:
        content = content.without_header(name)
    for name, value in ((REPLY_TOPIC, request.place), (CORRELATION, request.token), (DEADLINE, request.deadline)):
        content = content.with_header(name, str(value))
    return content


class Convention(NamedTuple):
    """How messages of a system ask for a reply and how replies are marked, as far as messages of AMQP hold that."""

    find_caller: Callable[[ContentHeader], Caller | None]
    correlation: Callable[[ContentHeader], bytes | None]
    """Returns the correlation id of a reply."""
    ask: Callable[[ContentHeader, ReplyRequest, int], ContentHeader]
    """Adds what asks for the reply to a request, at a time in milliseconds since 1970."""
    correlate: Callable[[ContentHeader, bytes], ContentHeader]
    """Adds the caller's correlation id to a reply."""
    marks: tuple[str, ...] = ()
    """Headers by which the system finds a caller: a reply to a caller has only those of the caller's system."""
    by_key: bool = False
    """Whether the default exchange takes replies to the caller, whose name is the routing key."""
    counts_from_reading: bool = False
    """Whether a time limit counts from the reading of a request, and not from its publishing, whose time is unknown."""


CONVENTIONS: Final[Mapping[str, Convention]] = {
    RABBITMQ: Convention(
        _rabbitmq_caller,
        lambda content: _bytes(content.property("correlation_id")),
        _ask_rabbitmq,
        lambda content, raw: content.with_property("correlation_id", _text(raw)),
        by_key=True,
        counts_from_reading=True,
    ),
    KAFKA: Convention(
        _kafka_caller,
        lambda content: _last(content, CORRELATION),
        _ask_kafka,
        lambda content, raw: content.with_header(CORRELATION, Typed("longstr", raw)),
        MARKS_OF_KAFKA,
    ),
    # RocketMQ's own properties are added where its message is made: `build_rocketmq_request`, `build_rocketmq_reply`.
    ROCKETMQ: Convention(
        _rocketmq_caller,
        lambda content: _last(content, OF_ROCKETMQ + CORRELATION_ID),
        lambda content, _, __: content,
        lambda content, _: content,
        MARKS_OF_ROCKETMQ,
    ),
}
"""System -> its convention."""
MARKS: Final = tuple([name for each in CONVENTIONS.values() for name in each.marks])
"""Headers by which some system finds a caller."""


def find_caller(message: Message, system: str) -> Caller | None:
    """Return the caller that waits for a reply to a message read from a system; None if the message is no request.

    Raises Unmappable for values that contradict the system's convention, MalformedHeader.
    """
    return CONVENTIONS[system].find_caller(get_content(message))


def find_correlation(message: Message, system: str) -> bytes | None:
    """Return the correlation id of a reply that was read from a system; None if it has none. Raises MalformedHeader."""
    return CONVENTIONS[system].correlation(get_content(message))


def find_reply_partition(address: ReturnAddress, count: int) -> int | None:
    """Return the partition of Kafka that a caller waits at, out of ``count``; None for any. Raises Unmappable."""
    if not address.detail:
        return None
    partition = int(address.detail)
    if not 0 <= partition < count:
        raise Unmappable(f"the caller waits at partition {partition}; topic {address.name!r} has {count}")
    return partition


def to_request(message: Message, system: str, request: ReplyRequest, now: int) -> Message:
    """Return a message with the fields that ask for its reply in a system; ``now`` is in milliseconds since 1970.

    Raises Unmappable where RabbitMQ cannot hold the token.
    """
    content = CONVENTIONS[system].ask(get_content(message), request, now)
    return build_lazy_message(message.exchange, message.routing_key, content, message.body)


def to_reply(message: Message, system: str, address: ReturnAddress) -> Message:
    """Return a reply as its caller in a system expects it: published to the caller, with the caller's correlation id.

    The headers of other systems' conventions are removed.
    """
    convention, content = CONVENTIONS[system], get_content(message).with_property("correlation_id", None)
    for name in MARKS:
        content = content.without_header(name)
    if address.correlation is not None:
        content = convention.correlate(content, address.correlation)
    exchange, key = ("", address.name) if convention.by_key else (message.exchange, message.routing_key)
    return build_lazy_message(exchange, key, content, message.body)


def build_rocketmq_request(request: ReplyRequest, client_id: str, now: int) -> dict[str, str]:
    """Return the properties by which a message of RocketMQ asks for its reply; ``now`` as for `to_request`."""
    return {CORRELATION_ID: request.token, REPLY_TO_CLIENT: client_id, TTL: str(request.left(now))}


def build_rocketmq_reply(address: ReturnAddress, left: int) -> tuple[str, str, dict[str, str]]:
    """Return topic, broker ("" for any) and properties of a reply to a caller who waits ``left`` more milliseconds.

    As `MessageUtil.createReplyMessage` makes them.
    """
    cluster, _, broker = address.detail.partition(":")
    own = {REPLY_TO_CLIENT: address.name, TTL: str(max(1, left)), MSG_TYPE: REPLY}
    if address.correlation is not None:
        own[CORRELATION_ID] = _text(address.correlation)
    return f"{cluster}_REPLY_TOPIC", broker, own


def _last(content: ContentHeader, name: str) -> bytes | None:
    """Return the text of the last header of this name; None if there is none, or it is void."""
    if content.find(name) is None:
        return None
    raw_name, last = name.encode(), None
    for each, wire in content.fields():
        if each == raw_name:
            last = format_wire(wire)[1]
    return last


def _number(text: str) -> int:
    if not is_digits(text) or len(text) > MAX_DIGITS:
        raise Unmappable(f"its time limit {text[:40]!r} is not a whole number of milliseconds")
    return int(text)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
