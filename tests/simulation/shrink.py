"""Make a plan that breaks a promise smaller: fewer faults and messages, and settings as they are by default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Final

from tests.simulation.plan import Plan
from tests.simulation.run import play

SEEDS: Final = 4
"""Number of seeds that a smaller plan is tried with, besides its own."""


def shrink(plan: Plan, promise: str) -> Plan:
    """Return the smallest plan found that breaks the same promise."""
    smaller: Plan | None = plan
    while smaller is not None:
        plan = smaller
        smaller = next((each for each in _vary(plan) if _breaks(each, promise)), None)
    return plan


def _vary(plan: Plan) -> Iterator[Plan]:
    """Yield smaller plans, each with some seeds: with another number of messages, one seed does other things."""
    for candidate in _candidates(plan):
        for seed in (plan.seed, *range(SEEDS)):
            yield replace(candidate, seed=seed)


def _breaks(plan: Plan, promise: str) -> bool:
    broken = play(plan).broken
    return bool(broken) and broken[0].promise == promise


def _candidates(plan: Plan) -> Iterator[Plan]:
    """Yield smaller plans, the smallest first."""
    size = len(plan.faults)
    while size:
        for start in range(0, len(plan.faults), size):
            yield replace(plan, faults=plan.faults[:start] + plan.faults[start + size :])
        size //= 2
    for messages in sorted({1, 2, 4, 8, plan.messages // 2, plan.messages - 1} & {*range(1, plan.messages)}):
        yield replace(plan, messages=messages, odd=tuple([each for each in plan.odd if each[0] < messages]))
    step = plan.keys * len(plan.sources)  # so that what is odd keeps its key and its source
    if plan.odd and plan.messages > step <= plan.odd[0][0]:
        earlier = tuple([(number - step, what) for number, what in plan.odd])
        yield replace(plan, messages=plan.messages - step, odd=earlier)
    for at in range(len(plan.odd)):
        yield replace(plan, odd=plan.odd[:at] + plan.odd[at + 1 :])
    if len(plan.sources) > 1:
        yield replace(plan, sources=plan.sources[:1])
    usual = Plan(plan.seed)
    for each in fields(plan):
        if each.name not in {"seed", "sources", "messages", "odd", "faults"}:
            value = getattr(usual, each.name)
            if value != getattr(plan, each.name):
                yield replace(plan, **{each.name: value})
