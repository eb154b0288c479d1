"""Share groups of Kafka (KIP-932) as a source, on live brokers, and brokers that do not know them."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]

from bridge.endpoint import Disconnected, Failure
from bridge.endpoints.kafka.config import KafkaSource
from bridge.endpoints.kafka.consumer import share
from bridge.endpoints.kafka.consumer.share import ShareSource
from bridge.endpoints.kafka.consumer.share_group import LIMIT, LOCK_SECONDS, SAFE_DELIVERIES
from bridge.endpoints.memory import MemoryTarget
from bridge.pump.pump import Inlet, Pump
from exchange import Message
from tests.support.bridge.behaviour import (
    QUICK,
    Place,
    Silent,
    bodies,
    make_messages,
    on_a_loop,
    read_all_of,
    router_to,
)
from tests.support.bridge.share_behaviour import MakePlace, ShareBehaviour, place_of_share_group
from tests.support.kafka.broker import Broker
from tests.support.kafka.copy import Copying
from tests.support.kafka.topics import Topics, topics_at
from tests.support.servers import Server, missing
from tests.support.waiting import find_limit, until, wait_until

RIGHT = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed", LIMIT: "10"}
"""Settings of a group of which the check warns of nothing."""


def server_from(servers: list[Server], *, new: bool) -> Server:
    """Return a server that has share groups, or one that has not even a preview of them."""
    found = [each for each in servers if (each.version_info >= (4, 2) if new else each.version_info < (4, 1))]
    return found[0] if found else missing(f"no Kafka {'from 4.2' if new else 'before 4.1'}")


@pytest.fixture(scope="module")
def topics(kafka_servers: list[Server]) -> Iterator[Topics]:
    with topics_at(server_from(kafka_servers, new=True).url) as made:
        yield made


def make_read_topic(topics: Topics, partitions: int = 1, **settings: str) -> str:
    """Make a topic, and a share group of the same name with the right settings, and these."""
    topic = topics.make(partitions)
    for name, value in {**RIGHT, **{each.replace("_", "."): value for each, value in settings.items()}}.items():
        topics.configure_group(topic, name, value)
    return topic


def put(topics: Topics, topic: str, first: int, stop: int) -> None:
    topics.put(topic, [(m.routing_key.encode(), m.body) for m in make_messages(first, stop)])


def source_of(topics: Topics, topic: str, **more: Any) -> ShareSource:
    return ShareSource("read", {**topics.settings, "group.id": topic}, [topic], **more)


@pytest.fixture
def make_place(topics: Topics) -> MakePlace:
    """Make topics of one partition: a poll gives records of one, and nothing else is read before they are settled."""

    def make(lock_seconds: float = LOCK_SECONDS, limit: int = SAFE_DELIVERIES) -> Place:
        lock = str(int(lock_seconds * 1_000))
        read = make_read_topic(topics, share_record_lock_duration_ms=lock, share_delivery_count_limit=str(limit))

        def put_all(messages: Sequence[Message]) -> None:
            topics.put(read, [(message.routing_key.encode(), message.body) for message in messages])

        return place_of_share_group(lambda: source_of(topics, read), put_all)

    return make


class TestShareSource(ShareBehaviour):
    """`ShareSource`."""


@on_a_loop
async def test_what_is_refused_becomes_a_dead_letter_once_and_the_rest_is_written(topics: Topics) -> None:
    topic = make_read_topic(topics, 2)
    put(topics, topic, 0, 200)
    target = MemoryTarget("t", lambda o: Failure("odd", final=True) if int(o.message.body) % 10 == 7 else None)
    dead = MemoryTarget("dead")
    pump = Pump([Inlet(source_of(topics, topic), "in")], router_to("queue"), {"queue": target}, Silent(), QUICK, dead)
    running = asyncio.ensure_future(pump.run())
    await until(lambda: len(target.messages) + len(dead.messages) >= 200)
    pump.stop()
    await running
    assert sorted(int(o.message.body) for o in dead.messages) == list(range(7, 200, 10))
    assert Counter(int(o.message.body) for o in target.messages) == Counter(n for n in range(200) if n % 10 != 7)
    again = source_of(topics, topic)
    await again.open()
    put(topics, topic, 200, 201)
    assert bodies(await again.read(10)) == [b"200"]
    await again.close()


def test_nothing_is_lost_when_processes_that_share_a_partition_are_killed(topics: Topics) -> None:
    count, window, kills = 3_000, 100, 3
    topic, written = make_read_topic(topics), topics.make()
    for n in range(0, count, 20):  # a batch of a producer would go to one member as a whole
        put(topics, topic, n, n + 20)
    job = {
        "bootstrap": topics.settings["bootstrap.servers"], "read": topic, "written": written, "group": topic,
        "transactional": False, "window": window, "group_type": "share",
    }  # fmt: skip
    processes = [Copying(job) for _ in range(2)]
    for kill in range(kills):
        seen = topics.find_end(written)
        wait_until(lambda seen=seen: topics.find_end(written) > seen + 200)  # type: ignore[misc]
        processes[kill % 2].kill()
        processes[kill % 2] = Copying(job)

    def find_missing() -> set[int]:
        found = {int(message.value()) for message in topics.read(written, count)}
        return {*range(count)} - found

    wait_until(lambda: topics.find_end(written) >= count and not find_missing(), find_missing)
    wait_until(lambda: all("reading" in process.read_output() for process in processes))
    for process in processes:
        process.stop()
    found = topics.read(written, count)
    assert {int(message.value()) for message in found} == {*range(count)}
    assert len(found) - count <= kills * window


@on_a_loop
async def test_a_check_says_what_a_group_costs_and_that_order_is_not_kept(topics: Topics) -> None:
    topic = topics.make(2)
    put(topics, topic, 0, 5)
    new = source_of(topics, topic)
    texts: dict[str, list[str]] = defaultdict(list)
    for each in await new.check():
        texts[each.level].append(each.text)
    assert "error" not in texts
    assert any("any order" in text for text in texts["ok"])
    begins, aborted, dropped = texts["warning"]
    assert "are never read; kafka-configs.sh" in begins
    assert "share.auto.offset.reset=earliest" in begins
    assert "aborted" in aborted
    assert "that came 5 times" in dropped
    right = make_read_topic(topics)
    [warning] = [each for each in await source_of(topics, right, one_at_a_time=True).check() if each.level == "warning"]
    assert "one_at_a_time promise an order per key, and a share group has none" in warning.text
    right = make_read_topic(topics, share_record_lock_duration_ms="15000")
    for seconds, count in ((14.0, 0), (15.0, 1), (60.0, 1)):
        found = await source_of(topics, right, give_up_after=seconds).check()
        warnings = [each.text for each in found if each.level == "warning"]
        assert ["its lock of 15 s has ended" in each for each in warnings] == [True] * count


@on_a_loop
async def test_a_group_of_the_other_type_is_an_error_of_the_check_and_at_the_start(topics: Topics) -> None:
    topic = topics.make()
    put(topics, topic, 0, 3)
    member = KafkaSource("other", {**topics.settings, "group.id": topic}, [topic])
    await member.open()
    for delivery in await read_all_of(member, 3):
        member.settle(delivery)
    await member.close()
    source = source_of(topics, topic)
    [error] = [each for each in await source.check() if each.level == "error"]
    assert "is a consumer group, and none is both: choose another name" in error.text
    await source.open()
    with pytest.raises(Disconnected, match="is a consumer group"):
        await asyncio.wait_for(source.read(1), find_limit())
    await source.close()


@on_a_loop
async def test_rights_to_the_group_that_are_missing_are_named(kafka_broker: Broker) -> None:
    with topics_at(kafka_broker.url) as topics:
        topic = make_read_topic(topics)
        source = source_of(topics, topic)
        with topics.not_allowed(topic, AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP):
            [hidden] = [each for each in await source.check() if each.key == "group"]
            assert hidden.level == "not checked"
            assert "allow DESCRIBE_CONFIGS of the group" in hidden.text
        with topics.not_allowed(topic, AclOperation.READ, ResourceType.GROUP):
            await source.open()
            with pytest.raises(Disconnected, match="GROUP_AUTHORIZATION_FAILED"):
                await asyncio.wait_for(source.read(1), find_limit())
            await source.close()


@on_a_loop
async def test_a_topic_that_is_deleted_ends_the_connection(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "LOOK_EVERY", 0.2)
    topic = make_read_topic(topics)
    source = source_of(topics, topic)
    await source.open()
    topics.admin.delete_topics([topic])[topic].result(find_limit())
    topics.made.remove(topic)
    with pytest.raises(Disconnected, match=topic):
        await asyncio.wait_for(source.read(1), find_limit())
    await source.close()
    with pytest.raises(Disconnected):
        await source.open()
    await source.close()


@on_a_loop
async def test_brokers_without_share_groups_are_named_at_once_and_by_the_check(kafka_servers: list[Server]) -> None:
    """The member would wait for ever: librdkafka reports nothing."""
    with topics_at(server_from(kafka_servers, new=False).url) as topics:
        topic = topics.make()
        source = source_of(topics, topic)
        with pytest.raises(
            Disconnected, match=r'do not know share groups .*Kafka 4.2 or later; write group_type = "con'
        ):
            await source.open()
        await source.close()
        [error] = [each for each in await source.check() if each.level == "error"]
        assert error.key == "group_type"
        assert "Kafka 4.2 or later" in error.text
