"""Replies to callers: those that are there get them, and for those that are gone they are refused for good."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pika

from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing, Target
from bridge.endpoints.rabbitmq.config import PublishAddress, RabbitmqTarget
from bridge.endpoints.rocketmq.replying import CallerTarget
from bridge.interop.return_address import ReturnAddress
from bridge.pump.replies import AddressedReply
from bridge.rocketmq.remoting.client import ClientSettings
from exchange.values.message import Message
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, until


class Reports:
    """Keeps what a target reports."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.refused: list[tuple[bytes, Failure]] = []
        self.errors: list[Disconnected] = []

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        self.taken += [each.message.body for each in messages]

    def failed(self, message: Outgoing, failure: Failure) -> None:
        self.refused.append((message.message.body, failure))

    def lost(self, error: Disconnected) -> None:
        self.errors.append(error)


def reply(key: str, body: bytes, target: Target, detail: str = "") -> Outgoing:
    message = Message("", key, {"status": "ok"}, {"correlation_id": "7"}, body)
    home = AddressedReply(message, target, "", ReturnAddress(key, b"7", detail), 2_000_000_000_000)
    return Outgoing(message, Delivery(message), number=len(body), request=home)


def send(target: Target, replies: Sequence[Outgoing]) -> Reports:
    """Send replies, and return what the target reports of all of them."""

    async def run() -> Reports:
        reports: Any = Reports()
        await target.open(reports)
        target.send(replies)
        async with asyncio.timeout(find_limit()):
            await until(lambda: len(reports.taken) + len(reports.refused) >= len(replies) or reports.errors)
        await target.close()
        return reports  # type: ignore[no-any-return]

    return asyncio.run(run())


def test_a_reply_to_a_queue_of_rabbitmq_that_is_gone_is_refused_for_good(rabbitmq: Server) -> None:
    target = RabbitmqTarget("callers", [pika.URLParameters(rabbitmq.url)], {"": PublishAddress()}, to_callers=True)
    name = unique_name("caller")
    gone = f"{name}-gone"
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        channel = connection.channel()
        channel.queue_declare(name, exclusive=True)
        replies = [reply(gone if n % 2 else name, b"x" * n, target) for n in range(1, 31)]
        reports = send(target, replies)
        assert reports.errors == []
        assert sorted(map(len, reports.taken)) == list(range(2, 31, 2))
        assert sorted(len(body) for body, _ in reports.refused) == list(range(1, 31, 2))
        assert {(each.reason, each.final, each.busy) for _, each in reports.refused} == {
            (f"returned: 312 NO_ROUTE: there is no queue {gone!r}", True, False)
        }
        _, properties, body = channel.basic_get(name, auto_ack=True)
        assert (properties.correlation_id, properties.headers["status"], body) == ("7", "ok", b"xx")


def test_a_reply_by_direct_reply_to_is_never_returned(rabbitmq_servers: list[Server]) -> None:
    """RabbitMQ 4.0 would return it although the caller gets it, if it were mandatory."""
    for server in rabbitmq_servers:
        target = RabbitmqTarget("callers", [pika.URLParameters(server.url)], {"": PublishAddress()}, to_callers=True)
        got: list[bytes] = []

        def take(*given: Any, got: list[bytes] = got) -> None:
            got.append(given[3])

        with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_consume("amq.rabbitmq.reply-to", take, auto_ack=True)
            channel.basic_publish("", queue, b"", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
            _, properties, _ = channel.basic_get(queue, auto_ack=True)
            reports = send(target, [reply(properties.reply_to, b"here", target)])
            connection.process_data_events(1)
        assert (reports.taken, reports.refused, got) == ([b"here"], [], [b"here"])


def test_a_reply_to_a_client_of_rocketmq_that_is_gone_is_refused_for_good(rocketmq: Server) -> None:
    target = CallerTarget("callers", ClientSettings(rocketmq.url))
    reports = send(
        target,
        [
            reply("127.0.0.1@nobody", b"1", target, "hashstar:broker"),
            reply("127.0.0.1@nobody", b"22", target, "another-cluster:broker"),
            reply("127.0.0.1@nobody", b"333", target, "no such name!:broker"),
        ],
    )
    assert reports.errors == []
    assert reports.taken == []
    refused = dict(reports.refused)
    assert refused.keys() == {b"1", b"22", b"333"}
    assert all(each.final for each in refused.values()), refused
