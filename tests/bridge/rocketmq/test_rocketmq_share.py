"""Members that read one topic of a broker in memory: who reads which queue when, and which offsets stay behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.group import ConsumerSettings, Group
from bridge.rocketmq.consumer.offsets import ConsumeFrom
from bridge.rocketmq.consumer.share import Share
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.consumer.tasks import REBALANCE_MOST, Division, Rebalancing, Tasks
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import Command
from bridge.rocketmq.remoting.errors import BrokerError, ClientError
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.partition.clients.rocketmq.queues import BrokerData, QueueData, TopicRoute
from tests.support.archives.rocketmq_files import message as stored_message
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

QUEUES = 3
ROUTE = TopicRoute((QueueData("b", QUEUES, QUEUES),), (BrokerData("b", ((0, "b:1"),)),))


class Broker:
    """The queues of a topic, the offsets of a group, and the locks of its members."""

    def __init__(self) -> None:
        self.ends = [0] * QUEUES
        self.offsets: dict[int, int] = {}
        self.locks: dict[int, str] = {}
        self.members: list[str] = []
        self.is_there = True
        self.refusals = 0
        self.stored = asyncio.Event()


class Client:
    """The connection of a member to this broker."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.client_id = name
        self.left = False
        self.channel = SimpleNamespace(closed=False)
        self.asked_after_leaving: list[str] = []

    def brokers(self) -> Mapping[str, Mapping[int, str]]:
        return {"b": {0: "b:1"}}

    def address(self, name: str) -> str:
        return "b:1"

    def open_channel(self, address: str) -> Any:
        return self.channel

    async def heartbeat(self) -> None:
        """Do nothing: the broker knows its members."""

    async def route(self, topic: str) -> TopicRoute:
        await pass_time(0.01)
        if topic != "orders" or not self.broker.is_there:
            raise ClientError("no route", ResponseCode.TOPIC_NOT_EXIST)
        return ROUTE

    async def invoke(self, address: str, code: int, fields: Mapping[str, str], timeout: float) -> Command:  # noqa: ASYNC109
        return await self.ask(address, code, fields)

    async def ask(
        self, address: str, code: int, fields: Mapping[str, str] | None = None, *, body: bytes = b"", **_: Any
    ) -> Command:
        broker, asked = self.broker, fields or {}
        if self.left:
            self.asked_after_leaving.append(RequestCode(code).name)
        await pass_time(0.01)
        queue = int(asked.get("queueId", 0))
        if code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return Command(0, body=json.dumps({"consumerIdList": broker.members}).encode())
        if code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
            wanted = json.loads(body)["mqSet"]
            if code == RequestCode.UNLOCK_BATCH_MQ:
                for row in wanted:
                    if broker.locks.get(row["queueId"]) == self.client_id:
                        del broker.locks[row["queueId"]]
                return Command(0)
            ours = [row for row in wanted if broker.locks.setdefault(row["queueId"], self.client_id) == self.client_id]
            return Command(0, body=json.dumps({"lockOKMQSet": ours}).encode())
        if code == RequestCode.QUERY_CONSUMER_OFFSET:
            if queue not in broker.offsets:
                raise BrokerError(ResponseCode.QUERY_NOT_FOUND, "none", address)
            return Command(0, {"offset": str(broker.offsets[queue])})
        if code == RequestCode.UPDATE_CONSUMER_OFFSET:
            if broker.refusals:
                broker.refusals -= 1
                raise BrokerError(ResponseCode.SYSTEM_ERROR, "not now", address)
            broker.offsets[queue] = int(asked["commitOffset"])
            return Command(0)
        if code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET):
            return Command(0, {"offset": str(broker.ends[queue] if code == RequestCode.GET_MAX_OFFSET else 0)})
        assert code == RequestCode.PULL_MESSAGE
        at, end = int(asked["queueOffset"]), broker.ends[queue]
        if int(asked["sysFlag"]) & 1:
            broker.offsets[queue] = int(asked["commitOffset"])
        if at >= end:
            try:
                async with asyncio.timeout(15):
                    await broker.stored.wait()
            except TimeoutError:
                pass
            end = broker.ends[queue]
        until = min(end, at + int(asked["maxMsgNums"]))
        answer = {"nextBeginOffset": str(until), "minOffset": "0", "maxOffset": str(end), "suggestWhichBrokerId": "0"}
        found = [stored_message(n, "orders", {}, b"%d" % n, queue=queue, offset=n) for n in range(at, until)]
        return Command(0 if found else 19, answer, b"".join(found))


