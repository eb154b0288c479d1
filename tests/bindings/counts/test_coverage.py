"""The tables of a tally agree with what is counted message by message from the router's explanations."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.record import Record, build_batch
from bindings.counts.columnar.counting import Tallier
from bindings.counts.coverage import coverage
from bindings.counts.outcome import sort_bindings
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.counts.uses import Coverage
from exchange import LATEST_PROFILE, Binding, BrokerError, Exchange, InputError, Message, Queue, Router, Topology
from exchange.entities.entities import Destination
from tests.support import topologies
from tests.support.tiers import examples

SEED = st.integers(0, 2**32)
CERTAIN = topologies.Kinds(
    types=("direct", "fanout", "topic", "topic", "headers", "x-modulus-hash", "x-consistent-hash")
)


def tally_for(topology: Topology, messages: list[Message], times: list[int] | None = None) -> Tally:
    counter = Tallier(topology)
    records = [Record(message, times[n] if times else None) for n, message in enumerate(messages)]
    counter.add(build_batch(records))
    return counter.result()


def covered(topology: Topology, *keys: tuple[str, str]) -> Coverage:
    return coverage(tally_for(topology, [Message(exchange, key) for exchange, key in keys]), topology)


@examples(60)
@given(SEED)
def test_the_tables_agree_with_the_router_s_explanations(seed: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE, CERTAIN)
    messages = rng.choices([topologies.message(rng, topology) for _ in range(20)], k=40)
    messages += [Message("nowhere", "a")]
    router = Router(topology, cache=0)
    hits, only, exposure = Counter[Binding](), Counter[Binding](), Counter[str]()
    queues, avoided, alternates, lost = Counter[str](), Counter[str](), Counter[tuple[str, str]](), Counter[str]()
    fan_out: dict[str, Counter[int]] = {}
    for message in messages:
        fans = fan_out.setdefault(message.exchange, Counter())
        try:
            explanation = router.explain(message)
        except BrokerError:
            fans[0] += 1
            continue
        queues.update(explanation.route.queues)
        fans[len(explanation.route.queues)] += 1
        lost[message.exchange] += explanation.route.unroutable is True
        taken = [b for hop in explanation.hops if hop.exchange.name for b in hop.matched]
        for hop in explanation.hops:
            exposure[hop.exchange.name] += 1
            if hop.alternate is not None and hop.alternate.taken:
                alternates[hop.exchange.name, hop.alternate.name] += 1
        hits.update(taken)
        for binding in taken:
            # Without it: nothing else leads there.
            others = [b for b in taken if b is not binding and b.destination == binding.destination]
            by_alternate = any(
                hop.alternate is not None and hop.alternate.taken and hop.alternate.name == binding.destination.name
                for hop in explanation.hops
            )
            name = binding.destination.name
            if binding.destination.kind == "queue":
                avoided[name] += 1 if others and taken.index(binding) else 0
                only[binding] += not others and name in topology.queues
            else:
                only[binding] += not (others or by_alternate or name == message.exchange) and name in topology.exchanges
    tally = tally_for(topology, messages)
    found = coverage(tally, topology)
    for use in found.bindings:
        assert (use.messages, use.only, use.exposure) == (
            hits[use.binding], only[use.binding], exposure[use.binding.source]
        )  # fmt: skip
        assert use.dead == (use.eligible and not use.messages)
    for row in found.queues:
        assert row.messages == queues[row.queue]
    for each in found.exchanges:
        assert each.fan_out == fan_out.get(each.exchange, {})
        assert (each.published, each.messages) == (
            sum(fan_out.get(each.exchange, {}).values()),
            exposure[each.exchange],
        )
        assert each.unroutable == lost[each.exchange]
    assert {(use.exchange, use.alternate): use.messages for use in found.alternates} == dict(alternates)
    whole = found.totals
    assert whole.messages == len(messages)
    assert whole.routed + whole.unroutable + whole.undecided + whole.refused == whole.messages
    assert whole.copies == queues.total()
    assert sum(row.messages for row in found.unroutable if not row.refused) == whole.unroutable
    assert whole.duplicates_avoided == sum(row.duplicates_avoided for row in found.queues)


@examples(30)
@given(SEED)
def test_chance_counts_as_possible_and_hits_a_binding(seed: int) -> None:
    """It is neither dead nor certainly hit."""
    number = Random(seed).randint(2, 5)
    bindings = [Binding.to_queue("x", f"q{n}", str(n)) for n in range(number)]
    topology = Topology([Exchange("x", "x-random")], [Queue(f"q{n}") for n in range(number)], bindings)
    found = covered(topology, ("x", "a"), ("x", "b"))
    assert [(use.messages, use.possible, use.dead) for use in found.bindings] == [(0, 2, False)] * number
    assert [(row.messages, row.possible) for row in found.queues] == [(0, 2)] * number
    assert found.totals.binding_coverage == found.totals.message_coverage == 1.0


def test_binding_coverage_and_message_coverage_are_independent() -> None:
    bindings = [Binding.to_queue("amq.topic", "q", key) for key in ("a.#", "b.#", "c.#", "d.#")]
    found = covered(
        Topology((), [Queue("q")], bindings), ("amq.topic", "a.b"), ("amq.topic", "a.c"), ("amq.topic", "x")
    )
    assert found.totals.binding_coverage == 1 / 4
    assert found.totals.message_coverage == 2 / 3


def test_totals_of_no_messages_have_no_shares() -> None:
    topology = Topology()
    nothing = coverage(Tally(compute_fingerprint(topology)), topology).totals
    assert nothing.binding_coverage is nothing.message_coverage is None


def test_a_dead_binding_comes_with_its_exposure() -> None:
    bindings = [Binding.to_queue("amq.topic", "q", key) for key in ("a", "b")]
    topology = Topology((), [Queue("q")], bindings)
    used, dead = covered(topology, *[("amq.topic", "a")] * 300).bindings
    assert (dead.dead, dead.exposure, dead.bound) == (True, 300, 0.01)
    assert (used.dead, used.bound, used.share) == (False, None, 1.0)


def test_a_binding_to_a_missing_queue_is_not_eligible() -> None:
    bindings = [Binding.to_queue("amq.topic", "gone", "a"), Binding.to_queue("gone", "q"), Binding.to_queue("?", "q")]
    topology = Topology([Exchange("?", "x-unheard-of")], [Queue("q")], bindings)
    found = covered(topology, ("amq.topic", "a"), ("?", "a"))
    assert found.totals.eligible == 0
    assert found.totals.undecided == 1


def test_messages_that_one_binding_alone_brings_are_counted() -> None:
    bindings = [Binding.to_queue("amq.topic", "q", key) for key in ("a.#", "a.b")]
    topology = Topology((), [Queue("q")], bindings)
    found = covered(topology, ("amq.topic", "a.b"), ("amq.topic", "a.c"))
    assert {use.binding.routing_key: use.only for use in found.bindings} == {"a.#": 1, "a.b": 0}
    assert found.totals.duplicates_avoided == found.queues[0].duplicates_avoided == 1


def test_messages_of_an_alternate_exchange_are_listed_by_shape() -> None:
    exchange = Exchange("x", "topic", arguments={"alternate-exchange": "amq.fanout"})
    bindings = [Binding.to_queue("x", "q", "order.*"), Binding.to_queue("amq.fanout", "lost")]
    topology = Topology([exchange], [Queue("q"), Queue("lost")], bindings)
    (use,) = covered(topology, ("x", "order.1"), ("x", "order.2.x"), ("x", "order.3.y")).alternates
    assert (use.exchange, use.alternate, use.messages) == ("x", "amq.fanout", 2)
    assert [(item.text, item.count, item.example) for item in use.shapes.items] == [("order.*.*", 2, "order.2.x")]


def test_refused_messages_are_neither_routed_nor_unroutable() -> None:
    topology = Topology()
    found = covered(topology, ("nowhere", "a"), ("amq.rabbitmq.trace", "a"))
    assert (found.totals.refused, found.totals.unroutable) == (2, 0)
    assert sorted(row.refused[:3] for row in found.unroutable) == ["403", "404"]


def test_the_tally_of_another_topology_is_refused() -> None:
    with pytest.raises(InputError, match="another topology"):
        coverage(Tally("other"), Topology())


def test_the_order_of_declarations_does_not_change_binding_numbers() -> None:
    bindings = [Binding.to_queue("amq.topic", "q", key) for key in "cab"]
    topology = Topology((), [Queue("q")], bindings)
    assert [binding.routing_key for binding in sort_bindings(topology)] == ["a", "b", "c"]
    assert bindings[0].destination == Destination("queue", "q")
