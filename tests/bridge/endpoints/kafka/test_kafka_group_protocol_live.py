"""Groups by the protocol of Kafka 4 (``group.protocol = "consumer"``, KIP-848), and brokers that do not know it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from bridge.endpoint import Delivery, Disconnected
from bridge.endpoints.kafka.config import KafkaSource, TransactionalTarget
from bridge.endpoints.kafka.consumer import fetching
from bridge.endpoints.topics import TopicDestination
from bridge.pump.pump import Inlet, Pump
from tests.support.bridge.behaviour import QUICK, Silent, on_a_loop, read_all_of, router_to
from tests.support.kafka.topics import Topics, topics_at
from tests.support.servers import Server, missing
from tests.support.waiting import find_limit, wait_until

NEW = {"group.protocol": "consumer"}


def source_of(topics: Topics, topic: str, **more: Any) -> KafkaSource:
    return KafkaSource("read", {**topics.settings, **NEW, "group.id": f"g-{topic}"}, [topic], **more)


def server_from(servers: list[Server], *, new: bool) -> Server:
    """Return a server that knows the protocol, or one that does not."""
    found = [server for server in servers if (server.version_info >= (4, 0)) is new]
    return found[0] if found else missing(f"no Kafka {'from' if new else 'before'} 4.0")


@on_a_loop
async def test_members_share_partitions_and_go_on_after_what_was_settled(
    kafka_servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "LONG_WAIT_SECONDS", 1.0)
    with topics_at(server_from(kafka_servers, new=True).url) as topics:
        topic = topics.make(4)
        topics.put(topic, [(b"%d" % n, b"%d" % n) for n in range(200)])
        one = source_of(topics, topic)
        await one.open()
        found = await read_all_of(one, 200)
        for delivery in found:
            one.settle(delivery)
        two = source_of(topics, topic)
        await two.open()
        fresh: list[Delivery] = []
        async with asyncio.timeout(find_limit()):
            while not _lanes(two) or len(_lanes(one)) == 4 or one.trouble or two.trouble:
                fresh += [*_take(one), *_take(two)]
                await asyncio.sleep(0.05)
            assert (one.lost, two.lost) == (None, None)
            topics.put(topic, [(b"%d" % n, b"%d" % n) for n in range(200, 400)])
            while len(fresh) < 200:
                fresh += [*_take(one), *_take(two)]
                await asyncio.sleep(0.05)
        assert Counter(int(delivery.message.body) for delivery in fresh) == Counter(range(200, 400))
        assert {each.topic for each in (*_lanes(one), *_lanes(two))} == {topic}
        for end in (one, two):
            findings = await end.check()
            assert not [each for each in findings if each.level == "error"], findings
            await end.close()


@on_a_loop
async def test_a_group_that_divides_partitions_in_another_way_is_an_error(kafka: Server) -> None:
    with topics_at(kafka.url) as topics:
        topic = topics.make(1)
        strategy = "partition.assignment.strategy"
        settings = {**topics.settings, "group.id": f"g-{topic}"}
        member = KafkaSource("other", {**settings, strategy: "roundrobin"}, [topic])
        topics.put(topic, [(b"key", b"0")])
        await member.open()
        await read_all_of(member, 1)
        ours, theirs = (
            KafkaSource("read", settings, [topic]),
            KafkaSource("read", {**settings, strategy: "roundrobin"}, [topic]),
        )
        [error] = [each for each in await ours.check() if each.level == "error"]
        assert "divide partitions by roundrobin, and this source by cooperative-sticky: give it a group" in error.text
        assert not [each for each in await theirs.check() if each.level == "error"]
        await member.close()


def _lanes(source: KafkaSource) -> list[Any]:
    return [] if source.member is None else [*source.member.assignment.lanes.values()]


def _take(source: KafkaSource) -> list[Delivery]:
    assert source.member is not None
    return source.member.take(100)


@on_a_loop
async def test_offsets_are_committed_in_transactions_by_members_of_such_groups(kafka_servers: list[Server]) -> None:
    """The epoch of a member is its generation."""
    with topics_at(server_from(kafka_servers, new=True).url) as topics:
        read, written = topics.make(2), topics.make(2)
        topics.put(read, [(b"%d" % n, b"%d" % n) for n in range(100)])
        source = source_of(topics, read, transactional=True)
        target = TransactionalTarget("written", topics.settings, {"queue": TopicDestination(written)}, 20, 0.05)
        pump = Pump([Inlet(source, "in")], router_to("queue"), {"queue": target}, Silent(), QUICK)
        running = asyncio.ensure_future(pump.run())
        await asyncio.to_thread(
            wait_until, lambda: sum(topics.committed(f"g-{read}", read).values()) >= 100, str, [running]
        )
        pump.stop()
        await running
        bodies = Counter(int(message.value()) for message in topics.read(written, 100))
        assert bodies == Counter(range(100))


@on_a_loop
async def test_brokers_that_do_not_know_it_are_named_at_once_and_by_the_check(kafka_servers: list[Server]) -> None:
    """The member would wait for ever: librdkafka reports nothing."""
    with topics_at(server_from(kafka_servers, new=False).url) as topics:
        topic = topics.make()
        source = source_of(topics, topic)
        with pytest.raises(Disconnected, match=r'do not know group.protocol = "consumer" .*needs Kafka 4.0 or later'):
            await source.open()
        await source.close()
        [error] = [each for each in await source.check() if each.level == "error"]
        assert error.key == "librdkafka"
        assert "needs Kafka 4.0" in error.text
