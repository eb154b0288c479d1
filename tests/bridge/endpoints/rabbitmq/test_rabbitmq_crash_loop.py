"""Processes that are killed again and again: of a quorum queue with a delivery limit nothing is lost but the cause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from bindings.testing.server import AmqpServer
from bridge.endpoint import Disconnected, EndOfStream
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.connection import Channel
from bridge.endpoints.rabbitmq.consumer import reading
from bridge.endpoints.rabbitmq.consumer.queue_facts import QueueFacts
from bridge.endpoints.rabbitmq.consumer.reading import RabbitmqSource
from bridge.endpoints.rabbitmq.management import Unknown
from tests.support.bridge.behaviour import on_a_loop
from tests.support.waiting import find_limit, until

COUNT = 120
GUILTY = 57
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def channel(server: AmqpServer) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("dead", durable=True)
        yield channel


def fill(channel: BlockingChannel, limit: int, **arguments: Any) -> None:
    arguments |= {"x-queue-type": "quorum", "x-delivery-limit": limit, **DEAD}
    channel.queue_declare("q", durable=True, arguments=arguments)
    for number in range(COUNT):
        channel.basic_publish("", "q", b"%d" % number)


def know(monkeypatch: pytest.MonkeyPatch, facts: QueueFacts | Unknown) -> None:
    """Let the management API know this of the queue."""

    async def fetch(*_: Any) -> QueueFacts:
        if isinstance(facts, Unknown):
            raise facts
        return facts

    monkeypatch.setattr(reading, "fetch_facts", fetch)


def make_source(server: AmqpServer, prefetch: int = 50) -> RabbitmqSource:
    return RabbitmqSource("from", [parse_broker(server.url)], "q", prefetch=prefetch, management="http://nowhere")


def kill(source: RabbitmqSource) -> None:
    """End the source's connection at once, as the end of a process does."""
    assert source._connection is not None
    source._connection._wire._transport.abort()


async def run_process(
    server: AmqpServer, channel: BlockingChannel, most: int, is_over: Callable[[list[int]], bool]
) -> list[int]:
    """Read and settle until all is over, or until killed, by the guilty message or after ``most`` messages.

    Return when the server has noticed the end: a process takes longer to start.
    """
    source = make_source(server)
    settled: list[int] = []
    await source.open()
    with suppress(Disconnected):
        while not is_over(settled):
            for delivery in await source.read(1_000):
                number = int(delivery.message.body)
                if number == GUILTY or len(settled) == most:
                    kill(source)
                    raise Disconnected("killed")
                source.settle(delivery)
                settled.append(number)
            await asyncio.sleep(0)  # what is settled is acknowledged
    await source.close()
    await until(lambda: not channel.queue_declare("q", passive=True).method.consumer_count)
    return settled


def has_arrived(source: RabbitmqSource, count: int) -> bool:
    return len(source._arrived) >= count


