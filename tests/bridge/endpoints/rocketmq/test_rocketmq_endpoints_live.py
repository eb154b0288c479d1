"""RocketMQ's endpoints on live brokers: queues as chosen, groups that share, what is wrong told and by whom."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bridge.daemon.config import read_config
from bridge.daemon.probe import check, encode_report
from bridge.endpoint import Delivery, Disconnected, EndOfStream, Finding
from bridge.endpoints.rocketmq.config import RocketmqSource, RocketmqTarget
from bridge.endpoints.topics import TopicDestination
from bridge.interop import convert_from_rocketmq, to_amqp, to_kafka, to_rocketmq
from bridge.interop.record import Record
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.admin import TopicConfig, create_topic, list_masters
from bridge.rocketmq.remoting.client import ClientSettings
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange import Message
from exchange.partition.clients.rocketmq.queues import MessageQueue, publish_queues
from exchange.partition.partitioning.specification import Partitioning
from tests.support.bridge.behaviour import Reports, on_a_loop, send_to
from tests.support.rocketmq.topics import Topics, topics_at
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, until


def group() -> str:
    return unique_name("group")


def source(topics: Topics, topic: str, name: str | None = None, **told: Any) -> RocketmqSource:
    subscription = told.pop("subscription", None) or Subscription.to_tags(topic)
    return RocketmqSource("read", topics.settings, name or group(), [subscription], **told)


async def write(target: RocketmqTarget, messages: list[Message]) -> Reports:
    """Send messages to the topology's queue ``q``, and return what the target reported about them."""
    told = Reports()
    await target.open(told)
    send_to(target, told, messages, "q")
    await told.answers_or_loss(len(messages))
    await target.close()
    return told


# Targets.


def test_messages_are_on_the_queues_that_javas_selector_chooses(topics: Topics) -> None:
    topic = topics.make(5)
    messages = [Message("", f"key.{n % 17}", body=b"%d" % n) for n in range(400)]
    told = asyncio.run(write(RocketmqTarget("t", topics.settings, {"q": TopicDestination(topic)}), messages))
    assert len(told.confirmations) == 400
    partitions = publish_queues(topics.do(topics.client.route(topic)))
    choose = Partitioning("rocketmq.hash", partitions)
    numbers: dict[str, list[int]] = defaultdict(list)
    for message in topics.read(topic, 400):
        home = convert_from_rocketmq(message)
        chosen = choose.choose_for(home.routing_key).partition
        assert chosen is not None
        assert partitions[chosen].name == f"{message.broker}:{message.queue_id}"
        numbers[home.routing_key].append(int(message.body))
    assert numbers == {f"key.{k}": list(range(k, 400, 17)) for k in range(17)}


@contextmanager
def broker_setting(topics: Topics, name: str, value: str, usual: str) -> Iterator[None]:
    """Have all brokers use this value of a setting, and the usual one afterwards."""

    async def use(value: str) -> None:
        for address in (await list_masters(topics.client)).values():
            await topics.client.ask(address, RequestCode.UPDATE_BROKER_CONFIG, {}, f"{name}={value}".encode())

    topics.do(use(value))
    try:
        yield
    finally:
        topics.do(use(usual))


def test_batches_shrink_to_what_a_broker_takes_and_only_larger_messages_are_refused(topics: Topics) -> None:
    topic = topics.make()
    large = [n for n in range(300) if n % 100 == 7]
    # Random, as large bodies are compressed.
    bodies = [b"%d:%b" % (n, Random(n).randbytes(30_000 if n in large else 1_000)) for n in range(300)]
    messages = [Message("", "k", body=body) for body in bodies]
    with broker_setting(topics, "maxMessageSize", "16384", str(4 << 20)):
        told = asyncio.run(write(RocketmqTarget("t", topics.settings, {"q": TopicDestination(topic)}), messages))
    assert not told.losses
    assert [outgoing.message.body for outgoing, _ in told.failures] == [bodies[n] for n in large]
    assert [int(each.body.partition(b":")[0]) for each in topics.read(topic, 297)] == [
        n for n in range(300) if n not in large
    ]


