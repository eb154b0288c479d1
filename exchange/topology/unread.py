"""Which parts are missing in topologies: what every claim about what is *not* there must ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from exchange.entities.unread import SHARDS_MADE, UnreadPart, has_shards_made
from exchange.errors import InputError
from exchange.text.display import count_noun, count_rest
from exchange.topology.topology import Topology

__all__ = ["UnreadPart", "find_unread", "format_not_proved", "require_whole", "format_unread"]

MAX_LISTED_PARTS: Final = 20
"""Number of parts that are listed for people; JSON has all."""
SHARD: Final = "sharding: "
"""Beginning of the names of queues that the plugin rabbitmq_sharding makes; the exchange's name and " - " follow."""


def find_unread(*topologies: Topology) -> tuple[UnreadPart, ...]:
    """Return what is missing in these topologies, each part once; empty if every claim about them can be proved.

    Empty also for topologies whose missing parts the user allows (`Topology.allows_unread`).
    """
    found = (each for topology in topologies if not topology.allows_unread for each in _missing_in(topology))
    return tuple(dict.fromkeys(found))


def format_not_proved(unread: Sequence[UnreadPart]) -> str:
    """Return the sentence that stands in place of a claim: ``not proved: 3 parts were not read``."""
    return f"not proved: {count_noun(len(unread), 'part was', 'parts were')} not read"


def require_whole(name: str, topology: Topology, why: str) -> None:
    """Raise InputError, which names the source and says why, if parts of it were not read."""
    if topology.unread:
        raise InputError(f"{name}: {format_not_proved(topology.unread)} ({topology.unread[0]}); {why}")


def format_unread(unread: Sequence[UnreadPart]) -> Iterator[str]:
    """Yield that sentence, then what is missing, part by part; nothing if nothing is."""
    if unread:
        yield format_not_proved(unread)
    yield from (f"  ? {each.where}: {each.text} ({each.kind})" for each in unread[:MAX_LISTED_PARTS])
    yield from count_rest(len(unread), MAX_LISTED_PARTS, "; the JSON has all", indent="  ? ")


def _missing_in(topology: Topology) -> Iterator[UnreadPart]:
    yield from topology.unread
    for name, exchange in topology.exchanges.items():
        # An export of a broker has the queues that the plugin made, and their bindings.
        if has_shards_made(exchange, topology.policies):
            shards = f"{SHARD}{name} - "
            if not any(binding.destination.name.startswith(shards) for binding in topology.bindings_from(name)):
                yield UnreadPart("plugin-made", f"exchange '{name}'", SHARDS_MADE)
