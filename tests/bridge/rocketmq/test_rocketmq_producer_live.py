"""A producer against live brokers, beside RocketMQ's own Java producer and consumer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import load_json
from bridge.rocketmq.remoting.errors import BrokerError, ClientError
from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.properties import IllegalMessage
from exchange.partition import partitioner
from exchange.partition.clients.rocketmq.queues import MessageQueue, publish_queues
from exchange.partition.clients.rocketmq.selectors import ByHash, ByRandom, Explicit
from exchange.values.field_values import Typed
from tests.recorders.keys import KEYS
from tests.support.rocketmq.java_client import encode_body, probe_async
from tests.support.rocketmq_cluster import Cluster
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit


def run(server: Server, test: Callable[[Client, Producer], Awaitable[None]], **settings: Any) -> None:
    """Run a scenario with a client and a producer."""

    async def work() -> None:
        async with (
            Client(ClientSettings(server.url)) as client,
            Producer(client, ProducerSettings(unique_name("group"), **settings)) as producer,
        ):
            await test(client, producer)

    asyncio.run(asyncio.wait_for(work(), find_limit()))


async def topic_of(client: Client, queues: int = 3) -> str:
    topic = unique_name("topic")
    await admin.create_topic(client, admin.TopicConfig(topic, queues, queues))
    return topic


def place(queue: MessageQueue) -> list[Any]:
    return [queue.broker, queue.queue_id]


TYPED = (
    ("signedint", "-2147483648"), ("signedint", "7"), ("long", "9223372036854775807"), ("double", "2.5"),
    ("bool", "true"),
)  # fmt: skip


KINDS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "signedint": lambda text: Typed("signedint", int(text)),
    "long": int,
    "double": float,
    "bool": lambda text: text == "true",
}
"""What stands for an argument of these types."""


def test_messages_that_java_sends_with_each_selector_are_in_the_predicted_queues(rocketmq_cluster: Cluster) -> None:
    async def test(client: Client, producer: Producer) -> None:
        topic = await topic_of(client)
        queues = publish_queues(await client.route(topic))
        assert queues.count == 6
        message = {"topic": topic, "body": encode_body(b"from Java")}
        keys = [("string", key) for key in KEYS[:150]] + list(TYPED)
        sends: list[dict[str, Any]] = [{**message, "selector": "hash", "argument": key} for key in keys]
        expected = [queues[ByHash().choose(KINDS[kind](text), queues).partition or 0] for kind, text in keys]
        chooser = partitioner.Producer(ByRandom(), lambda n: 0, lambda: 42)
        for at in range(40):
            sends.append({**message, "selector": "random", "seed": 42 if at == 0 else None})
            expected.append(queues[chooser.choose(topic, None, queues).partition or 0])
        for queue in queues:
            sends.append({**message, "queue": place(MessageQueue.from_partition(queue))})
            expected.append(queue)
        sends.append({**message, "selector": "machine_room", "argument": ("string", "a")})
        around = len(sends)
        sends += [message] * 13
        answers = (await probe_async(client.settings.namesrv_addr, unique_name("java"), sends=sends))["sends"]
        errors = {answer["error"] for answer in answers if "error" in answer}
        assert len(errors) == 1, errors
        assert "select message queue return null" in answers[around - 1]["error"]
        found = [answer["queue"] for answer in answers[: len(expected)]]
        assert found == [place(MessageQueue.from_partition(queue)) for queue in expected]
        # Without a selector queues take turns, from one that is drawn.
        in_turn = [place(MessageQueue.from_partition(queue)) for queue in queues]
        first = in_turn.index(answers[around]["queue"])
        assert [answer["queue"] for answer in answers[around:]] == [in_turn[(first + at) % 6] for at in range(13)]

    run(rocketmq_cluster.server, test)


PLAIN = RocketMessage.build("", b"plain")
MESSAGES = (
    PLAIN,
    RocketMessage.build(
        "", b"\0\xff", {"größe": "中文 \U0001f600", "a.b/c": "x=y;z"}, tags="order.paid", keys=["k1", "k2"]
    ),
    RocketMessage.build("", b"large " * 10_000, tags="large", flag=-(1 << 31)),
    RocketMessage.build("", b"sharded", sharding_key="customer 7", flag=(1 << 31) - 1, wait_store_ok=False),
    RocketMessage.build("", b"one key", keys="alone"),
    RocketMessage.build("", b"later", {"p": "v"}, delay_level=1),
)
ADDED = {"CLUSTER", "CONSUME_START_TIME", "MAX_OFFSET", "MIN_OFFSET", "MSG_REGION", "TRACE_ON", "UNIQ_KEY"}
"""Properties that brokers and Java's consumer add."""
DELAYED = {"REAL_TOPIC", "REAL_QID", "DELAY"}
"""Those that a message has which was stored elsewhere in between."""


