"""How handlers end that do not just return or raise, how loops end, and what is lost with a channel."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from typing import Any

import pytest

from exchange import Delivery, Dispatcher, Message, Retry
from exchange.dispatch import LinkLost
from exchange.dispatch.consumer import Consumer
from exchange.dispatch.middleware import deduplicate, log_deliveries, measure, observe, trace
from tests.exchange.dispatch.test_consumer import all_handled, consumed, message, numbers
from tests.support.memory_link import MemoryLink
from tests.support.waiting import find_limit, stretch, until


def catching() -> Dispatcher[Message]:
    """Return a dispatcher whose handler works for an hour, and catches its cancellation as if it were an error."""
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    async def work(delivery: Delivery) -> None:
        if delivery.redelivered:
            return
        try:
            await asyncio.Event().wait()
        except BaseException:  # noqa: BLE001  # as careless code does
            return

    return dispatcher


@pytest.mark.parametrize(("on_error", "answers"), [("dead-letter", ["reject"]), ("requeue", ["requeue", "ack"])])
def test_a_handler_that_catches_its_timeout_and_returns_has_failed(on_error: Any, answers: list[str]) -> None:
    link = MemoryLink()
    link.put(message(1))
    consumer = consumed(catching(), link, all_handled, timeout=5, on_error=on_error)
    assert [answer for answer, _ in link.settled] == answers
    assert consumer.counts.failed == 1


def test_a_handler_that_catches_the_end_of_its_time_to_stop_has_its_message_put_back() -> None:
    link = MemoryLink()

    async def then(consumer: Consumer) -> None:
        await until(lambda: consumer.in_flight)
        await consumer.stop(timeout=1)

    link.put(message(1))
    consumer = consumed(catching(), link, then)
    assert numbers(link, "requeue") == [1]
    assert (consumer.counts.handled, consumer.counts.released) == (0, 1)


def test_a_message_whose_handler_caught_its_timeout_is_no_duplicate_when_it_comes_again() -> None:
    link, calls = MemoryLink(), []
    dispatcher = catching()

    @dispatcher.on("#")
    async def count(delivery: Delivery) -> None:
        calls.append(delivery.redelivered)

    link.put(message(1, message_id="17"))
    consumed(dispatcher, link, all_handled, timeout=5, on_error="requeue", middleware=[deduplicate()])
    assert calls == [False, True]


def test_a_plain_handler_that_raises_stop_iteration_in_its_thread_has_failed() -> None:
    """As ``next`` of an empty iterator does: a future cannot carry it, and the delivery would wait for ever."""
    link, dispatcher = MemoryLink(), Dispatcher()

    @dispatcher.on("#")
    def first(_: Delivery) -> None:
        next(iter([]))

    async def work() -> None:
        async with dispatcher.consume(link, concurrency=1) as consumer:
            with pytest.raises(RuntimeError, match="a handler raised StopIteration") as caught:
                await asyncio.wait_for(consumer.wait(), find_limit())
        assert isinstance(caught.value.__cause__, StopIteration)

    link.put(message(1))
    asyncio.run(work())
    assert link.settled == []


def test_a_thread_that_runs_on_after_its_time_keeps_its_turn() -> None:
    """Those behind it wait: their time would be over before a thread is free for them, and those of its key overtake."""
    link, dispatcher = MemoryLink(), Dispatcher()
    time_limit = stretch(0.5)
    over = threading.Event()
    at_work: list[bytes] = []
    together: list[list[bytes]] = []

    @dispatcher.on("#")
    def work(delivery: Delivery) -> None:
        at_work.append(delivery.body)
        together.append(list(at_work))
        if delivery.body == b"0":
            over.wait(find_limit())
        at_work.remove(delivery.body)

    async def run() -> Consumer:
        async with dispatcher.consume(
            link, timeout=time_limit, on_error="dead-letter", order_by="routing_key"
        ) as consumer:
            await until(lambda: consumer.counts.failed)
            await asyncio.sleep(1.2 * time_limit)  # longer than the time of those that wait
            assert (consumer.in_flight, consumer.waiting) == (1, 2)
            over.set()
            await until(lambda: consumer.counts.handled >= 2)
        return consumer

    link.put(*map(message, range(3)))
    consumer = asyncio.run(asyncio.wait_for(run(), find_limit()))
    assert (numbers(link, "reject"), numbers(link, "ack")) == ([0], [1, 2])
    assert together == [[b"0"], [b"1"], [b"2"]]
    assert consumer.in_flight == 0


EXITING = """
import asyncio, sys
from exchange import Dispatcher, Message
from tests.support.memory_link import MemoryLink

dispatcher = Dispatcher()

@dispatcher.on("#")
{kind} leave(delivery):
    sys.exit(3)

async def work():
    link = MemoryLink()
    link.put(Message("orders", "a"), Message("orders", "b"))
    async with dispatcher.consume(link, concurrency={concurrency}) as consumer:
        await consumer.wait()

