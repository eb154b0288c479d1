"""Queues that have not the offset that a consumer pulls: made anew, cut at either end, or reset by an administrator."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoints.rocketmq.backlog import Backlog
from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.consumer.fetching import QueuePulls
from bridge.rocketmq.consumer.persisting import PERSIST_AGAIN, Persisting
from bridge.rocketmq.consumer.pulling import Pulled, PullStatus
from bridge.rocketmq.consumer.room import PulledQueue
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import BrokerError, ConnectError
from bridge.rocketmq.remoting.message import StoredMessage
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

QUEUE = TopicQueue("t", "b", 0)


def test_offsets_are_persisted_again_until_a_broker_has_them_but_none_of_another_topic_or_assignment() -> None:
    fine, away, gone, again = (TopicQueue(topic, "b", 0) for topic in ("fine", "away", "gone", "again"))
    stored: list[tuple[TopicQueue, int]] = []
    errors = {
        away: BrokerError(ResponseCode.SYSTEM_ERROR, ""), again: BrokerError(ResponseCode.SYSTEM_ERROR, ""),
        gone: BrokerError(ResponseCode.TOPIC_NOT_EXIST, ""),
    }  # fmt: skip

    async def persist(offsets: dict[TopicQueue, int]) -> dict[TopicQueue, BrokerError]:
        failed = {queue: errors[queue] for queue in offsets if queue in errors}
        stored.extend([each for each in offsets.items() if each[0] not in failed])
        return failed

    async def play() -> None:
        offsets = dict.fromkeys((fine, away, gone, again), 7)
        readings = {queue: PulledQueue(AssignedQueue(queue, 7)) for queue in offsets}
        group: Any = SimpleNamespace(name="g")
        store: Any = SimpleNamespace(persist=persist)
        work = asyncio.create_task(Persisting(group, readings, store).persist_all(offsets))
        await pass_time(PERSIST_AGAIN / 2)
        readings[again] = PulledQueue(AssignedQueue(again, 9))  # it was given up, and assigned again
        del errors[gone], errors[again]  # the topic was made anew
        await pass_time(3 * PERSIST_AGAIN)
        assert not work.done()
        del errors[away]
        await pass_time(2 * PERSIST_AGAIN)
        assert work.done()
        assert stored == [(fine, 7), (away, 7)]

    run_virtually(play())


class Broker:
    """A queue as brokers of 4.9 and 5.x keep it (`DefaultMessageStore.getMessage`); a message is its store time."""

    def __init__(self) -> None:
        self.first = 0
        self.times: list[int] = []
        self.reset: int | None = None

    @property
    def end(self) -> int:
        return self.first + len(self.times)

    async def pull(self, queue: TopicQueue, _: Any, offset: int, count: int, commit: int | None) -> Pulled:
        status, following = PullStatus.OFFSET_ILLEGAL, self.end
        if self.reset is not None:
            following, self.reset = self.reset, None
        elif offset < self.first:
            following = self.first
        elif offset == self.end:
            status = PullStatus.NO_NEW_MSG
        elif offset < self.end:
            status, following = PullStatus.FOUND, min(offset + count, self.end)
        return Answer(status, following, self.first, self.end, 0, 0, b"").of(
            [(at, self.times[at - self.first]) for at in range(offset, following)] if status is PullStatus.FOUND else []
        )

    async def search_offset(self, queue: TopicQueue, time: int) -> int:
        return next((self.first + n for n, each in enumerate(self.times) if each >= time), self.end)


class Answer(Pulled):
    """An answer whose messages need not be unpacked."""

    found: list[tuple[int, int]]

    def of(self, found: list[tuple[int, int]]) -> Answer:
        self.found = found
        return self

    def first_messages(self, queue: Any, subscription: Any, room: float) -> tuple[list[StoredMessage], int]:
        stored = [StoredMessage("t", b"", {}, 0, "b", 0, at, 0, 0, 0, b"", time, b"", 0) for at, time in self.found]
        return stored, self.next_offset


class Member:
    """A consumer of that queue, from an offset on."""

    def __init__(self, broker: Broker, offset: int = 0) -> None:
        settings = SimpleNamespace(pull_time_delay_when_exception=3.0)
        group: Any = SimpleNamespace(name="g", subscriptions={"t": Subscription("t")}, settings=settings)
        self.backlog = Backlog("r")
        self._assign(offset, offset or -1)  # at 0 a group begins that has read nothing
        self.times: list[int] = []
        queues: Any = broker
        self.fetching = QueuePulls(
            queues, group, queues, {}, news=lambda: None, reset=self._reset, bytes_left=lambda: 1 << 20,
            answered=self.backlog.take_answer,
        )  # fmt: skip

    def _assign(self, offset: int, begun: int) -> None:
        self.assigned = AssignedQueue(QUEUE, offset)
        self.assigned.begun = begun

    def _reset(self, assigned: AssignedQueue, offset: int) -> None:
        self.backlog.forget(assigned)
        self._assign(offset, offset)

    def read(self) -> None:
        """Pull until nothing new comes, and three times at least."""
        for _ in range(3):
            while asyncio.run(self.fetching.pull(self.assigned, 4, None)) is None:
                taken = self.assigned.take(100, 0.0)
                self.times += [each.store_time for each in taken]
                if not taken:
                    break


STEPS = st.lists(st.sampled_from(["write", "write", "read", "make anew", "lose the end", "expire"]), max_size=20)


@examples(200)
@given(STEPS)
def test_what_a_queue_has_is_read_whatever_becomes_of_it(steps: list[str]) -> None:
    """Only a queue that is longer than the group's offset when it is next pulled looks as if nothing had happened."""
    broker, now = Broker(), 0
    member = Member(broker)
    for step in [*steps, "read"]:
        if step == "write":
            broker.times += range(now, now + 3)
            now += 3
        elif step == "make anew":
            member.read()
            broker.first, broker.times = 0, []
            if member.assigned.next_offset > 2:
                broker.times, now = [now, now + 1], now + 2
            member.read()
        elif step == "lose the end":
            member.read()
            del broker.times[-2:]
            if len(broker.times):
                broker.times, now = [*broker.times, now], now + 1
            member.read()
        elif step == "expire":
            member.read()
            broker.first, broker.times = broker.end, []
        else:
            member.read()
    assert {*broker.times} <= {*member.times}
    assert [*dict.fromkeys(member.times)] == sorted({*member.times})
    assert member.backlog.vanished == 0


