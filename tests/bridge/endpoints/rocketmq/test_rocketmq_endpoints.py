"""RocketMQ's endpoints without a broker: their configuration, and the queues of messages."""

from __future__ import annotations

import re
import ssl
import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.endpoint import Delivery, Disconnected, Outgoing
from bridge.endpoints.rocketmq.addresses import read_settings
from bridge.endpoints.rocketmq.config import dead_letter_target, source, target
from bridge.endpoints.rocketmq.lane import QueueLane
from bridge.endpoints.rocketmq.placing import MessageWriter, WritableQueues
from bridge.endpoints.rocketmq.writing import BATCH_MESSAGES, QueueLine
from bridge.endpoints.topics import TopicDestination, parse_destination
from bridge.interop import convert_from_rocketmq
from bridge.interop.rocketmq_topics import build_topic
from bridge.pump.policy import Policy
from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, ConnectError, RemotingTimeout
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from bridge.table import Table
from exchange import Binding, Exchange, InputError, Message, Queue, Router, Topology
from exchange.partition.clients.rocketmq.queues import BrokerData, MessageQueue, QueueData, TopicRoute
from exchange.partition.partitioning.key_source import KeySource
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitions import Partitions
from exchange.rocketmq.stored_record import PACKED

URL = "rocketmq://h"


def table(**values: Any) -> Table:
    return Table(values, "bridge.toml", "sources.x")


# Addresses.


def test_an_address_has_name_servers_and_credentials() -> None:
    settings = read_settings("rocketmq://a,b:9877,[::1]", table())
    assert settings.name_servers == ("a:9876", "b:9877", "[::1]:9876")
    assert (settings.channel.credentials, settings.channel.tls) == (None, None)
    told = table(security_token="t")  # noqa: S106  nobody's
    credentials = read_settings("rocketmq://me%40x:s%3Ac@a", told).channel.credentials
    assert credentials is not None
    assert (credentials.access_key, credentials.secret_key, credentials.security_token) == ("me@x", "s:c", "t")


def test_tls_verifies_certificates_by_default() -> None:
    context = read_settings(URL, table(tls=True)).channel.tls
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    loose = read_settings(URL, table(tls=True, verify=False)).channel.tls
    assert loose is not None
    assert (loose.check_hostname, loose.verify_mode) == (False, ssl.CERT_NONE)


@pytest.mark.parametrize(
    ("url", "values", "reason"),
    [
        ("rocketmq://", {}, "url: must be rocketmq://HOST:9876, several name servers"),
        ("rocketmq://h/topic", {}, "url: must be"),
        ("rocketmq://h?tls=true", {}, "url: must be"),
        ("rocketmq://[::1", {}, "url: must be rocketmq://HOST:9876"),
        ("rocketmq://h:x", {}, r"url: must be rocketmq://HOST:9876, .* its port is a number up to 65535"),
        (URL, {"access_key": "me"}, "secret_key: is missing, as there is an access_key"),
        (URL, {"ca_file": "x.pem"}, "ca_file: is for TLS, which is off; write tls = true"),
        (URL, {"tls": True, "ca_file": "no-such.pem"}, "ca_file: the file no-such.pem cannot be read"),
        (URL, {"tls": True, "cert_file": "no-such.pem"}, "cert_file: the file no-such.pem cannot be read"),
    ],
)
def test_a_wrong_address_is_refused_with_the_reason(url: str, values: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=rf"bridge\.toml: \[sources\.x\] {reason}"):
        read_settings(url, table(**values))


# Sources and targets.