asyncio.run(work())
"""


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_sys_exit_in_a_handler_ends_the_process(kind: str, concurrency: int) -> None:
    code = EXITING.format(kind=kind, concurrency=concurrency)
    ended = subprocess.run([sys.executable, "-c", code], timeout=find_limit(), check=False, capture_output=True)
    assert ended.returncode == 3


def test_a_consumer_whose_tasks_were_cancelled_before_their_first_step_can_be_stopped() -> None:
    """As `asyncio.run` does at its end, which may come in the moment in which a delivery was received."""
    link, dispatcher = MemoryLink(), Dispatcher()
    dispatcher.add("#", lambda _: None)

    async def work() -> Consumer:
        consumer = await dispatcher.consume(link)
        before = asyncio.all_tasks()
        link._deliver_now()
        for task in asyncio.all_tasks() - before:
            task.cancel()
        await asyncio.wait_for(consumer.stop(), find_limit())
        return consumer

    link.put(message(1))
    consumer = asyncio.run(work())
    assert consumer.counts.released == 1
    assert numbers(link, "requeue") == [1]


def test_an_error_that_nobody_foresaw_while_a_failure_is_settled_ends_the_consumer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The delivery is not acknowledged, and the consumer does not run on without it."""

    class Broken(MemoryLink):
        async def publish(self, message: Message) -> None:
            raise ArithmeticError("unforeseen")

    link, dispatcher = Broken(), Dispatcher()
    dispatcher.add("#", lambda _: 1 // 0)

    async def then(consumer: Consumer) -> None:
        with pytest.raises(ArithmeticError, match="unforeseen"):
            await consumer.wait()

    link.put(message(1))
    consumed(dispatcher, link, then, on_error=Retry((1,)), threads=False)
    assert link.settled == []
    assert "exchange 'orders', key 'order.k', could not be settled: not acknowledged" in caplog.text


@pytest.mark.parametrize("on_error", [Retry((1,)), "dead-letter", "requeue"])
def test_a_failed_delivery_whose_channel_is_lost_is_left_to_the_broker(
    on_error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes again anyway: a retry would come in addition, and nothing was rejected that the log could report."""
    link, dispatcher = MemoryLink(), Dispatcher()

    @dispatcher.on("#")
    async def fail_first(delivery: Delivery) -> None:
        if not delivery.redelivered:
            link.lose()
            raise ValueError

    link.put(message(1))
    consumer = consumed(dispatcher, link, all_handled, on_error=on_error)
    assert link.published == []
    assert [answer for answer, _ in link.settled] == ["ack"]
    assert (consumer.counts.failed, consumer.counts.retried, consumer.counts.lost) == (1, 0, 1)
    assert "failed, and its channel is lost: the broker delivers it again" in caplog.text


def test_a_reply_that_is_lost_with_its_channel_neither_ends_the_consumer_nor_is_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    link, dispatcher = MemoryLink(), Dispatcher()

    @dispatcher.on("#")
    async def reply(delivery: Delivery) -> str:
        if not delivery.redelivered:
            link.lost_publishes = 1
            link.lose()
        return "done"

    link.put(message(1, reply_to="caller"))
    with caplog.at_level(logging.WARNING):
        consumer = consumed(dispatcher, link, all_handled, on_error="raise")
    assert (consumer.counts.failed, consumer.counts.lost, consumer.counts.handled) == (0, 1, 1)
    assert [reply.body for reply in link.published] == [b"done"]
    assert "was handled, but its channel is lost: the broker delivers it again" in caplog.text


@pytest.mark.parametrize("handled", [True, False])
def test_what_was_handled_in_time_is_settled_after_the_time_to_stop(handled: bool) -> None:
    """Its reply or retry is under way: to cancel it and put the message back would publish it twice."""

    class Slow(MemoryLink):
        async def publish(self, message: Message) -> None:
            await asyncio.sleep(2)
            await super().publish(message)

    link, dispatcher = Slow(), Dispatcher()

    @dispatcher.on("#")
    async def reply(_: Delivery) -> str:
        if not handled:
            raise ValueError
        return "done"

    async def then(consumer: Consumer) -> None:
        await until(lambda: consumer.in_flight)
        await asyncio.sleep(0.1)
        await consumer.stop(timeout=0)

    link.put(message(1, reply_to="caller"))
    consumer = consumed(dispatcher, link, then, on_error=Retry((1,)))
    assert [answer for answer, _ in link.settled] == ["ack"]
    assert len(link.published) == 1
    assert consumer.counts.released == 0


@pytest.mark.parametrize("handled", [True, False])
def test_a_broker_that_confirms_nothing_does_not_hold_up_the_end(handled: bool) -> None:
    """As one whose memory is short: the message is put back, and its publish is not cancelled, which clients do not bear."""

    class Blocked(MemoryLink):
        async def publish(self, message: Message) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(message)
                raise
            await super().publish(message)

    link, dispatcher = Blocked(), Dispatcher()
    cancelled: list[Message] = []
    took: list[float] = []

    @dispatcher.on("#")
    async def reply(_: Delivery) -> str:
        if not handled:
            raise ValueError
        return "done"

    async def then(consumer: Consumer) -> None:
        await until(lambda: consumer.in_flight)
        loop = asyncio.get_running_loop()
        start = loop.time()
        await consumer.stop(timeout=1)
        took.append(loop.time() - start)
        assert cancelled == []

    link.put(message(1, reply_to="caller"))
    consumed(dispatcher, link, then, on_error=Retry((1,)))
    assert numbers(link, "requeue") == [1]
    assert took[0] < 10


def test_a_consumer_that_failed_is_not_left_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    """Where nobody waits for it: a lost channel is logged when it is lost, and leaving raises the error."""
    for lose in (True, False):
        link, dispatcher = MemoryLink(), Dispatcher()
        dispatcher.add("#", lambda _: 1 // 0)

        async def then(consumer: Consumer, link: MemoryLink = link, lose: bool = lose) -> None:
            if lose:
                link.lose(for_good=True)
            else:
                link.put(message(1))
            await until(lambda: not consumer.running)

        with pytest.raises(LinkLost if lose else ZeroDivisionError):
            consumed(dispatcher, link, then, threads=False)
    assert "nothing is consumed any more: lost for good" in caplog.text


def test_an_error_that_was_waited_for_or_another_one_is_raised_once() -> None:
    async def fail(consumer: Consumer) -> None:
        link.lose(for_good=True)
        with pytest.raises(LinkLost):
            await consumer.wait()

    link = MemoryLink()
    consumed(Dispatcher(), link, fail)

    async def raise_another(consumer: Consumer) -> None:
        link.lose(for_good=True)
        raise ValueError("of the block")

    link = MemoryLink()
    with pytest.raises(ValueError, match="of the block"):
        consumed(Dispatcher(), link, raise_another)


def test_waiting_for_a_consumer_that_was_never_started_is_an_error() -> None:
    async def work() -> None:
        consumer = Dispatcher().consume(MemoryLink())
        with pytest.raises(RuntimeError, match=r"never started: write consumer = await dispatcher\.consume"):
            await consumer.wait()
        await consumer.start()
        await consumer.stop()

    asyncio.run(work())


async def _plain(handle: Any) -> Any:
    return handle


@pytest.mark.parametrize(
    ("middleware", "text"),
    [
        ([log_deliveries], r"write logged\(\), with parentheses"),
        ([measure], r"write measured\(\), with parentheses"),
        ([trace], r"write traced\(\), with parentheses"),
        ([deduplicate], r"write deduplicated\(\), with parentheses"),
        ([observe], "takes a plain function"),
        (log_deliveries(), "middleware is a list of functions"),
        ([None], "middleware is a list of functions"),
        ([lambda _: 3], "middleware is a function that returns a function; .* returned 3"),
    ],
)
def test_middleware_that_is_none_is_refused_before_anything_is_consumed(middleware: Any, text: str) -> None:
    async def work() -> None:
        with pytest.raises(TypeError, match=text):
            await Dispatcher().consume(MemoryLink(), middleware=middleware)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"prefetch": -1}, "prefetch is 0 to 65,535, or None, not -1"),
        ({"prefetch": "10"}, "prefetch is 0 to 65,535, or None, not '10'"),
        ({"concurrency": 2.5}, "concurrency is at least 1, not 2.5"),
        ({"timeout": "3"}, "timeout is a number of seconds above 0, not '3'"),
        ({"order_by": _plain}, "order_by is a plain function, as nothing awaits its key"),
        ({"no_ack": True}, "no_ack and auto_ack are no options"),
    ],
)
def test_an_option_of_a_wrong_kind_is_refused_by_its_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        Dispatcher().consume(MemoryLink(), **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout": 3, "order_by": "word 1"}, "order_by, timeout: only with asyncio"),
        ({"on_error": Retry()}, "a Retry needs asyncio"),
    ],
)
def test_options_of_asyncio_are_refused_by_name_on_a_blocking_channel(options: dict[str, Any], text: str) -> None:
    class Channel:
        basic_consume = None

    with pytest.raises(TypeError, match=text):
        Dispatcher().consume(Channel(), "orders", **options)


@pytest.mark.parametrize("errors", [(3,), (ValueError, "x"), (KeyboardInterrupt,), int])
def test_a_retry_of_what_is_no_exception_is_refused(errors: Any) -> None:
    with pytest.raises(TypeError, match="errors are classes of exceptions"):
        Retry((1,), errors=errors)


def test_one_class_of_errors_may_stand_without_its_tuple() -> None:
    assert Retry((1,), errors=OSError).errors == (OSError,)  # type: ignore[arg-type]