@pytest.mark.parametrize(("offset", "vanished"), [(0, 0), (1, 9), (9, 1), (10, 0), (12, 0)])
def test_messages_that_were_removed_unread_are_counted(offset: int, vanished: int) -> None:
    broker = Broker()
    broker.first, broker.times = 10, [1, 2, 3]
    member = Member(broker, offset)
    member.read()
    assert member.backlog.vanished == vanished
    assert member.times == [1, 2, 3][max(0, offset - 10) :]


def test_a_queue_made_anew_while_nobody_read_is_read_from_its_beginning() -> None:
    broker = Broker()
    broker.times = [7, 8, 9]
    member = Member(broker, 90)
    member.read()
    assert member.times == [7, 8, 9]


@pytest.mark.parametrize("to", [0, 4, 6])
def test_an_administrator_may_reset_the_offset_to_any_place(to: int) -> None:
    broker = Broker()
    broker.times = [*range(6)]
    member = Member(broker)
    member.read()
    broker.reset = to
    member.read()
    assert member.times == [*range(6), *range(to, 6)]
    assert member.backlog.vanished == 0


def test_of_a_queue_that_lost_its_end_only_what_came_since_is_read() -> None:
    broker = Broker()
    broker.times = [*range(6)]
    member = Member(broker)
    member.read()
    broker.times[-2:] = [6]
    member.read()
    assert member.times == [*range(7)]


def test_the_address_of_a_broker_that_cannot_be_reached_is_looked_up_again() -> None:
    """It may be back under another one, as a pod of Kubernetes."""

    class Away(Broker):
        looked_up: list[str]

        async def pull(self, *_: Any) -> Pulled:
            raise ConnectError("b:1: Connection refused")

        async def update_route(self, topic: str) -> None:
            self.looked_up.append(topic)
            raise ConnectError("n:1: Connection refused")  # nor can the name server

    broker = Away()
    broker.looked_up = []
    member = Member(broker)
    assert asyncio.run(member.fetching.pull(member.assigned, 4, None)) == 3.0
    assert broker.looked_up == ["t"]