def test_a_source_reads_topics_by_their_encoded_names() -> None:
    made = source(
        "s.1", URL, table(topics=["orders.eu", "b"], subscription="A || B", offset="last", ordered=False), Policy()
    )
    assert made._group == "hashstar-s%2E1"
    assert [(each.topic, each.tags) for each in made._subscriptions] == [
        ("orders%2Eeu", frozenset("AB")),
        ("b", frozenset("AB")),
    ]
    selected = source("s", URL, table(topic="t", sql="a > 5"), Policy())
    assert [(each.type, each.expression) for each in selected._subscriptions] == [("SQL92", "a > 5")]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "topics: is missing"),
        ({"topics": []}, "topics: there is none"),
        ({"topic": "x" * 128}, "topic: topic 'x+': it has 128 characters"),
        ({"topics": ["." * 90]}, "topics: topic .*: it has 270 characters as"),
        ({"topic": "t", "group": "x" * 121}, "group: group 'x+': it has 121 characters"),
        ({"topic": "t", "subscription": "||"}, "subscription: there is no tag in it"),
        ({"topic": "t", "subscription": "a", "sql": "b = 1"}, "sql: is instead of a subscription to tags"),
        ({"topic": "t", "offset": "middle"}, "offset: must be one of first, last"),
        ({"topics": ["a.b", "c", "a.b"]}, "topics: names 'a.b' twice"),
        ({"topic": "t", "sql": "a LIKE 'x%'"}, "sql: "),
    ],
)
def test_a_wrong_source_is_refused_with_the_reason(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        source("s", URL, table(**values), Policy())


def test_a_target_has_a_topic_a_key_and_a_tag_for_each_queue() -> None:
    queues = {"a": "orders.eu", "b": {"topic": "t", "key": "word 2", "tag": "word 1"}}
    made, names = target("t", URL, table(queues=queues, not_store_ok="confirm"))
    assert names == ["a", "b"]
    assert made._destinations == {
        "a": TopicDestination("orders%2Eeu"),
        "b": TopicDestination("t", KeySource("word", word=2), KeySource("word", word=1)),
    }
    assert dead_letter_target("d", URL, table(topic="dead.letters"))._destinations == {
        "": TopicDestination("dead%2Eletters")
    }


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1, ""),
        ({}, ""),
        ({"topic": 1}, "each of them must be a text"),
        ({"topic": "t", "key": 3}, "each of them must be a text"),
        ({"topic": "t", "keys": "x"}, ""),
        ({"topic": "t", "key": "words"}, "expected a key: "),
        ("." * 50, "it has 150 characters"),
    ],
)
def test_a_wrong_destination_is_refused_with_the_reason(value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason or None):
        parse_destination(value, ("topic", "key", "tag"), build_topic)
    with pytest.raises(InputError, match=rf"queues\.q: must be the name of a topic, or .* and is .*{reason}"):
        target("t", URL, table(queues={"q": value}))


def test_an_illegal_topic_of_dead_letters_is_refused() -> None:
    with pytest.raises(InputError, match=r"topic: topic .*: it has 150 characters"):
        dead_letter_target("d", URL, table(topic="." * 50))


# The queues of messages.


def route(**brokers: int) -> TopicRoute:
    """Return the route of brokers a, b ... with these numbers of queues."""
    return TopicRoute(
        tuple([QueueData(name, count, count) for name, count in brokers.items()]),
        tuple([BrokerData(name, ((0, f"{name}:10911"),)) for name in brokers]),
    )


def outgoing(message: Message, partitioning: str | None = None, number: int = 1) -> Outgoing:
    """Return a message as the pump sends it, routed by a topology with this partitioning."""
    queue = Queue("q", partitioning=None if partitioning is None else Partitioning.parse(partitioning))
    topology = Topology().declare_exchange(Exchange("e", "fanout")).declare_queue(queue)
    found = Router(topology.bind(Binding.to_queue("e", "q", ""))).route(
        Message("e", message.routing_key, message.headers)
    )
    placements = {each.queue: each for each in found.placements}
    return Outgoing(message, Delivery(message), "q", placements.get("q"), number)


def writer(spread: TopicRoute, destination: TopicDestination = TopicDestination("t")) -> MessageWriter:  # noqa: B008  a frozen value
    made = MessageWriter({"q": destination})
    made.spreads["t"] = WritableQueues.from_route("t", spread)
    return made


def test_a_message_goes_to_the_queue_that_java_would_choose_for_its_key() -> None:
    placing = writer(route(b=2, a=4))
    queues = [MessageQueue("a", at) for at in range(4)] + [MessageQueue("b", at) for at in range(2)]
    choose = Partitioning("rocketmq.hash", Partitions.from_count(6))
    for key in ("a", "order.7", "polygenelubricants", "ü"):
        at = choose.choose_for(key).partition
        assert at is not None
        for _ in range(2):
            message, queue = placing.place(outgoing(Message("", key, body=b"x")))
            assert queue == queues[at]
            assert message.properties.get("KEYS") == key