def test_java_consumes_our_messages_with_every_field(rocketmq_cluster: Cluster) -> None:
    async def test(client: Client, producer: Producer) -> None:
        topic = await topic_of(client)
        began = time.time() * 1000
        forgets = rocketmq_cluster.server.version_info < (5,)  # brokers of 4.9 do not keep WAIT
        sent: dict[str, tuple[RocketMessage, MessageQueue, int | None]] = {}
        for at, message in enumerate([RocketMessage(topic, *message[1:]) for message in MESSAGES]):
            (queue, *_), how = await producer.queues(topic), at % 3
            if how == 0:
                result = await producer.send(message, queue=queue)
            elif how == 1:
                result = await producer.send(message, selector=ByHash(), key="customer 7")
            else:
                result = await (await producer.send_async(message))
            sent[result.message_id] = message, result.queue, None if message.delay_level else result.queue_offset
        batch = [RocketMessage.build(topic, b"batch %d" % at, {"at": str(at)}, tags="b") for at in range(5)]
        result = await producer.send_batch(batch, selector=Explicit(), key="broker-b:1")
        assert result.queue == MessageQueue("broker-b", 1)
        for at, (message, unique_id) in enumerate(zip(batch, result.message_id.split(","), strict=True)):
            sent[unique_id] = message, result.queue, result.queue_offset + at
        asked = {"topics": [topic], "count": len(sent), "seconds": 120}
        seen = (await probe_async(client.settings.namesrv_addr, unique_name("java"), consumes=asked))["consumes"]
        assert sorted(each["id"] for each in seen) == sorted(sent)
        for each in seen:
            message, queue, offset = sent[each["id"]]
            assert each["topic"] == topic
            assert each["body"] == encode_body(message.body)
            assert each["flag"] == message.flag
            assert (each["tags"], each["wait"]) == (message.tags, forgets or message.wait_store_ok)
            assert (each["keys"] or "").split() == list(message.keys)
            assert each["queue"] == place(queue)
            assert offset in (None, each["offset"])
            assert began - 1000 < each["born"] <= time.time() * 1000
            added = ADDED | (DELAYED if offset is None else set())
            told = {name: value for name, value in each["properties"].items() if name not in added}
            own = {name: value for name, value in message.properties.items() if name not in added}
            if each["tags"] == "b":  # in a batch the broker adds more
                told.pop("INNER_NUM", None)
            if forgets:
                told.pop("WAIT", None)  # of a batch it does keep it
                own.pop("WAIT", None)
            assert told == own

    run(rocketmq_cluster.server, test)


def test_timed_messages_are_delivered_at_their_time(rocketmq_cluster: Cluster) -> None:
    """They are precise to the second; brokers before 5.0 do not know such messages."""

    async def test(client: Client, producer: Producer) -> None:
        if rocketmq_cluster.server.version_info < (5,):
            pytest.skip("timed messages came with 5.0")
        topic = await topic_of(client, 1)
        at = int(time.time() * 1000) + 2000
        result = await producer.send(RocketMessage.build(topic, b"timed", deliver_ms=at))
        assert result.status == "SEND_OK"
        assert await depth(client, topic) == 0
        async with asyncio.timeout(find_limit()):
            while not await depth(client, topic):  # noqa: ASYNC110 - brokers tell nobody
                await asyncio.sleep(0.1)
        assert time.time() * 1000 >= at - 1000

    run(rocketmq_cluster.server, test)


async def depth(client: Client, topic: str) -> int:
    """Return the number of messages in the topic's queues."""
    total = 0
    for queue in publish_queues(await client.route(topic)):
        name, number = MessageQueue.from_partition(queue)
        fields = {"topic": topic, "queueId": str(number), "committed": "true"}
        answer = await client.ask(client.address(name), RequestCode.GET_MAX_OFFSET, fields)
        total += int(answer.fields["offset"])
    return total


async def wait_for_depth(client: Client, topic: str, count: int) -> None:
    """Wait until the queues have as many messages: a broker enters them there only after it has confirmed them."""
    async with asyncio.timeout(find_limit()):
        while await depth(client, topic) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert await depth(client, topic) == count


