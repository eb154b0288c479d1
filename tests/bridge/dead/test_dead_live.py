"""Looking into queues, streams and topics of live brokers: what is found, and that nothing is consumed by it."""

from __future__ import annotations

import json
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from bridge.cli import hashstar
from bridge.dead.reading import RowWriter
from bridge.rocketmq.remoting.message import RocketMessage
from exchange import Message
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.bridge.relay import relay_to
from tests.support.kafka.topics import topics_at
from tests.support.rocketmq.topics import topics_at as rocketmq_topics_at
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, wait_until


def await_ready(broker: Broker, queue: str, count: int) -> None:
    """Wait until a queue has this number of messages that are ready."""
    wait_until(lambda: broker.ready(queue) == count, lambda: broker.ready(queue))


def look(*arguments: str, code: int = 0) -> Any:
    """Run the command, and return its JSON, or what it prints of an error."""
    result = CliRunner().invoke(hashstar, ["dead", *arguments, "--wait", "2m", *([] if code else ["--json"])])
    assert result.exit_code == code, result.output
    return result.stderr if code else json.loads(result.stdout)


def die(broker: Broker, kind: str, count: int = 7) -> str:
    """Let messages be rejected in one queue and get to another one of a type, whose name is returned."""
    dead = broker.queue(**{"x-queue-type": kind})
    jobs = broker.queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    broker.put(jobs, *[b"%d" % number for number in range(count)], headers={"tenant": "a", "price": 5})
    for _ in range(count):
        wait_until(lambda: broker.ready(jobs) > 0)
        method, _, _ = broker.channel.basic_get(jobs)
        assert method is not None
        broker.channel.basic_reject(method.delivery_tag, requeue=False)
    await_ready(broker, dead, count)
    return dead


def await_facts(broker: Broker, queue: str) -> None:
    """Wait until the management API knows the policy of a queue: some seconds after it was declared."""
    address = ("--queue", queue, "--management", broker.server.management_url or "", "--limit", "1", "--wait", "0s")

    def knows() -> bool:
        return CliRunner().invoke(hashstar, ["dead", broker.server.url, *address]).exit_code == 0

    wait_until(knows)


def bodies_and_counts(broker: Broker, queue: str) -> list[tuple[bytes, Any, bool]]:
    """Take all messages of a queue: the body, the delivery count, and whether it is redelivered, of each."""
    found = []
    while (got := broker.channel.basic_get(queue, auto_ack=True))[0] is not None:
        method, properties, body = got
        found.append((body or b"", (properties.headers or {}).get("x-delivery-count"), method.redelivered))
    return found


def arguments_of(broker: Broker, queue: str) -> tuple[str, ...]:
    return (broker.server.url, "--queue", queue, "--management", broker.server.management_url or "")


@pytest.mark.smoke
def test_a_look_into_a_classic_queue_leaves_all_in_order(brokers: list[Broker]) -> None:
    for broker in brokers:
        dead = die(broker, "classic")
        report = look(*arguments_of(broker, dead))
        [group] = report["groups"]
        assert (group["by"], group["reason"], group["count"]) == ("RabbitMQ", "rejected", 7), broker.server.version
        assert (group["exchange"], group["tries"], report["not_looked_at"]) == ("", 1, 0)
        assert group["since"] is not None
        await_ready(broker, dead, 7)
        assert broker.consumers(dead) == 0
        some = look(*arguments_of(broker, dead), "--limit", "3", "--where", "tenant = 'a'")
        assert (some["looked_at"], some["selected"], some["not_looked_at"]) == (3, 3, 4)
        await_ready(broker, dead, 7)
        assert bodies_and_counts(broker, dead) == [(b"%d" % number, None, True) for number in range(7)]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_look_into_many_pages_leaves_all_in_order(brokers: list[Broker], kind: str) -> None:
    count, wanted = (700, 600) if kind == "classic" else (120, 100)
    for broker in brokers:
        queue = broker.queue(**{"x-queue-type": kind})
        broker.put(queue, *[b"%d" % number for number in range(count)])
        await_ready(broker, queue, count)
        options = ("--allow-counted", "--limit", str(wanted))
        for _ in range(2 if broker.server.version_info >= (4, 3) or kind == "classic" else 1):
            report = look(*arguments_of(broker, queue), *options)
            assert (report["looked_at"], report["not_looked_at"]) == (wanted, count - wanted), broker.server.version
            await_ready(broker, queue, count)
        found = [int(body) for body, _, _ in bodies_and_counts(broker, queue)]
        behind = kind == "quorum" and broker.server.version_info < (4, 0)
        moved = [*range(wanted, count), *range(wanted)] if behind else [*range(count)]
        assert found == moved, broker.server.version


