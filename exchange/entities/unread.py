"""What is missing in a topology: parts of its source that were not read, and parts that a plugin makes in the broker.

Nothing is proved about a topology of which parts are missing: a binding that was not read may lead a message to a queue
that seems to get none. `find_unread` in `exchange.topology.unread` is what every claim asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from exchange.entities.entities import Exchange, Policy, Ranked
from exchange.entities.in_force import find_possible_policies
from exchange.values.documents import document

UnreadKind = Literal["unknown", "unsupported", "unevaluated", "plugin-made"]
"""Why a part is missing: the reader does not know it (a field, a kind of object); knows it and cannot read it (a super
stream); would have to evaluate something (an attribute known after terraform apply, a parameter of an address); or a
plugin of the broker makes it."""


@document("UnreadPartJson")
class UnreadPart(NamedTuple):
    """A part of a source that is missing in the topology."""

    kind: UnreadKind
    where: str
    """Where it stands in the source: ``line 4``, ``channels.orders``, or the name of a part."""
    text: str
    """What it is, and why it is missing."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


SHARDED: Final = "x-modulus-hash"
SHARDS: Final = "shards-per-node"
"""Setting of a policy by which the plugin rabbitmq_sharding makes queues and binds them to an exchange."""
SHARDS_MADE: Final = "the plugin rabbitmq_sharding makes its queues and bindings"


def has_shards_made(exchange: Exchange, policies: Mapping[str, Policy] | Ranked) -> bool:
    """Return whether the plugin rabbitmq_sharding makes queues of the exchange, or may."""
    return exchange.type == SHARDED and any(
        policy is not None and SHARDS in policy.definition for policy in find_possible_policies(exchange, policies)
    )
