"""Kafka to Kafka exactly once, on live brokers: whatever happens, readers find each message once.

Who reads it reads what is committed. Transactions are cut short by stops, kills, restarts, refusals and fences.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.kafka.config import KafkaSource, TransactionalTarget
from bridge.endpoints.memory import MemoryTarget
from bridge.endpoints.topics import TopicDestination
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Message
from tests.support.bridge.behaviour import QUICK, Reports, Silent, on_a_loop, router_to
from tests.support.kafka.broker import Broker, brokers, image_for_transactions
from tests.support.kafka.copy import Copying
from tests.support.kafka.topics import Topics, topics_at
from tests.support.waiting import find_limit, until, wait_until

KEYS = 40

SOON_HEARD = {"heartbeat.interval.ms": 500}
"""Settings of a member that learns of others soon."""


@pytest.fixture(scope="module")
def restarted() -> Iterator[tuple[Broker, Topics]]:
    """Start a broker of our own, of a release that ends transactions after a restart."""
    with brokers(image=image_for_transactions()) as broker, topics_at(broker.url) as made:
        yield broker, made


class Heard(Silent):
    """Keeps the reasons why connections were lost."""

    def __init__(self) -> None:
        self.lost: list[Exception] = []

    def disconnected(self, name: str, error: Exception, _: float) -> None:
        self.lost.append(error)


class Written(Silent):
    """Counts what bridges say that they have written."""

    def __init__(self) -> None:
        self.count = 0

    def confirmed(self, _: str, messages: Sequence[Outgoing], __: float) -> None:
        self.count += len(messages)


class Copy:
    """Two topics, and bridges from one to the other."""

    def __init__(self, topics: Topics, partitions: int = 4, config: Mapping[str, str] | None = None) -> None:
        self.topics = topics
        self.read = topics.make(partitions)
        self.written = topics.make(partitions, config=config)
        self.count = 0

    def put(self, count: int, size: int = 0) -> None:
        """Put numbered messages into the topic."""
        numbers = range(self.count, self.count + count)
        self.topics.put(self.read, [(b"%d" % (n % KEYS), b"%d" % n + b" " * size) for n in numbers])
        self.count += count

    def source(self, **settings: Any) -> KafkaSource:
        own = {**self.topics.settings, "group.id": self.read, "session.timeout.ms": 6_000, **SOON_HEARD, **settings}
        return KafkaSource("read", own, [self.read], window=300, transactional=True)

    def pump(
        self,
        transactional_id: str | None = None,
        dead: Any = None,
        observer: Any = None,
        policy: Policy = QUICK,
        **settings: Any,
    ) -> Pump:
        target = TransactionalTarget(
            "written", {**self.topics.settings, **settings}, {"queue": TopicDestination(self.written)}, 100, 0.05,
            transactional_id,
        )  # fmt: skip
        inlets = [Inlet(self.source(), "in")]
        return Pump(inlets, router_to("queue"), {"queue": target}, observer or Silent(), policy, dead)

    def job(self, **settings: Any) -> dict[str, Any]:
        """Return the job of a `Copying`."""
        return {
            "bootstrap": self.topics.settings["bootstrap.servers"], "read": self.read, "written": self.written,
            "group": self.read, "transactional": True, "window": 300, "settings": settings,
        }  # fmt: skip

    def done(self) -> int:
        """Return the sum of the offsets that the group has committed."""
        return sum(max(0, offset) for offset in self.topics.committed(self.read, self.read).values())

    def wait(
        self, count: int | None = None, process: Copying | None = None, running: Sequence[asyncio.Future[None]] = ()
    ) -> None:
        """Wait until all messages are committed, or ``count`` are, while the process or the running pumps live."""

        def is_through() -> bool:
            if process is not None:
                process.check()
            return self.done() >= (self.count if count is None else count)

        def describe() -> str:
            return f"{self.done()} of {self.count}; {process and process.read_output()[-5000:]}"

        wait_until(is_through, describe, running)

    def check(self, missing: Mapping[int, int] = {}) -> None:
        """Assert that each message is there once, and the messages of a key are in order."""
        found = self.topics.read(self.written, self.count - len(missing))
        numbers = Counter(int(message.value()) for message in found)
        assert numbers == Counter(range(self.count)) - Counter(missing)
        by_key: dict[bytes, list[int]] = {}
        for message in found:
            by_key.setdefault(message.key(), []).append(int(message.value()))
        assert all(each == sorted(each) for each in by_key.values())


@on_a_loop
async def test_messages_of_a_key_that_go_one_at_a_time_do_not_wait_for_their_own_transaction(topics: Topics) -> None:
    copy = Copy(topics, 1)
    copy.count = 60
    await asyncio.to_thread(topics.put, copy.read, [(b"%d" % (n // 2 % 3), b"%d" % n) for n in range(copy.count)])
    pump = copy.pump(policy=replace(QUICK, one_at_a_time=True))
    run = asyncio.ensure_future(pump.run())
    await asyncio.to_thread(copy.wait, running=[run])
    pump.stop()
    await run
    await asyncio.to_thread(copy.check)


@on_a_loop
async def test_each_message_arrives_once_while_bridges_start_and_stop(topics: Topics) -> None:
    copy, written = Copy(topics), Written()
    await asyncio.to_thread(copy.put, 1_000)
    pumps = [copy.pump(observer=written) for _ in range(3)]
    runs = [asyncio.ensure_future(pumps[0].run())]
    await asyncio.to_thread(copy.wait, 300, running=runs)
    for more in pumps[1:]:
        runs.append(asyncio.ensure_future(more.run()))
        await asyncio.to_thread(copy.put, 1_500)
    await asyncio.to_thread(copy.wait, 2_500, running=runs)
    pumps[0].stop()
    await asyncio.to_thread(copy.put, 1_000)
    await asyncio.to_thread(copy.wait, running=runs[1:])
    for pump in pumps[1:]:
        pump.stop()
    await asyncio.gather(*runs)
    await asyncio.to_thread(copy.check)
    assert written.count == copy.count  # what was in an aborted transaction counts where it was committed
    assert {each.leader_epoch for each in await asyncio.to_thread(topics.positions, copy.read, copy.read)} == {0}


@pytest.mark.smoke
def test_a_bridge_that_was_thought_dead_cannot_write_what_its_successor_wrote(topics: Topics) -> None:
    copy = Copy(topics)
    copy.put(4_000)
    job = copy.job(**{"transaction.timeout.ms": 3_000})
    first = Copying(job)
    copy.wait(500, first)
    first.send(signal.SIGSTOP)
    second = Copying(job)
    copy.wait(process=second)
    copy.put(2_000)
    first.send(signal.SIGCONT)
    copy.wait(process=second)
    copy.put(1_000)
    copy.wait(process=second)
    first.stop()
    second.stop()
    copy.check()


@pytest.mark.parametrize(
    "settings",
    [{}, {"metadata.recovery.strategy": "rebootstrap", "transaction.timeout.ms": 5_000}],
    ids=["as it is", "with a producer that may never come back"],
)
def test_each_message_arrives_once_when_a_broker_is_restarted_during_transactions(
    restarted: tuple[Broker, Topics], settings: dict[str, Any]
) -> None:
    broker, topics = restarted
    copy = Copy(topics)
    copy.put(8_000)
    process = Copying(copy.job(**settings))
    copy.wait(500, process)
    broker.stop()
    broker.start()
    broker.wait()
    copy.put(500)
    copy.wait(process=process)
    process.stop()
    copy.check()


@on_a_loop
async def test_messages_that_brokers_refuse_are_dead_letters_and_the_others_arrive_once(topics: Topics) -> None:
    copy = Copy(topics, config={"max.message.bytes": "3000"})
    await asyncio.to_thread(copy.put, 150)
    await asyncio.to_thread(copy.put, 1, 2_900)  # which the client thinks will fit, and with its headers does not
    await asyncio.to_thread(copy.put, 150)
    await asyncio.to_thread(copy.put, 1, 200_000)
    await asyncio.to_thread(copy.put, 100)
    dead, heard = MemoryTarget("dead"), Heard()
    pump = copy.pump(dead=dead, observer=heard)
    running = asyncio.ensure_future(pump.run())
    await asyncio.to_thread(copy.wait, running=[running])
    assert not heard.lost
    pump.stop()
    await running
    assert sorted(int(each.message.body) for each in dead.messages) == [150, 301]
    assert all("MSG_SIZE_TOO_LARGE" in each.message.headers["hashstar-reason"] for each in dead.messages)
    await asyncio.to_thread(copy.check, {150: 1, 301: 1})


@on_a_loop
async def test_of_a_transaction_s_batches_only_records_that_are_refused_alone_are_dead_letters(topics: Topics) -> None:
    copy = Copy(topics, 2, {"cleanup.policy": "compact"})
    guilty = [n for n in range(600) if n % 200 == 77]
    records = [(None if n in guilty else b"%d" % (n % KEYS), b"%d" % n) for n in range(600)]
    await asyncio.to_thread(copy.topics.put, copy.read, records)
    copy.count = len(records)
    dead, heard = MemoryTarget("dead"), Heard()
    pump = copy.pump(dead=dead, observer=heard)
    running = asyncio.ensure_future(pump.run())
    await asyncio.to_thread(copy.wait, running=[running])
    pump.stop()
    await running
    assert not heard.lost
    assert sorted(int(each.message.body) for each in dead.messages) == guilty
    await asyncio.to_thread(copy.check, dict.fromkeys(guilty, 1))


@on_a_loop
async def test_offsets_of_dead_letters_are_committed_and_at_the_end_at_once(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.endpoints.kafka.producer.transactional.IDLE", 60.0)
    copy = Copy(topics, 1, {"max.message.bytes": "3000"})
    await asyncio.to_thread(copy.put, 3, 200_000)
    dead = MemoryTarget("dead")
    pump = copy.pump(dead=dead)
    running = asyncio.ensure_future(pump.run())
    await until(lambda: len(dead.messages) >= 3 or running.done())
    pump.stop()
    await running
    assert await asyncio.to_thread(copy.done) == 3


@on_a_loop
async def test_a_transaction_that_took_too_long_is_aborted_and_the_next_may_take_longer(topics: Topics) -> None:
    copy = Copy(topics, 1)
    await asyncio.to_thread(copy.put, 50)
    source = copy.source()
    settings = {**topics.settings, "transaction.timeout.ms": 1_000}
    # Longer than the first two timeouts, after which the broker of these tests looks every 0.2 s.
    target = TransactionalTarget("written", settings, {"queue": TopicDestination(copy.written)}, 100, 3.0)
    pump = Pump([Inlet(source, "in")], router_to("queue"), {"queue": target}, Silent(), QUICK)
    running = asyncio.ensure_future(pump.run())
    await asyncio.to_thread(copy.wait, running=[running])
    pump.stop()
    await running
    assert target._timeout >= 4_000
    await asyncio.to_thread(copy.check)


@on_a_loop
async def test_two_bridges_with_one_id_fence_each_other_and_write_nothing_twice(topics: Topics) -> None:
    copy = Copy(topics)
    await asyncio.to_thread(copy.put, 1_000)
    first, second = copy.pump("one-id"), copy.pump("one-id")
    runs = [asyncio.ensure_future(first.run())]
    await asyncio.to_thread(copy.wait, 100, running=runs)
    runs.append(asyncio.ensure_future(second.run()))
    await asyncio.sleep(2)
    first.stop()
    await runs[0]
    await asyncio.to_thread(copy.put, 1_000)
    await asyncio.to_thread(copy.wait, running=runs[1:])
    second.stop()
    await runs[1]
    await asyncio.to_thread(copy.check)


@on_a_loop
async def test_a_topic_that_is_deleted_meanwhile_loses_the_target(topics: Topics) -> None:
    copy = Copy(topics)
    await asyncio.to_thread(copy.put, 200)
    heard = Heard()
    known: dict[str, Any] = {"topic.metadata.refresh.interval.ms": 300, "topic.metadata.propagation.max.ms": 500}
    pump = copy.pump(observer=heard, **known)
    running = asyncio.ensure_future(pump.run())
    await asyncio.to_thread(copy.wait, running=[running])
    topics.admin.delete_topics([copy.written])[copy.written].result(find_limit())
    topics.made.remove(copy.written)
    await asyncio.sleep(1.0)
    await asyncio.to_thread(copy.put, 200)
    await until(lambda: heard.lost or running.done())
    pump.stop()
    await running
    assert "UNKNOWN" in str(heard.lost[0])


@on_a_loop
async def test_a_missing_permission_loses_the_target_and_once_granted_all_arrive_once(topics: Topics) -> None:
    copy = Copy(topics)
    await asyncio.to_thread(copy.put, 200)
    heard = Heard()
    pump = copy.pump(observer=heard)
    with topics.not_allowed(copy.written, AclOperation.WRITE):
        running = asyncio.ensure_future(pump.run())
        await until(lambda: heard.lost or running.done())
    assert "TOPIC_AUTHORIZATION_FAILED" in str(heard.lost[0])
    await asyncio.to_thread(copy.wait, running=[running])
    pump.stop()
    await running
    await asyncio.to_thread(copy.check)


@on_a_loop
async def test_a_message_of_another_source_loses_the_target(topics: Topics) -> None:
    target = TransactionalTarget("written", topics.settings, {"queue": TopicDestination(topics.make())})
    reports = Reports()
    await target.open(reports)
    message = Message("", "k")
    target.send([Outgoing(message, Delivery(message, "lane", origin="queue q"), "queue", None, 1)])
    await reports.loss()
    assert "a message from queue q cannot be in a transaction" in str(reports.losses[0])
    await target.close()


@on_a_loop
async def test_a_member_that_was_put_out_of_its_group_has_no_metadata_to_commit_with(topics: Topics) -> None:
    copy = Copy(topics, 1)
    await asyncio.to_thread(copy.put, 5)
    source = copy.source(**{"session.timeout.ms": 3_000, "max.poll.interval.ms": 3_000})
    await source.open()
    try:
        member = source.member
        assert member is not None
        assert member.assignment.group_metadata() is None
        while member.assignment.group_metadata() is None:
            await source.read(10)
        time.sleep(6)  # noqa: ASYNC251  as a loop that hangs; nothing is heard of what happens meanwhile
        assert member.assignment.lanes
        assert member.assignment.group_metadata() is None
    finally:
        # A consumer that is not closed may hang as it is collected, in whatever test runs then.
        await source.close()
