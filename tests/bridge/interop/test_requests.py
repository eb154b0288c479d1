"""Requests between all systems, and their replies on the way home, as callers and servers see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.daemon.reading.replies import PLACES
from bridge.interop import Record, Unmappable, convert_from_rocketmq, to_amqp, to_kafka, to_rocketmq
from bridge.interop.requests import (
    CONVENTIONS,
    KAFKA,
    RABBITMQ,
    ROCKETMQ,
    ReplyRequest,
    build_rocketmq_reply,
    build_rocketmq_request,
    find_caller,
    find_correlation,
    find_reply_partition,
    to_reply,
    to_request,
)
from bridge.interop.return_address import ReturnAddress, Sealer, open_token
from bridge.rocketmq.producer.requests import reply_to
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.values.message import Message
from tests.support.cases import with_each

SEALER = Sealer("orders", "somewhere")
NOW = 1_795_000_000_000
PARTITION = (3).to_bytes(4)
CLIENT = "10.0.0.7@4711#8"


def stored(message: RocketMessage) -> StoredMessage:
    """Return a message as a consumer gets it: the broker has added the name of its cluster."""
    properties = {**message.properties, "CLUSTER": "c1"}
    return StoredMessage(message.topic, message.body, properties, message.flag, "b1", 0, 7, 0, 0, 5, bytes(8), 6, bytes(8), 0)  # fmt: skip  # noqa: E501


@dataclass(frozen=True)
class System:
    """A system: how its callers ask, its servers reply, and its callers recognise their reply."""

    name: str
    ask: Callable[[bytes], Message]
    """Returns a request with this correlation id, as the bridge reads it."""
    serve: Callable[[Message, ReplyRequest], Message]
    """Returns the reply of a server to a request that the bridge writes here, as the bridge reads it."""
    take: Callable[[Message, ReturnAddress], tuple[Any, ...]]
    """Returns where a reply that the bridge writes goes, with its correlation id and its body."""
    home: tuple[Any, ...]
    """Where the replies to its callers must go."""
    pass_request: Callable[[Message, ReplyRequest], Message]
    """Returns a request that a bridge writes here, as the next bridge reads it."""
    pass_reply: Callable[[Message, ReturnAddress], Message]
    """Returns a reply that a bridge writes to a caller here, as that caller, a bridge, reads it."""


def serve_rabbitmq(request: Message, _: ReplyRequest) -> Message:
    assert request.properties["reply_to"] == "place"
    correlation = request.properties["correlation_id"]
    return Message("", request.properties["reply_to"], {}, {"correlation_id": correlation}, b"done")


def take_rabbitmq(reply: Message, _: ReturnAddress) -> tuple[Any, ...]:
    return (reply.exchange, reply.routing_key), reply.properties["correlation_id"].encode(), reply.body


def ask_kafka(correlation: bytes) -> Message:
    headers = [("kafka_replyTopic", b"home"), ("kafka_replyPartition", PARTITION), ("kafka_correlationId", correlation)]
    return to_amqp(Record("t", b"k", b"{}", headers, partition=0, offset=5))


def serve_kafka(request: Message, _: ReplyRequest) -> Message:
    headers = dict(to_kafka(request, "served").headers)
    assert headers["kafka_replyTopic"] == b"place"
    assert "kafka_replyPartition" not in headers
    return to_amqp(Record("place", None, b"done", [("kafka_correlationId", headers["kafka_correlationId"])]))


def take_kafka(reply: Message, address: ReturnAddress) -> tuple[Any, ...]:
    record = to_kafka(reply, address.name)
    [correlation] = [value for name, value in record.headers if name == "kafka_correlationId"]
    assert not {"amqp.correlation_id", "kafka_replyTopic"} & {name for name, _ in record.headers}
    return (record.topic, find_reply_partition(address, 4)), correlation, record.value


def ask_rocketmq(correlation: bytes) -> Message:
    own = {"CORRELATION_ID": correlation.decode(), "REPLY_TO_CLIENT": CLIENT, "TTL": "3000"}
    return convert_from_rocketmq(stored(RocketMessage.build("t", b"{}", keys="k")._replace(properties=own)))


def serve_rocketmq(request: Message, asked: ReplyRequest) -> Message:
    made = to_rocketmq(request, "served")
    written = RocketMessage(made.topic, made.body, {**made.properties, **build_rocketmq_request(asked, "me", NOW)})
    return convert_from_rocketmq(stored(reply_to(stored(written), b"done")))


def pass_to_rocketmq(request: Message, asked: ReplyRequest) -> Message:
    made = to_rocketmq(request, "t")
    own = build_rocketmq_request(asked, CLIENT, NOW)
    return convert_from_rocketmq(stored(RocketMessage("t", made.body, {**made.properties, **own})))


def pass_home_to_rocketmq(reply: Message, address: ReturnAddress) -> Message:
    topic, _, own = build_rocketmq_reply(address, 500)
    made = to_rocketmq(reply, topic)
    return convert_from_rocketmq(stored(RocketMessage(topic, made.body, {**made.properties, **own})))


def take_rocketmq(reply: Message, address: ReturnAddress) -> tuple[Any, ...]:
    topic, broker, own = build_rocketmq_reply(address, 500)
    made = to_rocketmq(reply, topic)
    properties = {**made.properties, **own}
    assert properties["MSG_TYPE"] == "reply"
    return (topic, broker, properties["REPLY_TO_CLIENT"]), properties["CORRELATION_ID"].encode(), made.body


def ask_rabbitmq(correlation: bytes) -> Message:
    return Message(
        "", "rpc", {}, {"reply_to": "amq.rabbitmq.reply-to.abc", "correlation_id": correlation.decode()}, b"{}"
    )


SYSTEMS = [
    System(
        RABBITMQ, ask_rabbitmq, serve_rabbitmq, take_rabbitmq, ("", "amq.rabbitmq.reply-to.abc"),
        lambda request, _: request, lambda reply, _: reply,
    ),
    System(
        KAFKA, ask_kafka, serve_kafka, take_kafka, ("home", 3),
        lambda request, _: to_amqp(to_kafka(request, "t")),
        lambda reply, address: to_amqp(to_kafka(reply, address.name)),
    ),
    System(
        ROCKETMQ, ask_rocketmq, serve_rocketmq, take_rocketmq, ("c1_REPLY_TOPIC", "b1", CLIENT),
        pass_to_rocketmq, pass_home_to_rocketmq,
    ),
]  # fmt: skip
CORRELATIONS = st.text(st.characters(codec="utf-8", exclude_characters="\0\1\2"), min_size=1, max_size=40).map(
    str.encode
)


def send(message: Message, callers: System, servers: System, sealer: Sealer = SEALER) -> tuple[Message, ReplyRequest]:
    """Return a caller's message as the bridge writes it for servers, and how it asks for its reply."""
    caller = find_caller(message, callers.name)
    assert caller is not None
    request = ReplyRequest("place", sealer.seal(caller.address, NOW + 1_000), NOW + 1_000)
    return to_request(message, servers.name, request, NOW), request


