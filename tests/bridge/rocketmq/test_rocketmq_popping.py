"""What a member does with popped messages: whom it hands them out, until when, and what it gives back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

import pytest

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.group import ConsumerSettings, Group
from bridge.rocketmq.consumer.pop import popping as popping_module
from bridge.rocketmq.consumer.pop.answers import Popped, PopStatus
from bridge.rocketmq.consumer.pop.handle import POP_CK, PopHandle
from bridge.rocketmq.consumer.pop.popping import Popping
from bridge.rocketmq.consumer.pop.requests import TopicHandle
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.errors import BrokerError, RemotingError, SendRequestError
from bridge.rocketmq.remoting.message import StoredMessage
from tests.support.virtual_loop import pass_time, run_virtually

QUEUE = TopicQueue("orders", "b", -1)


def popped(offset: int, *, times: int = 0, tag: str = "t", revive: int = 0, queue: int = 0) -> StoredMessage:
    handle = PopHandle(offset, 1, 60_000, revive, "0", "b", queue, offset)
    properties = {POP_CK: handle.text, "TAGS": tag}
    return StoredMessage("orders", b"%d" % offset, properties, 0, "b", queue, offset, 0, 0, 0, b"", 0, b"", times)


class Broker:
    """Requests that answer with these pops, one after the other, and then wait for news."""

    def __init__(self, *answers: Sequence[StoredMessage] | Exception) -> None:
        self.answers = deque(answers)
        self.pops = 0
        self.acked: list[int] = []
        self.hidden: list[tuple[int, float]] = []
        self.news = asyncio.Event()
        self.failure: RemotingError | None = None

    async def pop(self, *_: Any, **__: Any) -> Popped:
        self.pops += 1
        await asyncio.sleep(0)
        if not self.answers:
            return Popped(PopStatus.POLLING_NOT_FOUND)
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return Popped(PopStatus.FOUND, tuple(answer))

    async def wait_for_news(self, *_: Any, **__: Any) -> bool:
        await self.news.wait()
        return True

    async def ack_all(self, handles: Iterable[TopicHandle]) -> None:
        self.acked += [handle.offset for _, handle in handles]

    async def change_invisible_time(self, _: str, handle: PopHandle, seconds: float) -> PopHandle:
        if self.failure is not None:
            raise self.failure
        self.hidden.append((handle.offset, seconds))
        return handle._replace(pop_ms=handle.pop_ms + 1)


def run(
    broker: Broker,
    work: Callable[[Popping], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    tags: str = "*",
    **settings: Any,
) -> dict[Any, Any]:
    troubles: dict[Any, Any] = {}
    monkeypatch.setattr(popping_module, "PopRequests", lambda *_: broker)
    own = ConsumerSettings(client_rebalance=False, pull_time_delay_when_exception=0.01, **settings)

    async def go() -> None:
        loop = asyncio.get_running_loop()
        resumed = asyncio.Event()
        resumed.set()
        tasks: list[asyncio.Task[None]] = []

        def start(work: Coroutine[object, object, None]) -> asyncio.Task[None]:
            tasks.append(loop.create_task(work))
            return tasks[-1]

        group = Group(None, "g", [Subscription.to_tags("orders", tags)], own)  # type: ignore[arg-type]
        popping = Popping(None, group, troubles, resumed, start, lambda: None)  # type: ignore[arg-type]
        assert popping.assign("orders", [QUEUE])
        assert not popping.assign("orders", [QUEUE])
        await pass_time(0.05)
        await work(popping)
        for task in tasks:
            task.cancel()

    run_virtually(go())
    return troubles


def offsets(messages: Iterable[StoredMessage]) -> list[int]:
    return [each.queue_offset for each in messages]


def test_messages_are_handed_out_in_order_once_and_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(popping: Popping) -> None:
        first = popping.take(3)
        assert offsets(first) == [0, 1, 2]
        assert offsets(popping.take(9)) == [3, 4]
        assert popping.take(9) == []
        assert popping.done(first[1])
        assert not popping.done(first[1])
        await pass_time(0.01)
        assert broker.acked == [1]

    broker = Broker([popped(at) for at in range(3)], [popped(3), popped(4)])
    assert run(broker, work, monkeypatch) == {}


def test_no_more_is_popped_than_may_be_unacknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(popping: Popping) -> None:
        assert broker.pops == 2
        first, second, *_ = popping.take(9)
        assert popping.done(first)
        await pass_time(0.01)
        assert broker.pops == 2
        assert popping.done(second)
        await pass_time(0.01)
        assert broker.pops == 3

    broker = Broker(*[[popped(2 * at), popped(2 * at + 1)] for at in range(9)])
    run(broker, work, monkeypatch, pop_threshold_for_queue=3)


def test_a_message_whose_time_is_over_is_not_handed_out_and_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(popping: Popping) -> None:
        (taken,) = popping.take(1)
        await pass_time(0.2)
        assert popping.take(9) == []
        assert not popping.done(taken)
        await pass_time(0.01)
        assert broker.acked == []

    broker = Broker([popped(0), popped(1)])
    run(broker, work, monkeypatch, pop_invisible_time=0.2)


@pytest.mark.parametrize("share", [0.1, 0.85, 0.95, 1.05])
def test_a_message_is_handed_out_only_while_time_is_left_to_handle_it(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    async def work(popping: Popping) -> None:
        await pass_time(share * 10)
        assert offsets(popping.take(9)) == ([0] if share < 1 - popping_module.MARGIN else [])

    run(Broker([popped(0)]), work, monkeypatch, pop_invisible_time=10.0)


def test_other_tags_are_acknowledged_and_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(popping: Popping) -> None:
        assert offsets(popping.take(9)) == [1]
        assert broker.acked == [0]

    broker = Broker([popped(0, tag="BB"), popped(1, tag="Aa")])
    run(broker, work, monkeypatch, tags="Aa")


def test_a_retry_hides_a_message_the_longer_the_more_often_it_was_popped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(popping: Popping) -> None:
        fresh, old, levelled = popping.take(3)
        assert await popping.retry(fresh, 0, 16)
        assert not await popping.retry(fresh, 0, 16)
        assert await popping.retry(old, 0, 16)
        assert await popping.retry(levelled, 1, 16)
        assert broker.hidden == [(0, 10), (1, 60), (2, 30)]

    broker = Broker([popped(0), popped(1, times=2), popped(2)])
    run(broker, work, monkeypatch)


def test_a_retry_in_order_takes_the_later_messages_of_its_queue_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(popping: Popping) -> None:
        first, second, third = popping.take(3)
        assert popping.done(first)
        assert await popping.retry(second, 0, 1 << 31)
        assert not popping.done(third)
        assert [(each.queue_id, each.queue_offset) for each in popping.take(9)] == [(1, 0)]
        assert broker.hidden == [(1, 1.0), (2, 1.0), (3, 1.0)]

    broker = Broker([*[popped(at, revive=999) for at in range(4)], popped(0, revive=999, queue=1)])
    run(broker, work, monkeypatch, orderly=True)


def test_a_new_handle_replaces_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(popping: Popping) -> None:
        (message,) = popping.take(1)
        changed = await popping.change_invisible_time(message, 5)
        assert not popping.done(message)
        assert popping.done(changed)
        broker.failure = SendRequestError("gone")
        with pytest.raises(SendRequestError):
            await popping.change_invisible_time(changed, 5)

    run(broker := Broker([popped(0)]), work, monkeypatch)


def test_what_was_not_handed_out_is_given_back_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(popping: Popping) -> None:
        (taken,) = popping.take(1)
        assert popping.done(taken)
        await popping.close()
        assert broker.acked == [0]
        assert broker.hidden == [(1, 1.0), (2, 1.0)]

    run(broker := Broker([popped(at) for at in range(3)]), work, monkeypatch)


def test_a_queue_that_is_taken_away_is_popped_no_more_and_what_is_ready_is_handed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(popping: Popping) -> None:
        assert popping.assign("orders", [])
        pops = broker.pops
        broker.news.set()
        await pass_time(0.02)
        assert broker.pops == pops
        assert offsets(popping.take(9)) == [0]
        assert not popping.queues

    run(broker := Broker([popped(0)]), work, monkeypatch)


def test_a_failed_pop_is_a_trouble_until_it_works_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(popping: Popping) -> None:
        assert offsets(popping.take(9)) == [0]

    refused = BrokerError(26, "no group")
    assert run(Broker(refused, refused, [popped(0)]), fails, monkeypatch) == {}

    async def never(popping: Popping) -> None:
        assert popping.take(9) == []

    assert run(Broker(*[refused] * 100), never, monkeypatch) == {QUEUE: refused}


def test_news_without_messages_do_not_make_it_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(_: Popping) -> None:
        broker.news.set()
        await pass_time(0.5)
        assert broker.pops < 20

    run(broker := Broker(), work, monkeypatch)


def test_what_is_acknowledged_while_a_pop_is_answered_lets_the_next_pop_follow_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In order, it may be what the queue waited for, and the broker has looked before."""
    broker = Broker([])

    async def pop(*_: Any, **__: Any) -> Popped:
        broker.pops += 1
        if broker.pops == 1:
            popping.queues[QUEUE].acked.set()
        return Popped(PopStatus.POLLING_NOT_FOUND)

    popping: Popping

    async def work(own: Popping) -> None:
        nonlocal popping
        popping = own
        broker.pop = pop  # type: ignore[method-assign]
        broker.pops = 0
        broker.news.set()
        await asyncio.sleep(0)
        broker.news.clear()
        await pass_time(0.5)
        assert broker.pops == 2

    run(broker, work, monkeypatch, orderly=True)
