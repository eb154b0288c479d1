"""A RabbitMQ broker of FastStream as a topology: what its subscribers and publishers declare when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bindings.sources.applications.application import Part, declare_parts
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE
from exchange.topology.topology import Topology


def topology_of(*brokers: Any, vhost: str = "/", profile: Profile | str = LATEST_PROFILE) -> Topology:
    """Return the topology that FastStream's ``RabbitBroker`` objects declare, routers and prefixes included.

    An exchange or queue that is only looked up (``declare=False``) is in it, too, with what its object states, but
    without bindings, since FastStream makes none then. Of several with one name, the first counts.
    """
    return declare_parts(read_parts(*brokers), Topology(vhost=vhost, profile=profile)).topology


def read_parts(*brokers: Any) -> Iterator[Part]:
    """Yield what brokers declare, in their order: that of each subscriber, then the exchange of each publisher."""
    for broker in brokers:
        for subscriber in broker.subscribers:
            yield from read_subscriber(subscriber)
        for publisher in broker.publishers:
            yield from _read_exchange(publisher.exchange)


def read_subscriber(subscriber: Any) -> Iterator[Part]:
    """Yield what ``RabbitSubscriber.start`` declares: the queue, its exchange, the binding."""
    queue = subscriber.queue.add_prefix(subscriber._outer_config.prefix)
    yield Queue(queue.name, bool(queue.durable), bool(queue.auto_delete), queue.arguments or {})
    exchange = subscriber.exchange
    if exchange is not None and exchange.name:
        yield from _read_exchange(exchange)
        if queue.declare:
            yield Binding.to_queue(exchange.name, queue.name, queue.routing(), queue.bind_arguments or {})


def _read_exchange(exchange: Any) -> Iterator[Exchange | Binding]:
    if exchange is None or not exchange.name:
        return
    yield Exchange(
        exchange.name, exchange.type.value, bool(exchange.durable), bool(exchange.auto_delete), False,
        exchange.arguments or {},
    )  # fmt: skip
    if exchange.bind_to is not None:
        yield from _read_exchange(exchange.bind_to)
        arguments = exchange.bind_arguments or {}
        yield Binding.to_exchange(exchange.bind_to.name, exchange.name, exchange.routing(), arguments)