@pytest.mark.parametrize("limit", [1, 2, 3, 20])
@on_a_loop
async def test_a_message_that_kills_each_process_is_all_that_is_lost(
    server: AmqpServer, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Processes are killed besides when they have settled 10 messages, as by a watchdog."""
    fill(channel, limit)
    know(monkeypatch, QueueFacts("quorum", limit))
    settled: list[int] = []
    innocent = {*range(COUNT)} - {GUILTY}

    def is_over(now: list[int]) -> bool:
        return innocent <= {*settled, *now} and bool(server.messages("dead"))

    while not is_over([]):
        settled += await run_process(server, channel, 10, is_over)
    assert {*settled} == innocent
    assert not server.messages("q")
    assert [int(message.body) for message in server.messages("dead")] == [GUILTY]


@on_a_loop
async def test_messages_stay_in_order_while_the_prefetch_changes_even_if_reads_are_cancelled(
    server: AmqpServer, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(channel, 3)
    know(monkeypatch, QueueFacts("quorum", 3))
    source = make_source(server, prefetch=10)
    found: list[int] = []
    sizes: list[int] = []
    await source.open()
    while len(found) < COUNT:
        task = asyncio.create_task(source.read(1_000))
        await asyncio.wait([task], timeout=0.001 * (len(sizes) % 3))
        task.cancel()
        await asyncio.wait([task])
        if task.cancelled():
            continue
        deliveries = task.result()
        found += [int(each.message.body) for each in deliveries]
        sizes.append(len(deliveries))
        source.settle(deliveries[-1])
    assert found == list(range(COUNT))
    assert sizes[0] == 1
    assert max(sizes) > 1
    await source.close()


@pytest.mark.parametrize(
    "facts",
    [
        QueueFacts("quorum", None),
        QueueFacts("quorum", 20, is_single_active=True),
        QueueFacts("classic"),
        Unknown("the management API does not answer"),
    ],
)
@on_a_loop
async def test_a_queue_without_a_known_limit_or_with_a_single_active_consumer_is_prefetched_at_once(
    server: AmqpServer, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch, facts: QueueFacts | Unknown
) -> None:
    fill(channel, 20)
    know(monkeypatch, facts)
    source = make_source(server)
    await source.open()
    await until(partial(has_arrived, source, 50))
    assert len(await source.read(1_000)) == 50
    await source.close()
    assert len(server.messages("q")) == COUNT


@on_a_loop
async def test_a_queue_that_has_another_limit_at_the_next_connection_is_read_by_that(
    server: AmqpServer, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(channel, 20)
    source = make_source(server)
    for facts, size in ((QueueFacts("quorum", None), 50), (QueueFacts("quorum", 3), 1), (QueueFacts("classic"), 50)):
        know(monkeypatch, facts)
        await source.open()
        await until(partial(has_arrived, source, size))
        assert len(await source.read(1_000)) == size
        await source.close()


def answer_late(call: Callable[..., Awaitable[Any]], turns: int) -> Callable[..., Awaitable[Any]]:
    """Return the same, which returns these turns of the loop later."""

    async def delayed(*arguments: Any, **named: Any) -> Any:
        answer = await call(*arguments, **named)
        for _ in range(turns):
            await asyncio.sleep(0)
        return answer

    return delayed


@pytest.mark.parametrize("turns", [0, 20, 1_000])
@on_a_loop
async def test_what_is_settled_while_the_prefetch_changes_is_acknowledged_after_it(
    server: AmqpServer, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """The answer to a new consumer may be seen later than messages that came behind it."""
    fill(channel, 3)
    know(monkeypatch, QueueFacts("quorum", 3))
    monkeypatch.setattr(Channel, "consume", answer_late(Channel.consume, turns))
    source = make_source(server, prefetch=10)
    await source.open()
    found: list[int] = []
    while len(found) < COUNT:
        deliveries = await asyncio.wait_for(source.read(1_000), find_limit())
        found += [int(each.message.body) for each in deliveries]
        source.settle(deliveries[-1])
    await source.close()
    assert found == list(range(COUNT))
    assert not server.messages("q")


@on_a_loop
async def test_a_change_of_the_prefetch_that_ends_late_is_not_taken_for_that_of_the_next_connection(
    server: AmqpServer, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(channel, 3)
    know(monkeypatch, QueueFacts("quorum", 3))
    ends = asyncio.Event()

    consume = Channel.consume

    async def consume_late(channel: Channel, queue: str, *, prefetch: int, **named: Any) -> None:
        if prefetch == 1:
            return await consume(channel, queue, prefetch=prefetch, **named)
        try:
            await asyncio.Event().wait()
        finally:
            async with asyncio.timeout(find_limit()):
                await ends.wait()

    async def read_until_it_changes() -> tuple[asyncio.Task[None] | None, asyncio.Task[Any]]:
        await source.open()
        source.settle((await source.read(1))[0])
        waiting = asyncio.create_task(source.read(1))
        await until(lambda: source._changing is not None)
        return source._changing, waiting

    monkeypatch.setattr(Channel, "consume", consume_late)
    source = make_source(server)
    former, first = await read_until_it_changes()
    await source.close()
    latter, second = await read_until_it_changes()
    ends.set()
    assert former is not None
    await asyncio.wait([former])
    assert source._changing is latter
    await source.close()
    await asyncio.gather(first, second, return_exceptions=True)


@pytest.mark.parametrize("turns", [0, 1, 2, 4, 7, 11, 15])
@on_a_loop
async def test_a_source_that_takes_no_more_gives_all_that_it_was_sent_and_nothing_counts_as_a_delivery(
    server: AmqpServer, channel: BlockingChannel, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """Also while the prefetch changes: the consumer is cancelled then, or the next one is on its way."""
    fill(channel, 3)
    know(monkeypatch, QueueFacts("quorum", 3))
    source = make_source(server, prefetch=10)
    found: list[int] = []

    async def read_and_settle() -> None:
        deliveries = await source.read(1_000)
        found.extend(int(each.message.body) for each in deliveries)
        source.settle(deliveries[-1])

    await source.open()
    for turn in range(turns):
        if len(found) == COUNT:  # all batches were full
            break
        await read_and_settle()
        for _ in range(10 * (turn % 3)):
            await asyncio.sleep(0)
    assert await source.stop_taking()
    with suppress(EndOfStream):
        while True:
            await asyncio.wait_for(read_and_settle(), find_limit())
    await source.close()
    assert found == list(range(len(found)))
    while (answer := channel.basic_get("q", auto_ack=True))[0] is not None:
        assert not answer[0].redelivered
        found.append(int(answer[2]))
    assert found == list(range(COUNT))
