"""The kinds of exchange: one module each, one table of them all.

A kind that is not in the table is a plugin's that we do not know; exchanges of it load, and routes through them are
undecided.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from exchange.kinds.consistent_hash import ConsistentHash
from exchange.kinds.default import Default
from exchange.kinds.delayed import Delayed
from exchange.kinds.direct import Direct
from exchange.kinds.fanout import Fanout, RecentHistory
from exchange.kinds.headers import Headers
from exchange.kinds.kind import Choose, Kind
from exchange.kinds.modulus_hash import ModulusHash
from exchange.kinds.random import LocalRandom, Random
from exchange.kinds.topic import Topic

__all__ = ["KINDS", "Choose", "Default", "Kind"]

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
    "x-delayed-message": Delayed,
})  # fmt: skip
"""Exchange type -> the class that routes as it."""