@pytest.mark.parametrize("servers", SYSTEMS, ids=lambda each: f"servers-{each.name}")
@pytest.mark.parametrize("callers", SYSTEMS, ids=lambda each: f"callers-{each.name}")
@given(correlation=CORRELATIONS)
def test_every_reply_goes_home_to_its_caller(callers: System, servers: System, correlation: bytes) -> None:
    request, asked = send(callers.ask(correlation), callers, servers)
    reply = servers.serve(request, asked)
    token = open_token(find_correlation(reply, servers.name), {SEALER.id: SEALER})
    assert token is not None
    assert token.caller == "orders"
    home = to_reply(reply, callers.name, token.address)
    assert callers.take(home, token.address) == (callers.home, correlation, b"done")


@with_each("last", SYSTEMS)
@with_each("middle", SYSTEMS)
@with_each("first", SYSTEMS)
def test_replies_go_home_over_two_bridges(first: System, middle: System, last: System) -> None:
    """The second bridge reads the request of the first, as a message of the system between them."""
    other = Sealer("second", "elsewhere")
    seen = middle.pass_request(*send(first.ask(b"id-1"), first, middle))
    reply = last.serve(*send(seen, middle, last, other))
    token = open_token(find_correlation(reply, last.name), {other.id: other})
    assert token is not None
    back = middle.pass_reply(to_reply(reply, middle.name, token.address), token.address)
    inner = open_token(find_correlation(back, middle.name), {SEALER.id: SEALER})
    assert inner is not None
    assert first.take(to_reply(back, first.name, inner.address), inner.address) == (first.home, b"id-1", b"done")


