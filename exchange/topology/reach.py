"""Which queues the messages of an exchange can reach, by bindings and alternate exchanges, whatever their keys."""

from __future__ import annotations

from exchange.entities.in_force import find_alternates_in_effect
from exchange.topology.topology import Topology


def find_reachable_queues(topology: Topology, exchange: str | None) -> frozenset[str]:
    """Return the names of the queues that a message published to ``exchange`` can reach, whatever its key.

    ``None`` and the default exchange can reach every queue.
    """
    if not exchange:
        return frozenset(topology.queues)
    queues: set[str] = set()
    seen = {exchange}
    waiting = [exchange]
    while waiting:
        name = waiting.pop()
        reached = topology.exchanges.get(name)
        if reached is None:
            continue
        following = [name for name in find_alternates_in_effect(reached, topology.policies) if name is not None]
        for binding in topology.bindings_from(name):
            if binding.destination.kind == "queue":
                queues.add(binding.destination.name)
            else:
                following.append(binding.destination.name)
        for each in following:
            if each and each not in seen:
                seen.add(each)
                waiting.append(each)
    return frozenset(queues)