@pytest.mark.parametrize("most", [0, 4])
def test_a_user_with_few_channels_looks_with_those(brokers: list[Broker], most: int) -> None:
    for broker in brokers:
        queue, user = broker.queue(**{"x-queue-type": "classic"}), unique_name("few")
        broker.put(queue, *[b"%d" % number for number in range(1_500)])
        await_ready(broker, queue, 1_500)
        broker.set_user(user)
        try:
            broker.permit(user, ".*", ".*", ".*")
            broker.manage("PUT", f"user-limits/{user}/max-channels", {"value": most})
            url = f"amqp://{user}:pw@{broker.host}:{broker.port}"
            options = ("--management", broker.server.management_url or "", "--limit", "1400")
            found = look(url, "--queue", queue, *options, code=0 if most else 2)
            if not most:
                assert "530" in found
            else:
                assert (found["looked_at"], found["not_looked_at"]) == (1_400, 100)
        finally:
            broker.manage("DELETE", f"users/{user}")
        await_ready(broker, queue, 1_500)
        assert [int(body) for body, _, _ in bodies_and_counts(broker, queue)] == [*range(1_500)]


def test_a_queue_that_goes_with_its_last_consumer_stays(brokers: list[Broker]) -> None:
    for broker in brokers:
        queue = broker.queue()
        broker.channel.queue_delete(queue)
        broker.channel.queue_declare(queue, auto_delete=True)
        broker.put(queue, b"a", b"b")
        assert look(*arguments_of(broker, queue))["looked_at"] == 2
        await_ready(broker, queue, 2)


def test_a_quorum_queue_is_looked_into_where_that_counts_nothing_or_is_allowed(brokers: list[Broker]) -> None:
    for broker in brokers:
        dead = die(broker, "quorum")
        version = broker.server.version_info
        counts = (4, 0) <= version < (4, 3)  # before 4.0 there is no limit unless a queue has one
        if counts:
            refused = look(*arguments_of(broker, dead), code=2)
            assert "counts as a delivery" in refused
            assert "limit of 20" in refused
            report = look(*arguments_of(broker, dead), "--allow-counted")
        else:
            await_facts(broker, dead)
            report = look(*arguments_of(broker, dead))
        assert (report["looked_at"], report["groups"][0]["count"]) == (7, 7), version
        await_ready(broker, dead, 7)
        before = {count for _, count, _ in bodies_and_counts(broker, die(broker, "quorum"))}  # without a look
        found = bodies_and_counts(broker, dead)
        assert sorted(body for body, _, _ in found) == [b"%d" % number for number in range(7)]
        if version >= (4, 3):
            assert [body for body, _, _ in found] == [b"%d" % number for number in range(7)]
            assert {count for _, count, _ in found} == before
        else:
            assert before <= {None, 0}, version
            assert all((count or 0) >= 1 for _, count, _ in found), version


def test_a_quorum_queue_whose_limit_is_not_known_is_refused(brokers: list[Broker]) -> None:
    for broker in brokers:
        if broker.server.version_info >= (4, 3):
            continue
        queue, classic = broker.queue(**{"x-queue-type": "quorum"}), broker.queue()
        no_api = ("--management", "http://127.0.0.1:1")
        refused = look(broker.server.url, "--queue", queue, *no_api, code=2)
        assert "it is not known whether this one has a limit" in refused
        assert look(broker.server.url, "--queue", classic, *no_api)["looked_at"] == 0
        assert "--allow-counted" in refused


def test_a_stream_is_read_from_its_beginning_each_time(brokers: list[Broker]) -> None:
    for broker in brokers:
        stream = broker.queue(**{"x-queue-type": "stream"})
        broker.put(stream, *[b"%d" % number for number in range(1_000)], headers={"x-exception-message": "id 5"})
        await_ready(broker, stream, 1_000)
        for _ in range(2):
            report = look(*arguments_of(broker, stream))
            assert (report["looked_at"], report["not_looked_at"]) == (1_000, 0), broker.server.version
            assert report["groups"][0]["error"] == "id #"
        assert broker.ready(stream) == 1_000


