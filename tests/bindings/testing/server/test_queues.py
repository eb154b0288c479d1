"""Queues of the test server are those of the model: limits, redelivery, priorities, streams, by the real clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pika
import pytest
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, NackError

from bindings.testing.server import AmqpServer
from exchange import Queue, Topology
from tests.support.waiting import wait_until

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def server() -> Iterator[AmqpServer]:
    with AmqpServer() as running:
        yield running


@pytest.fixture
def channel(server: AmqpServer) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    channel = connection.channel()
    channel.queue_declare("dead", durable=True)
    yield channel
    if connection.is_open:
        connection.close()


def test_a_message_over_the_delivery_limit_is_dead_lettered(server: AmqpServer, channel: BlockingChannel) -> None:
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 2, **DEAD}
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.basic_publish("", "q", b"poison")
    counts = []
    while (got := channel.basic_get("q"))[0] is not None:
        counts.append((got[1].headers or {}).get("x-delivery-count", 0))
        channel.basic_reject(got[0].delivery_tag)
    assert counts == [0, 1, 2]
    [dead] = server.messages("dead")
    assert dead.headers["x-first-death-reason"] == "delivery_limit"


def test_a_full_queue_refuses_what_it_must_confirm(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"1")
    with pytest.raises(NackError):
        channel.basic_publish("", "q", b"2")
    assert [message.body for message in server.messages("q")] == [b"1"]


def test_a_full_queue_drops_its_oldest_messages(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 2, **DEAD})
    for number in range(5):
        channel.basic_publish("", "q", b"%d" % number)
    wait_until(lambda: [message.body for message in server.messages("dead")] == [b"0", b"1", b"2"])
    assert [message.body for message in server.messages("q")] == [b"3", b"4"]


def test_an_unused_queue_expires_with_its_messages(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.queue_declare("q", arguments={"x-expires": 50})
    channel.basic_publish("", "q", b"lost")
    wait_until(lambda: "q" not in server.topology.queues)


def test_a_consumer_loses_a_queue_that_is_deleted(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True)
    lost: list[str] = []
    channel.add_on_cancel_callback(lambda frame: lost.append(frame.method.consumer_tag))
    channel.basic_consume("q", print, consumer_tag="mine")
    with pika.BlockingConnection(pika.URLParameters(server.url)) as other:
        other.channel().queue_delete("q")
    wait_until(lambda: channel.connection.process_data_events(0) or lost)
    assert lost == ["mine"]


SLOW = {"x-queue-type": "quorum", "x-consumer-timeout": 50}
TIMED_OUT = "406: PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out"


def why_closed(channel: BlockingChannel) -> str:
    """Wait until the server closes a channel, and return its code and text."""
    reasons: list[Any] = []
    cast("Any", channel)._impl.add_on_close_callback(lambda _, reason: reasons.append(reason))
    wait_until(lambda: channel.connection.process_data_events(0) or reasons)
    return f"{reasons[0].reply_code}: {reasons[0].reply_text}"


def test_a_slow_consumer_is_cancelled_and_loses_its_message(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True, arguments=SLOW)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tags: list[int] = []
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("q", lambda _c, method, _p, _b: tags.append(method.delivery_tag), consumer_tag="mine")
    channel.basic_publish("", "q", b"")
    wait_until(lambda: channel.connection.process_data_events(0) or cancelled)
    assert (cancelled, tags, len(server.messages("q"))) == (["mine"], [1], 1)


@pytest.mark.parametrize(("profile", "is_known"), [("rabbitmq-4.3", True), ("rabbitmq-4.0", False)])
def test_a_client_may_agree_to_a_cancel_since_4_3(profile: str, is_known: bool) -> None:
    with AmqpServer(Topology(profile=profile)) as server:
        connection = pika.BlockingConnection(pika.URLParameters(server.url))
        channel = connection.channel()
        channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
        channel.basic_consume("q", lambda *_: None, consumer_tag="mine")
        cast("Any", channel)._impl._send_method(spec.Basic.CancelOk("mine"))
        if is_known:
            assert channel.queue_declare("q", passive=True).method.consumer_count == 0
            connection.close()
        else:
            with pytest.raises(ConnectionClosedByBroker, match="540"):
                channel.queue_declare("q", passive=True)


@pytest.mark.parametrize("method", [spec.Basic.CancelOk("mine"), spec.Basic.Cancel("mine")])
@pytest.mark.parametrize("then", ["ack", "nack", "ack all", None])
def test_a_client_may_agree_that_its_slow_consumer_is_cancelled(
    server: AmqpServer, channel: BlockingChannel, method: Any, then: str | None
) -> None:
    """As on 4.3.6: the channel stays open, and settling what the queue took back does nothing."""
    channel.queue_declare("q", durable=True, arguments=SLOW)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    for _ in range(3):
        channel.basic_publish("", "q", b"")
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume("q", lambda *_: None, consumer_tag="mine")
    wait_until(lambda: channel.connection.process_data_events(0) or cancelled)
    cast("Any", channel)._impl._send_method(method)
    if then == "ack all":
        channel.basic_ack(0, multiple=True)
    for tag in (1, 2) if then in ("ack", "nack") else ():
        channel.basic_ack(tag) if then == "ack" else channel.basic_nack(tag)
    assert channel.queue_declare("q", passive=True).method.consumer_count == 0
    assert (channel.is_open, len(server.messages("q"))) == (True, 3)


def test_a_consumer_that_was_cancelled_in_time_closes_its_channel_for_what_it_still_holds(
    server: AmqpServer, channel: BlockingChannel
) -> None:
    channel.queue_declare("q", durable=True, arguments=SLOW)
    channel.basic_publish("", "q", b"")
    channel.basic_consume("q", lambda *_: None, consumer_tag="mine")
    cast("Any", channel)._impl._send_method(spec.Basic.Cancel("mine"))
    assert TIMED_OUT in why_closed(channel)
    assert len(server.messages("q")) == 1


def test_a_method_on_a_channel_that_is_not_open_ends_the_connection(channel: BlockingChannel) -> None:
    connection = cast("Any", channel.connection)
    connection._impl._send_method(9, spec.Basic.Qos(prefetch_count=1))
    with pytest.raises(ConnectionClosedByBroker, match=r"504.*expected 'channel.open'"):
        channel.queue_declare("q")


def test_a_client_that_agrees_to_the_cancel_of_no_consumer_loses_its_connection(channel: BlockingChannel) -> None:
    cast("Any", channel)._impl._send_method(spec.Basic.CancelOk("mine"))
    with pytest.raises(ConnectionClosedByBroker, match="541"):
        channel.queue_declare("q")


@pytest.mark.parametrize(("profile", "prefix"), [("4.3", "amq.gen"), ("4.4.0", "svc"), ("4.4", "svc")])
def test_since_4_4_a_queue_that_the_broker_names_may_have_a_prefix(profile: str, prefix: str) -> None:
    with (
        AmqpServer(Topology(profile=profile)) as server,
        pika.BlockingConnection(pika.URLParameters(server.url)) as connection,
    ):
        channel = connection.channel()
        name = channel.queue_declare("", arguments={"x-name-prefix": "svc", "x-max-length": 5}).method.queue
        assert name.startswith(f"{prefix}-")
        assert channel.queue_declare("mine", arguments={"x-name-prefix": "svc"}).method.queue == "mine"
        if prefix == "svc":
            assert channel.queue_declare("", arguments={"x-name-prefix": 5}).method.queue.startswith("amq.gen-")
            assert channel.queue_declare("own", arguments={"x-name-prefix": "x" * 65}).method.queue == "own"
            with pytest.raises(ChannelClosedByBroker, match=r"x{65}.* exceeds the 64-byte limit"):
                channel.queue_declare("", arguments={"x-name-prefix": "x" * 65})


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("classic", 50, "of queue type rabbit_classic_queue"),
        ("stream", 50, "of queue type rabbit_stream_queue"),
        ("quorum", -1, r": \{value_negative,-1\}"),
        ("quorum", "3000", ': "expected integer, got longstr"'),
    ],
)
def test_a_timeout_of_a_consumer_is_refused_as_by_4_3(
    channel: BlockingChannel, kind: str, value: Any, text: str
) -> None:
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    channel.basic_qos(prefetch_count=1)
    with pytest.raises(
        ChannelClosedByBroker, match=rf"invalid arg .*x-consumer-timeout.* for queue .*q.* in vhost .*/.* ?{text}"
    ):
        channel.basic_consume("q", lambda *_: None, arguments={"x-consumer-timeout": value})


def test_a_message_of_basic_get_that_is_not_acknowledged_in_time_closes_its_channel(
    server: AmqpServer, channel: BlockingChannel
) -> None:
    channel.queue_declare("q", durable=True, arguments=SLOW)
    channel.basic_publish("", "q", b"")
    channel.basic_get("q")
    assert TIMED_OUT in why_closed(channel)
    assert len(server.messages("q")) == 1


def test_a_client_that_knows_no_cancels_loses_the_channel_of_a_slow_consumer(server: AmqpServer) -> None:
    parameters = pika.URLParameters(server.url)
    parameters.client_properties = {"capabilities": {"consumer_cancel_notify": False}}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
        channel.basic_consume("q", lambda *_: None, arguments={"x-consumer-timeout": 50})
        channel.basic_publish("", "q", b"")
        assert TIMED_OUT in why_closed(channel)
    assert len(server.messages("q")) == 1


def test_messages_of_a_higher_priority_come_first(channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True, arguments={"x-max-priority": 5})
    for priority in (1, 5, 3):
        channel.basic_publish("", "q", b"%d" % priority, pika.BasicProperties(priority=priority))
    assert [channel.basic_get("q", auto_ack=True)[2] for _ in range(3)] == [b"5", b"3", b"1"]


def test_consumers_of_a_higher_priority_are_served_first(server: AmqpServer, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True)
    got: list[str] = []
    channel.basic_qos(prefetch_count=2)
    for name, priority in (("low", 0), ("high", 10)):
        channel.basic_consume(
            "q", lambda _c, _m, _p, _b, name=name: got.append(name), consumer_tag=name,
            arguments={"x-priority": priority},
        )  # fmt: skip
    for _ in range(3):
        channel.basic_publish("", "q", b"")
    wait_until(lambda: channel.connection.process_data_events(0) or len(got) == 3)
    assert sorted(got) == ["high", "high", "low"]


def test_the_limit_of_a_channel_counts_all_of_its_consumers() -> None:
    """Until 4.3, which takes it for that of each consumer."""
    with (
        AmqpServer(Topology(profile="4.2")) as server,
        pika.BlockingConnection(pika.URLParameters(server.url)) as connection,
    ):
        channel = connection.channel()
        got: list[tuple[str, int]] = []
        channel.basic_qos(prefetch_count=3, global_qos=True)
        for name in ("a", "b"):
            channel.queue_declare(name, durable=True)
            channel.basic_consume(name, lambda _c, method, _p, _b, name=name: got.append((name, method.delivery_tag)))
        for _ in range(3):
            for name in ("a", "b"):
                channel.basic_publish("", name, b"")
        wait_until(lambda: sum(len(server.messages(name)) for name in "ab") == 3)
        wait_until(lambda: channel.connection.process_data_events(0) or len(got) == 3)
        channel.basic_ack(got[0][1])
        wait_until(lambda: channel.connection.process_data_events(0) or len(got) == 4)
        channel.basic_ack(0, multiple=True)
        wait_until(lambda: channel.connection.process_data_events(0) or len(got) == 6)
        assert sorted(name for name, _ in got) == ["a", "a", "a", "b", "b", "b"]


def test_a_stream_is_read_from_an_offset_by_each_consumer(channel: BlockingChannel) -> None:
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(4):
        channel.basic_publish("", "s", b"%d" % number)
    got: dict[str, list[bytes]] = {"first": [], "2": []}
    channel.basic_qos(prefetch_count=10)
    for offset in ("first", 2):
        channel.basic_consume(
            "s", lambda _c, _m, _p, body, offset=offset: got[str(offset)].append(body),
            arguments={"x-stream-offset": offset},
        )  # fmt: skip
    wait_until(lambda: channel.connection.process_data_events(0) or (len(got["first"]), len(got["2"])) == (4, 2))
    assert got["2"] == [b"2", b"3"]


def test_what_a_consumer_holds_comes_back_in_order_when_its_channel_ends(
    server: AmqpServer, channel: BlockingChannel
) -> None:
    channel.queue_declare("q", durable=True)
    channel.basic_qos(prefetch_count=3)
    tag = channel.basic_consume("q", print)
    for number in range(4):
        channel.basic_publish("", "q", b"%d" % number)
    wait_until(lambda: len(server.messages("q")) == 1)
    other = channel.connection.channel()
    channel.basic_cancel(tag)
    channel.close()
    wait_until(lambda: [message.body for message in server.messages("q")] == [b"0", b"1", b"2", b"3"])
    assert other.basic_get("q")[0].redelivered


@pytest.mark.parametrize(("profile", "is_kept"), [("4.0.2", True), ("4.0.3", False)])
def test_what_is_discarded_after_a_cancel_comes_back_in_4_0_2(profile: str, is_kept: bool) -> None:
    """rabbit_fifo.erl v4.0.2 ``apply(Meta, #discard{})``: the queue keeps it until the channel is closed."""
    queue = Queue("q", arguments={"x-queue-type": "quorum"})
    with AmqpServer(Topology(queues=[queue], profile=profile)) as server:
        connection = pika.BlockingConnection(pika.URLParameters(server.url))
        channel, other = connection.channel(), connection.channel()
        got: list[int] = []
        tag = channel.basic_consume("q", lambda _, method, *more: got.append(cast("int", method.delivery_tag)))
        channel.basic_publish("", "q", b"m")
        wait_until(lambda: connection.process_data_events(0) or got)
        channel.basic_cancel(tag)
        channel.basic_nack(got[0], requeue=False)
        assert other.queue_declare("q", passive=True).method.message_count == 0
        channel.close()
        wait_until(lambda: len(server.messages("q")) == is_kept)
        connection.close()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_only_a_stream_takes_an_offset(server: AmqpServer, channel: BlockingChannel, kind: str) -> None:
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    text = f"invalid arg 'x-stream-offset' for queue 'q' in vhost '/' of queue type rabbit_{kind}_queue"
    with pytest.raises(ChannelClosedByBroker, match=text):
        channel.basic_consume("q", lambda *_: None, arguments={"x-stream-offset": "first"})


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
@pytest.mark.parametrize("method", ["basic_consume", "basic_get"])
def test_a_queue_whose_timeout_is_no_integer_crashes_the_channels_of_its_readers(kind: str, method: str) -> None:
    """And with them, as of each 541, the connection."""
    queue = Queue("q", arguments={"x-queue-type": kind, "x-consumer-timeout": "1800000"})
    with (
        AmqpServer(Topology(queues=[queue], profile="4.3.1")) as server,
        pika.BlockingConnection(pika.URLParameters(server.url)) as connection,
    ):
        arguments = (lambda *_: None,) if method == "basic_consume" else ()
        with pytest.raises(ConnectionClosedByBroker) as closed:
            getattr(connection.channel(), method)("q", *arguments)
        assert closed.value.reply_code == 541
