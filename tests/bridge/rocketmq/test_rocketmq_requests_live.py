"""Requests and replies between us and RocketMQ's Java client, over a live broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridge.rocketmq.consumer.consumer import Consumer
from bridge.rocketmq.consumer.group import ConsumerSettings
from bridge.rocketmq.consumer.offsets import ConsumeFrom
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.producer.requests import ReplyTimeout, Requester, reply_to
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.errors import ClientError
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.partition.clients.rocketmq.selectors import ByHash
from tests.support.rocketmq.java_client import encode_body, probe_async
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit


async def answer_all(client: Client, producer: Producer, topic: str) -> None:
    """Reply to every request of a topic, for ever."""
    settings = ConsumerSettings(consume_from=ConsumeFrom.FIRST)
    async with Consumer(client, unique_name("answering"), [Subscription.to_tags(topic)], settings) as consumer:
        while True:
            for message in await consumer.receive():
                reply = reply_to(message, b"answer to " + message.body, {"answered": "by us"})
                assert (await producer.send(reply)).status == "SEND_OK"
                consumer.done(message)


def test_we_and_java_answer_each_other(rocketmq: Server) -> None:
    async def test(server: Server) -> None:
        async with (
            Client(ClientSettings(server.url)) as client,
            Producer(client, ProducerSettings(unique_name("group"))) as producer,
            Requester(producer) as requester,
        ):
            to_java, to_us, java = unique_name("to-java"), unique_name("to-us"), unique_name("java")
            for topic in (to_java, to_us):
                await admin.create_topic(client, admin.TopicConfig(topic, 2, 2))
            answering = asyncio.ensure_future(answer_all(client, producer, to_us))
            asked: dict[str, Any] = {
                "answers": {"topic": to_java, "count": 4, "seconds": 100},
                "requests": [
                    {"topic": to_us, "body": encode_body(b"from Java %d" % at), "tags": "t"} for at in range(3)
                ],
            }
            probing = asyncio.ensure_future(probe_async(server.url, java, **asked))
            bodies = [b"from us %d" % at for at in range(3)] + [b"large " * 2_000]
            replies = await asyncio.gather(*[
                requester.request(
                    RocketMessage.build(to_java, body), timeout_ms=100_000, selector=ByHash(), key=str(at)
                )
                for at, body in enumerate(bodies)
            ])  # fmt: skip
            for body, reply in zip(bodies, replies, strict=True):
                assert reply.body == b"answer to " + body
                assert reply.properties["answered"] == "by Java"
            answers = await probing
            assert sorted(each["body"] for each in answers["answers"]) == sorted(encode_body(body) for body in bodies)
            for at, found in enumerate(answers["requests"]):
                assert found["body"] == encode_body(b"answer to from Java %d" % at)
                assert found["properties"]["answered"] == "by us"
            # Nobody answers any more.
            answering.cancel()
            await asyncio.wait([answering])
            with pytest.raises(ReplyTimeout, match="OK, but wait reply message timeout"):
                await requester.request(RocketMessage.build(to_us, b"x"), timeout_ms=500)

    asyncio.run(asyncio.wait_for(test(rocketmq), find_limit(150)))


def test_only_a_request_can_be_replied_to() -> None:
    message = StoredMessage("t", b"x", {}, 0, "b", 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0)
    with pytest.raises(ClientError, match="create reply message fail"):
        reply_to(message, b"y")
    request = message._replace(properties={"CLUSTER": "c", "CORRELATION_ID": "1", "REPLY_TO_CLIENT": "me", "TTL": "9"})
    reply = reply_to(request, b"y")
    assert reply.topic == "c_REPLY_TOPIC"
    assert dict(reply.properties) == {"CORRELATION_ID": "1", "REPLY_TO_CLIENT": "me", "TTL": "9", "MSG_TYPE": "reply"}
