"""Analyses of a topology whose exchanges all delay say of messages without a delay what they say without that."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.record import build_batch
from bindings.checking.check import check
from bindings.counts.columnar.counting import Tallier
from bindings.counts.outcome import OutcomeExplorer
from bindings.counts.verification import verdict_for
from bindings.diffing.comparison.compare import compare
from bindings.diffing.planning.plan import make_plan
from bindings.diffing.planning.step import describe_part
from exchange import LATEST_PROFILE, Binding, Exchange, Message, Queue, Topology
from tests.bindings.counts.test_tally import records_for
from tests.support import topologies
from tests.support.bindings import pairs
from tests.support.bindings.exact import exact
from tests.support.tiers import examples

OTHERS = ("HS304", "HS307", "HS602")
"""Findings that a delay changes."""
SEED = st.integers(0, 2**32)
TYPES = (*pairs.TYPES, "x-random", "x-recent-history", "x-consistent-hash", "x-modulus-hash")


def delayed(topology: Topology) -> Topology:
    """Return the topology with every exchange delayed that is not predeclared."""
    exchanges = [
        replace(exchange, type="x-delayed-message", arguments={**exchange.arguments, "x-delayed-type": exchange.type})
        for name, exchange in topology.exchanges.items()
        if name and not name.startswith("amq.")
    ]
    by_name = {exchange.name: exchange for exchange in exchanges}
    parts = topology.queues.values(), topology.bindings, topology.policies.values()
    given = [by_name.get(exchange.name, exchange) for exchange in topology.exchanges.values()]
    return Topology(given, *parts, vhost=topology.vhost, profile=topology.profile)


def many(type_: str, count: int, made: int) -> Topology:
    """Return an exchange of the type with ``made`` of ``count`` queues bound."""
    names = [f"q{number}" for number in range(count)]
    bindings = [Binding.to_queue("x", name, "1" if "hash" in type_ else "") for name in names[:made]]
    return Topology([Exchange("x", type_)], map(Queue, names), bindings)


@pytest.mark.parametrize("type_", ["x-random", "x-local-random"])
def test_a_delayed_random_exchange_with_too_many_bindings_is_undecided_and_no_broker_accused(type_: str) -> None:
    """Of 2,000 queues 1,024 are tried; that one of the others got a message is no fault of the broker's."""
    outcome = OutcomeExplorer(delayed(many(type_, 2_000, 2_000))).outcome(Message("x", "k"))
    assert outcome == OutcomeExplorer(many(type_, 2_000, 2_000)).outcome(Message("x", "k"))
    assert outcome.undecided == ("x",)
    assert verdict_for(outcome, ["q1999"], []) == "undecided"


@pytest.mark.parametrize("type_", ["x-consistent-hash", "x-modulus-hash"])
def test_a_plan_that_rebinds_a_delayed_hashing_exchange_warns_that_keys_move(type_: str) -> None:
    """With each of the steps, as for one without a delay."""
    steps = make_plan(delayed(many(type_, 4, 2)), delayed(many(type_, 4, 4))).steps
    assert steps == make_plan(many(type_, 4, 2), many(type_, 4, 4)).steps
    assert [step.danger is not None and "keys move" in step.danger for step in steps] == [True, True]


@examples(60)
@given(SEED)
def test_a_delay_changes_no_outcome_and_no_count(seed: int) -> None:
    """Neither message by message, as verification asks, nor in batches."""
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    records = records_for(rng, topology, 12)
    explorers = OutcomeExplorer(topology), OutcomeExplorer(delayed(topology))
    for record in records:
        assert explorers[0].outcome(record.message) == explorers[1].outcome(record.message)
    counted = []
    for each in (topology, delayed(topology)):
        counter = Tallier(each)
        counter.add(build_batch(records))
        counted.append(exact(counter.result()))
    assert counted[0].facts == counted[1].facts
    assert counted[0].timeline == counted[1].timeline


def rebuild(topology: Topology) -> Topology:
    """Return an equal topology whose bindings were all made at once, in order: plans and messages list them so."""
    return Topology(
        topology.exchanges.values(),
        topology.queues.values(),
        topology.bindings,
        topology.policies.values(),
        profile=topology.profile,
    )


WRAPPED = re.compile(r"an x-[a-z-]+ exchange, which routes as (a \w+) exchange, and")
"""What a finding calls an exchange whose type is a wrapper or a name of another one."""


@examples(60)
@given(SEED)
def test_a_delay_changes_no_finding_but_what_brokers_refuse(seed: int) -> None:
    """The inner type's own arguments are checked by its plugin; a delayed message takes the alternate exchange."""
    topology = rebuild(topologies.topology(Random(seed), LATEST_PROFILE))

    def found(topology: Topology) -> Counter[tuple[str, str]]:
        found = [(each.code, each.message) for each in check(topology) if each.code not in OTHERS]
        return Counter((code, WRAPPED.sub(r"\1 exchange and", text)) for code, text in found)

    assert found(topology) == found(delayed(topology))


def steps_of(before: Topology, after: Topology) -> list[tuple[str, str, str]]:
    """Return the steps of a plan with their dangers, without the types of exchanges."""
    return [
        (step.verb, describe_part(step.part), re.sub(r"is of type [\w-]+", "is of a type", step.danger or ""))
        for step in make_plan(before, after).steps
    ]


@examples(80)
@given(SEED)
def test_a_delay_changes_no_plan_and_no_meaning_of_a_change(seed: int) -> None:
    """But that texts name the type, and that messages with a delay may go elsewhere."""
    before, after = map(rebuild, pairs.pair(Random(seed), TYPES))
    assert steps_of(before, after) == steps_of(delayed(before), delayed(after))
    plain, with_delay = compare(before, after), compare(delayed(before), delayed(after))
    assert (plain.access, plain.partitions) == (with_delay.access, with_delay.partitions)
    assert plain.effects == tuple([each for each in with_delay.effects if each.timing is None])
    for mine, theirs in ((plain.unroutable, with_delay.unroutable), (plain.choices, with_delay.choices)):
        assert [*mine] == [each for each in theirs if "x-delay" not in each.witness.headers]
    assert {*plain.undecided} <= {*with_delay.undecided}
    assert plain.verdict == "same" or with_delay.verdict != "same"
