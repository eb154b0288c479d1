"""6xx: exchanges, queues and bindings that RabbitMQ refuses, and weights that it ignores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bindings.checking.rules.finding import Finding
from bindings.checking.rules.view import TopologyView
from bindings.checking.rules.words import quote_binding, quote_exchange
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Destination, Exchange
from exchange.entities.indexes import Tables
from exchange.errors import BrokerError
from exchange.kinds import KINDS, Decider, KeyUse, UnknownExchange, kind_of
from exchange.text.display import suggest
from exchange.topology import rules

__all__ = ["find", "find_refused_queues"]


def find(view: TopologyView) -> Iterator[Finding]:
    """Yield findings about exchanges and bindings."""
    topology = view.topology
    host = rules.VirtualHost(topology.vhost, topology.profile)
    tables = topology.tables()
    for name, exchange in topology.exchanges.items():
        if exchange.type not in KINDS:
            unknown = f"is of type '{exchange.type}', which is unknown here"
            message = f"{quote_exchange(name)} {unknown}{suggest(exchange.type, KINDS)}"
            yield Finding("HS601", exchange, message)
            continue
        refusal = _refuse(host, exchange)
        if refusal is not None:
            # An import does not look at the type of this argument.
            arguments = {key: value for key, value in exchange.arguments.items() if key != "alternate-exchange"}
            imported = _refuse(host, replace(exchange, arguments=arguments)) is None
            stored = "; an import of definitions stores it, and it has no alternate" if imported else ""
            yield Finding("HS602", exchange, f"RabbitMQ refuses to declare {quote_exchange(name)}: {refusal}{stored}")
        if kind_of(exchange) is not UnknownExchange:
            if _may_refuse(view, exchange):
                yield from _find_refused(view, tables, exchange)
            if kind_of(exchange).key_use is KeyUse.WEIGHT:
                yield from _weights(view, exchange)


def _refuse(host: rules.VirtualHost, exchange: Exchange) -> BrokerError | None:
    """Return the answer to the declaration of an exchange that is refused."""
    if exchange.name not in PREDECLARED_NAMES:
        try:
            rules.declare_exchange(Tables(), host, exchange)
        except BrokerError as error:
            return error
    return None


def find_refused_queues(view: TopologyView) -> Iterator[Finding]:
    """Yield a finding for each queue that RabbitMQ would refuse to declare."""
    for name, error in view.refused_queues.items():
        queue = view.topology.queues[name]
        yield Finding("HS605", queue, f"RabbitMQ refuses to declare queue '{name}': {error}")


def _may_refuse(view: TopologyView, exchange: Exchange) -> bool:
    # Topic and direct exchanges can have very many bindings, and RabbitMQ refuses only those that HS404 finds.
    return view.kind_of(exchange.name).decider not in (Decider.KEY, Decider.NOTHING)


def _find_refused(view: TopologyView, tables: Tables, exchange: Exchange) -> Iterator[Finding]:
    for binding in view.bindings_from(exchange.name):
        if not tables.exists(binding.destination):
            continue  # HS102 is more severe
        try:
            kind_of(exchange).check_binding(exchange, binding, tables, view.topology.profile)
        except BrokerError as error:
            yield Finding("HS603", binding, f"RabbitMQ refuses {quote_binding(binding)}: {error}")


def _weights(view: TopologyView, exchange: Exchange) -> Iterator[Finding]:
    first: dict[Destination, Binding] = {}
    for binding in view.bindings_from(exchange.name):
        other = first.setdefault(binding.destination, binding)
        if other is not binding:
            message = f"the weight of {quote_binding(binding)} is ignored, since that of {quote_binding(other)} counts"
            yield Finding("HS604", binding, message, related=(other,))
