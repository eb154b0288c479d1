"""The queues that a message can reach, compared with those to which the router sends messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.entities.entities import Policy
from exchange.topology.reach import find_reachable_queues

NAMES = ("a", "b", "c", "d")


def build_topology(edges: list[tuple[str, str]], alternates: dict[str, str], queues: dict[str, str]) -> Topology:
    topology = Topology()
    for name in NAMES:
        arguments = {"alternate-exchange": alternates[name]} if name in alternates else {}
        topology = topology.declare_exchange(Exchange(name, "fanout", arguments=arguments))
    for queue, exchange in queues.items():
        topology = topology.declare_queue(Queue(queue)).bind(Binding.to_queue(exchange, queue))
    for source, destination in edges:
        topology = topology.bind(Binding.to_exchange(source, destination))
    return topology


GRAPHS = st.builds(
    build_topology,
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=6),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NAMES), max_size=2),
    st.dictionaries(st.sampled_from(["p", "q", "r"]), st.sampled_from(NAMES), max_size=3),
)


@given(GRAPHS, st.sampled_from(NAMES))
def test_every_queue_that_gets_a_message_is_reachable(topology: Topology, exchange: str) -> None:
    queues = Router(topology).route(Message(exchange, "k")).queues
    assert {*queues} <= find_reachable_queues(topology, exchange)


@given(GRAPHS, st.sampled_from(NAMES))
def test_a_queue_that_is_reachable_has_a_way_to_it(topology: Topology, exchange: str) -> None:
    """Over bindings and alternate exchanges, by a slow search from the queue."""
    for queue in find_reachable_queues(topology, exchange):
        sources = {binding.source for binding in topology.bindings if binding.destination.name == queue}
        for _ in NAMES:
            sources |= {binding.source for binding in topology.bindings if binding.destination.name in sources}
            sources |= {n for n, e in topology.exchanges.items() if e.arguments.get("alternate-exchange") in sources}
        assert exchange in sources


def test_an_alternate_exchange_by_policy_counts() -> None:
    topology = build_topology([], {}, {"q": "b"}).set_policy(
        Policy("p", "^a$", {"alternate-exchange": "b"}, "exchanges")
    )
    assert find_reachable_queues(topology, "a") == {"q"}


def test_the_default_exchange_and_messages_that_name_their_own_reach_every_queue() -> None:
    topology = build_topology([], {}, {"p": "a", "q": "b"})
    assert find_reachable_queues(topology, "") == find_reachable_queues(topology, None) == {"p", "q"}
    assert find_reachable_queues(topology, "nowhere") == frozenset()
