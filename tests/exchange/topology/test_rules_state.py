"""What an edit leaves as it was: exchanges with bindings left, partitions that a second declaration does not name."""

from __future__ import annotations

import pytest

from exchange import Binding, Exchange, Message, PreconditionFailed, Queue, Router, Topology
from exchange.partition.partitioning.specification import Partitioning

A, B = Binding.to_queue, Binding.to_exchange


def test_an_auto_delete_exchange_stays_while_it_has_a_binding() -> None:
    """Whatever goes of the others: a binding, or a queue with all of its own."""
    topology = Topology().declare_exchange(Exchange("x", "direct", auto_delete=True))
    for name in "abc":
        topology = topology.declare_queue(Queue(name)).bind(A("x", name, "k")).bind(A("x", name, "l"))
    topology = topology.unbind(A("x", "a", "k"))
    assert "x" in topology.exchanges
    topology = topology.delete_queue("a").delete_queue("b").unbind(A("x", "c", "k"))
    assert "x" in topology.exchanges
    assert "x" not in topology.unbind(A("x", "c", "l")).exchanges
    assert "x" not in topology.delete_queue("c").exchanges


def test_declaring_a_queue_once_more_keeps_its_partitions_unless_it_names_others() -> None:
    four, five = (Partitioning.parse(f"kafka.murmur2 over {count}") for count in (4, 5))
    topology = Topology().declare_queue(Queue("q", partitioning=four))
    router = Router(topology)
    for queue, kept in (
        (Queue("q"), four),
        (Queue("q", partitioning=four), four),
        (Queue("q", partitioning=five), five),
    ):
        router.declare_queue(queue)
        assert router.topology.queues["q"].partitioning == kept
        assert topology.declare_queue(queue).queues["q"].partitioning == kept
        [placement] = router.route(Message("", "q")).placements
        assert placement.partitioning == kept


def test_an_exchange_is_in_use_only_if_it_is_the_source_of_bindings() -> None:
    topology = Topology().declare_exchange(Exchange("x", "fanout")).declare_exchange(Exchange("y", "fanout"))
    topology = topology.bind(B("x", "y"))
    assert "y" not in topology.delete_exchange("y", if_unused=True).exchanges
    with pytest.raises(PreconditionFailed, match="in use"):
        topology.delete_exchange("x", if_unused=True)


def test_the_header_bcc_is_gone_before_it_is_hashed() -> None:
    """A message with it goes where one without goes."""
    topology = Topology().declare_exchange(Exchange("h", "x-consistent-hash", arguments={"hash-header": "BCC"}))
    for name in "abcdefgh":
        topology = topology.declare_queue(Queue(name)).bind(A("h", name, "10"))
    router = Router(topology)
    without = router.route(Message("h", "k")).queues
    assert {router.route(Message("h", "k", {"BCC": [f"{n}"]})).queues for n in range(30)} == {without}
