"""What the test server refuses for the type of a queue, and where a stream begins: as live brokers of each release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pika
import pytest
from pika.compat import long
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from bindings import VirtualBroker
from bindings.testing.server import AmqpServer
from exchange import Queue, Topology
from exchange.entities.releases import find_profile
from exchange.errors import PreconditionFailed
from tests.support.unique import unique_name
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

    from tests.support.servers import Server

QUORUM, STREAM = {"x-queue-type": "quorum"}, {"x-queue-type": "stream"}
KINDS: dict[str, dict[str, Any]] = {"classic": {}, "quorum": QUORUM, "stream": STREAM}
NAME = unique_name("refused")
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("queue_delete", {"queue": "quorum", "if_empty": True}),
    ("queue_delete", {"queue": "quorum", "if_unused": True, "if_empty": True}),
    ("queue_delete", {"queue": "no such queue", "if_empty": True}),
    ("queue_delete", {"queue": "classic", "if_empty": True}),
    ("queue_delete", {"queue": "stream", "if_empty": True}),
    ("queue_declare", {"queue": "", "durable": True, "arguments": QUORUM}),
    ("queue_declare", {"queue": "", "durable": True, "arguments": STREAM}),
    ("queue_declare", {"queue": "exclusive", "durable": True, "exclusive": True, "arguments": QUORUM}),
    ("queue_declare", {"queue": "exclusive", "exclusive": True, "arguments": STREAM}),
    ("queue_declare", {"queue": "exclusive", "auto_delete": True, "exclusive": True, "arguments": QUORUM}),
    ("queue_declare", {"queue": "aged", "durable": True, "arguments": {**STREAM, "x-max-age": "1h\n"}}),
    ("queue_declare", {"queue": "ageless", "durable": True, "arguments": {**STREAM, "x-max-age": "h"}}),
    ("queue_declare", {"queue": "ageless", "durable": True, "arguments": {**STREAM, "x-max-age": "0h"}}),
    ("queue_declare", {"queue": "amq.gen-own", "durable": True}),
    ("queue_declare", {"queue": "gen-own", "durable": True, "exclusive": True}),
    ("basic_qos", {"prefetch_size": 1}),
    ("queue_purge", {"queue": "stream"}),
    ("basic_get", {"queue": "stream"}),
    *(
        ("basic_consume", {"queue": queue, "on_message_callback": print, "auto_ack": auto_ack, "arguments": arguments})
        for queue in ("classic", "quorum", "stream")
        for auto_ack, arguments in ((True, {}), (False, {"x-credit": 5}), (False, {"x-credit": {"credit": 1}}))
    ),
    *(
        ("basic_consume", {"queue": "stream", "on_message_callback": print, "arguments": {"x-stream-offset": offset}})
        for offset in ("h", "", "0h", "5", "1w")
    ),
]
"""Method of pika's channel, and its arguments; names of queues that are none of these are unique."""
LIMITS = [[(0, False)], [(5, True)], [(5, False)], [(5, False), (5, True)]]
"""Prefetch counts, and whether they are global, with which each is asked."""


