"""Exchanges and queues of kombu as a topology, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bindings.sources.applications.application import Part, declare_parts
from exchange.entities.entities import PREDECLARED, PREDECLARED_NAMES, Binding, Exchange, Policy, Queue
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE
from exchange.errors import InputError
from exchange.topology.topology import Topology


def topology_of(entities: Iterable[Any], *, vhost: str = "/", profile: Profile | str = LATEST_PROFILE) -> Topology:
    """Return the topology that kombu declares for its ``Exchange`` and ``Queue`` objects.

    A queue is declared with its exchanges and bindings. Of several objects with one name, the first counts, as the
    broker refuses the others. Raises TypeError for any other object.

    >>> import kombu
    >>> queue = kombu.Queue("billing", kombu.Exchange("orders", "topic"), "order.*.created")
    >>> [str(binding.destination) for binding in topology_of([queue]).bindings]
    ["queue 'billing'"]
    """
    parts = (part for entity in entities for part in read_parts(entity))
    return declare_parts(parts, Topology(vhost=vhost, profile=profile)).topology


def read_parts(entity: Any) -> Iterator[Part]:
    """Yield what kombu declares for one object, in its order: exchanges, the queue, its bindings.

    Raises TypeError for what is neither a ``kombu.Exchange`` nor a ``kombu.Queue``.
    """
    import kombu

    if isinstance(entity, kombu.Exchange):
        yield from _read_exchange(entity)
    elif isinstance(entity, kombu.Queue):
        if entity.no_declare:
            return
        # kombu copies a queue when it binds it to a channel: the copy of one with bindings has no exchange of its own.
        own = None if entity.bindings else entity.exchange
        yield from _read_exchange(own)
        yield Queue(entity.name, bool(entity.durable), bool(entity.auto_delete), _arguments_of(entity))
        # As Queue.declare: the exchange and key of the queue itself, then its list of bindings.
        pairs = [(own, entity.routing_key, entity.binding_arguments)]
        pairs += [(each.exchange, each.routing_key, each.arguments) for each in entity.bindings or ()]
        for exchange, key, arguments in pairs:
            yield from _read_exchange(exchange)
            if exchange is not None and exchange.name:
                yield Binding.to_queue(exchange.name, entity.name, key or "", arguments or {})
    else:
        raise TypeError(f"a kombu.Exchange or kombu.Queue is wanted, not {type(entity).__name__}: {entity!r:.60}")


def _read_exchange(exchange: Any) -> Iterator[Exchange]:
    if exchange is not None and exchange._can_declare() and not exchange.passive:
        yield Exchange(
            exchange.name, exchange.type or "direct", bool(exchange.durable), bool(exchange.auto_delete), False,
            exchange.arguments or {},
        )  # fmt: skip


def _arguments_of(queue: Any) -> Mapping[str, Any]:
    from kombu.transport.base import to_rabbitmq_queue_arguments

    arguments: Mapping[str, Any] = to_rabbitmq_queue_arguments(
        queue.queue_arguments or {},
        expires=queue.expires,
        message_ttl=queue.message_ttl,
        max_length=queue.max_length,
        max_length_bytes=queue.max_length_bytes,
        max_priority=queue.max_priority,
    )
    return arguments


def entities_of(topology: Topology) -> list[Any]:
    """Return kombu's ``Exchange`` and ``Queue`` objects of a topology, each queue with its bindings.

    Raises InputError for what kombu's objects cannot hold: bindings between exchanges, internal exchanges, policies.
    """
    import kombu

    others: list[Binding | Exchange | Policy] = [
        *(binding for binding in topology.bindings if binding.destination.kind == "exchange"),
        *(each for each in topology.exchanges.values() if each.internal and each not in PREDECLARED),
        *topology.policies.values(),
    ]
    if others:
        raise InputError(f"kombu's objects cannot hold {others[0]!r}; declare it on a channel")
    exchanges = {
        each.name: kombu.Exchange(
            each.name, each.type, durable=each.durable, auto_delete=each.auto_delete, arguments=dict(each.arguments)
        )
        for each in topology.exchanges.values()
    }
    bindings: dict[str, list[Any]] = {}
    for binding in topology.bindings:
        entity = kombu.binding(exchanges[binding.source], binding.routing_key, dict(binding.arguments))
        bindings.setdefault(binding.destination.name, []).append(entity)
    queues = [
        kombu.Queue(
            queue.name,
            bindings=bindings.get(queue.name, []),
            durable=queue.durable,
            auto_delete=queue.auto_delete,
            queue_arguments=dict(queue.arguments),
        )
        for queue in topology.queues.values()
    ]
    return [*(entity for name, entity in exchanges.items() if name not in PREDECLARED_NAMES), *queues]
