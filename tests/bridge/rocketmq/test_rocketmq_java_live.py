"""Java's client and ours in one cluster: what one sends the other gets whole, and a group may have members of both."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.group import MessageModel
from bridge.rocketmq.consumer.offsets import LocalOffsets
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from tests.support.rocketmq.groups import consumer_of, on_each, queues_of, read, send, send_in_order, topic_at
from tests.support.rocketmq.member import fields_of, java, member, send_with_java
from tests.support.servers import Server
from tests.support.waiting import until


@pytest.fixture(scope="module", autouse=True)
def _fetch(rocketmq_servers: list[Server]) -> None:
    """Install all clients, before a test's time begins to run."""
    for server in rocketmq_servers:
        java(server.version)


def places(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["broker"], row["queue"], row["offset"]) for row in rows]


def rows_for(topic: str) -> list[Mapping[str, Any]]:
    """Return messages of all kinds."""
    plain: list[Mapping[str, Any]] = [{"topic": topic, "body": b"body %d" % number} for number in range(8)]
    odd: list[Mapping[str, Any]] = [
        {
            "topic": topic,
            "body": b"\x00\xff" * 40,
            "tags": "tag",
            "keys": "k1 k2",
            "flag": -7,
            "properties": {"a": "ü"},
        },
        {"topic": topic, "body": b"packed " * 2000, "properties": {"name with blank": "😀 \n\t", "x": "=" * 3000}},
        {"topic": topic, "body": b"1", "tags": "other", "flag": (1 << 31) - 1},
    ]
    return [*plain, *odd]


def test_java_s_messages_are_consumed_with_every_field_that_java_s_consumer_gets(
    rocketmq_servers: list[Server],
) -> None:
    async def test(client: Client, server: Server) -> None:
        jars, topic = java(server.version), await topic_at(client)
        async with (
            consumer_of(client, topic) as ours,
            member(jars, namesrv=server.url, group=f"g-java-{topic}", topic=topic, tags="*") as theirs,
        ):
            sent = await send_with_java(jars, server.url, rows_for(topic))
            came = [fields_of(each) for each in await read(ours, len(sent))]
            await until(lambda: len(theirs.got) >= len(sent))
            by_place = lambda row: (row["broker"], row["queue"], row["offset"])  # noqa: E731
            assert sorted(came, key=by_place) == sorted(map(fields_of, theirs.got), key=by_place)
            assert sorted(places(came)) == sorted(places(sent))
            assert {row["id"] for row in came} == {row["id"] for row in sent}
            assert Counter(row["body"] for row in came) == Counter(row["body"] for row in rows_for(topic))

    on_each(rocketmq_servers, test)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_java_member_and_ours_share_the_queues_and_take_over_from_each_other(
    rocketmq_servers: list[Server], orderly: bool
) -> None:
    async def test(client: Client, server: Server) -> None:
        jars, topic = java(server.version), await topic_at(client)
        total = len(await queues_of(client, topic))
        ours_came: list[tuple[str, int, int]] = []

        def queues() -> set[TopicQueue]:
            return {queue for queue in ours.assigned if queue.topic == topic}

        def all_came(count: int) -> bool:
            return len({*ours_came, *places(theirs.got)}) >= count

        async def work() -> None:
            while True:
                for each in await ours.receive(8):
                    ours_came.append((each.broker, each.queue_id, each.queue_offset))
                    assert ours.done(each) or not orderly

        told = {"namesrv": server.url, "group": f"g-{topic}", "topic": topic, "tags": "*", "orderly": orderly}
        async with consumer_of(client, topic, orderly=orderly) as ours:
            works = asyncio.create_task(work())
            await until(lambda: len(queues()) == total)
            await send_in_order(client, topic, 0, 20)
            await until(lambda: len(ours_came) == 20 * total)
            await ours.persist()
            async with member(jars, **told) as theirs:
                await until(lambda: len(queues()) == total // 2)
                # Java reads a queue that was handed over once it has the lock, which it asks for each second.
                await send_in_order(client, topic, 20, 40)
                await until(lambda: all_came(40 * total))
                assert len({place[:2] for place in places(theirs.got)}) == total // 2
                await theirs.leave()
            await until(lambda: len(queues()) == total)
            await send_in_order(client, topic, 40, 60)
            await until(lambda: all_came(60 * total))
            works.cancel()
        java_s = places(theirs.got)
        assert len({*ours_came, *java_s}) == 60 * total
        assert max(Counter(ours_came).values()) == max(Counter(java_s).values()) == 1
        # What ours has done with comes to nobody again. Java tells its last offsets one-way, as it leaves and has
        # unlocked its queues (`DefaultMQPushConsumerImpl.shutdown`): who takes over may ask before the broker knows.
        assert all(20 <= offset < 40 for *_, offset in {*ours_came} & {*java_s})

    on_each(rocketmq_servers, test)


def test_a_java_member_goes_on_from_our_file_of_offsets_and_we_from_its(
    rocketmq_servers: list[Server], tmp_path: Path
) -> None:
    async def test(_: Client, server: Server) -> None:
        jars = java(server.version)
        folder = tmp_path / server.version
        settings: dict[str, Any] = {"message_model": MessageModel.BROADCASTING, "offset_folder": folder}
        async with Client(ClientSettings(server.url, instance_name="same")) as client:
            topic = await topic_at(client)
            await send(client, [RocketMessage(topic, b"%d" % n) for n in range(20)])
            async with consumer_of(client, topic, **settings) as consumer:
                await read(consumer, 20)
            # Both are to be one client, whatever the network says that their addresses are.
            (here,) = folder.iterdir()
            option = f"-Drocketmq.client.localOffsetStoreDir={folder}"
            ip = here.name.partition("@")[0]
            told = {"namesrv": server.url, "group": f"g-{topic}", "topic": topic, "tags": "*"}
            async with member(jars, option, **told, instance="same", ip=ip, broadcasting=True) as theirs:
                await send(client, [RocketMessage(topic, b"new")])
                await until(lambda: len(theirs.got) > 0)
                await asyncio.sleep(0.5)
                assert [fields_of(each)["body"] for each in theirs.got] == [b"new"]
                await theirs.leave()
            assert [each.name for each in folder.iterdir()] == [here.name]
            assert sum(LocalOffsets.for_group(here.name, f"g-{topic}", folder).load().values()) == 21
            async with consumer_of(client, topic, **settings) as consumer:
                await send(client, [RocketMessage(topic, b"newer")])
                assert [each.body for each in await read(consumer, 1)] == [b"newer"]

    on_each(rocketmq_servers, test)


def test_a_message_that_a_java_member_gave_back_is_retried_by_ours(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, server: Server) -> None:
        jars, topic = java(server.version), await topic_at(client)
        await send(client, [RocketMessage.build(topic, b"fails", tags="t")])
        told = {"namesrv": server.url, "group": f"g-{topic}", "topic": topic, "tags": "*", "fails": True}
        async with member(jars, **told) as theirs:
            await until(lambda: len(theirs.got) > 0)
            await theirs.leave()
        async with consumer_of(client, Subscription.to_tags(topic)) as consumer:
            times = 0
            while not times:  # it may have left before it had given the message back
                (came,) = await read(consumer, 1)
                assert (came.topic, came.body, came.tags) == (topic, b"fails", "t")
                times = came.reconsume_times

    on_each(rocketmq_servers, test)
