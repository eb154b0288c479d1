"""The order of a plan where policies turn alternate exchanges: nothing is lost or misled in between."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bindings.analysis.crawl import Deadline
from bindings.diffing.planning.plan import Plan, make_plan
from bindings.diffing.planning.tangles import Alteration, find_tangled
from exchange import Binding, Exchange, Policy, Queue, Topology
from exchange.topology.graph import Graph
from tests.support.bindings import pairs
from tests.support.cases import with_each
from tests.support.tiers import examples, some

A, B = Binding.to_queue, Binding.to_exchange


def shown(result: Plan) -> list[str]:
    """Return the steps as texts, dangerous ones with an exclamation mark."""
    return [f"{step}{' !' if step.danger else ''}" for step in result.steps]


def turning(alternate: str | None, *bindings: Binding, pattern: str = "^x", kind: str = "direct") -> Topology:
    """Return x0 and x1, and two other exchanges with a queue each; a policy makes one of these their alternate."""
    exchanges = [Exchange("x0", kind), Exchange("x1", kind), Exchange("a", "fanout"), Exchange("b", "fanout")]
    policies = [] if alternate is None else [Policy("p", pattern, {"alternate-exchange": alternate}, "exchanges")]
    ways = [A("a", "q0"), A("b", "q1"), *bindings]
    return Topology(exchanges, [Queue(f"q{n}") for n in range(3)], ways, policies)


def test_a_new_binding_is_there_before_a_policy_turns_the_alternate_of_its_exchange() -> None:
    """In between its key would go to the new alternate, where it went neither before nor is to go."""
    result = make_plan(turning("a"), turning("b", A("x0", "q2", "k")))
    assert shown(result) == ["bind exchange 'x0' 'k' -> queue 'q2'", "set policy 'p'"]


def test_an_old_binding_goes_after_a_policy_has_turned_the_alternate_of_its_exchange() -> None:
    result = make_plan(turning("a", A("x0", "q2", "k")), turning("b"))
    assert shown(result) == ["set policy 'p'", "unbind exchange 'x0' 'k' -> queue 'q2'"]


def test_a_policy_is_cleared_after_the_new_binding_is_there() -> None:
    result = make_plan(turning("a"), turning(None, A("x0", "q2", "k")))
    assert shown(result) == ["bind exchange 'x0' 'k' -> queue 'q2'", "clear policy 'p'"]


def draw_pair(seed: int) -> tuple[Topology, Topology]:
    """Return two random topologies with policies that turn alternate exchanges."""
    rng = Random(seed)

    def draw() -> Topology:
        kind = "direct" if seed % 2 else "topic"
        keys = ("a", "b", "a.b") if seed % 2 else ("a", "#", "a.#", "*.b")
        exchanges = [Exchange(f"x{n}", kind) for n in range(3)] + [Exchange("x3", "fanout")]
        policies = [
            Policy(
                f"p{n}", rng.choice(("^x", "^x[01]$", "^x2$")), {"alternate-exchange": f"x{rng.randint(0, 3)}"},
                "exchanges", priority=rng.randint(0, 1),
            )
            for n in range(2) if rng.random() < 0.8
        ]  # fmt: skip
        bindings = [
            B(f"x{rng.randint(0, 3)}", f"x{rng.randint(0, 3)}", rng.choice(keys)) if rng.random() < 0.2
            else A(f"x{rng.randint(0, 3)}", f"q{rng.randint(0, 2)}", rng.choice(keys))
            for _ in range(rng.randint(0, 5))
        ]  # fmt: skip
        return Topology(exchanges, [Queue(f"q{n}") for n in range(3)], dict.fromkeys(bindings), policies)

    return draw(), draw()


@pytest.mark.scaled
@pytest.mark.parametrize("seed", some(range(10), 3))
def test_a_deadline_that_passes_at_any_moment_leaves_a_plan(seed: int) -> None:
    before, after = draw_pair(seed)
    whole = Counter(map(str, make_plan(before, after).steps))
    for looks in range(30):
        plan = make_plan(before, after, deadline=Deadline(looks, itertools.count().__next__))
        assert Counter(map(str, plan.steps)) == whole


@examples(300)
@given(st.integers(0, 2**32))
@example(16_496)  # of two new policies of an exchange the one came first that decides only then
def test_no_step_loses_or_misleads_a_message_where_policies_turn(seed: int) -> None:
    """For all keys, after each step that is not marked: with several policies, all of alternates."""
    before, after = draw_pair(seed)
    assert pairs.carry_out(before, after) == after


@pytest.mark.parametrize("count", [1, 2, 3])
def test_more_than_one_new_binding_of_a_ring_moves_keys(count: int) -> None:
    before = Topology([Exchange("h", "x-consistent-hash")], [Queue(f"q{n}") for n in range(5)], [A("h", "q0", "1")])
    after = Topology(
        [Exchange("h", "x-consistent-hash")], before.queues.values(),
        [*before.bindings, *(A("h", f"q{n}", "1") for n in range(1, count + 1))],
    )  # fmt: skip
    assert make_plan(before, after).dangerous == (count > 1)


def test_what_replaces_an_exchange_feeds_others_before_it_is_fed() -> None:
    bindings = [B("in", "x", "a"), A("x", "q", "a")]
    before, after = (
        Topology([Exchange("in", "direct"), Exchange("x", kind)], [Queue("q")], bindings)
        for kind in ("direct", "topic")
    )
    assert shown(make_plan(before, after)) == [
        "delete exchange 'x' !",
        "declare exchange 'x' (topic) !",
        "bind exchange 'x' 'a' -> queue 'q' !",
        "bind exchange 'in' 'a' -> exchange 'x' !",
    ]


def graph(*ways: tuple[str, str]) -> Graph:
    made = Graph()
    for source, destination in ways:
        made.add(source, destination)
    return made


@with_each(
    ("above", "below", "together"),
    [
        (Alteration.GAINS, Alteration.GAINS, False),
        (Alteration.LOSES, Alteration.LOSES, False),
        (Alteration.GAINS, Alteration.LOSES, True),
        (Alteration.LOSES, Alteration.GAINS, True),
        (Alteration.SWITCHES, Alteration.GAINS, True),
        (Alteration.GAINS, Alteration.SWITCHES, True),
        (Alteration.LOSES, Alteration.SWITCHES, True),
        (Alteration.SWITCHES, Alteration.SWITCHES, True),
    ],
)
@with_each("between", [[], ["m"], ["m", "n"]])
def test_changes_of_different_kinds_on_one_path_are_looked_at_together(
    above: Alteration, below: Alteration, together: bool, between: list[str]
) -> None:
    """However many exchanges that do not change are between."""
    stops = ["above", *between, "below"]
    ways = graph(*itertools.pairwise(stops), ("below", "elsewhere"))
    assert find_tangled(ways, {"above": above, "below": below}) == ({"above", "below"} if together else set())
    assert find_tangled(graph(("above", "other")), {"above": above, "below": below}) == set()