@pytest.mark.smoke
@on_a_loop
async def test_a_message_of_every_system_comes_home_over_rocketmq(topics: Topics) -> None:
    topic = topics.make()
    headers = {"a": 1, "b": "", "c": None, "TAGS": [1, {"x": True}]}
    amqp = Message("e", "k", headers, {"message_id": "m"}, b"")
    record = Record(topic, b"k", None, [("a", b"\xff"), ("a", b""), ("n", None)], 1_700_000_000_000)
    native = RocketMessage.build(topic, b"v", {"p": "1"}, tags="T", keys="k k2", flag=3)
    topics.put(topic, [native])
    reading = source(topics, topic)
    await reading.open()
    [delivery] = await reading.read(10)
    reading.settle(delivery)
    target = RocketmqTarget("t", topics.settings, {"q": TopicDestination(topic)})
    # The last one not in a batch: brokers of 4.9 give all messages of a batch the unique id of the batch.
    for some in ([amqp, to_amqp(record)], [delivery.message]):
        told = await write(target, some)
        assert len(told.confirmations) == len(some)
    found: list[Message] = []
    while len(found) < 3:
        found += [each.message for each in await reading.read(10)]
    await reading.close()
    first, again, home = found
    marked = {**headers, "x-hashstar-hops": "1"}
    assert (first.exchange, first.headers, first.properties, first.body) == ("e", marked, amqp.properties, b"")
    assert to_kafka(again, topic) == record._replace(headers=[*record.headers, ("x-hashstar-hops", b"1")])
    kept = to_rocketmq(home, topic)
    own = {name: value for name, value in kept.properties.items() if name not in {"UNIQ_KEY", "x-hashstar-hops"}}
    assert (kept.body, kept.flag, own) == (native.body, native.flag, native.properties)
    assert kept.properties["UNIQ_KEY"] == to_rocketmq(delivery.message, topic).properties["UNIQ_KEY"]


@on_a_loop
async def test_a_message_that_does_not_fit_fails_finally_and_the_others_pass(topics: Topics) -> None:
    topic = topics.make()
    good = [Message("", "k", {}, {}, b"%d" % n) for n in range(4)]
    bad = [
        Message("", "k", {"long": "x" * 40_000}, {}, b"x"),
        Message("", "k", {"long": "x" * 32_660}, {}, b"x"),  # with what the broker adds
        Message("", "k", {}, {}, bytes((4 << 20) + 1)),
        Message("", "k", {"x-rocketmq-topic": "t", "x-rocketmq-queue": "one"}, {}, b"x"),
    ]
    told = await write(
        RocketmqTarget("t", topics.settings, {"q": TopicDestination(topic)}),
        [each for pair in zip(good, bad, strict=True) for each in pair],
    )
    assert [outgoing.message.body for outgoing in told.confirmations] == [b"0", b"1", b"2", b"3"]
    reasons = {outgoing.number: failure for outgoing, failure in told.failures}
    assert all(failure.final for failure in reasons.values())
    assert "RocketMQ takes 32767" in reasons[2].reason
    assert "MESSAGE_ILLEGAL" in reasons[4].reason
    assert "the limit is 4194304" in reasons[6].reason
    reading = source(topics, topic)
    await reading.open()
    found: list[bytes] = []
    while len(found) < len(good):  # what a broker of 4.9 stores of a batch with the second one stops each reader
        found += [each.message.body for each in await reading.read(10)]
    await reading.close()
    assert found == [b"0", b"1", b"2", b"3"]
    assert "x-rocketmq-queue: it is a longstr" in reasons[8].reason
    assert [message.body for message in topics.read(topic, 4)] == [b"0", b"1", b"2", b"3"]


@on_a_loop
async def test_a_missing_topic_or_one_that_disagrees_with_the_topology_is_disconnected(topics: Topics) -> None:
    told = Reports()
    gone = RocketmqTarget("t", topics.settings, {"q": TopicDestination("no-such-topic")})
    with pytest.raises(Disconnected, match="there is no topic 'no-such-topic'; create it"):
        await gone.open(told)
    await gone.close()
    lost = source(topics, "no-such-topic")
    with pytest.raises(Disconnected, match="there is no topic 'no-such-topic'; create it"):
        await lost.open()
    await lost.close()


def test_a_check_reports_what_is_missing_at_the_configured_cluster(topics: Topics, tmp_path: Path) -> None:
    topic, other = topics.make(2), topics.make(2)
    count = len(topics.do(topics.client.route(other)).queues) * 2
    (tmp_path / "t.bindings").write_text(
        f'vhost "/"\nexchange all: fanout\nqueue a: partitioned rocketmq.hash over {count} by routing_key\n'
        f"queue b: partitioned rocketmq.hash over {count + 1} by routing_key\nall -> a\nall -> b\n"
    )
    (tmp_path / "bridge.toml").write_text(
        f"""
        topology = "t.bindings"
        [sources.read]
        url = "rocketmq://{topics.namesrv}"
        topic = "{topic}"
        [sources.gone]
        url = "rocketmq://{topics.namesrv}"
        topic = "gone"
        [sources.wrong]
        url = "rocketmq://{topics.namesrv}"
        topic = "{topics.make(perm=2)}"
        [targets.right]
        url = "rocketmq://{topics.namesrv}"
        queues = {{ a = "{other}" }}
        [targets.wide]
        url = "rocketmq://{topics.namesrv}"
        queues = {{ b = "{other}" }}
        """
    )
    report = encode_report(asyncio.run(check(read_config(tmp_path / "bridge.toml", {}))))
    found = [(each["endpoint"], each["text"]) for each in report["findings"] if each["level"] == "error"]
    assert [name for name, _ in found] == ["gone", "wrong", "wide"]
    assert "there is no topic 'gone'; create it" in found[0][1]
    assert "has no queue that may be read" in found[1][1]
    assert f"topic {other!r} has {count} queues now" in found[2][1]


