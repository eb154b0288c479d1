"""The special behaviour of RabbitMQ, on live brokers: what it returns, refuses, blocks, deletes and redelivers."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pika
import pytest

from bridge.endpoint import Delivery, Disconnected, Outgoing, Target
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.endpoints.rabbitmq.addresses import parse_broker, read_brokers
from bridge.endpoints.rabbitmq.config import PublishAddress, RabbitmqSource, RabbitmqTarget
from bridge.interop import bind_identity
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from bridge.table import Table
from exchange import Message
from exchange.amqp import ContentHeader, build_lazy_message
from exchange.errors import InputError
from tests.support.bridge.behaviour import Reports, Silent, on_a_loop, open_again, read_all_of, router_to, send_to
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.bridge.relay import Relay, relay_to
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, stretch, until

QUICK = Policy(window=200, tries=4, backoff=Backoff(0.01, 0.1), reconnect=Backoff(0.01, 0.2), drain=10.0)


def failures_of(reports: Reports) -> dict[int, str]:
    return {outgoing.number: failure.reason for outgoing, failure in reports.failures}


async def run_pump(
    messages: Sequence[Message], target: RabbitmqTarget, act: Callable[[], None] = lambda: None
) -> MemoryTarget:
    """Pump messages to a target, and return the target of dead letters."""
    dead = MemoryTarget("dead")
    await run_pump_with_dead_letters(messages, target, dead, act)
    return dead


async def run_pump_with_dead_letters(
    messages: Sequence[Message], target: RabbitmqTarget, dead: Target, act: Callable[[], None] = lambda: None
) -> None:
    """Pump messages to a target or to the dead letters."""
    source = MemorySource(messages)
    source.end()
    pump = Pump([Inlet(source, "in")], router_to("queue"), {"queue": target}, Silent(), QUICK, dead)
    running = asyncio.ensure_future(pump.run())
    await asyncio.sleep(0.05)
    act()
    await running
    assert not source.unsettled


# Returns.


@on_a_loop
async def test_of_thousands_of_equal_bodies_those_without_a_route_fail(broker: Broker) -> None:
    exchange, queue = broker.exchange("direct"), broker.queue()
    for n in range(10):
        broker.channel.queue_bind(queue, exchange, f"key.{n}")
    chance = random.Random(1)
    keys = [f"key.{chance.randrange(20)}" for _ in range(5_000)]
    target, reports = broker.target(exchange, patience=600.0), Reports()
    await target.open(reports)
    send_to(target, reports, [Message("", key, body=b"same") for key in keys], "queue")
    await reports.answers(5_000)
    wrong = {n for n, key in enumerate(keys, 1) if int(key[4:]) >= 10}
    assert {*failures_of(reports)} == wrong
    assert all(failure.waits and "312 NO_ROUTE" in failure.reason for _, failure in reports.failures)
    assert not any(failure.busy or failure.final for _, failure in reports.failures)
    await target.close()


@on_a_loop
async def test_messages_that_differ_only_in_headers_fail_individually(broker: Broker) -> None:
    exchange, queue = broker.exchange("headers"), broker.queue()
    broker.channel.queue_bind(queue, exchange, "", {"x-match": "all", "kind": "good"})
    chance = random.Random(2)
    kinds = [chance.choice(["good", "bad"]) for _ in range(1_000)]
    messages = [Message("", "key", {"z": "first", "kind": kind, "a": 1.5}, body=b"same") for kind in kinds]
    target, reports = broker.target(exchange), Reports()
    await target.open(reports)
    send_to(target, reports, messages, "queue")
    await reports.answers(1_000)
    assert {*failures_of(reports)} == {n for n, kind in enumerate(kinds, 1) if kind == "bad"}
    await target.close()


@on_a_loop
async def test_messages_that_differ_only_in_bcc_are_distinguished(broker: Broker) -> None:
    exchange, queue = broker.exchange("headers"), broker.queue()
    broker.channel.queue_bind(queue, exchange, "", {"x-match": "all-with-x", "x-hashstar-bcc": ["good"]})
    messages = [Message("", "none", {"BCC": ["good" if n % 3 else "bad"]}, body=b"same") for n in range(60)]
    target, reports = broker.target(exchange), Reports()
    await target.open(reports)
    send_to(target, reports, messages, "queue")
    await reports.answers(60)
    assert len(reports.failures) + len(reports.confirmations) == 60
    assert not any("or one like it" in failure.reason for _, failure in reports.failures)
    await target.close()
    broker.bodies(queue)


@on_a_loop
async def test_cc_and_bcc_which_the_topology_has_applied_are_not_applied_again(broker: Broker) -> None:
    exchange, queue, other = broker.exchange("direct"), broker.queue(), broker.queue()
    broker.channel.queue_bind(queue, exchange, "good")
    broker.channel.queue_bind(other, exchange, "copy")
    messages = [Message("", "good", {"CC": ["copy", "good"], "BCC": ["copy"]}), Message("", "none", {"CC": ["good"]})]
    dead = await run_pump(messages, broker.target(exchange))
    _, properties, _ = broker.get(queue)
    assert properties.headers is not None
    assert properties.headers["x-hashstar-cc"] == ["copy", "good"]
    assert properties.headers["x-hashstar-bcc"] == ["copy"]
    assert not {"CC", "BCC"} & {*properties.headers}
    assert (broker.bodies(queue), broker.bodies(other)) == ([], [])
    [letter] = dead.messages  # its own key leads nowhere there
    assert "NO_ROUTE" in letter.message.headers["hashstar-reason"]


@on_a_loop
async def test_a_bridge_whose_cc_names_its_own_source_moves_each_message_once(broker: Broker) -> None:
    """Without this, the target's broker applied CC again, and one message became thousands."""
    read, written = broker.queue(), broker.queue()
    broker.put(read, b"x", headers={"CC": [read]})
    source, target, reports = broker.source(read), broker.target("", written), Reports()
    await source.open()
    await target.open(reports)
    found = await read_all_of(source, 1)
    target.send([Outgoing(found[0].message, found[0], "queue", None, 1)])
    await reports.answers(1)
    source.settle(found[0])
    await source.close()
    await target.close()
    assert broker.bodies(written) == [b"x"]
    assert not broker.bodies(read)


