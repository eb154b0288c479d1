"""RocketMQ's own administration asks our consumers how they do: `RocketmqAdmin.java`, with live brokers."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any, Final

import pytest

from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from tests.recorders.jvm import PROGRAMS, QUICK, ask, find_classpath
from tests.support.rocketmq.groups import consumer_of, on_each, queues_of, read, send, topic_at
from tests.support.servers import Server, missing
from tests.support.waiting import until

SOURCE: Final = Path(__file__).parents[2] / "support" / "java" / "RocketmqAdmin.java"
VERSION: Final = "5.5.0"
"""Of the tools, which speak to brokers of 4.x too."""
OPEN: Final = ("--add-opens", "java.base/java.nio=ALL-UNNAMED", "--add-opens", "java.base/java.util=ALL-UNNAMED")


async def ask_admin(server: Server, client: Client, group: str, topic: str) -> dict[str, Any]:
    """Return what the administration reports about a consumer, while the event loop goes on."""
    for program in PROGRAMS:
        if shutil.which(program) is None:
            missing(f"no {program} on this machine")
    jars = find_classpath(f"org.apache.rocketmq:rocketmq-tools:{VERSION}")
    question = {"namesrv": server.url, "group": group, "topic": topic, "client": client.client_id}
    told: dict[str, Any] = await asyncio.to_thread(ask, SOURCE, jars, question, *QUICK, *OPEN)
    return told


@pytest.mark.parametrize("orderly", [False, True])
def test_mqadmin_gets_the_same_status_from_our_consumer_as_from_java_s(
    rocketmq_servers: list[Server], orderly: bool
) -> None:
    async def test(client: Client, server: Server) -> None:
        topic = await topic_at(client, "running", 1)
        queue = (await queues_of(client, topic))[0]
        began = time.time() * 1000
        await send(client, [RocketMessage.build(topic, b"%d" % n, tags="a") for n in range(5)], queue)
        wanted = Subscription.to_tags(topic, "a || b")
        async with consumer_of(client, wanted, orderly=orderly) as consumer:
            out = await read(consumer, 3, done=False)
            assert consumer.done(out[0])
            await until(lambda: all(each.at_end for each in consumer.assigned.values()))
            told = await ask_admin(server, client, consumer.group.name, topic)
            group, place = consumer.group.name, [topic, queue.broker, queue.queue_id]
        ended = time.time() * 1000

        for command in ("consumerConnection", "consumerStatus", "getConsumerStatus"):
            assert client.client_id in told[command] or command == "consumerStatus", told[command]
        assert "a || b" in told["consumerConnection"]
        assert "a || b" in told["consumerStatus"]
        assert told["same"] is True
        assert "lock" not in told["trouble"].replace("blocked", "")  # as messages are left, it may be called blocked

        info = told["info"]
        properties = info["properties"]
        assert properties["consumerGroup"] == group
        assert properties["PROP_CONSUMEORDERLY"] == str(orderly).lower()
        assert properties["PROP_NAMESERVER_ADDR"] == f"{server.url};"
        assert began <= int(properties["PROP_CONSUMER_START_TIMESTAMP"]) <= ended
        topics = {each["topic"]: (each["subString"], sorted(each["tagsSet"])) for each in info["subscriptionSet"]}
        assert topics == {topic: ("a || b", ["a", "b"]), f"%RETRY%{group}": ("*", [])}
        assert "Share._pull_on" in info["jstack"]

        queues = {tuple(each): found for each, found in told["queues"]}
        found = queues[tuple(place)]
        assert found["commitOffset"] == 1
        counts = {name: found[name] for name in found if name.endswith(("Offset", "Count")) and name != "commitOffset"}
        cached, handed = ((3, 4, 2), (1, 2, 2)) if orderly else ((1, 4, 4), (0, 0, 0))
        assert counts == {
            "cachedMsgMinOffset": cached[0], "cachedMsgMaxOffset": cached[1], "cachedMsgCount": cached[2],
            "transactionMsgMinOffset": handed[0], "transactionMsgMaxOffset": handed[1],
            "transactionMsgCount": handed[2],
        }  # fmt: skip
        assert (found["locked"], found["droped"]) == (orderly, False)
        for moment in ("lastPullTimestamp", "lastConsumeTimestamp", "lastLockTimestamp"):
            assert began <= found[moment] <= ended
        offsets = {tuple(each): offset for each, offset in told["status"]}
        assert offsets[tuple(place)] == 1
        assert {each[0] for each in offsets} == {topic}

    on_each(rocketmq_servers, test)


def test_a_consumer_of_another_group_does_not_answer(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, server: Server) -> None:
        topic = await topic_at(client, "running")
        async with (
            consumer_of(client, topic, group=f"g-one-{topic}") as one,
            Client(ClientSettings(server.url)) as other,
            consumer_of(client, topic, group=f"g-two-{topic}") as two,
            consumer_of(other, topic, group=f"g-two-{topic}") as another,
        ):
            everyone = (one, two, another)
            await until(lambda: all(any(queue.topic == topic for queue in each.assigned) for each in everyone))
            told = await ask_admin(server, other, two.group.name, topic)
            assert told["info"]["properties"]["consumerGroup"] == two.group.name
            assert {client.client_id, other.client_id} <= set(told["getConsumerStatus"].split())

    on_each(rocketmq_servers, test)
