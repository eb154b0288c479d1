"""Restrict a topology to what messages to some exchanges may meet: equal restrictions route these messages alike."""

from __future__ import annotations

from collections.abc import Iterable

from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology


def restrict(topology: Topology, exchanges: Iterable[str]) -> Topology:
    """Return the topology with what these exchanges lead to, by bindings and as alternates, and all policies.

    Names that no exchange has stay so. Dead letters are no messages to these exchanges.
    """
    names = TopologyGraph(topology).graph.downstream([name for name in exchanges if name in topology.exchanges])
    bindings = [binding for name in sorted(names) for binding in topology.bindings_from(name)]
    queues = {binding.destination.name for binding in bindings if binding.destination.kind == "queue"}
    return topology.with_parts(
        exchanges=[each for name, each in topology.exchanges.items() if name in names],
        # Messages to the default exchange reach each queue by its name.
        queues=[each for name, each in topology.queues.items() if "" in names or name in queues],
        bindings=bindings,
    )
