"""What a selector leaves out of a topic counts as done: in offsets, in transactions, and in share groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.endpoint import Source, Target
from bridge.endpoints.kafka.config import KafkaSource, TransactionalTarget
from bridge.endpoints.memory import MemoryTarget
from bridge.endpoints.topics import TopicDestination
from bridge.interop.filtering import Filter
from bridge.pump.pump import Inlet, Pump
from exchange.selector import Selector
from tests.support.bridge.behaviour import QUICK, Silent, make_messages, on_a_loop, read_all_of, router_to
from tests.support.kafka.topics import Topics, topics_at
from tests.support.servers import Server, missing
from tests.support.waiting import find_limit, until

COUNT = 400
WANTED = [b"17", b"111", b"112"]
"""Bodies of the messages that the selector takes: more than a window lies between them, and behind them."""
SELECTOR = Filter(Selector.parse("routing_key IN ('17', '111', '112')"))


def put(topics: Topics, topic: str) -> None:
    topics.put(topic, [(b"%d" % n, m.body) for n, m in enumerate(make_messages(0, COUNT))])


class Filtered(Silent):
    """Counts what a filter has rejected."""

    def __init__(self) -> None:
        self.count = 0

    def filtered(self, *_: object) -> None:
        self.count += 1


def move(source: Source, target: Target, events: Silent) -> tuple[Pump, asyncio.Future[None]]:
    """Begin to move what the selector takes."""
    pump = Pump([Inlet(source, "in", filter=SELECTOR)], router_to("queue"), {"queue": target}, events, QUICK)
    return pump, asyncio.ensure_future(pump.run())


async def stop(pump: Pump, running: asyncio.Future[None]) -> None:
    pump.stop()
    await asyncio.wait_for(running, find_limit())


def keys_of(target: MemoryTarget) -> Sequence[bytes]:
    return sorted([each.message.routing_key.encode() for each in target.messages], key=int)


@on_a_loop
async def test_the_group_commits_past_what_the_selector_rejects_and_nothing_lags(topics: Topics) -> None:
    topic, target = topics.make(), MemoryTarget()
    put(topics, topic)
    source = KafkaSource("read", {**topics.settings, "group.id": topic}, [topic], window=QUICK.window)
    pump, running = move(source, target, Silent())
    await until(lambda: sum(topics.committed(topic, topic).values()) == COUNT)
    await until(lambda: source.lag == 0)
    await stop(pump, running)
    assert keys_of(target) == WANTED


@on_a_loop
async def test_a_transaction_commits_offsets_of_what_the_selector_rejects_also_where_nothing_is_written(
    topics: Topics,
) -> None:
    topic, written = topics.make(), topics.make()
    put(topics, topic)
    source = KafkaSource("read", {**topics.settings, "group.id": topic}, [topic], window=100, transactional=True)
    target = TransactionalTarget("written", topics.settings, {"queue": TopicDestination(written)}, 100, 0.05)
    pump, running = move(source, target, Silent())
    await until(lambda: sum(topics.committed(topic, topic).values()) == COUNT)
    await stop(pump, running)
    found = topics.read(written, len(WANTED))  # which reads what is committed
    assert sorted([record.key() for record in found], key=int) == WANTED


@on_a_loop
async def test_a_share_group_accepts_what_the_selector_rejects(kafka_servers: list[Server]) -> None:
    pytest.importorskip("bridge.endpoints.kafka.consumer.share")
    from bridge.endpoints.kafka.consumer.share import ShareSource

    found = [each for each in kafka_servers if each.version_info >= (4, 2)]
    server = found[0] if found else missing("no Kafka from 4.2")
    with topics_at(server.url) as topics:
        topic, target = topics.make(), MemoryTarget()
        topics.configure_group(topic, "share.auto.offset.reset", "earliest")
        put(topics, topic)
        own = {**topics.settings, "group.id": topic}
        events = Filtered()
        pump, running = move(ShareSource("read", own, [topic]), target, events)
        await until(lambda: events.count == COUNT - len(WANTED))
        await stop(pump, running)
        assert keys_of(target) == WANTED
        topics.put(topic, [(b"last", b"last")])
        again = ShareSource("read", own, [topic])  # which is given what was not accepted, and what is new
        await again.open()
        deliveries = [(each.message.routing_key, each.redelivered) for each in await read_all_of(again, 1)]
        await again.close()
        assert deliveries == [("last", False)]
