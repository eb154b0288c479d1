"""Selectors where they are at home: a broker filters messages of all sorts, and we say of each the same."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import FLAG_SUBSCRIPTION, BrokerQueues, parse_pull, pull_fields
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting.admin import TopicConfig, create_topic, delete_topic, list_masters
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.selector import Selector, SelectorError, Tags
from tests.recorders.rocketmq_filter import EXPRESSIONS, PROPERTIES, WRITTEN
from tests.support.servers import Server
from tests.support.waiting import find_limit

GROUP = "selector-live"
TAGS = ("paid", "Aa", "BB", "C#", "*", "f5a5a608", None)
"""``Aa``, ``BB`` and ``C#`` have one hash; that of ``f5a5a608`` is what a message without a tag has."""
SUBSCRIPTIONS = {
    "*": set(), "": set(), "paid": set(), "Aa": {"BB", "C#"}, " Aa||paid ": {"BB", "C#"}, "C#||||BB": {"Aa"},
    "f5a5a608": {None}, "* || paid": set(), " *": set(), " || ": set(), "none": set(),
}  # fmt: skip
"""By tags -> what comes of them that was not asked for."""
COUNT = 500


class Queue:
    """The only queue of a topic, on one broker."""

    def __init__(self, client: Client, address: str, queue: TopicQueue) -> None:
        self.client = client
        self.address = address
        self.queue = queue

    async def put(self, messages: Iterable[RocketMessage]) -> None:
        """Send messages, and wait until they can be pulled: a broker queues them some time after it has stored them."""
        sent = 0
        async with Producer(self.client, ProducerSettings(GROUP)) as producer:
            for message in messages:
                await producer.send(message, queue=MessageQueue(self.queue.broker, self.queue.queue_id))
                sent += 1
        queues = BrokerQueues(self.client, GROUP)
        async with asyncio.timeout(find_limit()):
            while await queues.max_offset(self.queue) < sent:  # noqa: ASYNC110 - brokers tell nobody
                await asyncio.sleep(0.05)

    async def pulled(self, subscription: Subscription) -> list[StoredMessage]:
        """Return all messages that the broker sends for a subscription, which comes with the pull."""
        found: list[StoredMessage] = []
        offset = 0
        while True:
            fields = pull_fields(GROUP, self.queue, subscription, offset, 32, None)
            fields |= {"sysFlag": str(FLAG_SUBSCRIPTION), "subscription": subscription.expression}
            answer = parse_pull(
                await self.client.invoke(self.address, RequestCode.PULL_MESSAGE, fields, timeout=find_limit())
            )
            if answer.body:
                # As the broker sent them: the client's own look at tags is left out.
                found += answer.messages(self.queue, Subscription(self.queue.topic))
            offset = answer.next_offset
            if offset >= answer.max_offset:
                return found

    async def refuses(self, subscription: Subscription) -> bool:
        """Return whether the broker cannot parse a subscription."""
        body = json.dumps({
            "clientId": self.client.client_id, "group": GROUP, "namespace": "", "subscriptionData": {
                "topic": subscription.topic, "subString": subscription.expression,
                "expressionType": subscription.type, "subVersion": 1, "tagsSet": [], "codeSet": [],
                "classFilterMode": False,
            },
        }).encode()  # fmt: skip
        answer = await self.client.invoke(self.address, RequestCode.CHECK_CLIENT_CONFIG, {}, body, timeout=find_limit())
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.SUBSCRIPTION_PARSE_FAILED), answer
        return answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


@asynccontextmanager
async def queue_of(server: Server) -> AsyncIterator[Queue]:
    """Create a topic with one queue on one broker."""
    topic = f"selector-live-{os.getpid()}-{Random().randrange(1 << 32)}"
    async with Client(ClientSettings(server.url)) as client:
        name, address = min((await list_masters(client)).items())
        await create_topic(client, TopicConfig(topic, 1, 1), [name])
        try:
            yield Queue(client, address, TopicQueue(topic, name, 0))
        finally:
            await delete_topic(client, topic)


def release_of(server: Server) -> str:
    return "5.1.3" if server.version_info >= (5, 1, 3) else "4.1"


def messages_of(topic: str) -> list[RocketMessage]:
    """Return a message for each recorded map of properties, without values that RocketMQ refuses."""
    return [
        RocketMessage.build(topic, b"%d" % number, {k: v for k, v in each.items() if v.strip()}, tags=TAGS[number % 7])
        for number, each in enumerate(PROPERTIES)
    ]


def test_the_broker_filters_by_sql92_as_we_do(rocketmq_servers: list[Server]) -> None:
    """500 expressions of the recorded corpus: which messages come, and which expressions are refused."""

    async def run(server: Server) -> None:
        release, chance = release_of(server), Random(7)
        texts = [text for text in chance.sample(EXPRESSIONS, COUNT - 100) + chance.sample(WRITTEN, 100) if text]
        taken = 0
        async with queue_of(server) as queue:
            await queue.put(messages_of(queue.queue.topic))
            everything = await queue.pulled(Subscription(queue.queue.topic))
            assert len(everything) == len(PROPERTIES)
            for text in texts:
                subscription = Subscription(queue.queue.topic, text, "SQL92", version=1)
                try:
                    selector = Selector.parse(text, release, exact=True)
                except SelectorError:
                    assert await queue.refuses(subscription), text
                    continue
                wanted = [each.body for each in everything if selector(each.properties)]
                assert [each.body for each in await queue.pulled(subscription)] == wanted, text
                taken += len(wanted)
        assert taken > COUNT

    for server in rocketmq_servers:
        asyncio.run(run(server))


def test_the_broker_filters_tags_by_hash_as_we_do(rocketmq_servers: list[Server]) -> None:
    """Also where hashes collide, and where a star is an ordinary character."""

    async def run(server: Server) -> None:
        async with queue_of(server) as queue:
            await queue.put(messages_of(queue.queue.topic))
            everything = await queue.pulled(Subscription(queue.queue.topic))
            for text, unwanted in SUBSCRIPTIONS.items():
                tags = Tags.parse(text, exact=True)
                found = [each.tags for each in await queue.pulled(Subscription(queue.queue.topic, text))]
                assert found == [each.tags for each in everything if tags.sends(each.tags)], text
                assert set(tags.collisions(set(found))) == unwanted, text

    for server in rocketmq_servers:
        asyncio.run(run(server))