@on_a_loop
async def test_a_message_to_a_queue_carries_its_exchange_and_key_and_each_bridge_counts(broker: Broker) -> None:
    exchange, first, second, third = broker.exchange("topic"), broker.queue(), broker.queue(), broker.queue()
    broker.channel.queue_bind(first, exchange, "#")
    broker.channel.basic_publish(exchange, "order.new", b"x", pika.BasicProperties(headers={"n": 5}))
    for read, written in ((first, second), (second, third)):
        source, target, reports = broker.source(read), broker.target("", written), Reports()
        await source.open()
        await target.open(reports)
        [delivery] = await read_all_of(source, 1)
        target.send([Outgoing(delivery.message, delivery, "queue", None, 1)])
        await reports.answers(1)
        await source.close()
        await target.close()
    _, properties, _ = broker.get(third)
    assert properties.headers == {
        "n": 5, "x-hashstar-exchange": exchange, "x-hashstar-routing-key": "order.new", "x-hashstar-hops": 2,
    }  # fmt: skip


@pytest.mark.smoke
@on_a_loop
async def test_a_full_queue_that_rejects_publishes_is_a_nack(broker: Broker) -> None:
    queue = broker.queue(x_max_length=10, x_overflow="reject-publish")
    target, reports = broker.target("", queue), Reports()
    await target.open(reports)
    send_to(target, reports, [Message(body=b"%d" % n) for n in range(50)], "queue")
    await reports.answers(50)
    assert {*failures_of(reports).values()} == {f"nack: queue {queue!r} is full, or cannot be written to now"}
    assert len(broker.bodies(queue)) == len(reports.confirmations) < 50
    await target.close()


# What a broker ends channels and connections over.

