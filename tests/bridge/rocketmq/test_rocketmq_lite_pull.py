"""A lite pull consumer without a broker: what it refuses, whom it calls, what it marks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.group import ConsumerSettings, Group
from bridge.rocketmq.consumer.lite_pull import LitePullConsumer
from bridge.rocketmq.consumer.pop.requests import BrokerAssignment
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.errors import BrokerError, ClientError
from bridge.rocketmq.remoting.properties import IllegalMessage
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import BrokerData, QueueData, TopicRoute


def route(queues: int) -> TopicRoute:
    return TopicRoute((QueueData("b", queues, queues, 6),), (BrokerData("b", ((0, "h:1"),)),))


def run(work: Callable[[Client], Awaitable[None]]) -> None:
    async def go() -> None:
        client = Client(ClientSettings("h:9876"))
        client._take_route("orders", route(2))
        await work(client)

    asyncio.run(go())


def test_a_consumer_subscribes_or_is_assigned_queues_and_not_both() -> None:
    async def work(client: Client) -> None:
        consumer = LitePullConsumer(client, "g")
        await consumer.subscribe(Subscription.to_tags("orders"))
        with pytest.raises(InputError, match="orders is subscribed to already"):
            await consumer.subscribe(Subscription.to_tags("orders"))
        with pytest.raises(InputError, match="queues cannot be assigned as well"):
            await consumer.assign([TopicQueue("orders", "b", 0)])
        await consumer.unsubscribe("orders")
        await consumer.assign([TopicQueue("orders", "b", 0)])
        with pytest.raises(InputError, match="cannot subscribe as well"):
            await consumer.subscribe(Subscription.to_tags("orders"))
        with pytest.raises(IllegalMessage):
            await consumer.assign([TopicQueue("or ders", "b", 0)])
        with pytest.raises(ClientError, match="closed"):
            await consumer.poll(0)

    run(work)


def test_a_queue_that_is_not_assigned_has_no_position_and_cannot_be_committed() -> None:
    async def work(client: Client) -> None:
        consumer, queue = LitePullConsumer(client, "g"), TopicQueue("orders", "b", 0)
        for refused in (consumer.seek(queue, 0), consumer.commit({queue: 1})):
            with pytest.raises(ClientError, match="not in assigned list"):
                await refused
        with pytest.raises(InputError, match="-1 cannot be committed"):
            await consumer.commit({queue: -1})
        assert await consumer.commit() == {}
        consumer.pause([queue])  # it counts once the queue is assigned
        consumer.resume([queue])

    run(work)


def test_a_listener_is_called_with_all_queues_when_they_change() -> None:
    async def work(client: Client) -> None:
        consumer, told = LitePullConsumer(client, "g"), list[frozenset[TopicQueue]]()
        client.on_routes.append(consumer._take_route)
        await consumer.on_queues_changed("orders", lambda _, queues: told.append(queues))
        client._take_route("orders", route(2))
        client._take_route("other", route(3))
        assert told == []
        client._take_route("orders", route(3))
        client._take_route("orders", TopicRoute((), ()))
        assert told == [frozenset([TopicQueue("orders", "b", at) for at in range(3)]), frozenset()]

    run(work)


@pytest.mark.parametrize("knows", [True, False])
def test_a_member_asks_the_broker_for_its_queues_and_divides_them_where_it_does_not_know(
    knows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def work(client: Client) -> None:
        async def ask(_: str, code: int, *__: Any, **___: Any) -> Command:
            asked.append(code)
            if code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
                return Command(0, body=b'{"consumerIdList":["me"]}')
            if not knows:
                raise BrokerError(3, "request type 400 not supported")
            queue = b'{"messageQueue":{"topic":"orders","brokerName":"b","queueId":-1},"mode":"POP"}'
            return Command(0, body=b'{"messageQueueAssignments":[' + queue + b"]}")

        monkeypatch.setattr(client, "ask", ask)
        client.client_id = "me"
        group = Group(client, "g", [Subscription.to_tags("orders")], ConsumerSettings(client_rebalance=False))
        every = frozenset([TopicQueue("orders", "b", at) for at in range(2)])
        popped = BrokerAssignment(frozenset(), frozenset([TopicQueue("orders", "b", -1)]))
        for _ in range(2):
            assert await group.share("orders") == (popped if knows else BrokerAssignment(every))

    run(work)
    once = [RequestCode.QUERY_ASSIGNMENT] * (2 if knows else 1)
    assert asked == [*once, *([] if knows else [RequestCode.GET_CONSUMER_LIST_BY_GROUP] * 2)]