@on_a_loop
async def test_an_address_without_a_server_is_disconnected(topics: Topics) -> None:
    nobody = ClientSettings("127.0.0.1:1")
    writing, reading = (
        RocketmqTarget("t", nobody, {"q": TopicDestination("t")}),
        RocketmqSource("s", nobody, "g", [Subscription.to_tags("t")]),
    )
    for opening in (writing.open(Reports()), reading.open()):
        with pytest.raises(Disconnected, match=r"no name server answers: 127\.0\.0\.1:1"):
            await opening
    await writing.close()
    await reading.close()


# Sources.


@on_a_loop
async def test_tags_and_sql_select_what_is_read(topics: Topics) -> None:
    topic = topics.make()
    topics.put(
        topic, [RocketMessage.build(topic, b"%d" % n, {"n": str(n)}, tags="ABC"[n % 3], keys="k") for n in range(30)]
    )
    for subscription, wanted in (
        (Subscription.to_tags(topic, "A || C"), [n for n in range(30) if n % 3 != 1]),
        (Subscription.to_sql(topic, "n >= 10 AND TAGS = 'B'"), [n for n in range(10, 30) if n % 3 == 1]),
    ):
        reading = source(topics, topic, subscription=subscription)
        await reading.open()
        found: list[Delivery] = []
        while len(found) < len(wanted):
            found += await reading.read(100)
        await reading.close()
        assert [int(each.message.body) for each in found] == wanted
    refused = source(topics, topic, subscription=Subscription(topic, "n >", "SQL92"))
    with pytest.raises(Disconnected, match="SUBSCRIPTION_PARSE_FAILED"):
        await refused.open()
    await refused.close()


@pytest.mark.smoke
@pytest.mark.parametrize("orderly", [True, False])
def test_members_share_the_queues_and_give_them_back_when_they_leave(topics: Topics, orderly: bool) -> None:
    topic, name = topics.make(4), group()

    @on_a_loop
    async def check() -> None:
        one, two = (source(topics, topic, name, orderly=orderly) for _ in range(2))
        await one.open()
        topics.put(topic, [RocketMessage.build(topic, b"%d" % n, keys=f"k{n % 50}") for n in range(200)])
        found: list[Delivery] = []
        while len(found) < 200:
            found += await asyncio.wait_for(one.read(200), find_limit())
        for lane in {each.lane for each in found}:
            one.settle([each for each in found if each.lane is lane][-1])
        await two.open()
        # Both read now: what is put is seen by each for its queues.
        seen: dict[int, list[Delivery]] = {1: [], 2: []}

        async def follow(number: int, reading: RocketmqSource) -> None:
            while True:
                for each in await reading.read(50):
                    seen[number].append(each)
                    reading.settle(each)

        tasks = [asyncio.create_task(follow(1, one)), asyncio.create_task(follow(2, two))]
        for turn in itertools.count():
            if seen[1] and seen[2]:
                break
            topics.put(
                topic, [RocketMessage.build(topic, b"%d" % (200 + 50 * turn + n), keys=f"k{n}") for n in range(50)]
            )
            await asyncio.sleep(0.5)
        tasks[0].cancel()
        await one.close()
        before = len(seen[2])
        topics.put(topic, [RocketMessage.build(topic, b"last %d" % n, keys=f"k{n}") for n in range(50)])
        await until(lambda: sum(each.message.body.startswith(b"last") for each in seen[2][before:]) == 50)
        tasks[1].cancel()
        await two.close()
        everything = [each.message.body for each in (*seen[1], *seen[2])]
        assert {*everything} >= {b"%d" % n for n in range(200, 250)}
        if orderly:
            assert len({*everything}) == len(everything)

    check()


