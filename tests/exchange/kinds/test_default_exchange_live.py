"""A policy that gives the default exchange an alternate exchange: the router routes as a live broker does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology
from exchange.entities.releases import find_profile
from exchange.errors import InputError
from tests.support.differential import manage, publish
from tests.support.unique import unique_name

if TYPE_CHECKING:
    from tests.support.servers import Server

UNROUTED, ENTRY, QUEUE, LOST = (unique_name(f"default-{name}") for name in ("unrouted", "entry", "queue", "lost"))
SENT = [
    Message("", "no such queue"), Message("", QUEUE),
    # From here on, the default exchange is an alternate exchange.
    Message(ENTRY, "no such queue"), Message(ENTRY, QUEUE), Message(ENTRY, "bound"),
]  # fmt: skip


@pytest.mark.parametrize("apply_to", ["exchanges", "all"])
@pytest.mark.parametrize("pattern", ["^$", "^(hashstar-default-none)?$"])
def test_a_policy_of_the_default_exchange_acts_where_it_is_an_alternate(
    rabbitmq_servers: list[Server], pattern: str, apply_to: str
) -> None:
    """And never for what is published to it: recorded with RabbitMQ 3.10, 4.0 and 4.3."""
    import pika

    policy = Policy(unique_name("default"), pattern, {"alternate-exchange": UNROUTED}, apply_to, priority=99)
    topology = (
        Topology()
        .declare_exchange(Exchange(UNROUTED, "fanout", durable=False))
        .declare_exchange(Exchange(ENTRY, "direct", durable=False, arguments={"alternate-exchange": ""}))
        .declare_queue(Queue(QUEUE))
        .declare_queue(Queue(LOST))
        .bind(Binding.to_queue(UNROUTED, LOST))
        .bind(Binding.to_queue(ENTRY, QUEUE, "bound"))
    )
    for server in rabbitmq_servers:
        if server.management_url is None:
            continue
        in_place = Router(topology.with_profile(find_profile(server.version)))
        in_place.route(Message("", "no such queue"))
        in_place.set_policy(policy)
        connection = pika.BlockingConnection(pika.URLParameters(server.url))
        channel = connection.channel()
        try:
            for exchange in (topology.exchanges[UNROUTED], topology.exchanges[ENTRY]):
                arguments = dict(exchange.arguments)
                channel.exchange_declare(exchange.name, exchange.type, arguments=arguments)
            for queue in (QUEUE, LOST):
                channel.queue_declare(queue, exclusive=True)
            for binding in topology.bindings:
                channel.queue_bind(binding.destination.name, binding.source, binding.routing_key)
            body: dict[str, Any] = {"pattern": pattern, "apply-to": apply_to, "priority": 99}
            manage(
                server, "PUT", f"policies/%2F/{policy.name}", {**body, "definition": {"alternate-exchange": UNROUTED}}
            )
            arrived, returned = publish(channel, [QUEUE, LOST], SENT)
        finally:
            for name in (UNROUTED, ENTRY):
                channel.exchange_delete(name)
            connection.close()
            manage(server, "DELETE", f"policies/%2F/{policy.name}")
        for router in (in_place, Router(in_place.topology)):
            for number, message in enumerate(SENT):
                queues = tuple(sorted(arrived.get(number, {})))
                explanation = router.explain(message, LOST)
                assert explanation.route.queues == queues, (server.version, message, str(explanation))
                assert bool(explanation.route.unroutable) == (number in returned)
                assert any(hop.alternate for hop in explanation.hops) == bool(message.exchange)


def test_a_key_that_amqp_cannot_carry_can_be_bound_over_http(rabbitmq_servers: list[Server]) -> None:
    """A broker takes a long key from the management API, so a file can hold it; no client can make that binding."""
    import pika

    key = "a." + "b" * 300
    for server in rabbitmq_servers:
        if server.management_url is None:
            continue
        with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
            channel = connection.channel()
            channel.queue_declare(QUEUE, exclusive=True)
            with pytest.raises(pika.exceptions.ShortStringTooLong):
                channel.queue_bind(QUEUE, "amq.topic", key)
        with pytest.raises(InputError, match="302 bytes"):
            Topology().declare_queue(Queue(QUEUE)).bind(Binding.to_queue("amq.topic", QUEUE, key))
        queue = f"queues/%2F/{quote(LOST, safe='')}"
        try:
            manage(server, "PUT", queue, {"auto_delete": False, "durable": False, "arguments": {"x-expires": 60_000}})
            manage(server, "POST", f"bindings/%2F/e/amq.topic/q/{quote(LOST, safe='')}", {"routing_key": key})
            keys = [binding["routing_key"] for binding in manage(server, "GET", f"{queue}/bindings")]
            assert key in keys
        finally:
            manage(server, "DELETE", queue)
