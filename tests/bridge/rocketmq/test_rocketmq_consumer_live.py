"""What a consumer promises, on live brokers: its messages, their order, where its group stands, and who reads what."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from bridge.rocketmq.consumer.assigned import PullLimits, TopicQueue
from bridge.rocketmq.consumer.consumer import Consumer
from bridge.rocketmq.consumer.group import MessageModel
from bridge.rocketmq.consumer.locking import LockRequests
from bridge.rocketmq.consumer.offsets import ConsumeFrom, LocalOffsets
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.consumer.retrying import DEAD, DLQ_PREFIX
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.errors import BrokerError, ClientError
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.errors import InputError
from tests.support.rocketmq.groups import by_queue, consumer_of, on_each, queues_of, read, send, send_in_order, topic_at
from tests.support.servers import Server
from tests.support.waiting import find_limit, until


def numbered(topic: str, count: int, **settings: Any) -> list[RocketMessage]:
    return [RocketMessage.build(topic, b"%d" % number, **settings) for number in range(count)]


async def nothing_more(*consumers: Any, seconds: float = 0.5) -> None:
    for consumer in consumers:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.receive(), seconds)


def test_acknowledged_messages_are_not_delivered_again_and_the_others_are(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, queues=1)
        queue = (await queues_of(client, topic))[0]
        await send(client, numbered(topic, 100), queue)
        async with consumer_of(client, topic) as consumer:
            came = await read(consumer, 100, done=False)
            assert [each.body for each in came] == [b"%d" % number for number in range(100)]
            for each in [*came[:40], *came[60:80]]:
                assert consumer.done(each)
        async with consumer_of(client, topic) as consumer:
            came = await read(consumer, 60)
            assert [each.queue_offset for each in came] == list(range(40, 100))
        async with consumer_of(client, topic) as consumer:
            await nothing_more(consumer)
            await until(lambda: consumer.troubles == {})  # the name server learns late of the topic for retries
            assert await BrokerQueues(client, consumer.group.name).committed_offset(TopicQueue(topic, *queue)) == 100

    on_each(rocketmq_servers, test)


def test_a_new_message_comes_at_once_to_a_pull_that_waits_at_the_broker(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client)
        async with consumer_of(client, topic) as consumer:
            await nothing_more(consumer, seconds=2)
            (sent,) = await send(client, numbered(topic, 1))
            (came,) = await read(consumer, 1)
            assert (came.queue_id, came.queue_offset) == (sent.queue.queue_id, sent.queue_offset)
            assert time.time() * 1000 - came.store_time < 5_000

    on_each(rocketmq_servers, test)


def test_the_broker_filters_tags_by_hash_and_the_client_by_text(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client)
        for tag in ("Aa", "BB", "other", None):
            await send(client, numbered(topic, 5, tags=tag))
        async with consumer_of(client, Subscription.to_tags(topic, "Aa || new")) as consumer:
            assert {each.tags for each in await read(consumer, 5)} == {"Aa"}
            await nothing_more(consumer)
            # What was filtered is passed over for good, once each queue was pulled to its end.
            queues = BrokerQueues(client, consumer.group.name)
            places = [TopicQueue(topic, *queue) for queue in await queues_of(client, topic)]
            ends = {place: await queues.max_offset(place) for place in places}
            async with asyncio.timeout(find_limit()):
                while not ends.items() <= (await consumer.persist()).items():  # noqa: ASYNC110  an answer makes it so
                    await asyncio.sleep(0.05)
            assert {place: await queues.committed_offset(place) for place in places} == ends

    on_each(rocketmq_servers, test)


def test_the_broker_evaluates_or_refuses_conditions_in_sql92(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client)
        await send(client, [RocketMessage.build(topic, b"%d" % n, {"size": str(n)}) for n in range(20)])
        async with consumer_of(client, Subscription.to_sql(topic, "size BETWEEN 5 AND 7 OR TAGS = 'x'")) as consumer:
            assert sorted(each.body for each in await read(consumer, 3)) == [b"5", b"6", b"7"]
            await nothing_more(consumer)
        wrong = consumer_of(client, Subscription(topic, "size >", "SQL92"), group=f"g-wrong-{topic}")
        with pytest.raises(BrokerError) as refused:
            await wrong.open()
        assert refused.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    on_each(rocketmq_servers, test)


def test_a_message_given_back_is_delivered_again_with_its_topic_and_becomes_a_dead_letter(
    rocketmq_servers: list[Server],
) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client)
        await send(client, [RocketMessage.build(topic, b"fails", {"own": "x"}, tags="t", keys="k", flag=7)])
        async with consumer_of(client, topic, max_reconsume_times=2) as consumer:
            (first,) = await read(consumer, 1, done=False)
            assert await consumer.retry(first, 1)
            assert not consumer.done(first)
            (second,) = await read(consumer, 1, done=False)
            assert (second.topic, second.body, second.flag, second.tags, second.keys) == (
                topic,
                b"fails",
                7,
                "t",
                ("k",),
            )
            assert (second.properties["own"], second.reconsume_times) == ("x", 1)
            assert second.properties["ORIGIN_MESSAGE_ID"] == first.offset_id
            assert await consumer.retry(second, 1)
            (third,) = await read(consumer, 1, done=False)
            assert third.reconsume_times == 2
            assert await consumer.retry(third)
            dead = consumer_of(client, f"{DLQ_PREFIX}{consumer.group.name}", group=f"g-dead-{topic}")
            async with dead:
                (letter,) = await read(dead, 1)
                assert (letter.body, letter.reconsume_times) == (b"fails", 3)
                assert letter.properties["RETRY_TOPIC"] == topic
                await send(client, numbered(topic, 1))
                (at_once,) = await read(consumer, 1, done=False)
                assert await consumer.retry(at_once, DEAD)
                assert [each.body for each in await read(dead, 1)] == [b"0"]

    on_each(rocketmq_servers, test)


def test_in_order_a_failing_message_blocks_its_queue_until_it_is_a_dead_letter(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, queues=1)
        queue = (await queues_of(client, topic))[0]
        await send(client, numbered(topic, 3), queue)
        settings: dict[str, Any] = {
            "orderly": True, "max_reconsume_times": 1, "suspend_current_queue_time": 0.2, "window": 1,
        }  # fmt: skip
        async with consumer_of(client, topic, **settings) as consumer:
            came: list[tuple[bytes, int]] = []
            while len(came) < 4:
                (each,) = await read(consumer, 1, done=False)
                came.append((each.body, each.reconsume_times))
                if each.body == b"1":
                    assert await consumer.retry(each)
                else:
                    assert consumer.done(each)
            assert came == [(b"0", 0), (b"1", 0), (b"1", 1), (b"2", 0)]
            async with consumer_of(client, f"{DLQ_PREFIX}{consumer.group.name}", group=f"g-dead-{topic}") as dead:
                assert [each.body for each in await read(dead, 1)] == [b"1"]

    on_each(rocketmq_servers, test)


def test_a_group_begins_at_the_configured_offset(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, queues=1)
        queue = (await queues_of(client, topic))[0]
        await send(client, numbered(topic, 5), queue)
        await asyncio.sleep(1.1)
        now = time.time_ns() // 1_000_000
        await send(client, numbered(topic, 5), queue)
        place = TopicQueue(topic, *queue)
        async with consumer_of(client, topic, group=f"g-first-{topic}") as consumer:
            assert (await read(consumer, 10))[0].queue_offset == 0
        by_time: dict[str, Any] = {"consume_from": ConsumeFrom.TIMESTAMP, "consume_timestamp": now}
        # A broker says of a group that it does not know that it stands at 0 while the first message is in its memory.
        async with consumer_of(client, topic, group=f"g-time-{topic}", **by_time) as consumer:
            assert (await read(consumer, 5))[-1].queue_offset in {4, 9}
        assert await BrokerQueues(client, "any").search_offset(place, now) == 5
        assert await BrokerQueues(client, "any").min_offset(place) == 0
        assert await BrokerQueues(client, "any").max_offset(place) == 10

    on_each(rocketmq_servers, test)


def test_a_queue_that_ends_before_the_offset_of_its_group_is_read_from_its_beginning(
    rocketmq_servers: list[Server],
) -> None:
    """It was made anew, or has lost its end: none of what it has is known to have been read."""

    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, queues=1)
        queue = (await queues_of(client, topic))[0]
        await send(client, numbered(topic, 5), queue)
        group, place = f"g-{topic}", TopicQueue(topic, *queue)
        async with consumer_of(client, topic, group=group) as consumer:
            await read(consumer, 5)
        queues = BrokerQueues(client, group)
        await queues.commit(place, 1_000_000)
        async with consumer_of(client, topic, group=group) as consumer:
            assert [each.queue_offset for each in await read(consumer, 5)] == [0, 1, 2, 3, 4]
            await send(client, numbered(topic, 1), queue)
            assert [each.queue_offset for each in await read(consumer, 1)] == [5]
        assert await queues.committed_offset(place) == 6

    on_each(rocketmq_servers, test)


def test_an_operator_can_reset_the_offsets_of_a_reading_group(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, queues=1)
        queue = (await queues_of(client, topic))[0]
        await send(client, numbered(topic, 5), queue)
        async with consumer_of(client, topic) as consumer:
            await read(consumer, 5)
            await consumer.persist()  # a broker of 4.x resets what it knows only
            fields = {
                "topic": topic, "group": consumer.group.name, "timestamp": "0", "isForce": "true", "force": "true",
            }  # fmt: skip
            reset = 222  # INVOKE_BROKER_TO_RESET_OFFSET
            await client.ask(client.address(queue.broker), reset, fields)
            # 5.x tells it at the next pull; this ends the one that waits.
            await send(client, numbered(topic, 1), queue)
            came: list[int] = []
            while came[-5:] != [1, 2, 3, 4, 5]:
                came += [each.queue_offset for each in await read(consumer, 1)]
            assert came in ([0, 1, 2, 3, 4, 5], [5, 0, 1, 2, 3, 4, 5])

    on_each(rocketmq_servers, test)


@pytest.mark.parametrize("orderly", [False, True])
def test_members_share_the_queues_and_take_over_those_of_one_that_leaves(
    rocketmq_servers: list[Server], orderly: bool
) -> None:
    async def test(client: Client, server: Server) -> None:
        topic = await topic_at(client)
        await send_in_order(client, topic, 0, 30)
        total = len(await queues_of(client, topic))
        came: list[StoredMessage] = []

        async def work(consumer: Any) -> None:
            while True:
                messages = await consumer.receive(8)
                for each in messages:
                    came.append(each)
                    assert consumer.done(each) or not orderly

        def queues(consumer: Any) -> set[TopicQueue]:
            return {queue for queue in consumer.assigned if queue.topic == topic}

        def have(count: int) -> bool:
            return len({(each.broker, each.queue_id, each.queue_offset) for each in came}) >= count

        async with Client(ClientSettings(server.url)) as other, consumer_of(client, topic, orderly=orderly) as first:
            works = [asyncio.create_task(work(first))]
            await until(lambda: have(30 * total))
            await first.persist()  # else, without locks, the next one begins where it was seconds ago
            async with consumer_of(other, topic, orderly=orderly) as second:
                works.append(asyncio.create_task(work(second)))
                await until(lambda: len(queues(first)) + len(queues(second)) == total and bool(queues(second)))
                assert abs(len(queues(first)) - len(queues(second))) <= 1
                assert not queues(first) & queues(second)
                await send_in_order(client, topic, 30, 60)
                await until(lambda: have(60 * total))
                works.pop().cancel()
            await send_in_order(client, topic, 60, 90)
            await until(lambda: have(90 * total))
            assert len(queues(first)) == total
            works.pop().cancel()
        assert len(came) == 90 * total
        assert all(bodies == [b"%d" % n for n in range(90)] for bodies in by_queue(came).values())

    on_each(rocketmq_servers, test)


def test_when_broadcasting_each_member_gets_all_messages_and_goes_on_at_the_offsets_in_its_file(
    rocketmq_servers: list[Server], tmp_path: Path
) -> None:
    async def test(_: Client, server: Server) -> None:
        settings: dict[str, Any] = {"message_model": MessageModel.BROADCASTING, "offset_folder": tmp_path}
        one, two = (ClientSettings(server.url, instance_name=f"{name}-{server.version}") for name in ("one", "two"))
        async with Client(one) as client, Client(two) as other:
            topic = await topic_at(client)
            await send(client, numbered(topic, 20))
            async with consumer_of(client, topic, **settings) as first, consumer_of(other, topic, **settings) as second:
                for consumer in (first, second):
                    bodies = sorted(int(each.body) for each in await read(consumer, 20))
                    assert bodies == list(range(20))
                with pytest.raises(InputError, match="broadcasting"):
                    await first.retry(await read_one(client, topic, first))
            assert sum(LocalOffsets.for_group(client.client_id, f"g-{topic}", tmp_path).load().values()) == 21
            async with consumer_of(client, topic, **settings) as first, consumer_of(other, topic, **settings) as second:
                await nothing_more(first)
                assert [each.body for each in await read(second, 1)] == [b"0"]

    async def read_one(client: Client, topic: str, consumer: Any) -> StoredMessage:
        await send(client, numbered(topic, 1))
        return (await read(consumer, 1))[0]

    on_each(rocketmq_servers, test)


def test_a_paused_consumer_keeps_its_queues_and_a_full_one_stops_pulling(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, queues=1)
        queue = (await queues_of(client, topic))[0]
        await send(client, numbered(topic, 100), queue)
        async with consumer_of(client, topic, limits=PullLimits(pull_threshold_for_queue=40)) as consumer:
            held = await read(consumer, 40, done=False)
            await nothing_more(consumer)
            assert max(len(each) for each in consumer.assigned.values()) == 40
            for each in held:
                consumer.done(each)
            consumer.pause()
            await nothing_more(consumer)
            assert {each.topic for each in consumer.assigned} >= {topic}
            consumer.resume()
            assert len(await read(consumer, 40)) == 40
            assert len(await read(consumer, 20)) == 20
        with pytest.raises(ClientError, match="closed"):
            await consumer.receive()

    on_each(rocketmq_servers, test)


def test_a_topic_that_is_created_later_is_read(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        made = await topic_at(client)
        async with consumer_of(client, made, f"{made}-later") as consumer:
            await nothing_more(consumer)
            assert f"{made}-later" in consumer.troubles
            await send(client, numbered(f"{made}-later", 3))
            assert {each.topic for each in await read(consumer, 3)} == {f"{made}-later"}

    on_each(rocketmq_servers, test)


def test_a_member_registers_and_unregisters_at_the_brokers(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client)
        address = client.address((await queues_of(client, topic))[0].broker)
        fields = {"consumerGroup": f"g-{topic}"}
        async with consumer_of(client, topic):
            answer = await client.ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
            assert client.client_id.encode() in answer.body
        answer = await client.invoke(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
        assert client.client_id.encode() not in answer.body

    on_each(rocketmq_servers, test)


def test_a_lock_is_lost_with_its_connection_and_the_queue_goes_to_the_next_owner_of_the_lock(
    rocketmq_servers: list[Server],
) -> None:
    async def test(client: Client, server: Server) -> None:
        topic = await topic_at(client, queues=1)
        queue = (await queues_of(client, topic))[0]
        place, address = TopicQueue(topic, *queue), client.address(queue.broker)
        await send(client, numbered(topic, 10), queue)
        async with Client(ClientSettings(server.url)) as other, consumer_of(client, topic, orderly=True) as consumer:
            await other.route(topic)
            ours, theirs = LockRequests(client, consumer.group.name), LockRequests(other, consumer.group.name)
            (first,) = await read(consumer, 1)
            assert await theirs.lock([place]) == (set(), {})
            connection = client.open_channel(address)
            assert connection is not None
            connection.abort()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.receive(1), 0)
            assert [each.queue_offset for each in await read(consumer, 5)] == [1, 2, 3, 4, 5]
            assigned = consumer.assigned[place]
            await ours.unlock([place])
            assert await theirs.lock([place]) == ({place}, {})
            connection = client.open_channel(address)
            assert connection is not None
            connection.abort()
            await nothing_more(consumer)
            assert assigned.dropped
            assert not consumer.done(first)
            await theirs.unlock([place])
            begin = (await read(consumer, 1))[
                0
            ].queue_offset  # what was committed, which may be less than was done with
            assert begin <= 6
            assert [each.queue_offset for each in await read(consumer, 9 - begin)] == list(range(begin + 1, 10))

    on_each(rocketmq_servers, test)


def test_a_second_consumer_of_a_group_is_refused_and_the_first_goes_on(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, queues=1)
        async with consumer_of(client, topic) as first:
            second = consumer_of(client, topic)
            with pytest.raises(ClientError, match="has been created before"):
                await second.open()
            await second.close()
            await client.heartbeat()
            await send(client, numbered(topic, 3))
            assert len(await read(first, 3)) == 3
            assert client.client_id in await first.group._members(await client.route(topic))

    on_each(rocketmq_servers, test)


def test_a_consumer_whose_opening_or_closing_is_cancelled_leaves_no_member(rocketmq_servers: list[Server]) -> None:
    async def members(client: Client, topic: str) -> list[str]:
        try:
            return await consumer_of(client, topic).group._members(await client.route(topic))
        except BrokerError as error:
            assert "no consumer for this group" in str(error)  # noqa: PT017  one that says else is a failure
            return []

    async def test(client: Client, server: Server) -> None:
        topic = await topic_at(client, queues=1)
        for seconds in (0.0, 0.001, 0.003, 0.01, 0.02, 0.04):
            async with Client(ClientSettings(server.url)) as own:
                consumer = consumer_of(own, topic)
                opening = asyncio.create_task(consumer.open())
                await asyncio.sleep(seconds)
                opening.cancel()
                await asyncio.gather(opening, return_exceptions=True)
                closing = asyncio.create_task(consumer.close())
                await asyncio.sleep(seconds)
                closing.cancel()
                await asyncio.gather(closing, return_exceptions=True)
                await consumer.close()
                async with asyncio.timeout(find_limit()):
                    while await members(client, topic):  # noqa: ASYNC110  brokers tell nobody
                        await asyncio.sleep(0.05)
                assert not own._consumers
                assert not any(own._handlers.values())
                assert not own.on_routes
        assert not await members(client, topic)

    on_each(rocketmq_servers, test)


def test_a_consumer_closes_even_if_the_callback_for_revoked_queues_fails(rocketmq_servers: list[Server]) -> None:
    def fail(_: object) -> None:
        raise KeyError("told")

    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, queues=2)
        subscriptions = [Subscription.to_tags(topic)]
        async with Consumer(client, f"g-{topic}", subscriptions, revoked=fail) as consumer:
            await until(lambda: len(consumer.assigned) >= 2)
        assert not client._consumers

    on_each(rocketmq_servers, test)
