"""Objects of kombu as topologies, and back."""

from __future__ import annotations

import kombu
import pytest

from bindings.adapters.kombu import find_broker, register
from bindings.sources.applications.kombu import entities_of, topology_of
from exchange import Binding, Exchange, InputError, Queue, Topology

ORDERS = kombu.Exchange("orders", "topic", arguments={"alternate-exchange": "lost"})
ENTITIES = [
    kombu.Exchange("lost", "fanout", durable=False),
    kombu.Queue("billing", ORDERS, "order.*.created", expires=60, max_priority=5),
    kombu.Queue("audit", [kombu.binding(ORDERS, "#"), kombu.binding(kombu.Exchange("news", "headers"), "", {"a": 1})]),
    kombu.Queue("plain", auto_delete=True, durable=False),
    kombu.Queue("elsewhere", kombu.Exchange("not-here"), no_declare=True),
]


def test_kombu_declares_the_topology() -> None:
    register()
    broker = find_broker(topology=Topology())
    with kombu.Connection("hashstar://") as connection:
        for entity in ENTITIES:
            entity(connection.channel()).declare()
    topology = topology_of(ENTITIES)
    assert topology == broker.topology
    assert topology.queues["billing"].arguments == {"x-expires": 60_000, "x-max-priority": 5}
    assert Binding.to_queue("orders", "billing", "order.*.created") in topology.bindings
    assert "not-here" not in topology.exchanges


def test_a_topology_survives_kombu() -> None:
    topology = topology_of(ENTITIES)
    assert topology_of(entities_of(topology)) == topology


@pytest.mark.parametrize("topology", [
    Topology([Exchange("a", "fanout"), Exchange("b")], bindings=[Binding.to_exchange("a", "b")]),
    Topology([Exchange("a", internal=True)]),
])  # fmt: skip
def test_what_kombu_cannot_hold_is_named(topology: Topology) -> None:
    with pytest.raises(InputError, match="kombu's objects cannot hold"):
        entities_of(topology)


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match=r"kombu\.Exchange or kombu\.Queue is wanted, not Queue"):
        topology_of([Queue("ours")])