def test_the_key_may_be_a_part_of_the_message() -> None:
    placing = writer(route(a=8), TopicDestination("t", KeySource("header", "tenant"), KeySource("word", word=1)))
    choose = Partitioning("rocketmq.hash", Partitions.from_count(8))
    message, queue = placing.place(outgoing(Message("", "created.7", {"tenant": "x"}, body=b"x")))
    assert queue.queue_id == choose.choose_for("x").partition
    assert (message.tags, message.keys) == ("created", ("x",))
    number, queue = placing.place(outgoing(Message("", "created.7", {"tenant": 7}, body=b"x")))
    assert queue.queue_id == choose.choose_for(7).partition
    assert number.keys == ("7",)
    missing = [placing.place(outgoing(Message("", "k", body=b"x"), number=n))[1].queue_id for n in range(9)]
    assert missing == [(missing[0] + n) % 8 for n in range(9)], "in turns"


def test_the_topology_can_decide_the_queue() -> None:
    message = Message("", "k1", body=b"x")
    by_count = outgoing(message, "rocketmq.hash over 6")
    assert by_count.placement is not None
    assert by_count.placement.partition is not None
    queues = WritableQueues.from_route("t", route(a=4, b=2)).queues
    assert writer(route(a=4, b=2)).place(by_count)[1] == queues[by_count.placement.partition]
    by_name = outgoing(message, "rocketmq.hash over b:4,a:2")
    assert by_name.placement is not None
    assert writer(route(a=4, b=4)).place(by_name)[1].name == by_name.placement.name
    by_turns = writer(route(a=4, b=2))
    undecided = [by_turns.place(outgoing(message, "rocketmq.random over 6"))[1] for _ in range(6)]
    assert set(undecided) == set(queues)


def test_a_topology_that_disagrees_with_the_topic_is_disconnected() -> None:
    message = Message("", "k1", body=b"x")
    with pytest.raises(
        Disconnected, match=r"topic 't' has 2 queues now \(a:0, a:1\), and the topology spreads 'q' over 3"
    ):
        writer(route(a=2)).place(outgoing(message, "rocketmq.hash over 3"))
    by_name = outgoing(message, "rocketmq.hash over b:1")
    with pytest.raises(Disconnected, match="topic 't' has no queue b:0 now, to which 'q' is spread"):
        writer(route(a=2)).place(by_name)
    with pytest.raises(Disconnected, match=r"topic 't': the route has no queue .*; give it write queues, perm 6"):
        WritableQueues.from_route("t", TopicRoute())
    read_only = replace(route(a=2), queues=(QueueData("a", 2, 2, perm=4),))
    with pytest.raises(Disconnected, match="topic 't': perm 4 lets nobody write to it; give it write queues, perm 6"):
        WritableQueues.from_route("t", read_only)


def test_a_batch_has_messages_of_one_wait_setting_and_a_bounded_size() -> None:
    def batches(messages: list[RocketMessage]) -> list[int]:
        line = QueueLine("t", MessageQueue("a", 0))
        line.waiting.extend((outgoing(Message()), message) for message in messages)
        found = []
        while line.waiting:
            found.append(len(line.next_batch()))
        return found

    small, unsafe, large = (
        RocketMessage("t", b"x"),
        RocketMessage("t", b"x", {"WAIT": "false"}),
        RocketMessage("t", bytes(2 << 20)),
    )
    assert batches([small] * (BATCH_MESSAGES + 1)) == [BATCH_MESSAGES, 1]
    assert batches([small, small, unsafe, unsafe, small]) == [2, 2, 1]
    assert batches([small, large, large, small]) == [1, 1, 1, 1]
    urgent = RocketMessage("t", b"x", {"_SYS_MSG_PRIORITY_": "0"})  # in a batch, the priority would have no effect
    assert batches([small, small, urgent, urgent, small]) == [2, 1, 1, 1]


# What is read.


def stored(properties: dict[str, str], reconsumed: int = 0) -> StoredMessage:
    return StoredMessage(
        "t", b"v", properties, 0, "b", 2, 7, 9, 0, 1_700_000_000_123, bytes(8), 5, bytes(8), reconsumed
    )


LANE = QueueLane("main", AssignedQueue(TopicQueue("t", "b", 2), 0))