def test_each_system_with_a_convention_is_tried() -> None:
    assert {each.name for each in SYSTEMS} == CONVENTIONS.keys()
    assert PLACES.keys() == CONVENTIONS.keys()


@pytest.mark.parametrize("system", CONVENTIONS)
def test_a_message_that_asks_for_nothing_is_no_request(system: str) -> None:
    assert find_caller(Message("x", "k", {"a": 1}, {"correlation_id": "7"}), system) is None
    assert find_correlation(Message("x", "k"), system) is None


def test_time_limits_travel() -> None:
    request = ReplyRequest("place", "token", NOW + 1_500)
    message = Message("", "k", {}, {"expiration": "9000", "reply_to": "q"})
    caller = find_caller(message, RABBITMQ)
    assert caller is not None
    assert caller.limit == 9_000
    assert to_request(message, RABBITMQ, request, NOW).properties["expiration"] == "1500"
    assert to_request(message, KAFKA, request, NOW).headers["x-hashstar-deadline"] == str(NOW + 1_500)
    assert build_rocketmq_request(request, CLIENT, NOW)["TTL"] == "1500"
    again = find_caller(to_request(ask_kafka(b"1"), KAFKA, request, NOW), KAFKA)
    assert again is not None
    assert again.deadline == NOW + 1_500
    asked = find_caller(ask_rocketmq(b"1"), ROCKETMQ)
    assert asked is not None
    assert asked.limit == 3_000


@pytest.mark.parametrize(
    ("message", "system", "reason"),
    [
        (Message("", "k", {}, {"reply_to": "q", "expiration": "soon"}), RABBITMQ, "'soon' is not a whole number"),
        (Message("", "k", {}, {"reply_to": "q", "expiration": "9" * 30}), RABBITMQ, "is not a whole number"),
        (Message("", "k", {"kafka_replyTopic": "t", "kafka_replyPartition": "3"}), KAFKA, "it has 1 bytes"),
    ],
)
def test_values_that_break_the_convention_are_refused(message: Message, system: str, reason: str) -> None:
    with pytest.raises(Unmappable, match=reason):
        find_caller(message, system)


def test_a_token_that_rabbitmq_cannot_hold_is_refused() -> None:
    request = ReplyRequest("place", 256 * "x", NOW)
    with pytest.raises(Unmappable, match="256 bytes; correlation_id has 255"):
        to_request(Message("", "k"), RABBITMQ, request, NOW)
    to_request(Message("", "k"), KAFKA, request, NOW)


@pytest.mark.parametrize("partition", [-1, 4, 1 << 30])
def test_a_partition_that_the_topic_does_not_have_is_refused(partition: int) -> None:
    with pytest.raises(Unmappable, match="the caller waits at partition"):
        find_reply_partition(ReturnAddress("home", b"1", str(partition)), 4)


def test_of_several_headers_of_one_name_the_last_counts_as_for_kafka() -> None:
    headers = [("kafka_replyTopic", b"first"), ("kafka_replyTopic", b"last"), ("kafka_correlationId", b"1")]
    caller = find_caller(to_amqp(Record("t", None, b"", headers)), KAFKA)
    assert caller is not None
    assert caller.address.name == "last"
