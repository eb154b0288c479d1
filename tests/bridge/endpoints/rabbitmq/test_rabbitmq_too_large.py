"""Messages that are larger than their broker takes: they go their way, or wait, and end no connection twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pika
import pytest

from bindings.testing.server import AmqpServer
from bindings.testing.server import connection as server_module
from bridge.endpoints.memory import MemorySource
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.config import PublishAddress, RabbitmqTarget
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Message
from tests.support.bridge.behaviour import on_a_loop, router_to
from tests.support.bridge.events import Events
from tests.support.waiting import until

LIMIT = 2_000
POLICY = Policy(tries=3, backoff=Backoff(0.01, 0.05), reconnect=Backoff(0.01, 0.05), drain=5.0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AmqpServer]:
    monkeypatch.setattr(server_module, "BODY_BYTES", LIMIT)
    with AmqpServer() as running:
        yield running


def take_bodies(server: AmqpServer, queue: str) -> list[bytes]:
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        found = []
        while (got := channel.basic_get(queue, auto_ack=True))[2] is not None:
            found.append(got[2])
        return found


@on_a_loop
async def test_a_dead_letter_that_is_too_large_is_held_with_a_way_out_and_the_others_go_on(server: AmqpServer) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        for name in ("q", "dead"):
            connection.channel().queue_declare(name, durable=True)
    large = {3, 50}
    bodies = [b"%d" % n + bytes(LIMIT if n in large else 0) for n in range(100)]
    source = MemorySource([Message("", f"key.{n % 7}", body=body) for n, body in enumerate(bodies)])
    brokers = [parse_broker(server.url)]
    target, dead = (
        RabbitmqTarget("to", brokers, {"q": PublishAddress.queue("q")}),
        RabbitmqTarget("dead", brokers, {"": PublishAddress.queue("dead")}),
    )
    events = Events()
    pump = Pump([Inlet(source, "in")], router_to("q"), {"q": target}, events, POLICY, dead)
    running = asyncio.create_task(pump.run())

    def held() -> list[str]:
        return [call[-2].reason for call in events.calls_of("gave_up") if call[-1] == "hold"]

    def are_open() -> bool:
        return len(events.calls_of("connected")) == 3 + len(events.calls_of("disconnected"))

    await until(lambda: len(held()) == len(large) and are_open())
    opened = len(events.calls_of("connected"))
    tried = len(events.calls_of("refused"))
    await until(lambda: len(events.calls_of("refused")) >= tried + 10)  # it is tried again and again
    assert len(events.calls_of("connected")) == opened
    assert opened <= 5  # the source, both targets, and each target once more, as it learned the limit
    assert all("max_message_size" in reason and f"{LIMIT:,}" in reason for reason in held())
    source.put(Message("", "key.late", body=b"late"))
    whole = {b"late", *[body for n, body in enumerate(bodies) if n not in large]}
    arrived: set[bytes] = set()

    async def arrive() -> bool:
        arrived.update(await asyncio.to_thread(take_bodies, server, "q"))
        return arrived == whole

    await until(arrive)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert take_bodies(server, "dead") == []
    assert source.unsettled