@on_a_loop
async def test_a_source_can_begin_at_the_end_or_end_there(topics: Topics) -> None:
    topic = topics.make(2)
    topics.put(topic, [RocketMessage.build(topic, b"%d" % n, keys=f"k{n}") for n in range(20)])
    ending = source(topics, topic, until_end=True)
    await ending.open()
    bodies: set[bytes] = set()
    while len(bodies) < 20:
        bodies |= {each.message.body for each in await ending.read(7)}
    with pytest.raises(EndOfStream):
        await ending.read(7)
    await ending.close()
    assert bodies == {b"%d" % n for n in range(20)}
    empty = source(topics, topics.make(), until_end=True)
    await empty.open()
    with pytest.raises(EndOfStream):
        await asyncio.wait_for(empty.read(1), find_limit())
    await empty.close()


# What is looked at without a trace.


def texts(findings: Sequence[Finding], level: str) -> str:
    return "; ".join([each.text for each in findings if each.level == level])


@on_a_loop
async def test_a_topic_of_lite_topics_is_read_and_not_written_to(rocketmq_servers: list[Server]) -> None:
    """A check says so, and the target is not ready; brokers of 4.x have none, and do not know the question."""
    for server in rocketmq_servers:
        with topics_at(server.url) as made:
            plain = made.make(2)
            target = RocketmqTarget("write", made.settings, {"q": TopicDestination(plain)})
            assert not texts(await target.check(), "error")
            if server.version.startswith("4."):
                continue
            topic = made.make(2, attributes={"+message.type": "LITE"})
            made.put(topic, [RocketMessage.build(topic, b"x", keys="k")._replace(topic=topic)])
            reads = source(made, topic)
            assert "messages of all are read, each with its own in the header" in texts(await reads.check(), "ok")
            target = RocketmqTarget("write", made.settings, {"q": TopicDestination(topic)})
            refusal = f"topic {topic!r} holds lite topics: what is written to it without a lite topic reaches no lite"
            assert refusal in texts(await target.check(), "error")
            with pytest.raises(Disconnected, match="takes RocketMQ's gRPC client, which the bridge does not have"):
                await target.open(Reports())
            await target.close()


@on_a_loop
async def test_a_message_with_a_priority_is_where_the_broker_puts_it(rocketmq_servers: list[Server]) -> None:
    """Each in a request of its own, so that it has a priority there, too, whatever waits beside it."""
    for server in rocketmq_servers:
        with topics_at(server.url) as made:
            topic = made.make(4)
            written = [RocketMessage(topic, b"%d" % n, {"_SYS_MSG_PRIORITY_": str(n % 6)}) for n in range(48)]
            stored = [
                StoredMessage(topic, each.body, each.properties, 0, "b", 0, n, 1, 0, 2, bytes(8), 3, bytes(8), 0)
                for n, each in enumerate(written)
            ]
            told = await write(
                RocketmqTarget("t", made.settings, {"q": TopicDestination(topic)}),
                [convert_from_rocketmq(each) for each in stored],
            )
            assert len(told.confirmations) == 48
            found = made.read(topic, 48)
            if server.version.startswith("5."):
                assert {(int(each.body) % 6, each.queue_id) for each in found} == {(n, min(n, 3)) for n in range(6)}


@on_a_loop
async def test_a_check_reports_queues_that_are_never_read_and_other_numbers_of_queues(topics: Topics) -> None:
    topic = unique_name("topic")
    topics.do(create_topic(topics.client, TopicConfig(topic, 2, 4)))
    never_read = "what is written to 2 of 4 of them is never read"
    found = await source(topics, topic).check()
    assert never_read in texts(found, "warning")
    assert not texts(found, "error")
    target = RocketmqTarget("write", topics.settings, {"q": TopicDestination(topic), "p": TopicDestination(topic)})
    target._partitioned = {"q": Partitioning.parse("rocketmq.hash over 3")}
    found = await target.check()
    assert never_read in texts(found, "warning")
    assert f"topic {topic!r} has 4 queues now" in texts(found, "error")
    assert "the topology spreads 'q' over 3" in texts(found, "error")
    with pytest.raises(Disconnected, match="the topology spreads 'q' over 3"):
        await target.open(Reports())
    await target.close()
    [broker] = {each.broker for each in topics.do(topics.client.update_route(topic)).brokers}
    target._partitioned = {"q": Partitioning.parse(f"rocketmq.hash over {broker}:5")}
    assert f"has no queue {broker}:4 now" in texts(await target.check(), "error")
    target._partitioned = {"q": Partitioning.parse("rocketmq.hash over 4")}
    assert "queue 'q': spread over 4 queues" in texts(await target.check(), "ok")