def test_a_delivery_describes_its_message() -> None:
    found = LANE.make_delivery(stored({"KEYS": "k"}))
    assert found.message.headers == convert_from_rocketmq(stored({"KEYS": "k"})).headers
    assert (found.lane, found.position, found.identity) == (LANE, 7, "rocketmq/main/t/b/2/7/7eb6749a")
    assert (found.time, found.redelivered, found.origin) == (1_700_000_000_123_000, False, "t at b:2 at 7")
    assert LANE.make_delivery(stored({"KEYS": "k", "x-hashstar-id": "own/7eb6749a"})).identity == "own/7eb6749a"
    assert LANE.make_delivery(stored({"x-hashstar-id": "own/00000001"})).identity == "rocketmq/main/t/b/2/7/6b643b84"
    again = QueueLane("main", AssignedQueue(TopicQueue("%RETRY%g", "b", 0), 0)).make_delivery(stored({}, 1))
    assert (again.identity, again.redelivered) == ("rocketmq/main/%25RETRY%25g/b/0/7/6b643b84", True)


@pytest.mark.parametrize(
    ("trouble", "lasts"),
    [
        (BrokerError(ResponseCode.NO_PERMISSION, "no"), True),
        (ClientError("no topic", ResponseCode.TOPIC_NOT_EXIST), True),
        (InputError("a body that is packed with zstd needs pyarrow"), True),
        (BrokerError(ResponseCode.SYSTEM_BUSY, "no"), False),
        (ConnectError("no"), False),
        (RemotingTimeout("late"), False),
    ],
    ids=str,
)
def test_a_problem_that_does_not_pass_by_itself_is_disconnected(trouble: Exception, lasts: bool) -> None:
    reading = source("s", URL, table(topic="t"), Policy())
    consumer = SimpleNamespace(unpersisted={}, troubles={TopicQueue("t", "b", 2): trouble})
    if lasts:
        with pytest.raises(Disconnected, match="t at b:2: "):
            reading._look(consumer)  # type: ignore[arg-type]
    else:
        reading._look(consumer)  # type: ignore[arg-type]
    consumer.troubles = {"%RETRY%g": trouble}
    reading._look(consumer)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"n" * 256: "v", "a": "1"}, "property name .* has 256 bytes"),
        ({"amqp.routing_key": "k", "amqp.types": "[]"}, "is not JSON of types by name"),
    ],
)
def test_a_message_that_amqp_cannot_hold_is_refused(properties: dict[str, str], reason: str) -> None:
    refuses(LANE.make_delivery(stored(properties)), reason)


def test_a_body_that_cannot_be_unpacked_is_refused() -> None:
    refuses(LANE.make_delivery(stored({})._replace(system_flag=PACKED)), "cannot be unpacked")


@pytest.mark.parametrize("born", [2**63 - 1, -(2**63), 1_763_800_000_000_000_000])
def test_a_time_that_64_bits_of_microseconds_cannot_hold_is_none(born: int) -> None:
    found = LANE.make_delivery(stored({})._replace(born_time=born))
    assert found.time is None
    assert convert_from_rocketmq(stored({})._replace(born_time=born)).headers == found.message.headers


@pytest.mark.parametrize("system_flag", [0, PACKED])
def test_a_message_with_a_problem_is_refused_and_its_raw_body_travels(system_flag: int) -> None:
    odd = stored({"a": "1", "amqp.routing_key": "k"})._replace(problem="unpacks to more", system_flag=system_flag)
    refuses(LANE.make_delivery(odd), "unpacks to more")


@pytest.mark.parametrize("error", [struct.error("x"), OverflowError("x"), RecursionError("x"), UnicodeError("x")])
def test_any_error_of_the_mapping_refuses_only_the_message_that_raised_it(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def fails(message: StoredMessage, *_: object) -> Message:
        calls.append(message)
        raise error

    monkeypatch.setattr("bridge.endpoints.rocketmq.lane.convert_from_rocketmq", fails)
    refuses(LANE.make_delivery(stored({"a": "b"})), f"{type(error).__name__}: x")
    assert len(calls) == 2  # nor can it be shown with its properties: its body alone is


def refuses(found: Delivery, reason: str) -> None:
    assert re.search(reason, str(found.refusal))
    assert found.message.body == b"v"
