"""Transactions on live brokers, beside Java's TransactionMQProducer: what consumers get, and who is asked."""

from __future__ import annotations

import asyncio
import base64
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bridge.rocketmq.producer.decisions import Decision, SqliteDecisions
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.producer.transactions import Transactions
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from bridge.rocketmq.remoting.properties import IllegalMessage
from exchange.errors import InputError
from tests.support.rocketmq.broker import Broker, broker
from tests.support.rocketmq.groups import consumer_of, read, topic_at
from tests.support.rocketmq.member import java, transact_with_java
from tests.support.rocketmq.transacting import GROUP
from tests.support.servers import SERVERS
from tests.support.waiting import find_limit, until

MESSAGES = int(os.environ.get("HASHSTAR_ROCKETMQ_MESSAGES", "1000"))
HASTY = {"transactionTimeOut": "2000", "transactionCheckInterval": "1000", "transactionCheckMax": "100000"}
"""Brokers ask soon and often: after two seconds, each second. After 15 times, their default, they would give a message
up: that is less than a JVM may take to start on a busy machine."""
IMAGES = SERVERS["rocketmq"].images()


@pytest.fixture(scope="module", params=IMAGES)
def asking(request: pytest.FixtureRequest) -> Iterator[tuple[Broker, str]]:
    """Yield a broker that asks soon, and its version."""
    with broker(HASTY, request.param) as started:
        yield started, request.param.rpartition(":")[2]


def run(url: str, test: Callable[[Client, str], Awaitable[None]]) -> None:
    async def work() -> None:
        async with Client(ClientSettings(url)) as client:
            await test(client, await topic_at(client, "transactions"))

    asyncio.run(asyncio.wait_for(work(), find_limit(240)))


async def bodies(client: Client, topic: str, count: int) -> Counter[bytes]:
    """Return the bodies of this number of messages and of those that come within two seconds after them."""
    async with consumer_of(client, topic, group=f"g-{topic}-{count}") as consumer:
        found = await read(consumer, count) if count else []
        try:
            async with asyncio.timeout(2):
                while True:
                    found += await consumer.receive()
        except TimeoutError:
            return Counter(each.body for each in found)


def test_consumers_get_what_is_committed_and_nothing_else(asking: tuple[Broker, str]) -> None:
    async def test(client: Client, topic: str) -> None:
        checked: list[bytes] = []

        def check(message: StoredMessage) -> Decision:
            assert message.topic == topic
            checked.append(message.body)
            return Decision.UNKNOWN if checked.count(message.body) == 1 else Decision.COMMIT

        async with (
            Producer(client, ProducerSettings(f"p-{topic}")) as producer,
            Transactions(producer, check=check) as transactions,
        ):
            async with transactions.begin(RocketMessage.build(topic, b"committed", tags="t", keys="k")):
                pass
            async with transactions.begin(RocketMessage.build(topic, b"rolled back")) as transaction:
                assert await transaction.rollback()
                with pytest.raises(InputError, match="is decided already"):
                    await transaction.commit()
            with pytest.raises(ValueError, match="fails"):
                async with transactions.begin(RocketMessage.build(topic, b"failed")):
                    raise ValueError("fails")
            async with transactions.begin(RocketMessage.build(topic, b"asked")) as transaction:
                transaction.leave_open()
            with pytest.raises(IllegalMessage, match="cannot be delayed"):
                async with transactions.begin(RocketMessage.build(topic, b"late", delay_level=1)):
                    pass
            # A transaction that takes long is asked about, and the answer is that it is not decided yet.
            async with transactions.begin(RocketMessage.build(topic, b"slow")):
                await asyncio.sleep(5)
            assert await bodies(client, topic, 3) == Counter([b"committed", b"asked", b"slow"])
            # The broker asks once more, unless it has read the answer by then.
            assert set(checked) == {b"asked"}
            assert len(checked) >= 2

    run(asking[0].url, test)


