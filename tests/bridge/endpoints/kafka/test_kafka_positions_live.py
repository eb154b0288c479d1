"""A position that a partition does not have any more: a check shows what a source then does, and the source does it."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from bridge.endpoint import Disconnected, Source
from bridge.endpoints.kafka.config import KafkaSource
from tests.support.bridge.behaviour import on_a_loop, read_all_of
from tests.support.bridge.positions import look_at_position, read_numbers
from tests.support.kafka.topics import Topics
from tests.support.waiting import wait_until


def commit(topics: Topics, offset: TopicPartition) -> None:
    """Commit an offset of the group that is called as its topic; the coordinator knows the topic a moment later."""

    def is_taken() -> bool:
        [done] = topics.admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(offset.topic, [offset])]
        ).values()
        return done.result().topic_partitions[0].error is None

    wait_until(is_taken)


@on_a_loop
@pytest.mark.parametrize(
    ("reset", "level", "words", "count"),
    [
        ("earliest", "warning", "read from the start on, 20 messages", 20),
        ("latest", "warning", "the 20 messages there now are skipped", 0),
        ("error", "error", "not read; auto.offset.reset is 'error'", None),
    ],
)
async def test_a_group_whose_offset_its_partition_has_not(
    topics: Topics, reset: str, level: str, words: str, count: int | None
) -> None:
    """Beyond the end, as of a broker that was restored, and before the first record that is left."""
    for offset, what in ((500, "ends before what was read"), (3, "7 messages removed unread")):
        topic = topics.make()
        topics.put(topic, [(b"k", b"%d" % n) for n in range(30)])
        gone = topics.admin.delete_records([TopicPartition(topic, 0, 10)])
        assert [each.result().low_watermark for each in gone.values()] == [10]
        commit(topics, TopicPartition(topic, 0, offset))
        settings = {**topics.settings, "group.id": topic, "auto.offset.reset": reset}
        [(found, text)] = await look_at_position(KafkaSource("read", settings, [topic]), "group")
        assert (found, words in text, what in text) == (level, True, True), text
        source = KafkaSource("read", settings, [topic])
        if count is None:
            with pytest.raises(Disconnected):
                await read_numbers(source, 1)
        elif count:
            assert await read_numbers(source, count) == [*range(10, 30)]
        else:
            await _read_what_comes_later(source, topics, topic)


async def _read_what_comes_later(source: Source, topics: Topics, topic: str) -> None:
    """Read on at the end: of what was there before, nothing is read."""
    await source.open()
    reading = asyncio.ensure_future(source.read(1))
    number = 1_000
    while not reading.done():  # it is at the end a moment after it was opened
        await asyncio.to_thread(topics.put, topic, [(b"k", b"%d" % number)])
        number += 1
        await asyncio.wait([reading], timeout=0.5)
    assert int(reading.result()[0].message.body) >= 1_000
    await source.close()


@on_a_loop
async def test_an_offset_of_another_topic_of_this_name(topics: Topics) -> None:
    """As the offsets of a bridge whose topic was made anew, where brokers keep a group's: it is read whole."""
    topic = topics.make()
    topics.put(topic, [(b"k", b"%d" % n) for n in range(40)])
    other = TopicPartition(topic, 0, 30, "hashstar topic=AnotherTopicsIdOf22Byte")
    commit(topics, other)
    settings = {**topics.settings, "group.id": topic, "auto.offset.reset": "latest"}
    [(level, text)] = await look_at_position(KafkaSource("read", settings, [topic]), "group")
    assert level == "warning"
    assert "made anew since it was read: read from the start on, 40 messages" in text
    source = KafkaSource("read", settings, [topic])
    await source.open()
    for each in (found := await read_all_of(source, 40)):
        source.settle(each)
    assert [int(each.message.body) for each in found] == [*range(40)]
    await source.close()
    [(level, text)] = await look_at_position(source, "group")
    assert (level, "goes on where it was in 1, 0 messages behind" in text) == ("ok", True), text
