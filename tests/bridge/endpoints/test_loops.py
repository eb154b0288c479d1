"""Loops of a bridge are found, as certain or as possible, and a chain of sources is no loop."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bridge.endpoint import Place
from bridge.endpoints.loops import find_dead_letter_loop, find_feedback, find_near_exchange
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.interop.filtering import Filter
from bridge.pump.pump import Inlet
from exchange import Binding, Exchange, Queue, Topology
from exchange.topology.reach import find_reachable_queues

TOPOLOGY = (
    Topology()
    .declare_exchange(Exchange("orders", "topic", arguments={"alternate-exchange": "rest"}))
    .declare_exchange(Exchange("rest", "fanout"))
    .declare_exchange(Exchange("bills", "topic"))
    .declare_queue(Queue("a"))
    .declare_queue(Queue("b"))
    .declare_queue(Queue("c"))
    .bind(Binding.to_queue("orders", "a", "order.#"))
    .bind(Binding.to_queue("rest", "b"))
    .bind(Binding.to_queue("bills", "c", "#"))
)


def rabbit(name: str, cluster: str = "h:5672//") -> Place:
    return Place("rabbitmq", cluster, name)


class From(MemorySource):
    """A source that reads given places."""

    def __init__(self, name: str, *places: Place) -> None:
        super().__init__(name=name)
        self._places = frozenset(places)

    @property
    def places(self) -> frozenset[Place]:
        return self._places


class To(MemoryTarget):
    """A target that writes to given places."""

    def __init__(self, name: str, *places: Place) -> None:
        super().__init__(name)
        self._places = frozenset(places)

    @property
    def places(self) -> frozenset[Place]:
        return self._places


def loops(inlets: list[Inlet], targets: Mapping[str, To]) -> list[tuple[str, str, str, bool]]:
    """Return target, source, way and certainty of each loop."""
    return [
        (each.target.name, each.source, each.way, each.certain) for each in find_feedback(inlets, targets, TOPOLOGY)
    ]


def test_messages_can_reach_the_queues_behind_bindings_and_alternates() -> None:
    assert find_reachable_queues(TOPOLOGY, "orders") == {"a", "b"}
    assert find_reachable_queues(TOPOLOGY, "bills") == {"c"}
    assert find_reachable_queues(TOPOLOGY, None) == {"a", "b", "c"}


def test_a_target_that_writes_to_the_place_of_a_source_is_a_loop() -> None:
    queue = rabbit("queue in")
    out = To("out", queue)
    assert loops([Inlet(From("in", queue))], {"a": out}) == [("out", "in", "in -> in", True)]
    assert loops([Inlet(From("in", queue), "orders")], {"b": out}) == [("out", "in", "in -> in", True)]


@pytest.mark.parametrize("other", [rabbit("queue in", "h:5672/other"), rabbit("exchange in"), rabbit("queue other")])
def test_writing_to_another_place_is_no_loop(other: Place) -> None:
    assert loops([Inlet(From("in", rabbit("queue in")))], {"a": To("out", other)}) == []


def test_a_queue_of_the_topology_that_no_message_of_the_source_gets_to_makes_no_loop() -> None:
    queue = rabbit("queue in")
    assert loops([Inlet(From("in", queue), "bills")], {"a": To("out", queue)}) == []


def test_a_loop_is_uncertain_with_a_filter_or_where_only_a_part_of_the_target_is_reached() -> None:
    queue = rabbit("queue in")
    out = To("out", queue, rabbit("queue out"))
    [only_some] = find_feedback([Inlet(From("in", queue), "orders")], {"a": out, "c": out}, TOPOLOGY)
    assert (only_some.certain, only_some.unless) == (False, "another queue leads there")
    [filtered] = find_feedback([Inlet(From("in", queue), filter=Filter(None, None))], {"a": To("o", queue)}, TOPOLOGY)
    assert (filtered.certain, filtered.unless) == (False, "its filter leaves them out")


def test_a_way_over_several_sources_is_a_loop_and_a_chain_is_not() -> None:
    one, two = rabbit("queue one"), rabbit("queue two")
    first, second = Inlet(From("first", one), "orders"), Inlet(From("second", two), "bills")
    to_two, to_one = To("to-two", two), To("to-one", one)
    assert loops([first, second], {"a": to_two}) == []
    assert sorted(loops([first, second], {"a": to_two, "c": to_one})) == [
        ("to-one", "first", "second -> first -> second", True),
        ("to-two", "second", "first -> second -> first", True),
    ]


def test_topics_of_an_expression_are_read_too() -> None:
    source = From("in", Place("kafka", "h:9092", "topic ^eu-.*"))
    for topic, there in (("eu-orders", 1), ("us-orders", 0)):
        assert len(loops([Inlet(source)], {"a": To("out", Place("kafka", "h:9092", f"topic {topic}"))})) == there


def test_an_archive_is_read_with_the_folders_below_it() -> None:
    source = From("in", Place("archive", "/data/archive", "folder"))
    for folder, there in (
        ("/data/archive", 1), ("/data/archive/out", 1), ("/data/archive/../archive/", 1), ("/data/out", 0),
        ("/data/archives", 0), ("/data", 0),
    ):  # fmt: skip
        assert len(loops([Inlet(source)], {"a": To("out", Place("archive", folder, "folder"))})) == there
    root = From("in", Place("archive", "/", "folder"))
    assert len(loops([Inlet(root)], {"a": To("out", Place("archive", "/data", "folder"))})) == 1


def test_dead_letters_into_a_source_are_a_loop() -> None:
    queue = rabbit("queue in")
    inlets = [Inlet(From("other", rabbit("queue other"))), Inlet(From("in", queue))]
    assert find_dead_letter_loop(inlets, To("dead_letters", queue)) == ("in", "queue in")
    assert find_dead_letter_loop(inlets, To("dead_letters", rabbit("queue dead"))) is None


def test_an_exchange_of_the_broker_that_is_read_may_lead_to_the_queue() -> None:
    inlets = [Inlet(From("in", rabbit("queue in")))]
    exchange = rabbit("exchange x")
    assert find_near_exchange(inlets, To("out", exchange)) == (exchange, "in")
    assert find_near_exchange(inlets, To("out", rabbit("queue out"))) is None
    assert find_near_exchange(inlets, To("out", rabbit("exchange x", "other:5672//"))) is None