MALFORMED = {
    "a table that ends too soon": b"\x20\x00\x00\x00\x00\x09\x01aS\x00\x00\x00\xff",
    "no such type": b"\x20\x00\x00\x00\x00\x04\x01aZ\x00",
    "a property that ends too soon": b"\x80\x00\xffshort",
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
@on_a_loop
async def test_only_the_message_with_a_header_that_the_broker_cannot_read_is_refused(
    broker: Broker, raw: bytes
) -> None:
    queue = broker.queue()
    messages = [Message("", queue, body=b"%d" % n) for n in range(30)]
    messages[7] = build_lazy_message("", queue, ContentHeader(raw), b"7")
    target = broker.target("", queue)
    wrong, left = [], [Outgoing(m, Delivery(m), "queue", None, n) for n, m in enumerate(messages)]
    for _ in range(4):  # all at once, then one by one up to the wrong one, then the others
        reports = Reports()
        await open_again(target, reports)
        target.send(left)
        await reports.answers_or_loss(len(left))
        answered = {o.number for o in reports.confirmations} | {o.number for o, _ in reports.failures}
        left = [o for o in left if o.number not in answered]
        wrong += reports.failures
        if not left:
            break
    await target.close()
    assert [(outgoing.number, failure.final) for outgoing, failure in wrong] == [(7, True)]
    assert not left
    assert {int(body) for body in broker.bodies(queue)} == {*range(30)} - {7}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
@on_a_loop
async def test_a_message_with_an_unreadable_header_becomes_a_dead_letter_with_its_bytes(
    broker: Broker, raw: bytes
) -> None:
    queue = broker.queue()
    messages = [Message("", queue, body=b"%d" % n) for n in range(30)]
    messages[7] = build_lazy_message("", queue, ContentHeader(raw), b"7")
    dead = await run_pump(messages, broker.target("", queue))
    assert [o.message.body for o in dead.messages] == [b"7"]
    assert {int(body) for body in broker.bodies(queue)} == {*range(30)} - {7}


@on_a_loop
async def test_a_foreign_user_id_travels_as_a_header_and_one_of_our_own_as_it_is(broker: Broker) -> None:
    queue = broker.queue()
    users = ["nobody" if n == 70 else "guest" if n % 2 else None for n in range(150)]
    messages = [
        Message("", f"key.{n % 5}", {}, {} if user is None else {"user_id": user}, b"%d" % n)
        for n, user in enumerate(users)
    ]
    target, reports = broker.target("", queue), Reports()
    await target.open(reports)
    send_to(target, reports, messages, "queue")
    await reports.answers(150)
    await target.close()
    assert not reports.failures
    assert not reports.losses
    for user in users:
        _, properties, _ = broker.get(queue)
        headers = properties.headers or {}
        assert (properties.user_id, headers.get("x-hashstar-user-id")) == (
            (None, "nobody") if user == "nobody" else (user, None)
        )


@on_a_loop
async def test_a_broker_takes_dead_letters_of_messages_that_it_refuses_or_would_drop(broker: Broker) -> None:
    queue, graveyard, other = broker.queue(), broker.queue(), broker.queue()
    properties = {"user_id": "nobody", "expiration": "soon"}
    messages = [Message("", "key", {"CC": [other]}, properties, b"bad"), Message("", "key", body=b"good")]
    dead = RabbitmqTarget("dead", [broker.address], {"": PublishAddress.queue(graveyard)})
    await asyncio.wait_for(run_pump_with_dead_letters(messages, broker.target("", queue), dead), find_limit())
    await asyncio.sleep(0.1)
    _, letter, body = broker.get(graveyard)
    assert body == b"bad"
    assert letter.headers["hashstar-user_id"] == "nobody"
    assert letter.headers["hashstar-expiration"] == "soon"
    assert letter.headers["hashstar-CC"] == [other]
    assert (broker.bodies(queue), broker.bodies(other)) == ([b"good"], [])


@on_a_loop
async def test_a_deleted_exchange_is_reported_and_nothing_is_lost(broker: Broker) -> None:
    exchange, queue = broker.exchange("fanout"), broker.queue()
    broker.channel.queue_bind(queue, exchange)
    target, reports = broker.target(exchange), Reports()
    await target.open(reports)
    broker.channel.exchange_delete(exchange)
    send_to(target, reports, [Message(body=b"0")], "queue")
    await reports.loss()
    assert "404" in str(reports.losses[0])
    assert exchange in str(reports.losses[0])
    await target.close()
    with pytest.raises(Disconnected, match=exchange):
        await target.open(Reports())

    def come_back() -> None:
        broker.channel.exchange_declare(exchange, "fanout")
        broker.channel.queue_bind(queue, exchange)

    messages = [Message(body=b"%d" % n) for n in range(300)]
    dead = await run_pump(messages, target, come_back)
    assert not dead.messages
    assert {int(body) for body in broker.bodies(queue)} == {*range(300)}


@on_a_loop
async def test_the_bridge_waits_for_a_missing_queue_and_names_it_once(broker: Broker) -> None:
    for endpoint in (broker.target("hashstar-nowhere"), broker.target("", "hashstar-nowhere")):
        with pytest.raises(Disconnected) as caught:
            await endpoint.open(Reports())
        assert str(caught.value) in {
            "queue 'hashstar-nowhere': there is none; declare it",
            "exchange 'hashstar-nowhere': there is none; declare it",
        }


@on_a_loop
async def test_the_bridge_waits_for_a_right_password_or_virtual_host_and_shows_no_password(broker: Broker) -> None:
    for user, vhost in (("guest:wrong-secret", "%2F"), ("guest:guest", "hashstar-none")):
        address = parse_broker(f"amqp://{user}@{broker.host}:{broker.port}/{vhost}")
        with pytest.raises(Disconnected) as caught:
            await RabbitmqTarget("to", [address], {}).open(Reports())
        assert "secret" not in str(caught.value)


@pytest.mark.smoke
@on_a_loop
async def test_a_queue_that_is_gone_holds_its_messages_until_it_is_back(broker: Broker) -> None:
    queue = broker.queue()

    def remake() -> None:
        broker.channel.queue_declare(queue, durable=True)

    target, reports = broker.target("", queue), Reports()
    await target.open(reports)
    broker.channel.queue_delete(queue)
    outgoing = send_to(target, reports, [Message("", "key", body=b"%d" % n) for n in range(50)], "queue")
    await reports.answers(50)
    assert all(failure.busy for _, failure in reports.failures)
    assert set(failures_of(reports).values()) == {f"returned: 312 NO_ROUTE: there is no queue {queue!r}"}
    remake()
    target.send(outgoing)
    await reports.answers(100)
    await target.close()
    assert [int(body) for body in broker.bodies(queue)] == list(range(50))


@pytest.fixture
def other_user(broker: Broker) -> Iterator[str]:
    """Yield the name of a user without any permission."""
    name = unique_name("rabbitmq")
    broker.set_user(name)
    yield name
    broker.manage("DELETE", f"users/{name}")


@on_a_loop
async def test_permission_to_write_to_the_default_exchange_suffices_for_a_queue(
    broker: Broker, other_user: str
) -> None:
    queue = broker.queue()
    broker.permit(other_user, "^$", "^amq\\.default$", "^$")
    address = parse_broker(f"amqp://{other_user}:pw@{broker.host}:{broker.port}")
    target, reports = RabbitmqTarget("to", [address], {"queue": PublishAddress.queue(queue)}), Reports()
    await target.open(reports)
    send_to(target, reports, [Message(body=b"x")], "queue")
    await reports.answers(1)
    await target.close()
    assert not reports.failures
    assert broker.bodies(queue) == [b"x"]


@on_a_loop
async def test_a_missing_permission_is_no_fault_of_the_messages(broker: Broker, other_user: str) -> None:
    """Neither is one that a topic permission refuses for a routing key."""
    queue, exchange = broker.queue(), broker.exchange("topic")
    broker.channel.queue_bind(queue, exchange, "#")
    broker.permit(other_user, "^$", "^$", "^$")
    address = parse_broker(f"amqp://{other_user}:pw@{broker.host}:{broker.port}")
    target = RabbitmqTarget("to", [address], {"queue": PublishAddress(exchange)})

    async def send() -> Reports:
        reports = Reports()
        await target.open(reports)
        send_to(target, reports, [Message("", "a", body=b"x"), Message("", "b", body=b"y")], "queue")
        await until(lambda: reports.losses or len(reports.failures) + len(reports.confirmations) == 2)
        await target.close()
        return reports

    def reasons(reports: Reports) -> list[str]:
        return [failure.reason for _, failure in reports.failures]

    lost = await send()  # the broker ends the connection for the first one, and that costs no other connection
    assert not lost.failures
    assert re.search(rf"403 .*{exchange}.*grant it", str(lost.losses[0]))
    refused = await send()
    assert not refused.losses
    assert [failure.busy for _, failure in refused.failures] == [True, True]
    assert all(re.search(rf"403 .*exchange '{exchange}'.*grant it", each) for each in reasons(refused))
    broker.permit(other_user, "^$", ".*", "^$")
    broker.manage("PUT", f"topic-permissions/%2F/{other_user}", {"exchange": exchange, "write": "^a$", "read": "^$"})
    assert (await send()).losses
    refused = await send()
    assert not refused.losses
    assert [failure.waits for _, failure in refused.failures] == [True]
    assert re.search(rf"403 .*topic 'b' in exchange '{exchange}'.*grant it", reasons(refused)[0])
    broker.manage("DELETE", f"topic-permissions/%2F/{other_user}")
    broker.bodies(queue)
    assert len((await send()).confirmations) == 2
    assert broker.bodies(queue) == [b"x", b"y"]


# Sources.


@on_a_loop
async def test_a_deleted_queue_is_reported_and_may_come_back(broker: Broker) -> None:
    queue = broker.queue()
    source = broker.source(queue)
    await source.open()
    broker.channel.queue_delete(queue)
    with pytest.raises(Disconnected, match="cancelled"):
        await source.read(1)
    await source.close()
    with pytest.raises(Disconnected, match=queue):
        await source.open()
    broker.channel.queue_declare(queue, durable=True)
    broker.put(queue, b"back")
    await source.open()
    assert [d.message.body for d in await source.read(5)] == [b"back"]
    await source.close()


@on_a_loop
async def test_an_exclusive_consumer_keeps_others_out_while_it_is_connected(broker: Broker) -> None:
    queue = broker.queue()
    first, second = broker.source(queue, exclusive=True), broker.source(queue)
    await first.open()
    with pytest.raises(Disconnected, match="for itself alone"):
        await second.open()
    await first.close()
    await open_again(second)
    await second.close()


@on_a_loop
async def test_a_queue_that_is_exclusive_to_another_connection_may_come_free(broker: Broker) -> None:
    name = unique_name("rabbitmq")
    broker.channel.queue_declare(name, exclusive=True)
    with pytest.raises(Disconnected, match="only the connection that declared it"):
        await broker.source(name).open()
    broker.channel.queue_delete(name)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@on_a_loop
async def test_the_second_of_two_single_active_consumers_takes_over(broker: Broker, kind: str) -> None:
    queue = broker.queue(x_single_active_consumer=True, x_queue_type=kind)
    broker.put(queue, *[b"%d" % n for n in range(20)])
    first, second = broker.source(queue), broker.source(queue)
    await first.open()
    await second.open()
    found = await read_all_of(first, 20)
    waiting = asyncio.ensure_future(second.read(20))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    first.settle(found[4])
    await first.close()
    again = list(await waiting)
    again += await read_all_of(second, 15 - len(again))
    assert [int(d.message.body) for d in again] == list(range(5, 20))
    assert all(d.redelivered for d in again)
    await second.close()


@on_a_loop
async def test_a_redelivered_message_is_marked_as_such(broker: Broker) -> None:
    queue = broker.queue()
    broker.put(queue, b"x")
    source = broker.source(queue)
    flags = []
    for _ in range(2):
        await source.open()
        flags += [d.redelivered for d in await source.read(1)]
        await source.close()
    assert flags == [False, True]


@on_a_loop
async def test_no_more_than_the_prefetch_is_unsettled(broker: Broker) -> None:
    queue = broker.queue()
    broker.put(queue, *[b"x"] * 30)
    source = broker.source(queue, prefetch=10)
    await source.open()
    found = await read_all_of(source, 10)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(source.read(1), 0.3)
    source.settle(found[3])
    assert len(await read_all_of(source, 4)) == 4
    await source.close()


@on_a_loop
async def test_a_delivery_that_is_not_acknowledged_in_time_ends_the_connection(broker: Broker) -> None:
    if broker.server.version_info >= (4, 3):
        pytest.skip("4.3 looks for such deliveries in its queues, at times that cannot be set")
    queue = broker.queue()
    before = broker.control(
        "eval",
        "Names = [consumer_timeout, channel_tick_interval], "
        "Before = [{Name, application:get_env(rabbit, Name, undefined)} || Name <- Names], "
        "[application:set_env(rabbit, Name, 1000) || Name <- Names], Before.",
    )
    try:
        broker.put(queue, b"x")
        source = broker.source(queue)
        await source.open()
        await source.read(1)
        with pytest.raises(Disconnected, match=r"timeout|timed out"):
            await source.read(1)
        await source.close()
        await source.open()
        assert [d.redelivered for d in await source.read(1)] == [True]
        await source.close()
    finally:
        broker.control("eval", f"[application:set_env(rabbit, Name, Value) || {{Name, Value}} <- {before.strip()}].")


# Streams.


@on_a_loop
async def test_a_stream_is_read_after_the_offset_in_its_file(broker: Broker, tmp_path: Path) -> None:
    queue, path = broker.queue(x_queue_type="stream"), tmp_path / "offsets"
    broker.put(queue, *[b"%d" % n for n in range(50)])
    source = broker.source(queue, offsets=path)
    await source.open()
    found = await read_all_of(source, 50)
    assert found[10].identity == bind_identity(f"stream/from/{queue}/10", queue.encode(), found[10].message.body)
    source.settle(found[19])
    await source.close()
    assert path.read_text().split()[0] == "19"
    again = broker.source(queue, offsets=path)
    await again.open()
    assert [int(d.message.body) for d in await read_all_of(again, 30)] == list(range(20, 50))
    await again.close()


@on_a_loop
async def test_a_stream_without_a_file_is_read_from_its_beginning_and_continues_after_a_lost_connection(
    broker: Broker,
) -> None:
    queue = broker.queue(x_queue_type="stream")
    broker.put(queue, *[b"%d" % n for n in range(50)])
    source = broker.source(queue)
    await source.open()
    source.settle((await read_all_of(source, 50))[29])
    await source.close()
    await source.open()
    assert [int(d.message.body) for d in await read_all_of(source, 20)] == list(range(30, 50))
    await source.close()
    late = broker.source(queue, offset=45)
    await late.open()
    assert [int(d.message.body) for d in await read_all_of(late, 5)] == list(range(45, 50))
    await late.close()


@on_a_loop
async def test_a_recreated_stream_is_reported_and_not_skipped(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.endpoints.rabbitmq.consumer.resuming.FIND_SECONDS", 2.0)
    queue, path = broker.queue(x_queue_type="stream"), tmp_path / "offsets"
    broker.put(queue, b"a", b"b")
    path.write_text("19\n")
    source = broker.source(queue, offsets=path)
    with pytest.raises(Disconnected, match=r"nothing from offset 19 on.*remove .*offsets"):
        await source.open()
    path.unlink()
    again = broker.source(queue, offsets=path, prefetch=1)
    await again.open()
    for body in (b"a", b"b"):
        [delivery] = await again.read(5)
        assert delivery.message.body == body
        again.settle(delivery)
    await again.close()
    await again.open()
    broker.put(queue, b"c")
    assert [d.message.body for d in await read_all_of(again, 1)] == [b"c"]
    await again.close()


@on_a_loop
async def test_a_recreated_stream_that_has_grown_longer_is_not_read_from_its_middle(
    broker: Broker, tmp_path: Path
) -> None:
    queue, path = broker.queue(x_queue_type="stream"), tmp_path / "offset"
    broker.put(queue, *[b"old %d" % n for n in range(20)])
    source = broker.source(queue, offsets=path)
    await source.open()
    source.settle((await read_all_of(source, 10))[-1])
    await source.close()
    again = broker.source(queue, offsets=path)
    await again.open()
    assert (await again.read(1))[0].message.body == b"old 10"
    await again.close()
    broker.channel.queue_delete(queue)
    broker.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
    broker.put(queue, *[b"new %d" % n for n in range(30)])
    for each in (broker.source(queue, offsets=path), again):
        with pytest.raises(Disconnected, match=f"declared anew; remove {path}"):
            await each.open()
    path.write_text("9\n")  # of an earlier release: it cannot be known
    old = broker.source(queue, offsets=path)
    await old.open()
    assert (await old.read(1))[0].message.body == b"new 10"
    await old.close()


@on_a_loop
async def test_a_stream_is_not_read_while_its_offsets_cannot_be_kept(broker: Broker, tmp_path: Path) -> None:
    queue = broker.queue(x_queue_type="stream")
    broker.put(queue, b"0")
    source = broker.source(queue, offsets=tmp_path / "none" / "offset")
    assert [each.key for each in await source.check() if each.level == "error"] == ["offsets"]
    with pytest.raises(Disconnected, match="there is no folder"):
        await source.open()
    (tmp_path / "none").mkdir()
    await source.open()
    assert len(await source.read(1)) == 1
    await source.close()


@on_a_loop
async def test_an_invalid_file_of_offsets_is_an_input_error(broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text("nineteen")
    with pytest.raises(InputError, match="offsets"):
        await broker.source(broker.queue(x_queue_type="stream"), offsets=path).open()


# Connections.


@pytest.mark.smoke
@on_a_loop
async def test_while_the_broker_blocks_publishers_messages_wait_and_then_pass(broker: Broker) -> None:
    queue = broker.queue()
    target, reports = broker.target("", queue), Reports()
    await target.open(reports)
    send_to(target, reports, [Message(body=b"0")], "queue")
    await reports.answers(1)
    change = "vm_memory_monitor:set_vm_memory_high_watermark"
    before = broker.control(
        "eval", f"Before = vm_memory_monitor:get_vm_memory_high_watermark(), {change}(0.00001), Before."
    )
    try:
        # The broker blocks a connection when it publishes.
        outgoing = send_to(target, reports, [Message(body=b"1")], "queue", 2)
        await until(lambda: target.trouble is not None)
        outgoing += send_to(target, reports, [Message(body=b"%d" % n) for n in range(2, 500)], "queue", 3)
        await asyncio.sleep(0.5)
        assert len(reports.confirmations) <= 2
        assert not reports.losses
        assert re.search(r"^blocked by the broker: low on memory", target.trouble or "")
    finally:
        broker.control("eval", f"{change}({before.strip()}).")
    await reports.answers(500)
    assert not reports.failures
    assert target.trouble is None
    await target.close()


@on_a_loop
async def test_a_connection_on_which_nothing_comes_is_lost_after_two_heartbeats(broker: Broker) -> None:
    with relay_to(broker.host, broker.port) as relay:
        address = parse_broker(f"amqp://guest:guest@127.0.0.1:{relay.port}/%2F?heartbeat=1")
        source = RabbitmqSource("from", [address], broker.queue())
        await source.open()
        await asyncio.sleep(2.5)  # heartbeats flow, and it stays
        relay.stall()
        start = time.monotonic()
        with pytest.raises(Disconnected):
            await source.read(1)
        assert time.monotonic() - start < stretch(60)
        await source.close()


@on_a_loop
async def test_opening_can_be_given_up_at_any_time(broker: Broker) -> None:
    """A connection that stayed open would be an unclosed socket, which fails the test."""
    source, target = broker.source(broker.queue()), broker.target("", broker.queue())
    for n in range(20):
        for opening in (source.open(), target.open(Reports())):
            task = asyncio.ensure_future(opening)
            await asyncio.sleep(0.002 * n)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await source.close()
        await target.close()


@on_a_loop
async def test_the_first_host_that_answers_is_taken(broker: Broker) -> None:
    table = Table({"hosts": [f"127.0.0.1:{closed_port()}", f"{broker.host}:{broker.port}"]}, "bridge.toml")
    addresses = read_brokers("from", f"amqp://guest:guest@127.0.0.1:{closed_port()}", table)
    assert len(addresses) == 3
    source = RabbitmqSource("from", addresses, broker.queue())
    await source.open()
    await source.close()


@on_a_loop
async def test_when_no_host_answers_all_are_named() -> None:
    ports = closed_port(), closed_port()
    addresses = read_brokers(
        "from", f"amqp://127.0.0.1:{ports[0]}", Table({"hosts": [f"127.0.0.1:{ports[1]}"]}, "bridge.toml")
    )
    with pytest.raises(Disconnected) as caught:
        await RabbitmqSource("from", addresses, "any").open()
    assert all(f"127.0.0.1:{port}" in str(caught.value) for port in ports)


def closed_port() -> int:
    relay = Relay("127.0.0.1", 1)
    relay.close()
    return relay.port


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with an authority, and certificates of a server named ``localhost`` and of a client."""
    folder = tmp_path_factory.mktemp("authority")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, check=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=hashstar tests")
    for name in ("server", "client"):
        openssl(
            "req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN={name}",
            "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE",
            "-CA", "ca.pem", "-CAkey", "ca.key",
        )  # fmt: skip
    return folder


def tls_of(authority: Path) -> Any:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    context.load_verify_locations(authority / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@on_a_loop
async def test_tls_checks_the_server_and_shows_the_client(broker: Broker, authority: Path) -> None:
    queue = broker.queue()
    files = {"ca_file": "ca.pem", "cert_file": "client.pem", "key_file": "client.key"}
    right: Mapping[str, str] = {name: str(authority / file) for name, file in files.items()}
    with relay_to(broker.host, broker.port, tls_of(authority)) as relay:
        url = f"amqps://guest:guest@127.0.0.1:{relay.port}"

        def addresses(**values: str) -> Any:
            return read_brokers("tls", url, Table(values, "bridge.toml"))

        target, reports = (
            RabbitmqTarget("to", addresses(**right, server_name="localhost"), {"": PublishAddress.queue(queue)}),
            Reports(),
        )
        await target.open(reports)
        send_to(target, reports, [Message(body=bytes(1_000_000))] * 3, "")
        await reports.answers(3)
        await target.close()
        source = RabbitmqSource("from", addresses(**right, server_name="localhost"), queue)
        await source.open()
        assert [len(d.message.body) for d in await read_all_of(source, 3)] == [1_000_000] * 3
        await source.close()
        for wrong, words in (
            ({**right, "server_name": "elsewhere"}, "elsewhere"),
            ({"server_name": "localhost"}, "certificate"),
        ):
            with pytest.raises(Disconnected, match=words):
                await RabbitmqSource("from", addresses(**wrong), queue).open()


# Messages.


@on_a_loop
async def test_a_body_of_16_mib_goes_through_and_a_larger_one_is_a_dead_letter(broker: Broker) -> None:
    read, written = broker.queue(), broker.queue()
    body = random.Random(3).randbytes(16 << 20)
    broker.put(read, body)
    source, target, reports = broker.source(read), broker.target("", written), Reports()
    await source.open()
    await target.open(reports)
    [delivery] = await source.read(1)
    assert delivery.message.body == body
    send_to(target, reports, [delivery.message], "queue")
    await reports.answers(1)
    source.settle(delivery)
    await source.close()
    await target.close()
    assert broker.get(written)[2] == body
    if broker.server.version_info >= (4,):  # before, 128 MiB are taken
        dead = await run_pump([Message(body=body + b"x"), Message(body=b"small")], broker.target("", written))
        assert [len(o.message.body) for o in dead.messages] == [len(body) + 1]
        assert broker.bodies(written) == [b"small"]


@on_a_loop
async def test_a_key_of_255_bytes_passes_and_a_longer_one_is_refused(broker: Broker) -> None:
    exchange, queue = broker.exchange("topic"), broker.queue()
    broker.channel.queue_bind(queue, exchange, "#")
    keys = ["k" * 255, "ü" * 127, "k" * 256, ""]
    target, reports = broker.target(exchange), Reports()
    await target.open(reports)
    send_to(target, reports, [Message("", key) for key in keys], "queue")
    await reports.answers(4)
    [(outgoing, failure)] = reports.failures
    assert (outgoing.number, failure.final) == (3, True)
    await target.close()
    source = broker.source(queue)
    await source.open()
    assert [d.message.routing_key for d in await read_all_of(source, 3)] == ["k" * 255, "ü" * 127, ""]
    await source.close()


@on_a_loop
async def test_properties_larger_than_a_frame_are_refused(broker: Broker) -> None:
    target, reports = broker.target("", broker.queue()), Reports()
    await target.open(reports)
    send_to(target, reports, [Message(headers={"large": "x" * 200_000})], "queue")
    await reports.answers(1)
    assert reports.failures[0][1].final
    await target.close()


@on_a_loop
async def test_a_message_keeps_its_delivery_mode_and_is_persistent_if_it_has_none(broker: Broker) -> None:
    read, written = broker.queue(), broker.queue()
    modes = [1, 2, None]
    for mode in modes:
        broker.put(read, b"x", delivery_mode=mode)
    source, target, reports = broker.source(read), broker.target("", written), Reports()
    await source.open()
    await target.open(reports)
    send_to(target, reports, [d.message for d in await read_all_of(source, 3)], "queue")
    await reports.answers(3)
    await source.close()
    await target.close()
    assert [broker.get(written)[1].delivery_mode for _ in modes] == [1, 2, 2]


@pytest.mark.smoke
@on_a_loop
async def test_the_identity_of_a_message_survives_the_bridge(broker: Broker) -> None:
    read, written = broker.queue(), broker.queue()
    broker.put(read, b"0", message_id="17", timestamp=1_700_000_000)
    key, other = read.encode(), bind_identity("kafka/k/t/0/1", read.encode(), b"1")
    broker.put(read, b"1", headers={"x-hashstar-id": other}, message_id="18")
    broker.put(read, b"2", headers={"x-other": "x"})
    source, target, reports = broker.source(read), broker.target("", written), Reports()
    await source.open()
    await target.open(reports)
    found = await read_all_of(source, 3)
    known = [bind_identity(f"message/from/{read}/17", key, b"0"), other, None]
    assert [d.identity for d in found] == known
    assert [d.time for d in found] == [1_700_000_000_000_000, None, None]
    target.send([Outgoing(d.message, d, "queue", None, n) for n, d in enumerate(found, 1)])
    await reports.answers(3)
    await source.close()
    await target.close()
    headers = [broker.get(written)[1].headers or {} for _ in range(3)]
    assert [each.get("x-hashstar-id") for each in headers] == known