def test_a_stream_is_read_to_its_end_however_long_its_broker_is_silent(
    brokers: list[Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is what the broker has answered, of whatever release it is, and no time without a message."""
    add = RowWriter.add

    def add_and_stall(rows: RowWriter, message: Message, time: int | None, offset: int) -> None:
        add(rows, message, time, offset)
        if rows.count == 100:
            relay.stall()
            threading.Timer(3.0, relay.go_on).start()

    monkeypatch.setattr(RowWriter, "add", add_and_stall)
    for broker in brokers[:1]:
        stream = broker.queue(**{"x-queue-type": "stream"})
        broker.put(stream, *[b"%d" % number for number in range(1_000)])
        await_ready(broker, stream, 1_000)
        parts = urlsplit(broker.server.url)
        with relay_to(parts.hostname or "", parts.port or 0) as relay:
            url = parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{relay.port}").geturl()
            report = look(url, "--queue", stream)
        assert (report["looked_at"], report["not_looked_at"]) == (1_000, 0), broker.server.version


def test_offsets_of_a_stream_that_have_no_message_are_not_counted_as_left(brokers: list[Broker]) -> None:
    """RabbitMQ begins each segment with data of its own, which takes an offset, and counts it."""
    for broker in brokers:
        stream = broker.queue(**{"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1_000})
        for number in range(20):  # each in a chunk of its own
            broker.put(stream, b"%d" % number * 500)
        wait_until(lambda: broker.ready(stream) >= 20)  # noqa: B023
        assert broker.ready(stream) > 20, broker.server.version
        whole, part = look(*arguments_of(broker, stream)), look(*arguments_of(broker, stream), "--limit", "20")
        some = look(*arguments_of(broker, stream), "--limit", "5")
        found = [(each["looked_at"], each["not_looked_at"]) for each in (whole, part)]
        assert found == [(20, 0), (20, 0)], broker.server.version
        assert (some["looked_at"], some["not_looked_at"] >= 15) == (5, True), broker.server.version


def test_an_empty_stream_has_nothing(brokers: list[Broker]) -> None:
    for broker in brokers:
        report = look(*arguments_of(broker, broker.queue(**{"x-queue-type": "stream"})))
        assert (report["looked_at"], report["not_looked_at"]) == (0, 0), broker.server.version


def test_what_is_no_queue_is_an_error(brokers: list[Broker]) -> None:
    for broker in brokers[:1]:
        assert "there is none" in look(broker.server.url, "--queue", "no-such-queue", code=2)


def test_a_topic_of_kafka_is_read_without_a_group(kafka: Server) -> None:
    with topics_at(kafka.url) as topics:
        topic = topics.make(partitions=3)
        producer = Producer(topics.settings)
        for number in range(50):
            headers: dict[str, str | bytes | None] = {
                "__connect.errors.topic": "orders",
                "__connect.errors.exception.message": f"id {number}",
            }
            producer.produce(topic, b"{}", b"k%d" % number, headers=headers)
        assert producer.flush(find_limit()) == 0
        before = {each.group_id for each in topics.admin.list_consumer_groups().result().valid}
        url = f"kafka://{kafka.url.removeprefix('kafka://')}/{topic}"
        for _ in range(2):
            report = look(url)
            assert (report["looked_at"], report["not_looked_at"]) == (50, 0)
            assert {(each["by"], each["queue"], each["error"]) for each in report["groups"]} == {
                ("Kafka Connect", "orders", "id #")
            }
        some = look(url, "--limit", "20")
        assert (some["looked_at"], some["not_looked_at"]) == (20, 30)
        after = {each.group_id for each in topics.admin.list_consumer_groups().result().valid}
        assert "hashstar-dead" not in after - before
        assert "there is no topic" in look(f"{url}-gone", code=2)


def test_a_topic_of_rocketmq_is_read_without_a_group(rocketmq: Server) -> None:
    with rocketmq_topics_at(rocketmq.url) as topics:
        topic = topics.make(queues=2)
        topics.put(topic, [RocketMessage(topic, b"x", {"KEYS": f"k{number}", "tenant": "a"}) for number in range(40)])
        url = f"rocketmq://{rocketmq.url}/{topic}"
        for _ in range(2):
            report = look(url, "--where", "tenant = 'a'")
            assert (report["looked_at"], report["selected"], report["not_looked_at"]) == (40, 40, 0)
        assert look(url, "--limit", "10")["not_looked_at"] == 30
        assert "there is no topic" in look(f"rocketmq://{rocketmq.url}/no-such-topic", code=2)
