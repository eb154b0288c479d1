"""The graph of a topology, against the router; and cycles, against their definition."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from exchange import BrokerError, Exchange, Policy, Router, Topology
from exchange.entities.releases import LATEST_PROFILE
from exchange.topology.graph import Graph, TopologyGraph, find_cycles
from tests.support import topologies
from tests.support.tiers import examples

EDGES = st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), max_size=15)


@examples(150)
@given(st.integers(0, 2**32))
def test_a_message_stays_downstream_of_the_exchange_it_is_published_to(seed: int) -> None:
    """Each queue it gets to is bound to an exchange downstream, and each exchange that leaves it undecided is one."""
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    graph, router = TopologyGraph(topology).graph, Router(topology)
    for message in (topologies.message(rng, topology) for _ in range(10)):
        try:
            route = router.route(message)
        except BrokerError:
            continue
        if message.exchange and not {"CC", "BCC"} & set(message.headers):
            downstream = graph.downstream([message.exchange])
            bound = {binding.destination.name for name in downstream for binding in topology.bindings_from(name)}
            by_default = {message.routing_key} if "" in downstream else set()
            assert set(route.queues) <= bound | by_default
            assert set(route.undecided) <= downstream


def test_the_default_exchange_hands_messages_on_to_its_own_alternate() -> None:
    """A policy can give it one; messages get there that come to it from an alternate, and no others."""
    policy = Policy("p", "^$", {"alternate-exchange": "last"}, "exchanges")
    exchanges = [Exchange("first", arguments={"alternate-exchange": ""}), Exchange("last")]
    graph = TopologyGraph(Topology(exchanges, policies=[policy]))
    assert graph.possible_alternates == {"first": ("",)}
    assert graph.alternates == {"first": "last"}
    assert graph.graph.downstream([""]) == {""}
    assert graph.graph.upstream(["last"]) == {"first", "last"}


@given(EDGES)
def test_a_cycle_is_a_set_of_nodes_that_all_reach_each_other(edges: list[tuple[str, str]]) -> None:
    graph = Graph()
    for source, target in edges:
        graph.add(source, target)
    reached = {name: graph.downstream([name]) for name in "abcdefg"}
    together = {
        name: sorted(other for other in "abcdefg" if other in reached[name] and name in reached[other])
        for name in reached
    }
    assert find_cycles(graph.next) == sorted(
        {tuple(names): names for names in together.values() if len(names) > 1}.values()
    )


@given(EDGES)
def test_an_exchange_has_a_greater_number_than_those_downstream_outside_of_its_cycles(
    edges: list[tuple[str, str]],
) -> None:
    graph = Graph()
    for source, target in edges:
        graph.add(source, target)
    numbers = graph.number_upstream_last("abcdefg")
    assert sorted(numbers.values()) == list(range(7))
    for source, target in edges:
        if source not in graph.downstream([target]):
            assert numbers[source] > numbers[target]
