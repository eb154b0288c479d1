"""Declare a topology on an open channel of pika, kombu or aio-pika, as a service or a test does before it starts.

Nothing is deleted; `bindings.apply` changes a live broker to a topology, and can delete.
"""

from __future__ import annotations

from typing import Any

from exchange.entities.entities import PREDECLARED, Exchange
from exchange.errors import InputError
from exchange.topology.topology import Topology
from exchange.values.field_values import to_plain


def declare(topology: Topology, channel: Any) -> None:
    """Declare exchanges, queues and bindings on a channel of pika's blocking connection, or of kombu.

    Raises InputError for policies, which AMQP does not have; what the broker refuses raises the client's error.
    """
    type_of_exchange = "type" if hasattr(channel, "prepare_queue_arguments") else "exchange_type"  # kombu's, pika's
    for exchange in _list_exchanges(topology):
        given: dict[str, Any] = {type_of_exchange: exchange.type, "durable": exchange.durable}
        if exchange.internal:
            given["internal"] = True
        arguments = to_plain(exchange.arguments)
        channel.exchange_declare(exchange.name, auto_delete=exchange.auto_delete, arguments=arguments, **given)
    for queue in topology.queues.values():
        arguments = to_plain(queue.arguments)
        channel.queue_declare(queue.name, durable=queue.durable, auto_delete=queue.auto_delete, arguments=arguments)
    for source, (kind, name), key, table in topology.bindings:
        bind = channel.queue_bind if kind == "queue" else channel.exchange_bind
        bind(name, source, key, arguments=to_plain(table))


async def declare_async(topology: Topology, channel: Any) -> None:
    """Declare exchanges, queues and bindings on a channel of aio-pika; raises as `declare`."""
    underlay = await channel.get_underlay_channel()
    for exchange in _list_exchanges(topology):
        await underlay.exchange_declare(
            exchange.name,
            exchange_type=exchange.type,
            durable=exchange.durable,
            auto_delete=exchange.auto_delete,
            internal=exchange.internal,
            arguments=to_plain(exchange.arguments),
        )
    for queue in topology.queues.values():
        await underlay.queue_declare(
            queue.name, durable=queue.durable, auto_delete=queue.auto_delete, arguments=to_plain(queue.arguments)
        )
    for source, (kind, name), key, table in topology.bindings:
        bind = underlay.queue_bind if kind == "queue" else underlay.exchange_bind
        await bind(name, source, routing_key=key, arguments=to_plain(table))


def _list_exchanges(topology: Topology) -> list[Exchange]:
    if topology.policies:
        raise InputError(f"policy {next(iter(topology.policies))!r} cannot be declared over AMQP: see hashstar apply")
    return [exchange for exchange in topology.exchanges.values() if exchange not in PREDECLARED]