def test_a_producer_that_was_killed_before_it_committed_completes_its_transactions(
    asking: tuple[Broker, str], tmp_path: Path
) -> None:
    async def test(client: Client, topic: str) -> None:
        path = tmp_path / "decisions.db"
        arguments = [sys.executable, "-m", "tests.support.rocketmq.transacting", asking[0].url, topic, str(path)]
        process = await asyncio.create_subprocess_exec(
            *arguments, str(MESSAGES), stdout=asyncio.subprocess.PIPE, limit=1 << 24
        )
        ids: list[str] = []
        assert process.stdout is not None
        while (line := (await process.stdout.readline()).decode().strip()) != "ready":
            assert line
            ids.append(line)
        process.kill()
        await process.wait()
        with closing(sqlite3.connect(path)) as database:
            decided = dict(database.execute("SELECT id, decision FROM decisions").fetchall())
        committed = {each for each, decision in decided.items() if decision == Decision.COMMIT.value}
        assert len(ids) == MESSAGES + 90
        assert len(decided) == MESSAGES + 60
        asked: set[str] = set()

        def check(message: StoredMessage) -> Decision:
            asked.add(message.message_id)
            return Decision.ROLLBACK  # what was not decided was not done

        async with (
            Producer(client, ProducerSettings(GROUP)) as producer,
            Transactions(producer, SqliteDecisions(path), check, topics=[topic]),
            consumer_of(client, topic) as consumer,
        ):
            counts: Counter[str] = Counter()

            async def consume() -> None:
                while True:
                    for each in await consumer.receive():
                        counts[each.message_id] += 1
                        consumer.done(each)

            task = asyncio.create_task(consume())
            await until(lambda: committed <= counts.keys() and asked >= set(ids) - decided.keys())
            await asyncio.sleep(3)  # for what must not come
            task.cancel()
        # At least once: the process may have been killed before it noted that the broker had confirmed a decision.
        print(f"{counts.total() - len(committed)} of {len(committed)} came more than once")
        assert set(counts) == committed
        assert asked == set(ids) - decided.keys()

    run(asking[0].url, test)


def test_java_s_producer_and_ours_answer_for_each_other(asking: tuple[Broker, str]) -> None:
    started, version = asking
    jars = java(version)

    async def test(client: Client, topic: str) -> None:
        group = f"p-{topic}"
        rows = [(topic, b"java commits", "COMMIT_MESSAGE"), (topic, b"java rolls back", "ROLLBACK_MESSAGE"),
                (topic, b"java left", "UNKNOW")]  # fmt: skip
        # Java's is killed before it is asked: ours answers.
        async with transact_with_java(jars, started.url, group, rows, "UNKNOW") as theirs:
            await until(lambda: len(theirs.got) > 0)
            assert {row["topic"] for row in theirs.got} == {topic}
        checked: set[bytes] = set()

        def check(message: StoredMessage) -> Decision:
            checked.add(message.body)
            return {b"java left": Decision.COMMIT}.get(message.body, Decision.UNKNOWN)

        async with (
            Producer(client, ProducerSettings(group)) as producer,
            Transactions(producer, check=check, topics=[topic]) as transactions,
        ):
            await until(lambda: b"java left" in checked)
            async with transactions.begin(RocketMessage.build(topic, b"ours left")) as transaction:
                transaction.leave_open()
        # Ours has left the group: Java's, once it is connected to the broker, is asked.
        last = [(topic, b"java's last", "ROLLBACK_MESSAGE")]
        async with transact_with_java(jars, started.url, group, last, "COMMIT_MESSAGE") as theirs:
            await until(lambda: base64.b64encode(b"ours left").decode() in {row["body"] for row in theirs.got})
        found = await bodies(client, topic, 3)
        assert set(found) == {b"java commits", b"java left", b"ours left"}

    run(started.url, test)
