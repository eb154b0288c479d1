"""Dead letters in topics of Kafka are published to where they died, once, and as they were written there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from bridge.dead.replaying import WINDOW
from bridge.dead.restoring import REPLAY
from bridge.endpoint import Delivery
from bridge.interop import Record, to_amqp, to_kafka
from bridge.pump.dead_letters import build_dead_letter
from exchange import Message
from tests.bridge.dead.logs.command import invoke, run
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.kafka.topics import Topics, topics_at
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, wait_until

Headers = list[tuple[str, str | bytes | None]]


@pytest.fixture
def topics(kafka: Server) -> Iterator[Topics]:
    with topics_at(kafka.url) as made:
        yield made


def url_of(topics: Topics, topic: str) -> str:
    return f"kafka://{topics.settings['bootstrap.servers']}/{topic}"


def write(topics: Topics, topic: str, letters: Sequence[tuple[int, bytes | None, bytes | None, Headers]]) -> None:
    """Write records, each to its partition."""
    producer = Producer({**topics.settings, "linger.ms": 5})
    for partition, key, value, headers in letters:
        producer.produce(topic, value, key, partition, headers=headers)
        producer.poll(0)
    assert producer.flush(find_limit()) == 0


def spring(topic: str, partition: int, *more: tuple[str, str | bytes | None]) -> Headers:
    return [
        *more, ("kafka_dlt-original-topic", topic.encode()), ("kafka_dlt-original-partition", partition.to_bytes(4)),
        ("kafka_dlt-original-offset", (7).to_bytes(8)), ("kafka_dlt-original-timestamp", (1).to_bytes(8)),
        ("kafka_dlt-exception-fqcn", b"x.ListenerExecutionFailedException"), ("kafka_dlt-exception-message", b"no"),
        ("kafka_dlt-original-topic", b"second-death"),
    ]  # fmt: skip


def retried(topic: str, partition: int, *more: tuple[str, str | bytes | None]) -> Headers:
    return [
        *more, ("retry_topic-attempts", (3).to_bytes(4)), ("kafka_original-topic", topic.encode()),
        ("kafka_original-partition", partition.to_bytes(4)), ("kafka_exception-fqcn", b"x.Failed"),
        ("kafka_dlt-original-consumer-group", b"g"), ("retry_topic-backoff-timestamp", b"1"),
    ]  # fmt: skip


def connect(topic: str, partition: int, *more: tuple[str, str | bytes | None]) -> Headers:
    return [
        *more, ("__connect.errors.topic", topic.encode()), ("__connect.errors.partition", b"%d" % partition),
        ("__connect.errors.offset", b"12"), ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.exception.class.name", b"x.DataException"),
    ]  # fmt: skip


def binder(topic: str, partition: int, *more: tuple[str, str | bytes | None]) -> Headers:
    return [
        *more, ("x-original-topic", topic.encode()), ("x-original-partition", partition.to_bytes(4)),
        ("x-exception-fqcn", b"x.Failed"), ("x-exception-message", b"no"),
    ]  # fmt: skip


@pytest.mark.smoke
def test_letters_go_once_to_the_partition_where_they_died_and_as_they_were(topics: Topics, tmp_path: Path) -> None:
    origin, dead = topics.make(partitions=3), topics.make(partitions=2)
    own: Headers = [("tenant", b"a"), ("n", None), ("twice", b"1"), ("twice", b"\xff\x00")]
    makers = (spring, retried, connect, binder)
    letters = [
        (at % 2, b"k%d" % (at % 3) if at - 1 else None, b"%d" % at if at - 2 else None,
         makers[at % 4](origin, at % 3, *own))
        for at in range(24)
    ]  # fmt: skip
    write(topics, dead, letters)
    groups = {each.group_id for each in topics.admin.list_consumer_groups().result().valid}
    ledger = tmp_path / "ledger"
    planned = run(url_of(topics, dead), ledger, "--dry-run")
    assert (planned["action"], planned["goes"]) == ("dry-run", [{"kind": "topic", "name": origin, "count": 24}])
    assert not ledger.exists()
    assert topics.read(origin, 0) == []
    assert run(url_of(topics, dead), ledger)["moved"] == 24
    again = run(url_of(topics, dead), ledger)
    assert (again["moved"], again["done_before"], again["left"]) == (0, 24, [])
    found = {
        (each.key(), each.value(), each.partition(), tuple(each.headers()[:-1])) for each in topics.read(origin, 24)
    }
    assert found == {(key, value, at % 3, tuple(own)) for at, (_, key, value, _) in enumerate(letters)}
    stamps = [each.headers()[-1] for each in topics.read(origin, 24)]
    assert {name for name, _ in stamps} == {REPLAY}
    assert len({value for _, value in stamps}) == 24
    after = {each.group_id for each in topics.admin.list_consumer_groups().result().valid}
    assert "hashstar-dead" not in after - groups
    assert len(topics.read(dead, 24)) == 24


def test_what_is_selected_is_published_and_the_rest_is_counted(topics: Topics, tmp_path: Path) -> None:
    origin, dead = topics.make(partitions=2), topics.make()
    write(topics, dead, [
        (0, b"k", b"%d" % at, spring(origin if at % 5 else "no-such-topic", at % 2 * 9 or 1, ("odd", b"%d" % (at % 2))))
        for at in range(20)
    ] + [(0, b"k", b"none", [])])  # fmt: skip
    ledger = tmp_path / "ledger"
    some = run(url_of(topics, dead), ledger, "--where", "odd = '0'", "--limit", "10", code=1)
    assert (some["moved"], some["not_looked_at"]) == (4, 11)
    assert [(each["count"], "no topic 'no-such-topic'" in each["reason"]) for each in some["left"]] == [(1, True)]
    rest = run(url_of(topics, dead), ledger, code=1)
    assert (rest["moved"], rest["done_before"], rest["not_looked_at"]) == (12, 4, 0)
    assert {each["reason"]: each["count"] for each in rest["left"]} == {
        "there is no topic 'no-such-topic', or this user may not see it": 4, "no header says where it died": 1,
    }  # fmt: skip
    partitions = Counter((each.value() and int(each.value()) % 2, each.partition()) for each in topics.read(origin, 16))
    assert partitions[0, 1] == 8  # where the headers say
    assert len([each for each in partitions if each[0] == 1]) == 1  # partition 9 is not there: that of the key


def test_only_committed_records_are_published(topics: Topics, tmp_path: Path) -> None:
    origin, dead = topics.make(), topics.make()
    producer = Producer({**topics.settings, "transactional.id": unique_name("t")})
    producer.init_transactions(find_limit())
    for at in range(4):
        producer.begin_transaction()
        producer.produce(dead, b"%d" % at, b"k", 0, headers=spring(origin, 0))
        producer.flush(find_limit())
        if at % 2:
            producer.abort_transaction(find_limit())
        else:
            producer.commit_transaction(find_limit())
    ledger = tmp_path / "ledger"
    assert run(url_of(topics, dead), ledger)["moved"] == 2
    producer.begin_transaction()
    producer.produce(dead, b"late", b"k", 0, headers=spring(origin, 0))
    producer.flush(find_limit())
    write(topics, dead, [(0, b"k", b"behind", spring(origin, 0))])
    second = run(url_of(topics, dead), ledger)
    assert (second["moved"], second["not_looked_at"] >= 2) == (0, True)
    producer.commit_transaction(find_limit())
    assert run(url_of(topics, dead), ledger)["moved"] == 2
    assert [each.value() for each in topics.read(origin, 4)] == [b"0", b"2", b"late", b"behind"]


def test_a_topic_that_was_made_anew_is_published_anew(topics: Topics, tmp_path: Path) -> None:
    origin, name = topics.make(), unique_name("dead")
    for count in (5, 10):
        topics.make(name=name)
        producer = Producer(topics.settings)
        for at in range(5):  # the same letters at the same offsets, with the same times
            producer.produce(name, b"%d" % at, b"k", 0, timestamp=1_790_000_000_000, headers=spring(origin, 0))
        assert producer.flush(find_limit()) == 0
        done = run(url_of(topics, name), tmp_path / "ledger")
        assert (done["moved"], done["done_before"]) == (5, 0)
        assert len(topics.read(origin, count)) == count
        topics.admin.delete_topics([name])[name].result(find_limit())
        topics.made.remove(name)
        wait_until(lambda: name not in topics.admin.list_topics(timeout=find_limit()).topics)


def test_the_letters_of_a_key_stay_in_order_when_partitions_were_added(topics: Topics, tmp_path: Path) -> None:
    origin, dead = topics.make(), topics.make()
    ledger = tmp_path / "ledger"

    def put(partition: int, *numbers: int) -> None:
        producer = Producer(topics.settings)  # a new one knows the new partitions
        for at in numbers:
            producer.produce(
                dead, b"%d" % at, b"k", partition, timestamp=1_790_000_000_000 + at, headers=spring(origin, 0)
            )
        assert producer.flush(find_limit()) == 0

    put(0, 0, 1)
    assert run(url_of(topics, dead), ledger)["moved"] == 2
    topics.admin.create_partitions([NewPartitions(dead, 3)])[dead].result(find_limit())
    wait_until(lambda: len(topics.admin.list_topics(dead, timeout=find_limit()).topics[dead].partitions) == 3)
    put(2, 2, 4, 6)
    put(1, 3, 5)
    put(0, 7)
    done = run(url_of(topics, dead), ledger)
    assert (done["moved"], done["done_before"]) == (6, 2)
    assert [int(each.value()) for each in topics.read(origin, 8)] == [*range(8)]


def test_what_retention_has_removed_is_counted_and_the_rest_is_published(topics: Topics, tmp_path: Path) -> None:
    origin, dead = topics.make(), topics.make()
    write(topics, dead, [(0, b"k", b"%d" % at, spring(origin, 0)) for at in range(10)])
    assert run(url_of(topics, dead), tmp_path / "ledger", "--limit", "3")["moved"] == 3
    topics.admin.delete_records([TopicPartition(dead, 0, 6)])[TopicPartition(dead, 0)].result(find_limit())
    done = run(url_of(topics, dead), tmp_path / "ledger")
    assert (done["moved"], done["done_before"]) == (4, 0)
    assert [int(each.value()) for each in topics.read(origin, 7)] == [0, 1, 2, 6, 7, 8, 9]


def test_a_function_edits_records_or_sends_them_elsewhere(topics: Topics, tmp_path: Path) -> None:
    origin, dead, other = topics.make(), topics.make(), topics.make()
    write(topics, dead, [(0, b"k", b"%d" % at, spring(origin, 0, ("a", b"b"))) for at in range(3)])
    os.environ["OTHER"] = other
    done = run(url_of(topics, dead), tmp_path / "ledger", "--edit", f"{__name__}:edit", code=1)
    assert (done["moved"], done["left"]) == (2, [{"reason": "--edit returned None", "count": 1}])
    [here], [there] = topics.read(origin, 1), topics.read(other, 1)
    assert (here.key(), here.value(), here.headers()[0]) == (b"k", b"new", ("a", b"c"))
    assert (there.key(), there.value(), there.headers()[0]) == (b"k", b"2", ("a", b"b"))


def edit(message: Message) -> Message | None:
    if message.body == b"0":
        return None
    if message.body == b"2":
        return replace(message, exchange=os.environ["OTHER"])
    return replace(message, body=b"new", headers={**message.headers, "a": "c"})


def test_letters_of_a_bridge_go_back_to_the_topic_that_it_read(topics: Topics, tmp_path: Path) -> None:
    origin, dead = topics.make(partitions=2), topics.make()
    record = Record(origin, b"k", b"v", [("a", b"b")], 5, False, 1, 7)
    letter = build_dead_letter(Delivery(to_amqp(record), origin=f"{origin}-1 at 7"), "no route", "t", "q", 1, 0.0)
    written = to_kafka(letter, dead, b"k")
    write(topics, dead, [(0, written.key, written.value, [*written.headers])])
    assert run(url_of(topics, dead), tmp_path / "ledger")["moved"] == 1
    [found] = topics.read(origin, 1)
    assert (found.key(), found.value(), found.partition()) == (b"k", b"v", 1)
    assert found.headers()[:-1] == [("a", b"b")]


def test_letters_of_a_bridge_from_rabbitmq_go_to_their_queue_or_exchange(
    topics: Topics, rabbitmq: Server, tmp_path: Path
) -> None:
    broker = Broker(rabbitmq)
    queue, dead = broker.queue(), topics.make()
    message = Message("", queue, {"tenant": "a"}, {"message_id": "m"}, b"x")
    letter = build_dead_letter(Delivery(message, origin=f"queue {queue}"), "too large", "t", "q", 1, 0.0)
    written = to_kafka(letter, dead, b"k")
    write(topics, dead, [(0, written.key, written.value, [*written.headers])])
    wrong = invoke(url_of(topics, dead), tmp_path / "wrong", "--replay", "topic")
    assert "--replay queue or exchange, with --target amqp://" in wrong.output
    for to, moved in (("queue", 1), ("exchange", 0)):
        done = run(url_of(topics, dead), tmp_path / "ledger", "--target", broker.server.url, to=to)
        assert (done["moved"], done["done_before"]) == (moved, 1 - moved)
    wait_until(lambda: broker.ready(queue) == 1)
    method, properties, body = broker.channel.basic_get(queue, auto_ack=True)
    assert method is not None
    assert properties is not None
    assert (body, properties.message_id, properties.headers["tenant"]) == (b"x", "m", "a")
    assert {*properties.headers} == {"tenant", REPLAY}
    broker.close()


def test_runs_that_are_killed_lose_nothing_and_double_at_most_the_window(topics: Topics, tmp_path: Path) -> None:
    origin, dead = topics.make(partitions=2), topics.make(partitions=3)
    count, kills = 3_000, 2
    write(topics, dead, [(at % 3, b"k%d" % (at % 30), b"%d" % at, spring(origin, at % 2)) for at in range(count)])
    arguments = ["dead", url_of(topics, dead), "--replay", "topic", "--ledger", str(tmp_path / "ledger"), "--yes"]
    command = [sys.executable, "-m", "bridge.cli", *arguments]

    asker = Consumer({**topics.settings, "group.id": "tests"})

    def written() -> int:
        return sum(
            asker.get_watermark_offsets(TopicPartition(origin, each), timeout=find_limit())[1] for each in range(2)
        )

    for kill in range(kills):
        process = subprocess.Popen([*command, "--rate", "750"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        enough = (kill + 1) * count // (kills + 2)
        wait_until(lambda: written() > enough or process.poll() is not None)  # noqa: B023
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    asker.close()
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"published again: 0 messages" in subprocess.run(command, capture_output=True, check=False).stdout
    found = topics.read(origin, count)
    copies = Counter(int(each.value()) for each in found)
    assert len(copies) == count
    assert copies.total() <= count + kills * WINDOW
    seen: dict[tuple[bytes, int], list[int]] = {}
    for each in found:
        numbers = seen.setdefault((each.key(), each.partition()), [])
        if (number := int(each.value())) not in numbers:
            numbers.append(number)
    assert all(numbers == sorted(numbers) for numbers in seen.values())
