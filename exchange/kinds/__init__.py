"""The kinds of exchange: one module for each, and the table of all.

An exchange type that is not in the table belongs to an unknown plugin: its exchanges can be loaded, and routes through
them are undecided. `exchange.kinds.kind` documents what a kind means to the router and to the analyses.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from exchange.entities.entities import Exchange
from exchange.errors import PreconditionFailed
from exchange.kinds.consistent_hash import ConsistentHashExchange
from exchange.kinds.delayed import DELAYS, can_delay, compute_delivered_headers, compute_routing_headers, read_delay
from exchange.kinds.direct import Default, DirectExchange
from exchange.kinds.fanout import FanoutExchange, RecentHistory
from exchange.kinds.headers import HeadersExchange
from exchange.kinds.jms_topic import JmsTopicExchange
from exchange.kinds.kind import Choose, Decider, KeyUse, Kind, Reads, UnknownExchange, Unsure
from exchange.kinds.modulus_hash import ModulusHashExchange
from exchange.kinds.random import LocalRandom, RandomExchange
from exchange.kinds.topic import TopicExchange

__all__ = [
    "KINDS", "SHIPPED", "Choose", "Decider", "KeyUse", "Kind", "Reads", "UnknownExchange", "Unsure", "can_delay",
    "compute_delivered_headers", "compute_routing_headers", "find_kind", "read_delay",
]  # fmt: skip


class Delayed(UnknownExchange):
    """`rabbit_exchange_type_delayed_message.erl` of the plugin rabbitmq_delayed_message_exchange.

    This class has only the rules of its declaration. For the bindings, `exchange.kinds.find_kind` returns the kind of
    the inner type; when they are looked at, `read_delay` decides.
    """

    @classmethod
    def inner_type(cls, exchange: Exchange) -> str | None:
        """Return the exchange type that decides where messages go; None if the argument cannot name one."""
        name = exchange.arguments.get("x-delayed-type")
        return name if isinstance(name, str) else None

    @classmethod
    def check_exchange(cls, exchange: Exchange) -> None:
        if find_kind(exchange) is UnknownExchange:
            raise PreconditionFailed("Invalid argument, 'x-delayed-type' must be an existing exchange type")


KINDS: Final[Mapping[str, type[Kind]]] = MappingProxyType({
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "topic": TopicExchange,
    "headers": HeadersExchange,
    "x-random": RandomExchange,
    "x-local-random": LocalRandom,
    "x-recent-history": RecentHistory,
    "x-consistent-hash": ConsistentHashExchange,
    "x-modulus-hash": ModulusHashExchange,
    "x-jms-topic": JmsTopicExchange,
    DELAYS: Delayed,
})  # fmt: skip
"""Exchange type -> its kind. Use `find_kind` for the kind that decides about the messages of an exchange."""


SHIPPED: Final = frozenset({
    "direct", "fanout", "topic", "headers", "x-consistent-hash", "x-event", "x-federation-upstream", "x-jms-topic",
    "x-local-random", "x-modulus-hash", "x-random", "x-recent-history",
})  # fmt: skip
"""Types of exchanges in RabbitMQ and the plugins that come with it."""


def find_kind(exchange: Exchange) -> type[Kind]:
    """Return the kind that decides where messages to the exchange go, or `UnknownExchange`.

    For an x-delayed-message exchange it is the kind of its inner type. Such an exchange keeps messages back before its
    kind is asked: code that routes messages, or compares where they go, asks `can_delay`, too.
    """
    if not exchange.name:
        return Default
    kind = KINDS.get(exchange.type, UnknownExchange)
    if kind is Delayed:
        inner = KINDS.get(Delayed.inner_type(exchange) or "", UnknownExchange)
        return inner if inner is not Delayed else UnknownExchange
    return kind
