"""The transport ``hashstar://``: whole topologies, and what a service does with a broker."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from amqp.exceptions import AccessRefused, ChannelError, NotFound, PreconditionFailed
from kombu import Connection, Consumer, Exchange, Producer, Queue

import exchange
from bindings.adapters.kombu import find_broker, register
from exchange import LATEST_PROFILE, Binding, Topology
from exchange.values.field_values import FieldTable
from tests.support import oracle, topologies
from tests.support.bindings.kombu_channels import bodies, take
from tests.support.waiting import find_limit, wait_until

TYPES = ("direct", "fanout", "topic", "topic", "headers", "x-recent-history", "x-consistent-hash", "x-modulus-hash")


@pytest.fixture
def connection() -> Iterator[Any]:
    register()
    find_broker(topology=Topology())
    with Connection("hashstar://") as open_connection:
        yield open_connection


@pytest.fixture
def channel(connection: Any) -> Any:
    return connection.channel()


@pytest.mark.parametrize("seed", range(int(os.environ.get("HASHSTAR_ADAPTER_SEEDS", "12"))))
def test_random_topologies_declared_through_kombu_route_as_the_slow_router(seed: int) -> None:
    register()
    rng = Random(f"kombu/{seed}")
    topology = topologies.topology(rng, LATEST_PROFILE, topologies.Kinds(TYPES, policies=False))
    broker = find_broker("random", topology=Topology())
    with Connection("hashstar://random") as connection:
        channel = connection.channel()
        declare(channel, broker, topology)
        assert {*broker.topology.bindings} == {*topology.bindings}
        for number in range(150):
            message = topologies.message(rng, topology)
            payload = channel.prepare_message(
                str(number), headers=dict(message.headers), properties=dict(message.properties)
            )
            channel.basic_publish(payload, message.exchange, message.routing_key)
            got = tuple(sorted(name for name in topology.queues if channel.queue_purge(name)))
            assert got == oracle.route(topology, message, lambda n: 0), message


def declare(channel: Any, broker: Any, topology: Topology) -> None:
    for each in topology.exchanges.values():
        if each.internal and not each.name.startswith("amq."):
            broker.router.declare_exchange(each)  # kombu cannot
        elif each.name and not each.name.startswith("amq."):
            channel.exchange_declare(each.name, each.type, each.durable, each.auto_delete, each.arguments)
    for queue in topology.queues.values():
        channel.queue_declare(queue.name, durable=queue.durable, arguments=queue.arguments)
    for source, (kind, name), key, arguments in topology.bindings:
        if kind == "queue":
            channel.queue_bind(name, source, key, FieldTable(arguments))
        else:
            channel.exchange_bind(name, source, key, arguments=FieldTable(arguments))


def test_exchanges_are_bound_to_exchanges(channel: Any) -> None:
    orders, europe = Exchange("orders", "topic"), Exchange("europe", "fanout")
    for each in (orders, europe):
        each(channel).declare()
    europe(channel).bind_to(orders, "*.eu.#")
    Queue("billing", europe)(channel).declare()
    producer = Producer(channel, orders)
    producer.publish("eu", routing_key="order.eu")
    producer.publish("us", routing_key="order.us")
    europe(channel).unbind_from(orders, "*.eu.#")
    producer.publish("unbound", routing_key="order.eu")
    assert bodies(channel, "billing") == ["eu"]


def test_cc_routes_and_bcc_is_removed(channel: Any) -> None:
    for name in ("a", "b", "c"):
        Queue(name)(channel).declare()
    Producer(channel).publish("x", routing_key="a", headers={"CC": ["b"], "BCC": ["c"]})
    messages = [channel.basic_get(name) for name in ("a", "b", "c")]
    assert [message.headers for message in messages] == [{"CC": ["b"]}] * 3


def test_a_mandatory_message_without_queue_is_returned(channel: Any) -> None:
    returned: list[tuple[Any, ...]] = []
    producer = Producer(channel, Exchange("orders", "topic"), on_return=lambda *what: returned.append(what))
    producer.publish("lost", routing_key="a", mandatory=True)
    producer.publish("dropped", routing_key="a")
    [(error, exchange_name, key, message)] = returned
    assert isinstance(error, ChannelError)
    assert (error.reply_code, exchange_name, key, message.payload) == (312, "orders", "a", "lost")


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda c: c.queue_bind("nowhere", "amq.topic", "a"), NotFound, "no queue 'nowhere' in vhost '/'"),
    (lambda c: c.exchange_declare("", "direct"), AccessRefused, "operation not permitted on the default exchange"),
    (lambda c: c.exchange_declare("nowhere", "direct", passive=True), NotFound, "no exchange 'nowhere'"),
    (lambda c: c.queue_declare("nowhere", passive=True), NotFound, "no queue 'nowhere'"),
    (lambda c: c.exchange_declare("a", "x-nonsense"), PreconditionFailed, "unknown exchange type 'x-nonsense'"),
    (lambda c: (c.queue_declare("a"), c.queue_declare("a", durable=True)), PreconditionFailed, "inequivalent arg"),
    (lambda c: c.basic_publish(c.prepare_message("x"), "nowhere", "a"), NotFound, "no exchange 'nowhere'"),
    (lambda c: c.basic_consume("nowhere", True, print, "tag"), NotFound, "no queue 'nowhere'"),
    (lambda c: (c.queue_declare("a"), c.basic_consume("a", True, print, "t"), c.queue_delete("a", if_unused=True)),
     PreconditionFailed, "queue 'a' in vhost '/' in use"),
    (lambda c: (c.queue_declare("a"), c.basic_publish(c.prepare_message(""), "", "a"), c.queue_delete("a", if_empty=1)),
     PreconditionFailed, "queue 'a' in vhost '/' not empty"),
])  # fmt: skip
def test_refusals_are_those_of_the_broker(channel: Any, call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match="(?s).*" + text.replace("'", ".")):
        call(channel)


def test_a_rejected_message_returns_to_the_front_of_its_queue(channel: Any) -> None:
    for name in ("billing", "audit"):
        Queue(name, Exchange("orders", "fanout"))(channel).declare()
    for body in ("one", "two"):
        Producer(channel).publish(body, exchange="orders")
    channel.basic_get("billing").reject(requeue=True)
    assert bodies(channel, "billing") == ["one", "two"]
    assert bodies(channel, "audit") == ["one", "two"]


def test_what_was_not_acknowledged_returns_when_the_channel_closes(connection: Any) -> None:
    channel = connection.channel()
    Queue("work")(channel).declare()
    for body in ("one", "two"):
        Producer(channel).publish(body, routing_key="work")
    taken = channel.basic_get("work")
    assert taken.payload == "one"
    channel.close()
    assert bodies(connection.channel(), "work") == ["one", "two"]


def test_auto_delete_and_exclusive_queues_are_deleted(connection: Any) -> None:
    channel = connection.channel()
    with Consumer(channel, [Queue("temporary", auto_delete=True)]):
        assert "temporary" in find_broker().topology.queues
    assert "temporary" not in find_broker().topology.queues
    with Connection("hashstar://") as other:
        Queue("mine", exclusive=True)(other.channel()).declare()
        assert "mine" in find_broker().topology.queues
    assert "mine" not in find_broker().topology.queues


def test_the_broker_has_the_topology_that_it_is_given() -> None:
    register()
    orders = Topology(
        [exchange.Exchange("orders", "topic")],
        [exchange.Queue("billing")],
        [Binding.to_queue("orders", "billing", "order.#")],
        vhost="/shop",
    )
    broker = find_broker("shop", topology=orders)
    with Connection("hashstar://shop//shop") as connection:
        Producer(connection.channel()).publish("x", exchange="orders", routing_key="order")
    assert [len(messages) for messages in broker.queues.values()] == [1]
    assert find_broker("shop").topology == Topology(), "another virtual host is another broker"


def test_a_consumer_waits_for_what_another_thread_publishes(connection: Any) -> None:
    got: list[Any] = []
    queue = Queue("work")
    with Consumer(connection.channel(), [queue], on_message=lambda message: take(message, got)):

        def publish() -> None:
            with Connection("hashstar://") as other:
                Producer(other.channel()).publish("x", routing_key="work")

        thread = threading.Thread(target=publish)
        thread.start()
        connection.drain_events(timeout=find_limit())
        thread.join()
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.01)
    assert got == ["x"]


def test_a_delayed_message_is_returned_at_once_and_delivered_later(channel: Any) -> None:
    channel.exchange_declare("d", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    channel.queue_declare("q")
    channel.queue_bind("q", "d", "k")
    returned: list[Any] = []
    message = channel.prepare_message("1", headers={"x-delay": 100, "BCC": []})
    channel.events["basic_return"].add(lambda error, *_: returned.append(error.reply_code))
    channel.basic_publish(message, "d", "k", mandatory=True)
    assert returned == [312]
    assert channel.basic_get("q", no_ack=True) is None
    got = wait_until(lambda: channel.basic_get("q", no_ack=True))
    assert got.headers == {"x-delay": -100}


def test_celery_takes_the_transport_by_its_path_where_it_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    celery = pytest.importorskip("celery")
    monkeypatch.setattr("kombu.transport.TRANSPORT_ALIASES", {})
    monkeypatch.setattr("kombu.transport._transport_cache", {})
    app = celery.Celery("shop", broker="hashstar://by-path/")
    with pytest.raises(KeyError, match="No such transport: hashstar"), app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1)
    app = celery.Celery("shop", broker="hashstar://by-path/")
    app.conf.broker_transport = "bindings.adapters.kombu:Transport"
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1)
        assert connection.transport.broker is find_broker("by-path")