@on_a_loop
async def test_a_check_finds_what_is_missing(topics: Topics) -> None:
    for endpoint in (
        source(topics, "no-such"),
        RocketmqTarget("w", topics.settings, {"q": TopicDestination("no-such")}),
    ):
        [found] = await endpoint.check()
        assert (found.level, found.text) == ("error", "there is no topic 'no-such'; create it")
        with pytest.raises(Disconnected, match="there is no topic"):
            await (endpoint.open() if isinstance(endpoint, RocketmqSource) else endpoint.open(Reports()))
        await endpoint.close()
    nowhere = RocketmqSource("s", ClientSettings("127.0.0.1:1"), group(), [Subscription.to_tags("t")])
    [found] = await nowhere.check()
    assert (found.level, found.key) == ("error", "url")
    assert "no name server answers" in found.text
    topic = topics.make(2)
    [wrong] = [
        each
        for each in await source(topics, topic, subscription=Subscription(topic, "n >", "SQL92")).check()
        if each.level == "error"
    ]
    assert wrong.key == "sql"
    assert "SUBSCRIPTION_PARSE_FAILED" in wrong.text


@on_a_loop
async def test_a_check_leaves_no_trace(topics: Topics) -> None:
    topic, name = topics.make(4), group()
    topics.put(topic, [RocketMessage.build(topic, b"%d" % n, keys=f"k{n}") for n in range(8)])
    address = topics.do(list_masters(topics.client)).popitem()[1]

    def groups() -> str:
        return topics.do(topics.client.ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body.decode()

    def committed() -> list[int | None]:
        asked = BrokerQueues(topics.client, name)
        return [topics.do(asked.committed_offset(TopicQueue(topic, broker, at))) for at in range(4)]

    [broker] = {each.broker for each in topics.do(topics.client.update_route(topic)).brokers}
    # Of a group that it does not know, a broker answers 0 as soon as it has indexed the first message of a queue.
    await until(lambda: committed() == [0] * 4)
    for _ in range(3):
        found = await source(topics, topic, name).check()
        assert f"group {name!r}: not there" in texts(found, "warning")
        assert "4 queues to read at 1 broker" in texts(found, "ok")
        await RocketmqTarget("w", topics.settings, {"q": TopicDestination(topic)}).check()
    assert name not in groups()
    assert committed() == [0] * 4
    assert len(topics.read(topic, 8)) == 8
    topics.group(name)
    found = await source(topics, topic, name).check()
    assert f"group {name!r}" in texts(found, "ok")
    assert not texts(found, "warning")


@on_a_loop
async def test_opening_that_is_cancelled_at_any_moment_leaves_no_member_at_the_broker(topics: Topics) -> None:
    topic, name = topics.make(2), group()
    address = topics.do(list_masters(topics.client)).popitem()[1]
    others, chance = asyncio.all_tasks(), Random(7)
    for turn in range(200):
        endpoint: RocketmqSource | RocketmqTarget = source(topics, topic, name)
        if turn % 2:
            endpoint = RocketmqTarget("w", topics.settings, {"q": TopicDestination(topic)})
        work = endpoint.open() if isinstance(endpoint, RocketmqSource) else endpoint.open(Reports())
        opening = asyncio.create_task(work)
        await asyncio.sleep(chance.random() * 0.03)
        opening.cancel()
        await asyncio.wait([opening])
        await endpoint.close()
        assert asyncio.all_tasks() - others == set()
    answer = topics.do(topics.client.invoke(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": name}))
    assert b"@" not in answer.body  # no client's id


@on_a_loop
async def test_the_messages_kept_of_all_queues_are_bounded_in_bytes(topics: Topics) -> None:
    topic = topics.make(8)
    body = bytes(range(256)) * 3_600  # which cannot be packed well, and is not
    queues = [
        MessageQueue(each.broker, at) for each in topics.do(topics.client.route(topic)).brokers for at in range(8)
    ]
    for queue in queues:
        for _ in range(15):
            topics.do(topics._producer.send(RocketMessage.build(topic, body), queue=queue))
    most = 24 << 20
    reading = source(topics, topic, window_bytes=most)
    await reading.open()
    found: list[Delivery] = []
    greatest = 0
    while len(found) < 120:
        try:
            async with asyncio.timeout(1.5):
                found += await reading.read(7)
        except TimeoutError:  # all that may be kept is out: no more comes until some is settled
            assert greatest > most // 2
            lanes = {each.lane: each for each in found}
            for each in lanes.values():
                reading.settle(each)
        assert reading._consumer is not None
        greatest = max(greatest, sum([each.size for each in reading._consumer.assigned.values()]))
        assert greatest < most + (1 << 20)
    await reading.close()
    assert len({each.identity for each in found}) == 120