class Member:
    """A member, and what it has of each queue."""

    def __init__(self, broker: Broker, name: str, orderly: bool) -> None:
        self.client = Client(broker, name)
        client: Any = self.client
        settings = ConsumerSettings(
            orderly=orderly, consume_from=ConsumeFrom.FIRST, rebalance_interval=5.0, unlock_delay_time=3.0,
            persist_consumer_offset_interval=60.0,
        )  # fmt: skip
        self.group = Group(client, "g", [Subscription.to_tags("orders")], settings)
        del self.group.subscriptions[self.group.retry_topic]
        self.share = Share(client, self.group, news=lambda: None, assigned=None, revoked=self.revoke)
        self.out: list[StoredMessage] = []
        self.revoked: list[TopicQueue] = []
        broker.members.append(name)
        self.share.open()

    def revoke(self, assigned: AssignedQueue) -> None:
        self.revoked.append(assigned.queue)
        self.out = [each for each in self.out if each.queue_id != assigned.queue.queue_id]

    async def leave(self) -> None:
        self.client.broker.members.remove(self.client.client_id)
        await self.share.close()
        self.client.left = True


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("store"), st.integers(0, QUEUES - 1), st.integers(1, 5)),
        st.tuples(st.sampled_from(["take", "done"]), st.integers(0, 3), st.integers(1, 5)),
        st.tuples(
            st.sampled_from(["join", "leave", "lose the topic", "have the topic", "restart"]),
            st.integers(0, 3),
            st.none(),
        ),
        st.tuples(st.just("wait"), st.none(), st.sampled_from([0.005, 0.1, 2.0, 12.0, 70.0])),
    ),
    max_size=40,
)


@examples(300)
@given(STEPS, st.booleans())
@example([("wait", None, 2.0), ("store", 0, 2), ("wait", None, 0.1), ("restart", 0, None), ("take", 0, 2)], True)
def test_the_group_keeps_what_was_acknowledged_and_nothing_else_whoever_comes_and_goes(  # noqa: PLR0915  a branch a step
    steps: list[tuple[str, Any, Any]], orderly: bool
) -> None:
    """In order, only the member that has the lock of a queue hands out its messages, and none that is acknowledged.

    A member that leaves keeps no queue, lock or task.
    """

    async def play() -> None:  # noqa: PLR0915
        broker = Broker()
        members = [Member(broker, "m0", orderly)]
        gone: list[Member] = []
        done: dict[int, set[int]] = {queue: set() for queue in range(QUEUES)}

        def acknowledged(queue: int) -> int:
            return next(n for n in range(10**6) if n not in done[queue])

        async def leave(member: Member) -> None:
            members.remove(member)
            last = {
                queue.queue_id: reading.assigned.committable
                for queue, reading in member.share.readings.items()
                if reading.assigned.locked_until > asyncio.get_running_loop().time()
            }
            await member.leave()
            gone.append(member)
            assert not member.share.readings
            assert not member.share._tasks._tasks
            for queue, offset in last.items():
                if offset is not None:
                    assert broker.offsets.get(queue) == offset

        async def store(queue: int, count: int) -> None:
            broker.ends[queue] += count
            broker.stored.set()
            await asyncio.sleep(0)
            broker.stored.clear()

        def take(member: Member, limit: int) -> None:
            for assigned, messages in member.share.take(limit):
                queue = assigned.queue.queue_id
                if orderly:
                    assert broker.locks.get(queue) == member.client.client_id
                    assert not done[queue] & {message.queue_offset for message in messages}
                member.out += messages

        def acknowledge(member: Member, count: int) -> None:
            for message in member.out[:count]:
                assert member.share.done(message)
                done[message.queue_id].add(message.queue_offset)
            del member.out[:count]

        for step, number, more in steps:
            if step == "store":
                await store(number, more)
            elif step == "take" and members:
                take(members[number % len(members)], more)
            elif step == "done" and members:
                acknowledge(members[number % len(members)], more)
            elif step == "join" and len(members) < 3:
                members.append(Member(broker, f"m{len(members) + len(gone)}", orderly))
            elif step == "leave" and members:
                await leave(members[number % len(members)])
            elif step == "restart":  # after which a broker has no locks, and its connections are gone
                broker.locks.clear()
                for client in [member.client for member in members]:
                    client.channel.closed, client.channel = True, SimpleNamespace(closed=False)
            elif step in ("lose the topic", "have the topic"):
                broker.is_there = step == "have the topic"
            elif step == "wait":
                await pass_time(more)
            assert all(offset <= acknowledged(queue) for queue, offset in broker.offsets.items())
        broker.is_there = True
        await pass_time(60)
        assert all(not member.share.troubles for member in members)
        if members:
            held = sorted(queue.queue_id for member in members for queue in member.share.readings)
            assert held == list(range(QUEUES))
        for queue in range(QUEUES):
            await store(queue, 3)
        await pass_time(1)
        for member in members:
            take(member, 1_000)
            acknowledge(member, 1_000)
        members.append(Member(broker, "last", orderly))
        await pass_time(20)
        for member in members:
            take(member, 1_000)
            acknowledge(member, 1_000)
        for member in [*members]:
            await leave(member)
        await pass_time(100)
        assert broker.offsets == dict(enumerate(broker.ends))
        assert all(member.client.asked_after_leaving == [] for member in gone)
        assert not broker.locks

    run_virtually(play())


