"""Topics of a RocketMQ cluster, made, written and read by our own client, on a loop of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import FLAG_SUBSCRIPTION, BrokerQueues, parse_pull, pull_fields
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting.admin import GroupConfig as Group
from bridge.rocketmq.remoting.admin import TopicConfig, create_group, create_topic
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.errors import ClientError, ConnectError, RemotingTimeout, SendRequestError
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.partition.clients.rocketmq.queues import MessageQueue, publish_queues, subscribe_queues
from exchange.partition.clients.rocketmq.selectors import ByHash
from exchange.partition.partitioning.specification import Partitioning
from tests.support.unique import unique_name

T = TypeVar("T")
SECONDS = 30.0
MANY_SECONDS = 600.0
BATCH = 200


class Topics:
    """The topics of a cluster, for tests; every call waits until it is done."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv
        self.settings = ClientSettings(namesrv)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = self.do(self._opened())
        self._producer = self.do(self._producing())

    def do(self, work: Coroutine[Any, Any, T], seconds: float = SECONDS) -> T:
        """Run a coroutine on the client's loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    async def _opened(self) -> Client:
        client = Client(self.settings)
        await client.open()
        return client

    async def _producing(self) -> Producer:
        producer = Producer(self._client, ProducerSettings(unique_name("tests")))
        await producer.open()
        return producer

    @property
    def client(self) -> Client:
        """To be used on its loop, by `do`."""
        return self._client

    def make(self, queues: int = 1, name: str | None = None, **config: Any) -> str:
        """Create a topic with this number of queues on each broker."""
        name = name or unique_name("topic")
        self.do(create_topic(self._client, TopicConfig(name, queues, queues, **config)))
        return name

    def group(self, name: str) -> str:
        """Create a consumer group of this name."""
        self.do(create_group(self._client, Group(name)))
        return name

    def put(self, topic: str, messages: Sequence[RocketMessage], batch: int = 1) -> None:
        """Send messages in order, in batches, each to the queue for the first key of its first message."""
        self.do(self._put(topic, messages, batch))

    async def _put(self, topic: str, messages: Sequence[RocketMessage], batch: int) -> None:
        for n in range(0, len(messages), batch):
            some = [message._replace(topic=topic) for message in messages[n : n + batch]]
            key = next(iter(some[0].keys), "")
            if batch == 1:
                await self._producer.send(some[0], selector=ByHash(), key=key)
            else:
                await self._producer.send_batch(some, selector=ByHash(), key=key)

    def put_many(self, topic: str, messages: Sequence[RocketMessage]) -> None:
        """Send many messages: in order by key, all queues at a time, some twice where a connection is lost."""
        self.do(self._put_many(topic, messages), MANY_SECONDS)

    async def _put_many(self, topic: str, messages: Sequence[RocketMessage]) -> None:
        choose = Partitioning("rocketmq.hash", publish_queues(await self._client.update_route(topic)))
        lines: dict[int, list[RocketMessage]] = defaultdict(list)
        for message in messages:
            at = choose.choose_for(next(iter(message.keys), "")).partition
            assert at is not None
            lines[at].append(message)
        queues = await self._producer.queues(topic)

        async def put(queue: MessageQueue, line: list[RocketMessage]) -> None:
            n = 0
            while n < len(line):
                try:
                    await self._producer.send_batch(line[n : n + BATCH], queue=queue, timeout_ms=30_000)
                except (ClientError, ConnectError, SendRequestError, RemotingTimeout):
                    await asyncio.sleep(0.2)
                else:
                    n += BATCH

        await asyncio.gather(*[put(queues[at], line) for at, line in lines.items()])

    def left(self, topic: str, group: str) -> int:
        """Return the number of messages that a group has not committed. Raises RemotingError, TimeoutError."""
        return self.do(self._left(topic, group), 5.0)

    async def _left(self, topic: str, group: str) -> int:
        asked = BrokerQueues(self._client, group)
        queues = [TopicQueue.from_partition(topic, each) for each in subscribe_queues(await self._client.route(topic))]
        ends = await asyncio.gather(*[asked.max_offset(queue) for queue in queues])
        done = await asyncio.gather(*[asked.committed_offset(queue) for queue in queues])
        return sum(ends) - sum([each or 0 for each in done])

    def read(self, topic: str, count: int, seconds: float = SECONDS) -> list[StoredMessage]:
        """Wait until a topic has this number of messages, and return them, each queue in its order."""
        deadline = time.monotonic() + seconds
        while len(found := self.do(self._read(topic), seconds)) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count}"
            time.sleep(0.05)
        return found

    async def _read(self, topic: str) -> list[StoredMessage]:
        queues, everything = BrokerQueues(self._client, "tests-readers"), Subscription.to_tags(topic)
        found: list[StoredMessage] = []
        for partition in subscribe_queues(await self._client.route(topic)):
            queue = TopicQueue.from_partition(topic, partition)
            at, end = await queues.min_offset(queue), await queues.max_offset(queue)
            while at < end:
                fields = pull_fields("tests-readers", queue, everything, at, 32, None)
                # No group has to be known for a pull that brings its subscription.
                fields |= {"sysFlag": str(FLAG_SUBSCRIPTION), "subscription": everything.expression}
                address = self._client.address(queue.broker)
                answer = parse_pull(await self._client.invoke(address, RequestCode.PULL_MESSAGE, fields))
                found += answer.messages(queue, everything)
                at = answer.next_offset
        return found

    def close(self) -> None:
        """Close the client."""
        self.do(self._producer.close())
        self.do(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def topics_at(namesrv: str) -> Iterator[Topics]:
    """Yield the topics of a cluster."""
    topics = Topics(namesrv)
    try:
        yield topics
    finally:
        topics.close()
