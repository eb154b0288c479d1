"""What waits, is withheld, and was deleted unread, as live brokers have it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bridge.endpoints.kafka.config import KafkaSource
from tests.support.bridge.behaviour import on_a_loop, read_all_of
from tests.support.kafka.topics import Topics, topics_at
from tests.support.servers import Server
from tests.support.waiting import until


@pytest.fixture(scope="module")
def topics(kafka: Server) -> Iterator[Topics]:
    with topics_at(kafka.url) as made:
        yield made


def make_source(topics: Topics, topic: str) -> KafkaSource:
    own = {**topics.settings, "group.id": topic, "statistics.interval.ms": 100}
    return KafkaSource("read", own, [topic], window=1_000)


async def read_on(source: KafkaSource, offsets: list[int] | None = None) -> None:
    """Read, settle and note offsets, until cancelled."""
    while True:
        for delivery in await source.read(10):
            source.settle(delivery)
            if offsets is not None:
                offsets.append(delivery.position)


@on_a_loop
async def test_a_transaction_that_hangs_is_named_with_what_it_withholds(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.endpoints.kafka.consumer.backlog.OPEN_FOR", 2.0)
    topic = topics.make()
    writer = Producer({**topics.settings, "transactional.id": topic})
    await asyncio.to_thread(writer.init_transactions, 30)
    writer.begin_transaction()
    writer.produce(topic, b"ended", b"k")
    await asyncio.to_thread(writer.commit_transaction, 30)
    source = make_source(topics, topic)
    await source.open()
    await read_all_of(source, 1)
    reading = asyncio.create_task(read_on(source))
    await until(lambda: source.lag == 0, lambda: source.lag)  # the mark of the transaction's end is no message
    assert source.trouble is None
    writer.begin_transaction()
    writer.produce(topic, b"open", b"k")
    await asyncio.to_thread(writer.flush, 30)
    await asyncio.to_thread(topics.put, topic, [(b"k", b"v")] * 100)
    await until(lambda: source.lag == source.withheld == 101, lambda: (source.lag, source.withheld))
    await until(lambda: source.trouble)
    assert f"{topic}-0: 101 records from offset 2 on" in str(source.trouble)
    reading.cancel()
    await asyncio.to_thread(writer.abort_transaction, 30)
    await read_all_of(source, 100)
    reading = asyncio.create_task(read_on(source))
    await until(lambda: (source.lag, source.withheld, source.trouble) == (0, 0, None), lambda: source.lag)
    reading.cancel()
    await source.close()
    assert source.lag is None


@on_a_loop
async def test_records_deleted_unread_are_counted_and_the_lag_grows_while_nothing_is_read(topics: Topics) -> None:
    topic = topics.make()
    admin = AdminClient(topics.settings)

    async def delete_before(offset: int) -> None:
        [answer] = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
        await asyncio.to_thread(answer.result, 30)

    await asyncio.to_thread(topics.put, topic, [(b"k", b"v")] * 50)
    source = make_source(topics, topic)
    await source.open()
    for delivery in await read_all_of(source, 50):
        source.settle(delivery)
    await until(lambda: topics.committed(topic, topic) == {0: 50})
    await source.close()
    await asyncio.to_thread(topics.put, topic, [(b"k", b"v")] * 50)
    await delete_before(80)
    await source.open()
    found = await read_all_of(source, 20)
    assert [each.position for each in found] == [*range(80, 100)]
    reading = asyncio.create_task(read_on(source))
    await until(lambda: source.vanished == 30, lambda: source.vanished)
    reading.cancel()
    await asyncio.to_thread(topics.put, topic, [(b"k", b"v")] * 5_000)  # nobody reads: it pauses, and asks
    await until(lambda: source.lag == 5_000, lambda: source.lag)
    await delete_before(5_100)
    fetched: list[int] = []
    reading = asyncio.create_task(read_on(source, fetched))
    await until(lambda: source.lag == 0, lambda: source.lag)
    await until(lambda: source.vanished == 30 + 5_000 - len(fetched), lambda: (source.vanished, len(fetched)))
    reading.cancel()
    await source.close()
    assert len(fetched) < 5_000