def test_no_pull_commits_where_a_caller_decides_what_is_committed() -> None:
    """A broker may handle a pull after a later commit of a lower offset, which it would undo."""

    async def play() -> None:
        broker = Broker()
        broker.ends = [5] * QUEUES
        member = Member(broker, "m0", orderly=False)
        await pass_time(2)
        for reading in member.share.readings.values():
            reading.assigned.marked = 2
        assert len(await member.share.persist()) == QUEUES
        broker.offsets = dict.fromkeys(range(QUEUES), 1)
        broker.ends = [9] * QUEUES
        for pulled in range(3):
            broker.stored.set()
            await pass_time(2)
            broker.stored.clear()
            broker.ends = [9 + pulled] * QUEUES
        assert all(reading.assigned.next_offset > 9 for reading in member.share.readings.values())
        assert broker.offsets == dict.fromkeys(range(QUEUES), 1)
        await member.leave()

    run_virtually(play())


@examples(40)
@given(st.integers(0, 9), st.integers(0, 5), st.booleans())
def test_a_queue_that_is_reset_is_read_from_there_on_however_often_the_broker_refuses_the_offset(
    offset: int, refusals: int, orderly: bool
) -> None:
    async def play() -> None:
        broker = Broker()
        broker.ends = [10] * QUEUES
        member = Member(broker, "m0", orderly)
        await pass_time(2)
        for _, messages in member.share.take(1_000):
            assert all(member.share.done(message) for message in messages)
        await member.share.persist()
        broker.refusals = refusals
        member.share.reset({TopicQueue("orders", "b", 1): offset})
        await pass_time(60)
        again = {assigned.queue.queue_id: messages for assigned, messages in member.share.take(1_000)}
        assert {queue: [each.queue_offset for each in found] for queue, found in again.items()} == {
            1: [*range(offset, 10)]
        }
        await member.leave()

    run_virtually(play())


def test_topics_that_cannot_be_divided_are_tried_often_and_others_rarely() -> None:
    """However long a broker was away, its queues are read again soon after it is back."""

    async def play() -> None:
        loop, times, back = asyncio.get_running_loop(), list[float](), 100.0

        async def rebalance() -> Division:
            times.append(loop.time())
            return Division.COMPLETE if times[-1] >= back else Division.FAILED

        tasks = Tasks(failed=lambda: None)
        Rebalancing(rebalance, 20.0).start(tasks)
        await pass_time(200)
        await tasks.cancel()
        after = [time for time in times if time >= back]
        assert after[0] - back <= REBALANCE_MOST
        assert {late - early for early, late in pairwise(after)} == {20.0}
        assert len(times) <= 100 / REBALANCE_MOST + 10

    run_virtually(play())


@pytest.mark.parametrize("stops", [False, True])
def test_nobody_waits_for_a_rebalance_that_never_comes(stops: bool) -> None:
    """Who has asked for one while the last one fails, or after it, is told."""

    async def play() -> None:
        async def rebalance() -> Division:
            await pass_time(1)
            raise RuntimeError("broken")

        tasks = Tasks(failed=lambda: None)
        rebalancing = Rebalancing(rebalance, 20.0)
        rebalancing.start(tasks)
        await pass_time(0.5)
        meanwhile = asyncio.create_task(rebalancing.finish_next())
        await asyncio.sleep(0)
        if stops:
            rebalancing.stop()
        async with asyncio.timeout(2):
            await meanwhile
            await rebalancing.finish_next()
        await tasks.cancel()

    run_virtually(play())
