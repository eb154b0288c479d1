"""Checks of live brokers: what they find, and that they leave no trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bridge.endpoint import BridgeLayout, Finding, Place, Source
from bridge.endpoints.memory import MemorySource
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.checking import SourceSettings, check_source, find_places
from bridge.endpoints.rabbitmq.config import PublishAddress, RabbitmqTarget
from exchange import Queue, Topology
from exchange.partition.partitioning.specification import Partitioning
from tests.bridge.endpoints.rabbitmq.test_rabbitmq_live import closed_port
from tests.support.bridge.behaviour import on_a_loop
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.servers import missing
from tests.support.unique import unique_name
from tests.support.waiting import until


def management(broker: Broker) -> str:
    return broker.server.management_url or missing("the broker has no management API")


async def of_source(broker: Broker, queue: str, **settings: Any) -> Sequence[Finding]:
    return await check_source([broker.address], SourceSettings(queue, **settings), management(broker))


async def of_target(broker: Broker, address: PublishAddress, layout: BridgeLayout | None = None) -> Sequence[Finding]:
    target = RabbitmqTarget("to", [broker.address], {"q": address}, management(broker))
    if layout is not None:
        target.meet(layout)
    return await target.check()


def warnings(findings: Sequence[Finding]) -> list[str]:
    return [finding.text for finding in findings if finding.level == "warning"]


def errors(findings: Sequence[Finding]) -> list[str]:
    return [finding.text for finding in findings if finding.level == "error"]


class Reading(MemorySource):
    """A source in memory whose place is a queue of a broker."""

    def __init__(self, broker: Broker, queue: str) -> None:
        super().__init__()
        self._read = find_places([broker.address], queue)

    @property
    def places(self) -> frozenset[Place]:
        return self._read


def layout_of(broker: Broker, read: str, queue: Queue | None = None) -> BridgeLayout:
    sources: list[Source] = [Reading(broker, read)]
    return BridgeLayout(sources, {}, Topology(queues=[queue or Queue("q")]), 1)


@on_a_loop
async def test_a_quorum_queue_that_was_checked_25_times_has_all_its_messages_undelivered(broker: Broker) -> None:
    queue = broker.queue(x_queue_type="quorum")
    broker.put(queue, *[b"%d" % n for n in range(30)])
    target = RabbitmqTarget("to", [broker.address], {"q": PublishAddress.queue(queue)}, management(broker))
    for _ in range(25):
        assert not errors(await of_source(broker, queue))
        assert not errors(await target.check())
    seen = []
    for _ in range(30):
        method, properties, body = broker.get(queue)
        headers = properties.headers or {}
        assert not headers.get("x-delivery-count")
        assert not headers.get("x-acquired-count")
        assert not method.redelivered
        seen.append(int(body))
    assert seen == list(range(30))


@on_a_loop
async def test_a_quorum_queue_that_drops_messages_is_a_warning(broker: Broker) -> None:
    if broker.server.version_info < (4,):
        pytest.skip("before 4.0 there is no delivery limit unless somebody sets one")
    plain, graveyard = broker.queue(x_queue_type="quorum"), broker.queue()
    [warning] = warnings(await of_source(broker, plain))
    assert f"quorum queue '{plain}': it survives 20 crashes of its readers" in warning
    assert "drops a message when it was delivered 21 times and not settled, and with it up to 2,000 that" in warning
    [warning] = warnings(await of_source(broker, plain, has_management=True))
    assert "times is taken alone, so that no others go with it; give it a dead-letter exchange" in warning
    for arguments in ({"x_delivery_limit": -1}, {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": graveyard}):
        assert not warnings(await of_source(broker, broker.queue(x_queue_type="quorum", **arguments)))
    policy = unique_name("checking")
    broker.manage("PUT", f"policies/%2F/{policy}", {"pattern": f"^{plain}$", "definition": {"delivery-limit": 7}})
    try:

        async def shows() -> bool:  # the API, some seconds later
            [warning] = warnings(await of_source(broker, plain))
            return "delivered 8 times" in warning

        await until(shows)
    finally:
        broker.manage("DELETE", f"policies/%2F/{policy}")


@on_a_loop
async def test_dead_letters_that_come_back_are_a_loop(broker: Broker) -> None:
    exchange, queue = broker.exchange("fanout"), broker.queue(x_queue_type="quorum")
    looping = broker.queue(x_queue_type="quorum", x_dead_letter_exchange=exchange)
    broker.channel.queue_bind(looping, exchange)
    [warning] = warnings(await of_source(broker, looping))
    assert f"its dead letters may go to queue '{looping}' (by exchange '{exchange}')" in warning
    written = broker.queue(x_dead_letter_exchange="", x_dead_letter_routing_key=queue)
    [warning] = warnings(await of_target(broker, PublishAddress.queue(written), layout_of(broker, queue)))
    assert f"its dead letters may go to queue '{queue}'" in warning
    [warning] = warnings(await of_target(broker, PublishAddress(exchange), layout_of(broker, looping)))
    assert f"exchange '{exchange}': it may lead to queue '{looping}', which the bridge reads: a loop" in warning
    [warning] = warnings(await of_target(broker, PublishAddress.queue(queue), layout_of(broker, queue)))
    assert f"queue '{queue}': the bridge reads it, too: a loop" in warning


@on_a_loop
async def test_other_consumers_and_limits_of_a_queue_are_warnings(broker: Broker) -> None:
    shared, single = broker.queue(), broker.queue(x_single_active_consumer=True)
    stream, rejecting, dropping = (
        broker.queue(x_queue_type="stream"),
        broker.queue(x_max_length=10, x_overflow="reject-publish"),
        broker.queue(x_max_length=10),
    )
    consuming = broker.connection.channel()
    for queue in (shared, single):
        consuming.basic_consume(queue, lambda *_: None)
    broker.connection.process_data_events(0)
    try:

        async def find() -> list[str]:  # the API learns of consumers every few seconds
            return warnings(await of_source(broker, shared))

        found = await until(find)
        assert f"queue '{shared}': 1 consumer beside this bridge" in found[0]
        assert not warnings(await of_source(broker, single))
    finally:
        consuming.close()
    [warning] = warnings(await of_source(broker, stream))
    assert "each start reads it all again" in warning
    assert not warnings(await of_source(broker, stream, keeps_offsets=True))
    [warning] = warnings(await of_target(broker, PublishAddress.queue(rejecting)))
    assert "one_at_a_time" in warning
    [warning] = warnings(await of_target(broker, PublishAddress.queue(dropping)))
    assert "drops its oldest" in warning
    exclusive = await of_source(broker, broker.queue(x_queue_type="quorum", x_delivery_limit=-1), exclusive=True)
    assert "x-single-active-consumer" in warnings(exclusive)[0]


@on_a_loop
async def test_a_short_consumer_timeout_is_a_warning(broker: Broker) -> None:
    if broker.server.version_info < (3, 12):
        pytest.skip("queues have had one of their own since 3.12")
    queue = broker.queue(x_queue_type="quorum", x_delivery_limit=-1, x_consumer_timeout=600_000)
    [warning] = warnings(await of_source(broker, queue))
    assert "its consumer timeout is 600 s" in warning


@on_a_loop
async def test_permissions_to_read_and_to_write_are_checked_separately(broker: Broker) -> None:
    user, queue, exchange = unique_name("checking"), broker.queue(), broker.exchange("direct")
    broker.set_user(user)
    try:
        broker.set_user(user, "administrator")
        broker.permit(user, ".*", "^nothing$", "^nothing$")
        address = parse_broker(f"amqp://{user}:pw@{broker.host}:{broker.port}")
        [error] = errors(await check_source([address], SourceSettings(queue), management(broker)))
        assert error == f"queue '{queue}': user '{user}' may not read it; grant it: its pattern is '^nothing$'"
        for place, words in (
            (PublishAddress.queue(queue), "the default exchange"),
            (PublishAddress(exchange), f"'{exchange}'"),
        ):
            target = RabbitmqTarget("to", [address], {"q": place}, management(broker))
            [error] = errors(await target.check())
            assert words in error
            assert "may not write it" in error
        broker.set_user(user, "")
        findings = await check_source([address], SourceSettings(queue), management(broker))
        assert not errors(findings)
        assert [each.level for each in findings if "does not answer user" in each.text] == ["not checked"]
        broker.set_user(user, "monitoring")
        broker.permit(user, ".*", ".*", ".*")
        findings = await check_source([address], SourceSettings(queue), management(broker))
        assert [each.text for each in findings if each.level == "not checked"] == [
            f"the rights of user '{user}': only administrators are shown them"
        ]
    finally:
        broker.manage("DELETE", f"users/{user}")


@on_a_loop
async def test_partitions_are_compared_with_what_the_broker_has(broker: Broker) -> None:
    exchange, queue = broker.exchange("direct"), broker.queue()
    partitioned = Queue("q", partitioning=Partitioning.parse("rabbitmq.consistent_hash over 3"))
    found = errors(await of_target(broker, PublishAddress(exchange), layout_of(broker, "none", partitioned)))
    assert found == [
        f"exchange '{exchange}': it is of type direct, and would have to be x-consistent-hash",
        f"exchange '{exchange}': 0 bindings, and the topology spreads 'q' over 3: change one of them",
    ]
    partitioned = Queue("q", partitioning=Partitioning.parse("kafka.murmur2 over 2"))
    address = PublishAddress.queue(f"{queue}-{{partition}}")
    assert len(errors(await of_target(broker, address, layout_of(broker, "none", partitioned)))) == 2


@on_a_loop
async def test_an_internal_exchange_is_an_error(broker: Broker) -> None:
    exchange = broker.exchange("fanout")
    broker.channel.exchange_delete(exchange)
    broker.channel.exchange_declare(exchange, "fanout", internal=True)
    [error] = errors(await of_target(broker, PublishAddress(exchange)))
    assert error == f"exchange '{exchange}': it is internal: only exchanges can publish to it; declare it anew"


@on_a_loop
async def test_a_missing_queue_is_an_error_with_its_key_and_a_missing_management_api_is_not(broker: Broker) -> None:
    nowhere = f"http://127.0.0.1:{closed_port()}"
    findings = await check_source([broker.address], SourceSettings("hashstar-none"), nowhere)
    assert [(each.level, each.key) for each in findings] == [("not checked", ""), ("error", "queue")]
    assert f"other consumers: the management API at {nowhere} cannot be reached" in findings[0].text
    assert findings[1].text == "queue 'hashstar-none': there is none; declare it"
    away = parse_broker(f"amqp://guest:secret@127.0.0.1:{closed_port()}")
    [finding] = await check_source([away], SourceSettings("any"))
    assert (finding.level, finding.key) == ("error", "url")
    assert "secret" not in finding.text


@on_a_loop
async def test_a_queue_that_loses_messages_while_the_bridge_waits_is_a_warning(broker: Broker) -> None:
    for arguments, text in (
        ({"x_expires": 60_000}, "is deleted with its messages when nothing reads it for 1 min (expires); it survives"),
        ({"x_message_ttl": 60_000}, "drops messages that are not read within 1 min (message-ttl); it survives"),
        ({"x_max_length": 10}, "drops its oldest messages when more than 10 messages wait (max-length)"),
        ({"x_queue_type": "stream", "x_max_age": "10m"}, "read or not (max-age is 10m); it survives an outage of 10 m"),
    ):
        queue = broker.queue(**arguments)
        [warning] = warnings(await of_source(broker, queue, keeps_offsets=True))
        assert text in warning
        [written] = warnings(await of_target(broker, PublishAddress("", queue)))
        assert text in written
    assert not warnings(await of_source(broker, broker.queue(x_max_length=10, x_overflow="reject-publish")))
    stream = broker.queue(x_queue_type="stream", x_max_age="7D")
    findings = await of_source(broker, stream, keeps_offsets=True)
    assert not warnings(findings)
    assert any("(max-age is 7D); it survives an outage of 7 d" in each.text for each in findings)


@on_a_loop
async def test_a_queue_that_goes_with_its_last_reader_is_a_warning(broker: Broker) -> None:
    queue = broker.channel.queue_declare("", auto_delete=True).method.queue
    [warning] = warnings(await of_source(broker, queue))
    assert "deleted with its messages when its last reader goes (auto-delete); it survives none" in warning