@contextmanager
def open_channel(url: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def find_answer(url: str, method: str, given: dict[str, Any], limits: list[tuple[int, bool]]) -> str:
    """Return the answer to one method; what a crash of a channel says is left out, as the broker logs it only."""
    if given.get("queue") and not given["queue"].startswith("amq."):
        given = {**given, "queue": f"{NAME}-{given['queue']}"}
    with open_channel(url) as channel:
        try:
            for count, is_global in limits:
                channel.basic_qos(prefetch_count=count, global_qos=is_global)
            answer = getattr(channel, method)(**given)
        except (ChannelClosedByBroker, ConnectionClosedByBroker) as error:
            return f"{error.reply_code} {re.sub('(?<=INTERNAL_ERROR) - the channel.*', '', error.reply_text)}"
    return "accepted" if answer is None or isinstance(answer, (str, tuple)) else type(answer.method).__name__


def find_answers(url: str) -> dict[str, str]:
    answers = {}
    with open_channel(url) as channel:
        for kind, arguments in KINDS.items():
            channel.queue_declare(f"{NAME}-{kind}", durable=True, arguments=arguments)
        channel.basic_publish("", f"{NAME}-classic", b"keeps it from being empty")
        wait_until(lambda: channel.queue_declare(f"{NAME}-classic", passive=True).method.message_count == 1)
        for limits in LIMITS:
            for method, given in REFUSED:
                what = f"{method} {given | {'on_message_callback': None}} {limits}"
                answers[what] = find_answer(url, method, given, limits)
                channel.queue_declare(f"{NAME}-stream", durable=True, arguments=STREAM)  # it may be deleted
        for name in (*KINDS, "aged"):
            channel.queue_delete(f"{NAME}-{name}")
    return answers


@pytest.mark.live
def test_live_brokers_refuse_the_same_for_the_type_of_a_queue(rabbitmq_servers: list[Server]) -> None:
    for live in rabbitmq_servers:
        with AmqpServer(Topology(profile=find_profile(live.version))) as server:
            assert find_answers(server.url) == find_answers(live.url), live.version


@pytest.mark.parametrize("release", ["3.10", "4.0", "4.4"])
def test_a_queue_is_deleted_under_a_condition_only_if_it_is_classic(release: str) -> None:
    topology = Topology(queues=[Queue("c"), Queue("q", arguments=QUORUM), Queue("s", arguments=STREAM)])
    with AmqpServer(topology.with_profile(find_profile(release))) as server, open_channel(server.url) as channel:
        channel.basic_publish("", "s", b"")
        wait_until(lambda: len(server.messages("s")) == 1)
        assert channel.queue_delete("s", if_empty=True).method.message_count == 0
        channel.queue_delete("c", if_empty=True)
        with pytest.raises(ConnectionClosedByBroker, match="with if-empty flag set are not supported by quorum"):
            channel.queue_delete("q", if_empty=True)


@pytest.mark.parametrize(("release", "size"), [("4.2", 1), ("4.3", 3)])
def test_a_global_prefetch_is_one_of_the_channel_until_4_3(release: str, size: int) -> None:
    """And one that is not global ends it."""
    topology, got = Topology(queues=[Queue("q")], profile=find_profile(release)), list[bytes]()
    with AmqpServer(topology) as server, open_channel(server.url) as channel:
        channel.basic_qos(prefetch_count=1, global_qos=True)
        for _ in range(3):
            channel.basic_consume("q", lambda _c, _m, _p, body: got.append(body))
        for number in range(4):
            channel.basic_publish("", "q", b"%d" % number)
        wait_until(lambda: channel.connection.process_data_events(0) or len(got) == size)
        channel.basic_qos(prefetch_count=1)
        wait_until(lambda: channel.connection.process_data_events(0) or len(got) == (4 if size == 1 else 3))


def test_x_credit_is_refused_where_a_broker_obeys_it() -> None:
    credit = {"x-credit": {"credit": long(1), "drain": False}}
    for release, is_obeyed in (("3.10", True), ("4.0", False)):
        topology = Topology(queues=[Queue("q")], profile=find_profile(release))
        with AmqpServer(topology) as server, open_channel(server.url) as channel:
            if is_obeyed:
                with pytest.raises(ConnectionClosedByBroker, match="x-credit"):
                    channel.basic_consume("q", print, arguments=credit)
            else:
                channel.basic_consume("q", print, arguments=credit)


def test_a_stream_is_read_from_an_age_or_a_time_on() -> None:
    broker = VirtualBroker(Topology(queues=[Queue("s", arguments=STREAM)]))
    times = []
    for number in range(4):
        times.append(datetime.fromtimestamp(broker.time, UTC))
        broker.publish("", "s", b"%d" % number)
        broker.advance(3600)

    def read(offset: Any) -> bytes:
        consumer = broker.consume("s", prefetch=9, offset=offset)
        bodies = b"".join(delivery.message.body for delivery in iter(consumer.receive, None))
        broker.close(consumer)
        return bodies

    ages = {"1h": b"3", "119m": b"3", "2h": b"23", "3601s": b"3", "1D": b"0123", "1M": b"0123", "59m": b""}
    assert {age: read(age) for age in ages} == ages
    second = timedelta(seconds=1)
    assert [read(times[0] - second), read(times[2] - second), read(times[2] + second)] == [b"0123", b"23", b"3"]
    assert read(times[3] + second) == b""
    for offset in ("1w", "", "0h", "soon"):
        with pytest.raises(PreconditionFailed, match="invalid arg 'x-stream-offset' for queue 's'"):
            read(offset)
