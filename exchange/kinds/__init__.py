"""The kinds of exchange: one module each, one table of them all.

A kind that is not in the table is a plugin's that we do not know; exchanges of it load, and routes through them are
undecided. What a kind means to the router and to the analyses is in `exchange.kinds.kind`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from exchange.entities.entities import Exchange
from exchange.kinds.consistent_hash import ConsistentHash
from exchange.kinds.default import Default
from exchange.kinds.delayed import Delayed
from exchange.kinds.direct import Direct
from exchange.kinds.fanout import Fanout, RecentHistory
from exchange.kinds.headers import Headers
from exchange.kinds.jms_topic import JmsTopic
from exchange.kinds.kind import Choose, Decider, KeyUse, Kind, Reads, Unknown, Unsure
from exchange.kinds.modulus_hash import ModulusHash
from exchange.kinds.random import LocalRandom, Random
from exchange.kinds.topic import Topic

__all__ = ["KINDS", "Choose", "Decider", "KeyUse", "Kind", "Reads", "Unknown", "Unsure", "kind_of"]

KINDS: Final[Mapping[str, type[Kind]]] = MappingProxyType({
    "direct": Direct,
    "fanout": Fanout,
    "topic": Topic,
    "headers": Headers,
    "x-random": Random,
    "x-local-random": LocalRandom,
    "x-recent-history": RecentHistory,
    "x-consistent-hash": ConsistentHash,
    "x-modulus-hash": ModulusHash,
    "x-jms-topic": JmsTopic,
    "x-delayed-message": Delayed,
})  # fmt: skip
"""Exchange type -> its kind. `kind_of` says which one decides about an exchange's messages."""


def kind_of(exchange: Exchange) -> type[Kind]:
    """Return the kind that decides where messages to the exchange go; `Unknown` where that is not known here.

    For an x-delayed-message exchange it is the kind of the type it delays.
    """
    if not exchange.name:
        return Default
    kind = KINDS.get(exchange.type, Unknown)
    if kind is Delayed:
        inner = KINDS.get(Delayed.inner_type(exchange) or "", Unknown)
        return inner if inner is not Delayed else Unknown
    return kind
