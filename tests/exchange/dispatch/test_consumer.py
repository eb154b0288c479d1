"""The asyncio consumer in virtual time: order per key, bounds, each delivery settled once whatever happens, the end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import Delivery, Dispatcher, HashstarError, Message, NoHandler, PikaQueue, Retry
from exchange.dispatch import LinkLost
from exchange.dispatch.consumer import Consumer
from exchange.dispatch.link import Link
from exchange.partition.partitioning.specification import Partitioning
from tests.support.memory_link import MemoryLink
from tests.support.virtual_loop import pass_time, run_virtually
from tests.support.waiting import find_limit, until


def message(number: int, key: str = "k", **properties: Any) -> Message:
    return Message("orders", f"order.{key}", {}, properties, b"%d" % number)


def numbers(link: MemoryLink, answer: str) -> list[int]:
    return [int(message.body) for kind, message in link.settled if kind == answer]


def test_the_memory_link_is_a_link() -> None:
    assert isinstance(MemoryLink(), Link)


class Chance:
    """What happens to each message: how long its handler takes, and how it ends."""

    def __init__(self, draws: list[tuple[int, str]]) -> None:
        self.draws = draws

    def of(self, number: int) -> tuple[float, str]:
        ticks, end = self.draws[number % len(self.draws)]
        return ticks / 10, end


ENDS = st.sampled_from(["ok"] * 6 + ["fail", "slow", "ack", "nack", "cancel", "inner-cancel", "sync", "reply-fail"])
EVENTS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["lose", "stop-answers"])), max_size=4)


@given(
    draws=st.lists(st.tuples(st.integers(0, 5), ENDS), min_size=1, max_size=12),
    keys=st.integers(1, 4),
    concurrency=st.integers(1, 5),
    prefetch=st.integers(1, 9),
    count=st.integers(0, 25),
    policy=st.sampled_from(["dead-letter", "requeue", "retry"]),
    events=EVENTS,
    stop_after=st.one_of(st.none(), st.integers(0, 40)),
)
def test_whatever_happens_the_contract_holds(  # noqa: PLR0915  # one law
    draws: list[tuple[int, str]],
    keys: int,
    concurrency: int,
    prefetch: int,
    count: int,
    policy: str,
    events: list[tuple[int, str]],
    stop_after: int | None,
) -> None:
    """For random handlers that fail, are cancelled, take too long or settle by hand, and channels that are lost:

    never more handlers at work than allowed, one of a key at a time and in order, no acknowledgement while a handler
    runs or after it failed, each delivery answered once on its own channel (the link checks it), and nothing is lost.
    """
    link = MemoryLink()
    chance = Chance(draws)
    at_work: Counter[str] = Counter()
    first_tries: dict[str, list[int]] = {}
    tries: Counter[int] = Counter()
    may_ack: set[int] = set()
    dispatcher = Dispatcher()

    async def handle(delivery: Delivery) -> None:
        number, key = int(delivery.body), delivery.words["key"]
        tries[number] += 1
        assert at_work[key] == 0
        at_work[key] += 1
        assert at_work.total() <= concurrency
        if not delivery.redelivered:
            first_tries.setdefault(key, []).append(number)
        seconds, end = chance.of(number) if tries[number] == 1 else (0.0, "ok")
        may_ack.discard(number)
        try:
            await pass_time(seconds)
            if end == "reply-fail":
                delivery.reply(delivery.body)
            if end in ("fail", "reply-fail"):
                raise ValueError("no")
            if end == "slow":
                await pass_time(100)
            if end == "ack":
                may_ack.add(number)
                delivery.ack()
                await pass_time(0.1)
            if end == "nack":
                delivery.nack()
                await pass_time(0.1)
            if end == "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await pass_time(1)
            if end == "inner-cancel":
                raise asyncio.CancelledError
            may_ack.add(number)
        finally:
            at_work[key] -= 1

    dispatcher.add("order.{key}", handle)
    on_error: Any = Retry((5,)) if policy == "retry" else policy

    def check_answers() -> None:
        for frame_tag, waiting in link.channel.unanswered.items():
            assert frame_tag >= 1
            assert waiting.body

    async def work() -> None:
        link.before_answers = check_answers
        link.put(*(message(number, str(number % keys), reply_to="answers") for number in range(count)))
        consumer = dispatcher.consume(
            link, on_error=on_error, prefetch=prefetch, concurrency=concurrency, order_by="word 2", timeout=2
        )
        await consumer
        for after, event in sorted(events):
            await pass_time(after / 10)
            if event == "lose":
                link.lose()
        if stop_after is None:
            await until(lambda: not link.messages and not link.channel.unanswered and not consumer.in_flight)
            await consumer.stop()
        else:
            await pass_time(stop_after / 10)
            await consumer.stop(timeout=1)
        await consumer.wait()
        assert (consumer.in_flight, consumer.waiting, consumer.running) == (0, 0, False)
        assert consumer.counts.received == len(link.settled) + consumer.counts.lost

    logging.disable(logging.CRITICAL)
    try:
        run_virtually(work())
    finally:
        logging.disable(logging.NOTSET)
    lost = any(event == "lose" for _, event in events)
    final = {int(m.body) for answer, m in link.settled if answer in ("ack", "reject")}
    left = {int(m.body) for m, _ in link.messages} | {int(m.body) for m in link.channel.unanswered.values()}
    assert final | left == set(range(count))  # nothing is lost
    if not lost:
        assert Counter(numbers(link, "ack") + numbers(link, "reject")) == Counter(final)  # settled for good once
    retried = {int(published.body) for published in link.published if published.routing_key != "answers"}
    for number in set(numbers(link, "ack")) - retried:
        assert number in may_ack or lost
    for key, order in first_tries.items():
        assert order == sorted(order), key  # in order, where nothing went back to the queue


def consumed(
    dispatcher: Dispatcher[Message], link: MemoryLink, then: Callable[[Consumer], Awaitable[None]], **options: Any
) -> Consumer:
    """Consume until ``then`` has returned, and stop; return the consumer."""
    kept: list[Consumer] = []

    async def work() -> None:
        async with dispatcher.consume(link, **options) as consumer:
            kept.append(consumer)
            await then(consumer)

    run_virtually(work())
    return kept[0]


async def all_handled(consumer: Consumer) -> None:
    await until(lambda: consumer.counts.received and not consumer.in_flight and not consumer.waiting)


def test_no_message_is_acknowledged_before_its_handlers_end() -> None:
    link, dispatcher = MemoryLink(), Dispatcher()
    settled: list[int] = []

    @dispatcher.on("#")
    async def slow(_: Delivery) -> None:
        await pass_time(5)
        settled.append(len(link.settled))

    @dispatcher.on("#")
    async def later(_: Delivery) -> None:
        await pass_time(5)
        settled.append(len(link.settled))

    link.put(message(1))
    consumed(dispatcher, link, all_handled)
    assert settled == [0, 0]
    assert numbers(link, "ack") == [1]


def test_answers_of_one_turn_are_joined() -> None:
    """A thousand deliveries whose handlers do nothing are acknowledged in few frames."""
    link, dispatcher = MemoryLink(), Dispatcher()

    @dispatcher.on("#")
    async def handle(_: Delivery) -> None:
        pass

    link.put(*map(message, range(1000)))

    async def then(consumer: Consumer) -> None:
        await until(lambda: consumer.counts.handled == 1000)

    consumer = consumed(dispatcher, link, then, prefetch=100)
    assert sorted(numbers(link, "ack")) == list(range(1000))
    assert consumer.counts.handled == 1000
    assert link.frames <= 20


def test_plain_handlers_run_in_threads_and_settle_from_there() -> None:
    """Unless they are asked to run in the event loop."""
    link, dispatcher = MemoryLink(), Dispatcher()
    threads: list[int] = []

    @dispatcher.on("order.hand")
    def by_hand(delivery: Delivery) -> None:
        threads.append(threading.get_ident())
        delivery.reject()

    @dispatcher.on("order.ask")
    def ask(delivery: Delivery) -> str:
        threads.append(threading.get_ident())
        return delivery.routing_key

    async def work(options: dict[str, Any]) -> None:
        async with dispatcher.consume(link, **options) as consumer:
            await asyncio.wait_for(all_handled(consumer), find_limit())

    link.put(message(1, "hand"), message(2, "ask", reply_to="answers"))
    asyncio.run(work({}))
    assert threading.get_ident() not in threads
    link.put(message(3, "hand"))
    asyncio.run(work({"threads": False}))
    assert threads[2:] == [threading.get_ident()]
    assert (numbers(link, "reject"), numbers(link, "ack")) == ([1, 3], [2])
    assert [reply.body for reply in link.published] == [b"order.ask"]


def test_a_reply_goes_out_before_its_request_is_acknowledged() -> None:
    """And one that nobody takes does not hold the request."""
    link, dispatcher = MemoryLink(), Dispatcher()
    seen: list[tuple[int, int]] = []
    link.before_answers = lambda: seen.append((len(link.published), len(link.settled)))

    @dispatcher.on("#")
    async def answer(_: Delivery) -> bytes:
        return b"3"

    link.put(message(1, reply_to="answers"))
    consumed(dispatcher, link, all_handled)
    assert seen == [(1, 0)]
    link.routable = False
    link.put(message(2, reply_to="gone"))
    consumed(dispatcher, link, all_handled)
    assert numbers(link, "ack") == [1, 2]


def test_a_reply_goes_out_before_its_request_is_rejected() -> None:
    class Slow(MemoryLink):
        async def publish(self, message: Message) -> None:
            await pass_time(1)
            await super().publish(message)

    link, dispatcher = Slow(), Dispatcher()
    seen: list[tuple[int, int]] = []
    link.before_answers = lambda: seen.append((len(link.published), len(link.settled)))

    @dispatcher.on("#")
    async def answer(delivery: Delivery) -> None:
        delivery.reply(b"3")
        raise ValueError("no")

    link.put(message(1, reply_to="answers"))
    consumed(dispatcher, link, all_handled, on_error="dead-letter")
    assert (seen, numbers(link, "reject")) == ([(1, 0)], [1])


def test_a_reply_that_the_broker_does_not_take_is_a_failure_of_its_request() -> None:
    """The request comes again, also if only one of its replies was lost, or its handler failed afterwards."""
    link, dispatcher = MemoryLink(), Dispatcher()
    tries: Counter[bytes] = Counter()

    @dispatcher.on("#")
    async def answer(delivery: Delivery) -> None:
        tries[delivery.body] += 1
        if tries[delivery.body] == 1:
            link.lost_publishes = 1
        delivery.reply(b"one")
        delivery.reply(b"two")
        if delivery.body == b"2" and tries[delivery.body] == 1:
            raise ValueError("no")

    link.put(message(1, reply_to="answers"), message(2, reply_to="answers"))
    consumer = consumed(dispatcher, link, all_handled, concurrency=1, on_error="requeue")
    settled = sorted((answer, int(m.body)) for answer, m in link.settled)
    assert settled == [("ack", 1), ("ack", 2), ("requeue", 1), ("requeue", 2)]
    assert (consumer.counts.failed, consumer.counts.handled) == (2, 2)


def test_a_thread_that_settles_when_its_time_is_over_is_answered_once() -> None:
    """Whoever is first settles; the other one gets an error, or nothing is sent."""
    link, dispatcher = MemoryLink(), Dispatcher()
    late: list[object] = []
    over = threading.Event()

    @dispatcher.on("#")
    def slow(delivery: Delivery) -> None:
        over.wait(find_limit())
        try:
            delivery.ack()
        except HashstarError as error:
            late.append(error)

    async def work() -> None:
        async with dispatcher.consume(link, timeout=0.05, on_error="dead-letter") as consumer:
            async with asyncio.timeout(find_limit()):
                await until(lambda: consumer.counts.failed)
            over.set()
            await until(lambda: late)

    link.put(message(1))
    asyncio.run(work())
    assert numbers(link, "reject") == [1]
    assert len(link.settled) == len(late) == 1


@pytest.mark.parametrize("when", ["before an answer is sent", "on its way"])
def test_answers_that_a_lost_channel_did_not_take_are_counted(when: str) -> None:
    link, dispatcher = MemoryLink(), Dispatcher()
    handled: list[int] = []

    @dispatcher.on("#")
    async def handle(delivery: Delivery) -> None:
        handled.append(int(delivery.body))
        await pass_time(0.001)
        if when != "on its way" and handled == [0, 1, 2]:
            link.lose()

    def lose_once() -> None:
        link.before_answers = lambda: None
        link.lose()

    async def then(consumer: Consumer) -> None:
        await until(lambda: consumer.counts.handled == 6)

    if when == "on its way":
        link.before_answers = lose_once
    link.put(*map(message, range(3)))
    consumer = consumed(dispatcher, link, then)
    assert (consumer.counts.lost, consumer.counts.received, numbers(link, "ack")) == (3, 6, [0, 1, 2])


def test_a_consumer_that_could_not_start_is_not_running() -> None:
    class Refusing(MemoryLink):
        async def open(self, *given: Any) -> None:
            raise LinkLost("no such queue")

    async def work() -> None:
        consumer = Dispatcher().consume(Refusing())
        with pytest.raises(LinkLost, match="no such queue"):
            await consumer
        assert not consumer.running
        await consumer.wait()
        await consumer.stop()
        with pytest.raises(RuntimeError, match="starts once"):
            await consumer

    run_virtually(work())


@pytest.mark.parametrize(
    ("on_error", "answers", "raises"),
    [("raise", [], True), ("dead-letter", [("reject", 1)], False), ("requeue", [("requeue", 1), ("ack", 1)], False)],
)
@pytest.mark.parametrize("failure", ["raises", "no handler", "key", "timeout", "inner cancel"])
def test_a_failure_is_answered_as_chosen_and_logged(
    on_error: Any, answers: list[Any], raises: bool, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    link, dispatcher = MemoryLink(), Dispatcher()
    tries: list[int] = []
    errors = {
        "raises": ZeroDivisionError, "no handler": NoHandler, "key": KeyError, "timeout": TimeoutError,
        "inner cancel": RuntimeError,
    }  # fmt: skip

    def order_by(_: Message) -> str:
        tries.append(0)
        if failure == "key" and len(tries) == 1:
            raise KeyError("tenant")
        return "k"

    async def handle(_: Delivery) -> None:
        if len(tries) > 1:
            return
        if failure == "raises":
            raise ZeroDivisionError
        if failure == "inner cancel":
            raise asyncio.CancelledError
        await pass_time(50)

    if failure == "no handler":
        dispatcher.add("other", handle)
        link.queue = "memory"
    else:
        dispatcher.add("#", handle)

    async def then(consumer: Consumer) -> None:
        if raises:
            with pytest.raises(errors[failure]):
                await consumer.wait()
            assert not consumer.running
            return
        if failure == "no handler" and on_error == "requeue":
            await until(lambda: consumer.counts.failed > 2)
            dispatcher.add("#", handle)
        await until(lambda: link.settled and link.settled[-1][0] in ("ack", "reject"))

    link.put(message(1))
    with caplog.at_level(logging.ERROR, "exchange.dispatch.consumer"):
        consumer = consumed(dispatcher, link, then, on_error=on_error, order_by=order_by, timeout=5)
    settled = [(answer, int(m.body)) for answer, m in link.settled]
    if failure == "no handler" and on_error == "requeue":
        settled = list(dict.fromkeys(settled))
    assert settled == answers
    assert consumer.counts.failed >= 1
    record = caplog.records[0]
    assert record.getMessage().startswith("exchange 'orders', key 'order.k', failed: ")
    if failure == "no handler":
        assert (record.exc_info, "no handler for key 'order.k'" in record.getMessage()) == (None, True)
    else:
        assert record.exc_info is not None
        assert record.exc_info[0] is errors[failure]


def test_a_retry_waits_on_the_broker_and_ends_with_its_way_out() -> None:
    """Only for its errors, never for a message without handler; the message says how often, and is otherwise as it was."""
    link, dispatcher = MemoryLink(), Dispatcher()
    policy = Retry((1, 60), errors=(ConnectionError,))

    @dispatcher.on("order.away")
    async def away(_: Delivery) -> None:
        raise ConnectionError

    @dispatcher.on("order.wrong")
    async def wrong(_: Delivery) -> None:
        raise ValueError

    link.put(
        message(1, "away", user_id="shop", expiration="5", message_id="m"), message(2, "wrong"), message(3, "none")
    )
    consumer = consumed(dispatcher, link, all_handled, on_error=policy)
    assert (numbers(link, "ack"), numbers(link, "reject")) == ([1], [2, 3])
    assert (consumer.counts.failed, consumer.counts.retried) == (3, 1)
    assert link.declared == ["memory.retry", "memory.retried", "memory.retry.1000", "memory.retry.60000"]
    [delayed] = link.published
    table = {"count": 1, "exchange": "orders"}
    headers = {"x-hashstar-retry": table, "hashstar-delay": "1000"}
    assert delayed == Message("memory.retry", "order.away", headers, {"message_id": "m"}, b"1")
    link.put(Message("memory.retried", "order.away", {**headers, "x-hashstar-retry": {**table, "count": 2}}, {}, b"1"))
    consumed(dispatcher, link, all_handled, on_error=policy)
    assert numbers(link, "reject") == [2, 3, 1]


@pytest.mark.parametrize("level", [logging.WARNING, logging.DEBUG])
def test_an_expected_retry_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture, level: int) -> None:
    link, dispatcher = MemoryLink(), Dispatcher()

    @dispatcher.on("#")
    async def away(_: Delivery) -> None:
        raise ConnectionError("the shop is closed")

    link.put(message(1))
    with caplog.at_level(level, "exchange.dispatch.consumer"):
        consumed(dispatcher, link, all_handled, on_error=Retry((1,)))
    [record] = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert record.getMessage().endswith("failed: retry 1 in 1 s: ConnectionError: the shop is closed")
    assert bool(record.exc_info) == (level == logging.DEBUG)


@pytest.mark.parametrize("table", [{"count": -5, "exchange": 7}, {"count": True}, {}, "text", None, [1]])
def test_a_forged_table_of_retries_does_no_harm(table: Any) -> None:
    """Anyone may publish such a header: the delivery has no retries then, and the exchange that the broker names."""
    link, dispatcher = MemoryLink(), Dispatcher()
    seen: list[tuple[str, int]] = []

    @dispatcher.on("#")
    async def fail(delivery: Delivery) -> None:
        seen.append((delivery.exchange, delivery.retries))
        raise ValueError

    for exchange in ("orders", "memory.retried"):
        link.put(Message(exchange, "a", {"x-hashstar-retry": table}))
    link.put(Message("orders", "a", {"x-hashstar-retry": {"count": 0, "exchange": "payments"}}))
    consumed(dispatcher, link, all_handled, on_error=Retry((1,)))
    assert seen == [("orders", 0), ("memory.retried", 0), ("orders", 0)]
    assert len(link.published) == 3


def test_a_retry_that_the_broker_does_not_take_is_put_back() -> None:
    link, dispatcher = MemoryLink(), Dispatcher()
    calls: list[int] = []

    @dispatcher.on("#")
    async def once(_: Delivery) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError

    link.routable = False
    link.put(message(1))
    consumed(dispatcher, link, all_handled, on_error=Retry())
    assert [answer for answer, _ in link.settled] == ["requeue", "ack"]


def test_a_delivery_of_a_lost_channel_is_not_handled_and_never_answered() -> None:
    """The one at work is handled to its end, those that waited come again; nothing is answered on the new channel."""
    link, dispatcher = MemoryLink(), Dispatcher()
    handled: list[tuple[int, bool]] = []

    @dispatcher.on("#")
    async def slow(delivery: Delivery) -> None:
        await pass_time(1)
        handled.append((int(delivery.body), delivery.redelivered))

    async def then(consumer: Consumer) -> None:
        await until(lambda: consumer.in_flight == 1)
        link.lose()
        await until(lambda: len(handled) == 4)

    link.put(*map(message, range(3)))
    consumer = consumed(dispatcher, link, then, concurrency=1)
    assert handled == [(0, False), (0, True), (1, True), (2, True)]
    assert numbers(link, "ack") == [0, 1, 2]
    assert consumer.counts.lost == 3


def test_a_channel_lost_for_good_ends_the_consumer() -> None:
    link, dispatcher = MemoryLink(), Dispatcher()

    async def then(consumer: Consumer) -> None:
        link.lose(for_good=True)
        with pytest.raises(LinkLost, match="lost for good"):
            await consumer.wait()
        assert not consumer.running

    consumed(dispatcher, link, then)


def test_a_handler_may_stop_its_consumer() -> None:
    """It does not wait for itself; its delivery is acknowledged, those behind it are put back."""
    link, dispatcher = MemoryLink(), Dispatcher()
    consumers: list[Consumer] = []

    @dispatcher.on("#")
    async def enough(_: Delivery) -> None:
        await consumers[0].stop()

    async def then(consumer: Consumer) -> None:
        consumers.append(consumer)
        await consumer.wait()

    link.put(*map(message, range(3)))
    consumed(dispatcher, link, then, concurrency=1)
    assert (numbers(link, "ack"), numbers(link, "requeue")) == ([0], [1, 2])


def test_by_hand_nothing_is_acknowledged_but_by_hand() -> None:
    """A batch is acknowledged when it is written, after its handlers have ended."""
    link, dispatcher = MemoryLink(), Dispatcher()
    batch: list[Delivery] = []

    @dispatcher.on("#")
    async def collect(delivery: Delivery) -> None:
        batch.append(delivery)
        if len(batch) == 3:
            for each in batch:
                each.ack()

    link.put(*map(message, range(5)))
    consumed(dispatcher, link, all_handled, ack_by_hand=True)
    assert numbers(link, "ack") == [0, 1, 2]
    assert list(link.channel.unanswered) == [4, 5]


def test_middleware_wraps_the_handling_of_a_delivery_the_first_outermost() -> None:
    link, dispatcher = MemoryLink(), Dispatcher()
    calls: list[str] = []

    def named(name: str) -> Any:
        def wrap(handle: Any) -> Any:
            async def wrapped(delivery: Delivery) -> object:
                calls.append(f"{name} before")
                try:
                    return await handle(delivery)
                finally:
                    calls.append(f"{name} after")

            return wrapped

        return wrap

    @dispatcher.on("#")
    async def handle(_: Delivery) -> None:
        calls.append("handler")

    @dispatcher.on("#")
    async def second(_: Delivery) -> None:
        calls.append("handler")

    link.put(message(1))
    consumed(dispatcher, link, all_handled, middleware=[named("outer"), named("inner")])
    assert calls == ["outer before", "inner before", "handler", "handler", "inner after", "outer after"]


def test_order_by_takes_a_key_a_partitioning_or_a_function() -> None:
    for order_by in ("word 2", "kafka.murmur2 over 12 by word 2", Partitioning.parse("kafka.murmur2 over 12"), len):
        link, dispatcher = MemoryLink(), Dispatcher()
        at_work: Counter[str] = Counter()

        @dispatcher.on("order.{key}")
        async def handle(delivery: Delivery, at_work: Counter[str] = at_work) -> None:
            at_work[delivery.words["key"]] += 1
            assert at_work[delivery.words["key"]] == 1
            await pass_time(1)
            at_work[delivery.words["key"]] -= 1

        link.put(*(message(number, "ab"[number % 2]) for number in range(10)))
        key: Any = (lambda delivery: delivery.routing_key) if order_by is len else order_by
        consumed(dispatcher, link, all_handled, order_by=key, on_error="dead-letter")
        assert sorted(numbers(link, "ack")) == list(range(10))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"on_error": "drop"}, "on_error is"),
        ({"timeout": 0}, "timeout is a number of seconds"),
        ({"concurrency": 0}, "concurrency is at least 1"),
        ({"order_by": "word 0"}, "words of a routing key are counted from 1"),
        ({"order_by": "tenant"}, "expected a key"),
        ({"order_by": 5}, "order_by is a function"),
    ],
)
def test_a_wrong_option_is_refused_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(Exception, match=text):
        Dispatcher().consume(MemoryLink(), **options)


def test_a_consumer_that_nobody_awaits_is_reported_as_a_coroutine_would_be() -> None:
    with pytest.warns(RuntimeWarning, match="queue 'memory' was never awaited"):
        Dispatcher().consume(MemoryLink())


def test_what_cannot_be_consumed_is_refused_with_what_can() -> None:
    with pytest.raises(TypeError, match=r"object is no channel of pika; .*await channel.get_queue\('orders'\)"):
        Dispatcher().consume(object(), "orders")
    with pytest.raises(TypeError, match="give a queue of aio-pika, PikaQueue"):
        Dispatcher().consume(object())
    with pytest.raises(TypeError, match="no channel of pika's AsyncioConnection"):
        PikaQueue(object(), "orders")


@pytest.mark.parametrize("delays", [(), (0,), (-1,), (10**8,), range(1, 200)])
def test_delays_are_bounded(delays: Any) -> None:
    with pytest.raises(ValueError, match="delay"):
        Retry(tuple(delays))


def test_async_dispatch_runs_handlers_of_both_kinds_in_order() -> None:
    dispatcher: Dispatcher[Any] = Dispatcher(key=str)
    calls: list[str] = []

    @dispatcher.on("#")
    async def first(_: object) -> None:
        await pass_time(1)
        calls.append("first")

    @dispatcher.on("#")
    def second(_: object) -> None:
        calls.append("second")

    dispatcher.add("#", lambda record: first(record))  # noqa: PLW0108  # a plain function returns an awaitable
    assert run_virtually(dispatcher.dispatch_async("a.b")) == 3
    assert calls == ["first", "second", "first"]
    with pytest.raises(NoHandler):
        run_virtually(Dispatcher().dispatch_async(message(1)))
