"""What is answered to consumers: exclusive ones, how many there are, direct replies, basic.recover.

As live brokers of 3.10.8, 4.0.5 and 4.3.6, and the source that a row names.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker
from pika.spec import Basic

from bindings.testing.server import AmqpServer
from exchange import Topology
from exchange.entities.releases import find_profile
from tests.support.unique import unique_name
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pika.adapters.blocking_connection import BlockingChannel

    from tests.support.servers import Server

RELEASES: Final = ["3.10.8", "3.13.7", "4.0.5", "4.2.9", "4.3.6"]
ACTIVE: Final = {"x-single-active-consumer": True}
QUORUM: Final = {"x-queue-type": "quorum"}
CLASSIC_SOURCE: Final = "rabbit_amqqueue_process.erl, handle_call({basic_consume"
QUORUM_SOURCE: Final = "rabbit_fifo.erl, query_stat/1"
STREAM_SOURCE: Final = "rabbit_stream_queue.erl, stat/1"
PAIRS: Final[list[tuple[str, dict[str, Any], tuple[bool, bool], tuple[int, int], int]]] = [
    (CLASSIC_SOURCE, {}, (False, False), (0, 0), 2),
    (CLASSIC_SOURCE, {}, (True, False), (0, 403), 1),
    (CLASSIC_SOURCE, {}, (False, True), (0, 403), 1),
    (CLASSIC_SOURCE, ACTIVE, (False, False), (0, 0), 2),
    (CLASSIC_SOURCE, ACTIVE, (True, False), (403, 0), 1),
    (CLASSIC_SOURCE, ACTIVE, (False, True), (0, 403), 1),
    (QUORUM_SOURCE, QUORUM, (True, True), (0, 0), 2),
    (QUORUM_SOURCE, QUORUM, (False, True), (0, 0), 2),
    (QUORUM_SOURCE, {**QUORUM, **ACTIVE}, (True, False), (0, 0), 1),
    (STREAM_SOURCE, {"x-queue-type": "stream"}, (True, True), (0, 0), 0),
]
"""Source, arguments of a queue, whether two consumers are exclusive, the reply code of each, 0 for none, and their
number by queue.declare-ok."""


def find_code(ask: Callable[[], object]) -> int:
    try:
        ask()
    except (ChannelClosedByBroker, ConnectionClosedByBroker) as error:
        return int(error.reply_code)
    return 0


def await_count(channel: BlockingChannel, queue: str, count: int) -> None:
    """Wait for this number of consumers: a busy quorum queue has none, as it answers too late."""
    wait_until(lambda: channel.queue_declare(queue, passive=True).method.consumer_count == count)


def compare_pairs(url: str) -> None:
    """Start two consumers of each queue."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        for source, arguments, flags, codes, count in PAIRS:
            queue, first = unique_name("pair"), connection.channel()
            first.queue_declare(queue, durable=True, arguments=arguments)
            found, channels = [], [first]
            for is_exclusive in flags:
                channel = connection.channel()
                channel.basic_qos(prefetch_count=5)
                found.append(find_code(partial(channel.basic_consume, queue, print, exclusive=is_exclusive)))
                channels += [channel] if channel.is_open else []
            assert (*found,) == codes, (source, arguments, flags)
            for each in channels:
                each.queue_declare(queue, passive=True)  # its consumer is started by then
            await_count(channels[-1], queue, count)
            first.queue_delete(queue)


def keep_tag(tags: list[int], _channel: object, method: Basic.Deliver, *_content: object) -> None:
    tags.append(method.delivery_tag)


def has_delivered(connection: pika.BlockingConnection, tags: list[int]) -> bool:
    connection.process_data_events(0)
    return bool(tags)


def compare_holders(url: str) -> None:
    """Cancel a consumer that holds a message, and get another one: rabbit_fifo.erl, maybe_return_all/6."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        for arguments, held in (({}, 0), (QUORUM, 2)):
            queue, channel, tags = unique_name("held"), connection.channel(), list[int]()
            channel.queue_declare(queue, durable=True, arguments=arguments)
            channel.confirm_delivery()
            for body in (b"1", b"2"):
                channel.basic_publish("", queue, body)
            channel.basic_qos(prefetch_count=1)
            consumer = channel.basic_consume(queue, partial(keep_tag, tags))
            wait_until(partial(has_delivered, connection, tags))
            channel.basic_cancel(consumer)
            got = channel.basic_get(queue)[0]
            assert got is not None
            await_count(channel, queue, held)
            channel.basic_ack(got.delivery_tag, multiple=True)
            await_count(channel, queue, 0)
            channel.queue_delete(queue)


def compare_others(url: str) -> None:
    """Consume direct replies twice, and ask not to requeue: rabbit_channel.erl, handle_method/3."""
    reply = "amq.rabbitmq.reply-to"
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        for tag in ("one", "other"):
            channel = connection.channel()
            channel.basic_consume(reply, print, auto_ack=True, consumer_tag="one")
            again = Basic.Consume(queue=reply, no_ack=True, consumer_tag=tag)
            cast("Any", channel)._impl._send_method(again)  # pika refuses a tag that is used
            with pytest.raises(ChannelClosedByBroker, match=r"406.*reply consumer already set"):
                channel.basic_qos()
        connection.channel().basic_recover(requeue=True)
    connection = pika.BlockingConnection(pika.URLParameters(url))
    with pytest.raises(ConnectionClosedByBroker, match=r"540.*NOT_IMPLEMENTED - requeue=false"):
        connection.channel().basic_recover(requeue=False)


COMPARED: Final = [compare_pairs, compare_holders, compare_others]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("compare", COMPARED)
def test_the_test_server_answers_consumers_as_brokers(compare: Callable[[str], None], release: str) -> None:
    with AmqpServer(Topology(profile=find_profile(release))) as server:
        compare(server.url)


@pytest.mark.live
@pytest.mark.parametrize("compare", COMPARED)
def test_live_brokers_answer_consumers_so(compare: Callable[[str], None], rabbitmq_servers: list[Server]) -> None:
    for live in rabbitmq_servers:
        compare(live.url)
