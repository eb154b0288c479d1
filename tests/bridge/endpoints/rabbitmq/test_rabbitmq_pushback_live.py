"""Targets with an exchange that routes nothing, or that does not route one key, on a live broker."""

from __future__ import annotations

import asyncio

import pytest

from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.endpoints.rabbitmq import target as target_module
from bridge.endpoints.rabbitmq.config import PublishAddress, RabbitmqTarget
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Message
from tests.support.bridge.behaviour import Reports, Silent, on_a_loop, router_to
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.waiting import find_limit, until

POLICY = Policy(window=200, tries=4, backoff=Backoff(0.02, 0.2), reconnect=Backoff(0.02, 0.2), drain=10.0)


async def move_past_an_outage(broker: Broker, keys: list[str]) -> tuple[list[bytes], list[bytes]]:
    """Move a message of each key to an exchange without a binding at first; return arrived bodies, and dead ones."""
    exchange, queue = broker.exchange("topic"), broker.queue()
    messages = [Message("", key, body=b"%d" % n) for n, key in enumerate(keys)]
    source, dead = MemorySource(messages), MemoryTarget("dead")
    source.end()
    target = RabbitmqTarget("to", [broker.address], {queue: PublishAddress(exchange)}, unrouted_after=1.0)
    pump = Pump([Inlet(source, "in")], router_to(queue), {queue: target}, Silent(), POLICY, dead)
    running = asyncio.create_task(pump.run())
    (outlet,) = [each for each in pump.outlets if each.target is target]
    await until(lambda: queue in outlet.waiting)
    await asyncio.sleep(2.0)  # many times what all tries take
    assert not dead.messages
    broker.channel.queue_bind(queue, exchange, "key.#")
    async with asyncio.timeout(find_limit()):
        await running
    return broker.bodies(queue), [outgoing.message.body for outgoing in dead.messages]


@on_a_loop
async def test_an_exchange_that_has_lost_its_queue_makes_no_dead_letters(broker: Broker) -> None:
    arrived, dead = await move_past_an_outage(broker, [f"key.{n % 20}" for n in range(400)])
    assert not dead
    for key in range(20):
        assert [n for n in map(int, arrived) if n % 20 == key] == list(range(key, 400, 20))


@on_a_loop
async def test_a_message_without_a_route_becomes_a_dead_letter_once_others_get_through(broker: Broker) -> None:
    keys = [f"key.{n % 20}" for n in range(200)]
    keys[0] = keys[77] = "other"
    arrived, dead = await move_past_an_outage(broker, keys)
    assert sorted(dead) == [b"0", b"77"]
    assert sorted(map(int, arrived)) == [n for n in range(200) if n not in (0, 77)]


@on_a_loop
@pytest.mark.parametrize("kind", ["topic", "headers"])
async def test_what_was_routed_waits_while_its_queue_is_remade_beside_others(broker: Broker, kind: str) -> None:
    """One message after the other, so that tries alone would give each up; a wrong one is given up meanwhile."""
    exchange, remade, other = broker.exchange(kind), broker.queue(), broker.queue()

    def bind(queue: str, name: str) -> None:
        broker.channel.queue_bind(queue, exchange, name, {"x-match": "all", "name": name})

    bind(remade, "remade")
    bind(other, "other")
    source, dead = MemorySource(), MemoryTarget("dead")
    management = broker.server.management_url if kind == "headers" else None
    target = RabbitmqTarget("to", [broker.address], {"q": PublishAddress(exchange)}, management, unrouted_after=1.0)
    pump = Pump([Inlet(source, "in")], router_to("q"), {"q": target}, Silent(), POLICY, dead)
    running = asyncio.create_task(pump.run())

    def put(name: str, n: int) -> None:
        source.put(Message("", name, {"name": name}, body=b"%s %d" % (name.encode(), n)))

    put("remade", 0)
    put("other", 0)
    await until(lambda: not source.unsettled and not source.lag)
    broker.channel.queue_delete(remade)
    for n in range(1, 31):
        for name in ("remade", "other", "wrong"):
            put(name, n)
        await until(lambda: not source.lag)

    def are_given_up() -> bool:
        put("other", 0)
        return len(dead.messages) == 30

    await until(are_given_up)
    (outlet,) = [each for each in pump.outlets if each.target is target]
    assert "which it did before: a queue or a binding is missing" in outlet.waiting["q"].reason
    broker.channel.queue_declare(remade, durable=True)
    bind(remade, "remade")
    source.end()
    async with asyncio.timeout(find_limit()):
        await running
    assert broker.bodies(remade) == [b"remade %d" % n for n in range(1, 31)]
    assert sorted(outgoing.message.body for outgoing in dead.messages) == sorted(b"wrong %d" % n for n in range(1, 31))


@on_a_loop
async def test_a_target_queue_that_is_gone_is_trouble_before_a_message_comes(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_module, "LOOK_EVERY", 0.05)
    queue, reports = broker.queue(), Reports()
    target = RabbitmqTarget("to", [broker.address], {"queue": PublishAddress.queue(queue)})
    await target.open(reports)
    broker.channel.queue_delete(queue)
    await until(lambda: target.trouble == f"queue '{queue}': there is none; declare it")
    broker.channel.queue_declare(queue, durable=True)
    await until(lambda: target.trouble is None)
    assert not reports.losses
    await target.close()
