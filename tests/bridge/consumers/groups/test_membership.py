"""Members of a group agree on one plan, whoever comes, goes, or misses what others announce."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.consumers.groups.membership import BEATS, PATIENCE, Beat, GroupPlan, Membership, Progress, read_beat
from exchange.errors import InputError
from exchange.limits import BEAT_BYTES
from tests.support.cases import with_each
from tests.support.tiers import examples

HEARTBEAT = 1.0
BEAT = HEARTBEAT / BEATS


class Group:
    """Members on one clock, and an exchange between them that may lose beats."""

    def __init__(self) -> None:
        self.now = 0.0
        self.members: dict[str, Membership] = {}
        self.silent: set[str] = set()
        self.plans: list[GroupPlan] = []

    def join(self, name: str, joined: float | None = None) -> None:
        when = self.now if joined is None else joined
        self.members[name] = Membership(name, when, heartbeat=HEARTBEAT, now=self.now)

    def beat(self, partitions: int, *, lost: frozenset[tuple[str, str]] = frozenset()) -> None:
        """Let each member announce itself once; ``lost`` are pairs of a speaker and a listener who misses it."""
        self.now += BEAT
        for name in sorted(self.members.keys() - self.silent):
            member = self.members[name]
            if (plan := member.plan_if_due(self.now, partitions)) is not None:
                self.plans.append(plan)
            beat = Beat(name, member.joined, HEARTBEAT, 100, plan=member.plan if member.is_planner() else None)
            for listener in self.members.keys() - self.silent:
                if (name, listener) not in lost:
                    self.members[listener].hear(read_beat(beat.to_bytes()), self.now)

    def settle(self, partitions: int) -> GroupPlan:
        """Let time pass until all agree, and return their plan."""
        for _ in range(int(PATIENCE / BEAT) + 10):
            self.beat(partitions)
        plans = {json.dumps([p.epoch, p.planner, p.assignment]) for m in self._alive() if (p := m.plan) is not None}
        assert len(plans) == 1
        plan = next(m.plan for m in self._alive())
        assert plan is not None
        return plan

    def _alive(self) -> list[Membership]:
        return [self.members[name] for name in self.members.keys() - self.silent]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 9)),
        st.tuples(st.just("die"), st.integers(0, 9)),
        st.tuples(st.just("beat"), st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)),
    ),
    max_size=30,
)


@given(STEPS, st.integers(1, 30))
@examples(60)
def test_whatever_happens_those_that_live_agree_in_the_end(steps: list[tuple[str, object]], partitions: int) -> None:
    group = Group()
    group.join("m0")
    for number, (what, about) in enumerate(steps):
        if what == "join":
            group.join(f"m{about}-{number}")
        elif what == "die":
            alive = sorted(group.members.keys() - group.silent)
            if len(alive) > 1 and isinstance(about, int):
                group.silent.add(alive[about % len(alive)])
        else:
            pairs = about if isinstance(about, set) else set()
            names = sorted(group.members)
            lost = frozenset((names[a % len(names)], names[b % len(names)]) for a, b in pairs)
            group.beat(partitions, lost=lost)
    plan = group.settle(partitions)
    assert set(plan.assignment) == group.members.keys() - group.silent
    assert sorted(number for mine in plan.assignment.values() for number in mine) == list(range(partitions))
    sizes = [len(mine) for mine in plan.assignment.values()]
    assert max(sizes) - min(sizes) <= 1


def test_members_that_come_together_get_one_plan() -> None:
    group = Group()
    group.join("a")
    group.settle(12)
    for name in "bcdef":
        group.join(name)
    before = len(group.plans)
    group.settle(12)
    assert len(group.plans) == before + 1


def test_the_share_of_a_dead_member_is_planned_anew_within_its_patience() -> None:
    group = Group()
    for name in "abc":
        group.join(name)
    group.settle(12)
    group.silent.add("b")
    died = group.now
    while len(group.plans[-1].assignment) == 3:
        group.beat(12)
    assert group.now - died <= PATIENCE + 2 * BEAT


def test_the_death_of_the_planner_moves_its_share_only() -> None:
    group = Group()
    for name in "abcd":
        group.join(name)
    before = group.settle(20)
    group.silent.add(before.planner)
    after = group.settle(20)
    assert after.planner != before.planner
    for name, mine in after.assignment.items():
        assert set(before.assignment[name]) <= set(mine)


def test_a_member_that_leaves_is_replaced_at_once() -> None:
    member = Membership("a", 0.0, heartbeat=HEARTBEAT, now=0.0)
    member.hear(Beat("b", 1.0, HEARTBEAT, 100), 0.1)
    both = member.plan_if_due(10.0, 4)
    assert both is not None
    assert set(both.assignment) == {"a", "b"}
    member.hear(Beat("b", 1.0, HEARTBEAT, 100, leaving=True), 10.0)
    alone = member.plan_if_due(10.0, 4)
    assert alone is not None
    assert alone.assignment == {"a": (0, 1, 2, 3)}


def test_a_member_that_leaves_is_replaced_at_once_though_another_has_just_come() -> None:
    me = Membership("a", 0.0, heartbeat=HEARTBEAT, now=0.0)
    me.hear(Beat("b", 1.0, HEARTBEAT, 100), 1.0)
    plan = me.plan_if_due(9.0, 6)
    assert plan is not None
    me.hear(Beat("b", 1.0, HEARTBEAT, 100, leaving=True), 9.1)
    me.hear(Beat("c", 9.1, HEARTBEAT, 100), 9.1)
    plan = me.plan_if_due(9.1, 6)
    assert plan is not None
    assert set(plan.assignment) == {"a", "c"}


PLANS = st.builds(GroupPlan, st.integers(1, 3), st.sampled_from("ab"), st.just(0), st.just({}))


@given(PLANS, PLANS)
def test_of_two_plans_all_follow_the_same(one: GroupPlan, other: GroupPlan) -> None:
    assert one.supersedes(other) + other.supersedes(one) == (one != other)


def test_silence_counts_only_while_a_member_hears_itself() -> None:
    """If the broker is slow, or the process was stopped, all others seem silent at once."""
    member = Membership("a", 0.0, heartbeat=HEARTBEAT, now=0.0)
    member.hear(Beat("b", 1.0, HEARTBEAT, 100), 0.1)
    assert member.plan_if_due(50.0, 4) is not None
    assert "b" in member.others()
    member.hear(Beat("a", 0.0, HEARTBEAT, 100), 50.0)
    assert "b" not in member.others()


def test_a_member_with_a_longer_heartbeat_may_be_silent_for_longer() -> None:
    member = Membership("a", 0.0, heartbeat=HEARTBEAT, now=0.0)
    member.hear(Beat("slow", 1.0, 10 * HEARTBEAT, 100), 0.0)
    member.hear(Beat("quick", 1.0, HEARTBEAT, 100), 0.0)
    member.hear(Beat("a", 0.0, HEARTBEAT, 100), 3 * HEARTBEAT)
    assert set(member.others()) == {"slow"}


def test_a_beat_is_read_as_it_was_written() -> None:
    beat = Beat("a", 1.5, 2.0, 7, {3: Progress(10, 2)}, True, GroupPlan(4, "a", 3, {"a": (0, 2), "b": (1,)}))
    assert read_beat(beat.to_bytes()) == beat
    assert read_beat(replace(beat, plan=None).to_bytes()) == replace(beat, plan=None)


def _with_plan(assignment: bytes) -> bytes:
    plan = b'{"epoch":1,"planner":"a","partitions":2,"assignment":' + assignment + b"}"
    return b'{"member":"a","joined":0,"heartbeat":1,"prefetch":1,"held":{},"leaving":false,"plan":' + plan + b"}"


@with_each(
    "body",
    [
        b"", b"null", b"[]", b"{}", b'"look"', b"\xff", b"[" * 100_000, b" " * (BEAT_BYTES + 1),
        b'{"member":1,"joined":0,"heartbeat":1,"prefetch":1,"held":{},"leaving":false,"plan":null}',
        b'{"member":"a","joined":"x","heartbeat":1,"prefetch":1,"held":{},"leaving":false,"plan":null}',
        b'{"member":"a","joined":0,"heartbeat":1,"prefetch":1,"held":{"0":[1]},"leaving":false,"plan":null}',
        _with_plan(b'{"a":[0]}'), _with_plan(b'{"a":[0,7]}'), _with_plan(b'{"a":[0,0]}'), _with_plan(b'{"a":5}'),
    ],
)  # fmt: skip
def test_what_is_no_beat_is_refused(body: bytes) -> None:
    with pytest.raises(InputError):
        read_beat(body)
