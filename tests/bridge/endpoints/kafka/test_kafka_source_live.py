"""What a consumer group promises as a source, on a live broker: what is read, what is committed, what is reported."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, NewPartitions  # type: ignore[attr-defined]

from bridge.endpoint import Delivery, Disconnected, EndOfStream
from bridge.endpoints.kafka.cluster.asking import fetch_committed, make_asking_consumer
from bridge.endpoints.kafka.config import KafkaSource, KafkaTarget, TransactionalTarget
from bridge.endpoints.memory import MemoryTarget
from bridge.endpoints.topics import TopicDestination
from bridge.interop import bind_identity, to_kafka
from bridge.pump import learning
from bridge.pump.pump import Inlet, Pump
from exchange.amqp import get_content
from exchange.errors import InputError
from tests.support.bridge.behaviour import (
    QUICK,
    Reports,
    Silent,
    check_nothing_more,
    eventually_many,
    on_a_loop,
    open_again,
    read_all_of,
    router_of_parity,
    router_to,
)
from tests.support.kafka.broker import PASSWORD, USER, Broker
from tests.support.kafka.topics import Topics
from tests.support.waiting import find_limit, stretch, until, wait_until


def make_source(
    topics: Topics, topic: str, window: int = 1_000, settings: Mapping[str, Any] | None = None
) -> KafkaSource:
    soon = {"heartbeat.interval.ms": 500}  # hears of others
    own = {**topics.settings, **soon, "group.id": f"group-{topic.strip('^')}", **(settings or {})}
    return KafkaSource("read", own, [topic], window=window)


async def read_to_end(source: KafkaSource) -> list[Delivery]:
    found: list[Delivery] = []
    while True:
        try:
            found += await source.read(100)
        except EndOfStream:
            return found


@on_a_loop
async def test_empty_keys_values_and_headers_differ_from_missing_ones(topics: Topics) -> None:
    topic = topics.make()
    producer = Producer(topics.settings)
    headers: list[tuple[str, Any]] = [("a", b"1"), ("b", None), ("a", b"2"), ("a", b"")]
    records: list[tuple[bytes | None, bytes | None]] = [
        (b"k", b"v"),
        (b"", b""),
        (None, b"v"),
        (b"k", None),
        (None, None),
    ]
    for key, value in records:
        producer.produce(topic, value, key, headers=headers, timestamp=1_700_000_000_123)
    assert producer.flush(find_limit()) == 0
    source = make_source(topics, topic)
    await source.open()
    found = await read_all_of(source, 5)
    again = [to_kafka(delivery.message, topic) for delivery in found]
    assert [(record.key, record.value) for record in again] == records
    assert all(list(record.headers) == headers for record in again)
    assert [record.timestamp for record in again] == [1_700_000_000_123] * 5
    assert [delivery.message.routing_key for delivery in found] == ["k", "", "", "k", ""]
    assert {delivery.time for delivery in found} == {1_700_000_000_123_000}
    assert [delivery.origin for delivery in found] == [f"{topic}-0 at {n}" for n in range(5)]
    assert [delivery.identity for delivery in found] == [
        bind_identity(f"kafka/read/{topic}/0/{n}", delivery.message.routing_key.encode(), delivery.message.body)
        for n, delivery in enumerate(found)
    ]
    await source.close()


def test_new_keys_of_records_are_routed_as_columns(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "WORTH", 1)
    topic = topics.make()
    producer = Producer(topics.settings)
    for n in range(5_000):
        producer.produce(topic, b"%d" % n, f"{'odd' if n % 2 else 'even'}.{n}")
    assert producer.flush(find_limit()) == 0

    @on_a_loop
    async def check() -> None:
        router, targets = router_of_parity(), {"even": MemoryTarget("even"), "odd": MemoryTarget("odd")}
        policy = replace(QUICK, window=5_000)
        pump = Pump([Inlet(make_source(topics, topic, 5_000), "in")], router, targets, Silent(), policy)
        running = asyncio.ensure_future(pump.run())
        await eventually_many(targets, 5_000)
        pump.stop()
        await running
        assert router.knows("in", "even.4998")
        assert router._columns is not None
        for rest, target in enumerate(targets.values()):
            assert sorted(int(each.message.body) for each in target.messages) == list(range(rest, 5_000, 2))

    check()


@on_a_loop
async def test_a_record_that_amqp_cannot_hold_is_a_dead_letter(topics: Topics) -> None:
    topic = topics.make()
    producer = Producer(topics.settings)
    producer.produce(topic, b"long", b"k" * 300, headers=[("amqp.routing_key", b"r" * 256)])
    producer.produce(topic, b"fine", b"k")
    assert producer.flush(find_limit()) == 0
    dead, target = MemoryTarget("dead"), MemoryTarget()
    pump = Pump([Inlet(make_source(topics, topic), "in")], router_to("queue"), {"queue": target}, Silent(), QUICK, dead)
    running = asyncio.ensure_future(pump.run())
    await asyncio.to_thread(wait_for, topics, topic, 2, [running])
    pump.stop()
    await running
    [letter] = dead.messages
    assert letter.message.body == b"long"
    assert "routing key" in letter.message.headers["hashstar-reason"]
    assert to_kafka(letter.message, topic).key == b"k" * 300
    assert topics.committed(f"group-{topic}", topic) == {0: 2}


@pytest.mark.smoke
@on_a_loop
async def test_only_committed_records_are_read_and_offsets_may_have_gaps(topics: Topics) -> None:
    topic = topics.make()
    producer = Producer({**topics.settings, "transactional.id": topic})
    await asyncio.to_thread(producer.init_transactions, 30)
    for number, commit in enumerate([True, False, True]):
        producer.begin_transaction()
        for n in range(10):
            producer.produce(topic, b"%d" % (10 * number + n), b"k")
        producer.flush(find_limit())
        await asyncio.to_thread(producer.commit_transaction if commit else producer.abort_transaction, 30)
    source = KafkaSource("read", {**topics.settings, "group.id": topic}, [topic], until_end=True, window=15)
    await source.open()
    found = list(await read_all_of(source, 10))
    source.settle(found[-1])
    found += await read_to_end(source)
    assert [int(d.message.body) for d in found] == [*range(10), *range(20, 30)]
    source.settle(found[-1])
    await source.close()
    assert topics.committed(topic, topic) == {0: found[-1].position + 1}
    assert [each.leader_epoch for each in topics.positions(topic, topic)] == [0]
    await source.open()
    assert await read_to_end(source) == []
    await source.close()


@on_a_loop
async def test_no_more_than_a_window_is_read_beyond_what_is_committed(topics: Topics) -> None:
    topic = topics.make(2)
    topics.put(topic, [(b"%d" % n, b"%d" % n) for n in range(300)])
    source = make_source(topics, topic, window=50)
    await source.open()
    found = await read_all_of(source, 50)
    await check_nothing_more(source)
    for delivery in found[:25]:
        source.settle(delivery)
    await read_no_more_than(source, 25, found)
    assert sum(max(0, offset) for offset in topics.committed(f"group-{topic}", topic).values()) >= 20
    await source.close()


async def read_no_more_than(source: KafkaSource, count: int, found: list[Delivery]) -> None:
    more: list[Delivery] = []
    while len(more) < count:
        try:
            more += await asyncio.wait_for(source.read(100), 1.0)
        except TimeoutError:
            break
    # Of the lanes a prefix is settled, which may be less than what was asked for.
    assert len(more) <= count
    found += more


@pytest.mark.smoke
@on_a_loop
async def test_partitions_move_between_members_while_messages_are_in_flight(topics: Topics) -> None:
    topic, written = topics.make(4), topics.make(4)
    keys = 40

    def make_pump() -> Pump:
        target = KafkaTarget("written", topics.settings, {"queue": TopicDestination(written)})
        return Pump([Inlet(make_source(topics, topic), "in")], router_to("queue"), {"queue": target}, Silent(), QUICK)

    first, second = make_pump(), make_pump()
    runs = [asyncio.ensure_future(first.run())]
    for start in range(0, 6_000, 1_000):
        records = [(b"%d" % (n % keys), b"%d" % n) for n in range(start, start + 1_000)]
        await asyncio.to_thread(topics.put, topic, records)
        if start == 1_000:
            runs.append(asyncio.ensure_future(second.run()))
        if start == 4_000:
            first.stop()
    await asyncio.to_thread(wait_for, topics, topic, 6_000, runs[1:])
    second.stop()
    await asyncio.gather(*runs)
    found = await asyncio.to_thread(topics.read, written, 6_000)
    check_order(found, 6_000, keys)


def wait_for(
    topics: Topics, topic: str, count: int, running: Sequence[asyncio.Future[None]], describe: Callable[[], str] = str
) -> None:
    """Wait until the group has committed ``count`` messages; fail with `describe` if a pump ends before."""
    committed: dict[int, int] = {}

    def is_through() -> bool:
        committed.update(topics.committed(f"group-{topic}", topic))
        return sum(max(0, each) for each in committed.values()) >= count

    wait_until(is_through, lambda: f"{committed} of {count} are committed; {describe()}", running)


class Observer(Silent):
    """Keeps the lanes of everything that was read, and the reasons why connections were lost."""

    def __init__(self) -> None:
        self.lanes: set[Any] = set()
        self.losses: list[str] = []

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        self.lanes.update(delivery.lane for delivery in deliveries)

    def disconnected(self, name: str, error: Exception, _: float) -> None:
        self.losses.append(f"{name}: {error}")

    def describe_state(self, source: KafkaSource, target: KafkaTarget) -> str:
        """Return what keeps messages from moving, as far as it is known."""
        member = source.member
        lanes = [] if member is None else member.assignment.lanes.values()
        kept = [(each.topic, each.partition, each.checked, each.settled, each.committed) for each in lanes]
        heard = "closed" if member is None else f"{member._joining._state}, last heard {member._reasons.latest!r}"
        return (
            f"source: {source.trouble}, {source.lost}, {heard}; (topic, partition, checked, settled, committed): "
            f"{kept}; target: {target.trouble}; lost: {self.losses}"
        )


def check_order(found: Sequence[Any], count: int, keys: int) -> int:
    """Assert that nothing is missing and the first arrivals of each key are in order; return how many came again."""
    first: dict[bytes, dict[int, None]] = {}
    for message in found:
        first.setdefault(message.key(), {})[int(message.value())] = None
    assert {int(key): list(numbers) for key, numbers in first.items()} == {
        key: list(range(key, count, keys)) for key in range(keys)
    }
    return len(found) - count


@on_a_loop
async def test_a_member_that_is_not_read_stays_in_its_group(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.endpoints.kafka.consumer.member.UNREAD_SECONDS", 1.0)
    topic = topics.make(2)
    topics.put(topic, [(b"%d" % n, b"%d" % n) for n in range(100)])
    source = make_source(topics, topic, settings={"max.poll.interval.ms": 3_000, "session.timeout.ms": 3_000})
    await source.open()
    found = await read_all_of(source, 100)
    await asyncio.sleep(5)
    topics.put(topic, [(b"%d" % n, b"%d" % n) for n in range(100, 300)])
    await asyncio.sleep(1)
    found += await read_all_of(source, 200)
    assert sorted(int(d.message.body) for d in found) == list(range(300))
    assert len({d.lane for d in found}) == 2
    await source.close()


@on_a_loop
async def test_a_partition_taken_away_while_paused_is_read_when_it_comes_back(topics: Topics) -> None:
    topic = topics.make(2)
    topics.put(topic, [(b"%d" % n, b"%d" % n) for n in range(20)])
    first, second = make_source(topics, topic), make_source(topics, topic)
    await first.open()
    found = await read_all_of(first, 20)
    assert first.member is not None
    first.member._pause()
    await second.open()
    while len(first.member.assignment.lanes) > 1:  # the other one sees to it that the group is served
        first.member._poll_only()
        await asyncio.sleep(0.01)
    await check_nothing_more(first)
    await second.close()
    topics.put(topic, [(b"%d" % n, b"%d" % n) for n in range(20, 60)])
    while len({int(d.message.body) for d in found}) < 60:
        found += await asyncio.wait_for(first.read(100), find_limit())
    await first.close()


@on_a_loop
async def test_a_partition_that_librdkafka_has_forgotten_ends_the_connection_and_an_empty_one_does_not(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.endpoints.kafka.consumer.fetching.LONGEST_IDLE", 1.0)
    topic = topics.make(3)  # two of them empty
    topics.put(topic, [(b"k", b"v")] * 40)
    source = make_source(topics, topic, window=10, settings={"statistics.interval.ms": 100})
    await source.open()
    assert source.member is not None
    found = await read_all_of(source, 10)
    await check_nothing_more(source)
    await asyncio.sleep(2.5)  # paused, as nothing more may be given
    source.settle(found[-1])
    await read_all_of(source, 10)
    await asyncio.sleep(2.5)
    await check_nothing_more(source)
    # As after an answer to where it begins that librdkafka does not ask for again.
    source.member.consumer.incremental_unassign([TopicPartition(topic, 1)])
    with pytest.raises(Disconnected, match=f"has not begun to fetch from {topic}-1"):
        await asyncio.wait_for(source.read(10), find_limit())
    await source.close()


@on_a_loop
async def test_a_transaction_that_keeps_a_partition_from_being_read_is_reported(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.endpoints.kafka.consumer.fetching.LONGEST_IDLE", 1.0)
    topic = topics.make(2)
    topics.put(topic, [(b"k", b"v")] * 40)
    writer = Producer({**topics.settings, "transactional.id": topic})
    reader = Consumer({**topics.settings, "group.id": topic})
    await asyncio.to_thread(writer.init_transactions, 20)
    writer.begin_transaction()
    begin = [TopicPartition(topic, partition, 3) for partition in range(2)]
    await asyncio.to_thread(writer.send_offsets_to_transaction, begin, reader.consumer_group_metadata(), 20)
    source = make_source(topics, topic, settings={"statistics.interval.ms": 100, "group.id": topic})
    await source.open()
    with pytest.raises(Disconnected, match=f"the offset of group '{topic}' for {topic}-. is in a transaction"):
        await asyncio.wait_for(source.read(10), find_limit())
    await source.close()
    await asyncio.to_thread(writer.commit_transaction, 20)
    await source.open()
    found = await asyncio.wait_for(source.read(1), find_limit())
    assert found[0].position == 3
    await source.close()
    reader.close()


@on_a_loop
async def test_memory_is_bounded_while_nothing_is_settled(topics: Topics) -> None:
    topic = topics.make(2)
    topics.put(topic, [(b"%d" % n, b"%d" % n) for n in range(300)])
    source = make_source(topics, topic, window=10)
    await source.open()
    found = await read_all_of(source, 10)
    with suppress(TimeoutError):
        await asyncio.wait_for(source.read(10), 3)
    assert source.member is not None
    assert 0 < len(source.member.assignment.unread) < 30
    while len(found) < 300:
        source.settle(found[-1])
        for lane in {delivery.lane for delivery in found[-10:]}:
            source.settle([delivery for delivery in found[-10:] if delivery.lane is lane][-1])
        found += await asyncio.wait_for(source.read(10), find_limit())
    assert sorted(int(d.message.body) for d in found) == list(range(300))
    await source.close()


@on_a_loop
async def test_a_partition_whose_offsets_go_back_is_a_new_lane_and_the_old_one_settles_nothing(topics: Topics) -> None:
    """The topic keeps its id, as after a leader that did not have all records."""
    topic = topics.make(1)
    topics.put(topic, [(b"k", b"%d" % n) for n in range(10)])
    source = make_source(topics, topic)
    await source.open()
    before = await read_all_of(source, 10)
    source.settle(before[7])
    await asyncio.to_thread(wait_until, lambda: topics.committed(f"group-{topic}", topic) == {0: 8})
    assert source.member is not None
    source.member.consumer.seek(TopicPartition(topic, 0, 3))
    found = await read_all_of(source, 7)
    assert [delivery.position for delivery in found] == list(range(3, 10))
    assert len({id(delivery.lane) for delivery in [*before, *found]}) == 2
    source.settle(before[-1])
    source.settle(found[1])
    await source.close()
    assert topics.committed(f"group-{topic}", topic) == {0: 5}


async def make_anew(topics: Topics, topic: str, partitions: int) -> None:
    """Delete a topic, and make it once more."""
    topics.admin.delete_topics([topic])[topic].result(find_limit())
    topics.made.remove(topic)
    while True:
        try:
            await asyncio.to_thread(topics.make, partitions, topic)
        except KafkaException:  # it is still being deleted
            await asyncio.sleep(0.1)
        else:
            return


@pytest.mark.smoke
@on_a_loop
@pytest.mark.parametrize("count", [600, 9_000], ids=["shorter", "longer"])
async def test_no_message_is_skipped_of_a_topic_that_is_made_anew_while_it_is_read(topics: Topics, count: int) -> None:
    topic, target, keys = topics.make(4), MemoryTarget(), 40
    topics.put(topic, [(b"%d" % (n % keys), b"old %d" % n) for n in range(4_000)])
    pump = Pump([Inlet(make_source(topics, topic), "in")], router_to("queue"), {"queue": target}, Silent(), QUICK)
    running = asyncio.ensure_future(pump.run())
    await asyncio.to_thread(wait_for, topics, topic, 4_000, [running])
    await make_anew(topics, topic, 4)
    await asyncio.to_thread(topics.put, topic, [(b"%d" % (n % keys), b"%d" % n) for n in range(count)])

    def arrived() -> dict[int, None]:
        return {int(o.message.body): None for o in target.messages if not o.message.body.startswith(b"old")}

    def committed() -> int:
        return sum(max(0, each) for each in topics.committed(f"group-{topic}", topic).values())

    await asyncio.to_thread(
        wait_until, lambda: len(arrived()) == count and committed() == count,
        lambda: f"{len(arrived())} have arrived, and {committed()} of {count} are committed", [running],
    )  # fmt: skip
    pump.stop()
    await running
    # First arrivals of a key that were read before the topic's new id was seen come before those that were skipped.
    by_key: dict[bytes, list[int]] = {}
    for outgoing in target.messages:
        if not outgoing.message.body.startswith(b"old"):
            by_key.setdefault(outgoing.message.routing_key.encode(), []).append(int(outgoing.message.body))
    for key, numbers in by_key.items():
        assert numbers[-len(range(int(key), count, keys)) :] == list(range(int(key), count, keys))
    assert committed() == count


@on_a_loop
async def test_no_message_is_skipped_of_a_topic_that_is_made_anew_while_it_is_not_read(topics: Topics) -> None:
    """Even if the old offset is committed once more, as by a process that was slow to see it."""
    topic = topics.make(1)
    topics.put(topic, [(b"k", b"old %d" % n) for n in range(10)])
    source = make_source(topics, topic)
    await source.open()
    source.settle((await read_all_of(source, 10))[-1])
    await source.close()
    asker = make_asking_consumer({**topics.settings, "group.id": f"group-{topic}"})
    [old] = fetch_committed(asker, [(topic, 0)])
    asker.close()
    assert old.offset == 10
    await make_anew(topics, topic, 1)
    topics.put(topic, [(b"k", b"%d" % n) for n in range(20)])
    late = Consumer({**topics.settings, "group.id": f"group-{topic}"})
    await asyncio.to_thread(late.commit, offsets=[TopicPartition(topic, 0, 10, old.metadata)], asynchronous=False)
    late.close()
    await source.open()
    assert [int(delivery.message.body) for delivery in await read_all_of(source, 20)] == list(range(20))
    await source.close()
    assert topics.committed(f"group-{topic}", topic) == {0: 0}  # nothing was settled, and 10 is of another topic


@on_a_loop
async def test_topics_may_appear_later_and_be_patterns(topics: Topics) -> None:
    early = topics.make(name=f"later-{time.time_ns()}")
    prefix = early + "-"
    source = make_source(topics, f"^{prefix}.*", settings={"topic.metadata.refresh.interval.ms": 500})
    missing = make_source(topics, prefix + "named")
    await source.open()
    with pytest.raises(Disconnected, match="there is no topic"):
        await missing.open()
    await missing.close()
    topics.make(name=prefix + "named")
    topics.put(prefix + "named", [(b"k", b"1")])
    [delivery] = await source.read(10)
    assert delivery.message.exchange == prefix + "named"
    await missing.open()
    assert len(await missing.read(10)) == 1
    await source.close()
    await missing.close()


@on_a_loop
async def test_new_partitions_are_read(topics: Topics) -> None:
    topic = topics.make(1)
    source = make_source(topics, topic, settings={"topic.metadata.refresh.interval.ms": 500})
    await source.open()
    topics.put(topic, [(b"k", b"0")])
    await read_all_of(source, 1)
    for made in topics.admin.create_partitions([NewPartitions(topic, 3)]).values():
        made.result(find_limit())
    producer = Producer(topics.settings)
    await asyncio.sleep(1)
    producer.produce(topic, b"1", b"k", partition=2)
    assert await asyncio.to_thread(producer.flush, 30) == 0
    [delivery] = await source.read(10)
    assert delivery.origin == f"{topic}-2 at 0"
    await source.close()


@on_a_loop
async def test_offsets_that_are_gone_are_an_error_or_skipped_as_configured(topics: Topics) -> None:
    topic = topics.make(1)
    topics.put(topic, [(b"k", b"%d" % n) for n in range(10)])
    for deleted in topics.admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        deleted.result(find_limit())
    strict = make_source(topics, topic, settings={"auto.offset.reset": "error"})
    await strict.open()
    with pytest.raises(Disconnected, match="_AUTO_OFFSET_RESET"):
        await strict.read(10)
    await strict.close()
    source = make_source(topics, topic)
    await source.open()
    assert [int(d.message.body) for d in await read_all_of(source, 5)] == list(range(5, 10))
    await source.close()


@on_a_loop
async def test_a_topic_that_is_deleted_ends_the_connection(topics: Topics) -> None:
    topic = topics.make(1)
    topics.put(topic, [(b"k", b"0")])
    source = make_source(topics, topic, settings={"topic.metadata.refresh.interval.ms": 500})
    await source.open()
    await read_all_of(source, 1)
    topics.admin.delete_topics([topic])[topic].result(find_limit())
    topics.made.remove(topic)
    with pytest.raises(Disconnected, match="UNKNOWN_TOPIC"):
        await asyncio.wait_for(source.read(10), find_limit())
    await source.close()
    with pytest.raises(Disconnected, match="there is no topic"):
        await source.open()
    await source.close()


@on_a_loop
async def test_the_reason_why_a_client_cannot_connect_is_reported(broker: Broker, topics: Topics) -> None:
    topic = topics.make(1)
    login = {
        "bootstrap.servers": broker.login_url, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": USER, "group.id": topic, "log_level": 0,
    }  # fmt: skip
    allowed = KafkaSource("read", {**login, "sasl.password": PASSWORD}, [topic])
    await allowed.open()
    topics.put(topic, [(b"k", b"0")])
    await read_all_of(allowed, 1)
    await allowed.close()
    refused = KafkaSource("read", {**login, "sasl.password": "wrong"}, [topic])
    with pytest.raises(Disconnected, match=r"_AUTHENTICATION: .*Authentication failed"):
        await refused.open()
    await refused.close()
    nowhere = KafkaSource("read", {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}, [topic])
    with pytest.raises(Disconnected, match="Connection refused"):
        await nowhere.open()
    await nowhere.close()
    wrong = KafkaSource("read", {**login, "no.such.setting": 1}, [topic])
    with pytest.raises(InputError, match=r"no\.such\.setting"):
        await wrong.open()
    await wrong.close()


@on_a_loop
async def test_a_broker_may_be_restarted(broker: Broker, topics: Topics) -> None:
    topic, written = topics.make(3), topics.make(3)
    keys, count = 30, 4_000
    records = [(b"%d" % (n % keys), b"%d" % n) for n in range(count)]
    await asyncio.to_thread(topics.put, topic, records)
    target = KafkaTarget("written", topics.settings, {"queue": TopicDestination(written)})
    source = make_source(topics, topic, window=QUICK.window)  # as of a configuration
    inlet = Inlet(source, "in", policy=replace(QUICK, rate=2_000.0))
    observer = Observer()
    pump = Pump([inlet], router_to("queue"), {"queue": target}, observer, QUICK)
    running = asyncio.ensure_future(pump.run())
    await asyncio.sleep(1.0)
    await asyncio.to_thread(broker.stop)
    await asyncio.to_thread(broker.start)
    await asyncio.to_thread(broker.wait)
    await asyncio.to_thread(wait_for, topics, topic, count, [running], lambda: observer.describe_state(source, target))
    pump.stop()
    await running
    # A broker that comes up may put its members out more than once; each time costs a window at most.
    again = len(observer.lanes) - 3
    assert check_order(await asyncio.to_thread(topics.read, written, count), count, keys) <= again * QUICK.window


@on_a_loop
async def test_a_broker_that_is_silent_is_reported_and_so_is_one_that_is_back(broker: Broker, topics: Topics) -> None:
    topic, written = topics.make(2), topics.make(2)
    target, reports = KafkaTarget("written", topics.settings, {"queue": TopicDestination(written)}), Reports()
    transactional, reports_too = (
        TransactionalTarget("once", topics.settings, {"queue": TopicDestination(written)}),
        Reports(),
    )
    source = make_source(topics, topic)
    await source.open()
    await target.open(reports)
    await transactional.open(reports_too)
    reading = asyncio.ensure_future(source.read(10))
    endpoints = source, target, transactional
    assert [each.trouble for each in endpoints] == [None] * 3

    async def all_are(well: bool, seconds: float) -> None:
        async with asyncio.timeout(stretch(seconds)):
            await until(lambda: not any((each.trouble is None) != well for each in endpoints))

    await asyncio.sleep(3.0)  # nothing is wrong, and so it stays
    assert [each.trouble for each in endpoints] == [None] * 3
    await asyncio.to_thread(broker.pause)
    try:
        await all_are(well=False, seconds=12.0)
    finally:
        await asyncio.to_thread(broker.resume)
    await all_are(well=True, seconds=10.0)
    topics.put(topic, [(b"k", b"v")])
    assert len(await reading) == 1
    assert not [*reports.losses, *reports_too.losses]
    for each in endpoints:
        await each.close()


@on_a_loop
async def test_a_check_finds_what_is_there_and_leaves_no_trace(topics: Topics) -> None:
    topic = topics.make(3)
    topics.put(topic, [(b"k", b"v")])
    group = f"group-{topic}"
    source = KafkaSource("read", {**topics.settings, "group.id": group}, [topic, "hashstar-none", f"^{topic}.*", "^zz"])
    found = await source.check()
    assert [each.level for each in found] == ["ok", "error", "ok", "warning", "ok", "ok", "ok"], found
    assert "it survives an outage of 7 d" in found[4].text  # of a topic that is named, and matches a pattern
    assert "no position in 3: read from the start on" in found[-1].text
    assert f"topic '{topic}': 3 partitions" in found[0].text
    assert "there is no topic 'hashstar-none'" in found[1].text
    asked = [each.group_id for each in topics.admin.list_consumer_groups().result(find_limit()).valid]
    assert group not in asked
    assert "hashstar-none" not in topics.admin.list_topics(timeout=find_limit()).topics
    target = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)})
    target._partitioned = {"queue": (topic, 4)}
    levels = {each.key: each for each in await target.check() if each.level != "ok"}
    assert "has 3 partitions, and the topology spreads queue 'queue' over 4" in levels["queues.queue"].text
    nowhere = KafkaTarget("nowhere", topics.settings, {"queue": TopicDestination("hashstar-none")})
    assert [each.level for each in await nowhere.check()] == ["error"]
    with topics.not_allowed(topic, AclOperation.READ):
        assert "may not read" in (await source.check())[0].text
    with topics.not_allowed(topic, AclOperation.WRITE):
        assert "may not write" in (await target.check())[0].text


@on_a_loop
async def test_no_more_large_messages_are_read_at_once_than_fit_into_the_window(topics: Topics) -> None:
    topic = topics.make(2)
    for _ in range(3):
        topics.put(topic, [(b"%d" % n, bytes(900_000)) for n in range(40)])
    source = KafkaSource("read", {**topics.settings, "group.id": topic}, [topic], window=2_000, window_bytes=16 << 20)
    await source.open()
    sizes: list[int] = []
    while sum(sizes) < 120:
        sizes.append(len(await source.read(1_000)))
    assert max(sizes[len(sizes) // 2 :]) <= 3  # an eighth of the window, once it is known how large they are
    await source.close()


@on_a_loop
async def test_deliveries_know_their_content_without_being_decoded(topics: Topics) -> None:
    topic = topics.make()
    topics.put(topic, [(b"k", b"v")])
    source = make_source(topics, topic)
    await open_again(source)
    [delivery] = await source.read(1)
    assert get_content(delivery.message).header("x-kafka-topic") == topic
    await source.close()