def test_one_way_messages_arrive_without_an_answer(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, producer: Producer) -> None:
        topic = await topic_of(client)
        for at in range(10):
            await producer.send_oneway(RocketMessage.build(topic, b"%d" % at))
        await wait_for_depth(client, topic, 10)

    for server in rocketmq_servers:
        run(server, test)


@pytest.mark.smoke
def test_messages_of_a_window_are_all_stored_once(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, producer: Producer) -> None:
        topic = await topic_of(client)
        futures = []
        for at in range(500):
            futures.append(await producer.send_async(RocketMessage.build(topic, b"%d" % at)))
            assert producer._tries.under_way <= 10
        await producer.flush()
        places = Counter([(result.queue, result.queue_offset) for result in [each.result() for each in futures]])
        assert len(places) == 500
        assert len({future.result().message_id for future in futures}) == 500
        await wait_for_depth(client, topic, 500)
        # One queue after the other.
        counts = Counter([queue for queue, _ in places])
        assert max(counts.values()) - min(counts.values()) <= 1

    for server in rocketmq_servers:
        run(server, test, async_send_num=10)


def test_the_first_message_creates_its_topic(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, producer: Producer) -> None:
        topic = unique_name("new")
        brokers = await admin.list_masters(client)
        assert await producer.queues(topic) == tuple(
            MessageQueue(name, at) for name in sorted(brokers) for at in range(4)
        )
        result = await producer.send(RocketMessage.build(topic, b"first"))
        assert result.queue_offset == 0
        async with asyncio.timeout(find_limit()):
            while True:
                try:
                    queues = publish_queues(await client.update_route(topic))
                    break
                except ClientError:
                    await asyncio.sleep(0.1)
        assert {MessageQueue.from_partition(queue).broker for queue in queues} == {result.queue.broker}

    for server in rocketmq_servers:
        run(server, test)


def test_a_message_that_brokers_refuse_is_an_error_before_it_is_sent(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, producer: Producer) -> None:
        topic = await topic_of(client)
        for wrong in (
            RocketMessage(topic, b""),
            RocketMessage(topic, bytes((4 << 20) + 1)),
            RocketMessage(topic, b"x", {"a": ""}),
            RocketMessage(topic, b"x", {"a": "\x01"}),
            RocketMessage(topic, b"x", {"a": "x" * 32_767}),
            RocketMessage("no.dots", b"x"),
        ):
            for send in (producer.send, producer.send_async, producer.send_oneway):
                with pytest.raises(IllegalMessage):
                    await send(wrong)
        with pytest.raises(IllegalMessage):
            await producer.send_batch([])
        largest = {"a": "x" * 32_400}  # brokers add some
        assert (await producer.send(RocketMessage(topic, b"x", largest))).status == "SEND_OK"
        # What a broker finds, it says, and is not asked again where the queue was chosen.
        with pytest.raises(BrokerError) as refused:
            await producer.send(
                RocketMessage.build(topic, b"x"), queue=MessageQueue((await producer.queues(topic))[0][0], 9)
            )
        assert "queueId" in refused.value.remark

    for server in rocketmq_servers:
        run(server, test)


def test_a_topic_without_a_route_and_a_closed_producer_are_errors(rocketmq: Server) -> None:
    async def test(client: Client, producer: Producer) -> None:
        with pytest.raises(ClientError, match="No route info of this topic: none"):
            await producer.send(RocketMessage.build("none", b"x"))
        with pytest.raises(ClientError, match="not exist"):
            await producer.send(RocketMessage.build(await topic_of(client), b"x"), queue=MessageQueue("nobody", 0))
        await producer.close()
        with pytest.raises(ClientError, match="not open"):
            await producer.send(RocketMessage.build("none", b"x"))
        await producer.open()

    run(rocketmq, test, create_topic_key="none-either")


def test_a_broker_s_clients_are_listed_with_their_language(rocketmq: Server) -> None:
    async def test(client: Client, producer: Producer) -> None:
        sent = await producer.send(RocketMessage.build(await topic_of(client), b"x"))
        address = client.address(sent.queue.broker)
        async with asyncio.timeout(find_limit()):
            while True:
                fields = {"producerGroup": producer.settings.group}
                answer = await client.invoke(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, fields)
                if answer.code == 0:
                    break
                await asyncio.sleep(0.05)
        (member,) = load_json(answer.body)["connectionSet"]
        assert (member["clientId"], member["language"]) == (client.client_id, "PYTHON")

    run(rocketmq, test)
