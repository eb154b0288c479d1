"""What bounds a comparison: near-linear work in the bindings of one queue, and a budget for all questions together."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.analysis.crawl import Budget, Deadline, OutOfBudget
from bindings.commands.diff import diff_command
from bindings.diffing.comparison.compare import compare
from bindings.diffing.comparison.inquiry import OUT_OF_BUDGET
from bindings.diffing.comparison.paths import PathConditions, keep_widest
from bindings.diffing.planning.plan import make_plan
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.kinds.condition import Condition
from exchange.patterns.pattern import Pattern
from tests.bindings.diffing.test_diff_meaning import KEYS, check, pair
from tests.support.tiers import examples

CONDITIONS: list[Condition] = [Pattern(text) for text in ("a.*", "*.b", "a.#", "#.c", "*")]


class Ticks:
    """A clock that moves a second each time it is read."""

    def __init__(self) -> None:
        self._ticks = count()

    def __call__(self) -> float:
        return next(self._ticks)


def fan(keys: list[str], queue: str = "q") -> Topology:
    """Return a topic exchange with bindings to one queue."""
    return Topology([Exchange("x", "topic")], [Queue(queue)], [Binding.to_queue("x", queue, key) for key in keys])


def mesh(exchanges: int, seed: int) -> Topology:
    """Return exchanges bound to each other at random, six bindings each, and four queues."""
    rng = Random(seed)
    bindings = []
    for number in range(exchanges * 6):
        key = ".".join(rng.choice("abc**#") for _ in range(rng.randint(1, 3)))
        source = f"x{number // 6}"
        if rng.random() < 0.8:
            bindings.append(Binding.to_exchange(source, f"x{rng.randrange(exchanges)}", key))
        else:
            bindings.append(Binding.to_queue(source, f"q{rng.randrange(4)}", key))
    declared = [Exchange(f"x{number}", "topic") for number in range(exchanges)]
    return Topology(declared, [Queue(f"q{number}") for number in range(4)], bindings)


ways = st.builds(
    PathConditions,
    st.lists(st.sampled_from(CONDITIONS), max_size=3, unique=True).map(tuple),
    st.lists(st.sampled_from("xyz"), max_size=2, unique=True).map(tuple),
)


def asked(path: PathConditions) -> frozenset[object]:
    return frozenset((*path.matching, *path.unmatched))


@given(st.lists(ways, max_size=12))
def test_the_widest_paths_are_those_of_which_no_other_one_requires_less(several: list[PathConditions]) -> None:
    """Compared with each other one by one; of equal ones the first, and all in their order."""
    expected = [
        way
        for at, way in enumerate(several)
        if not any(asked(other) < asked(way) for other in several)
        and not any(asked(other) == asked(way) for other in several[:at])
    ]
    assert keep_widest(several) == expected


class Counted:
    """A condition that counts how often it is compared."""

    compared = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return isinstance(other, Counted) and self.number == other.number


def test_finding_the_widest_of_many_paths_compares_each_with_few() -> None:
    """As many ways as a queue has bindings, all with one condition in common: what was quadratic."""
    common = Counted(-1)
    several = [PathConditions((common, Counted(number))) for number in range(5_000)]  # type: ignore[arg-type]
    Counted.compared = 0
    assert len(keep_widest(several)) == 5_000
    assert Counted.compared < 20 * len(several)


@pytest.mark.parametrize("change", ["widened", "deleted", "moved"])
def test_one_change_among_many_bindings_takes_steps_that_do_not_grow_with_them(change: str) -> None:
    """The budget that does for 20,000 bindings is a small part of 20,000 times 20,000."""
    keys = [f"test.q.{number}" for number in range(20_000)]
    before = fan(keys)
    if change == "widened":
        after, gained, shown = fan([*keys[:5], "test.q.*", *keys[6:]]), True, "test.q.x"
    elif change == "deleted":
        after, gained, shown = fan([*keys[:5], *keys[6:]]), False, "test.q.5"
    else:
        moved = [*fan([*keys[:5], *keys[6:]]).bindings, Binding.to_queue("x", "other", keys[5])]
        after, gained, shown = (
            Topology([Exchange("x", "topic")], [Queue("q"), Queue("other")], moved),
            False,
            "test.q.5",
        )
    meaning = compare(before, after, total=500_000)
    assert not meaning.undecided
    (effect,) = (effect for effect in meaning.effects if effect.exchange and effect.queue == "q")
    assert (effect.gained, effect.witness.routing_key) == (gained, shown)


def test_a_budget_ends_with_its_deadline() -> None:
    """However many steps are left; without a deadline only steps count."""
    budget = Budget(10**9, Deadline(3, Ticks()))
    with pytest.raises(OutOfBudget):  # noqa: PT012  which of them raises is the clock's affair
        for _ in range(10_000):
            budget.spend(1)
    assert budget.left > 10**8
    without = Budget(10_000)
    for _ in range(10_000):
        without.spend(1)
    with pytest.raises(OutOfBudget):
        without.spend(1)


@examples(25)
@given(st.integers(0, 2**32), st.integers(0, 60))
def test_whenever_time_runs_out_what_is_claimed_holds_and_the_rest_is_undecided(seed: int, seconds: int) -> None:
    """Each look at the clock takes a second here: the comparison is cut off anywhere. ``same`` is never wrong."""
    before, after = pair(seed)
    meaning = compare(before, after, deadline=Deadline(seconds, Ticks()))
    claimed = {(effect.exchange, effect.queue, effect.gained) for effect in meaning.effects}
    open_ = {(one.exchange, one.destination.name if one.destination else None) for one in meaning.undecided}
    routers = Router(before), Router(after)
    whole = check(before, after, [Message("", key) for key in KEYS[:40]])
    for effect in whole.effects:
        where = effect.exchange, effect.queue, effect.gained
        assert where in claimed or (effect.exchange, effect.queue) in open_ or (None, effect.queue) in open_
    for effect in meaning.effects:
        reached = [effect.queue in _queues(router, effect.witness) for router in routers]
        assert reached == [not effect.gained, effect.gained]
    assert meaning.verdict != "same" or whole.verdict == "same"


def _queues(router: Router, message: Message) -> tuple[str, ...]:
    exchange = router.topology.exchanges.get(message.exchange)
    return () if exchange is None or exchange.internal else tuple(router.route(message).queues)


def test_a_mesh_of_24_exchanges_ends_with_its_budget() -> None:
    """With claims that hold, and undecided where there was no time; the plan still has all steps."""
    before, after = mesh(24, 1), mesh(24, 2)
    meaning = compare(before, after, deadline=Deadline(400, Ticks()))
    assert meaning.verdict != "same"
    assert any(one.reason == OUT_OF_BUDGET for one in meaning.undecided)
    routers = Router(before), Router(after)
    for effect in meaning.effects:
        reached = [effect.queue in _queues(router, effect.witness) for router in routers]
        assert reached == [not effect.gained, effect.gained]
    steps = make_plan(before, after, deadline=Deadline(20, Ticks())).steps
    differing = len(set(before.bindings) ^ set(after.bindings))
    assert len(steps) == differing
    assert any(step.danger and "time" in step.danger for step in steps)


def test_two_unrelated_topologies_are_undecided_without_time(tmp_path: Path) -> None:
    """Exit 1, each destination named in the JSON, and never "proved"."""
    paths = []
    for name, seed in (("a", 1), ("b", 2)):
        rng = Random(seed)
        lines = ["exchange x: topic", *(f"queue q{number}" for number in range(100))]
        lines += [f'x -> q{rng.randrange(100)}: "k{rng.randrange(500)}.*"' for _ in range(2_000)]
        path = tmp_path / f"{name}.bindings"
        path.write_text("\n".join(dict.fromkeys(lines)))
        paths.append(str(path))
    result = CliRunner().invoke(diff_command, [*paths, "--wait", "0"])
    assert result.exit_code == 1
    assert "proved" not in result.output.replace("could not be proved", "")
    assert "undecided to queue 'q0': the budget of the comparison was used up" in result.output
    assert "? and 80 more undecided" in result.output
    values = json.loads(CliRunner().invoke(diff_command, [*paths, "--wait", "0", "--json"]).output)["meaning"]
    assert values["verdict"] == "undecided"
    assert len(values["undecided"]) == 100
    assert values["undecided"][0]["exchange"] is None
