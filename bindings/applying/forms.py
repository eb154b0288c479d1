"""The plan for a live broker as lines of text: what it means, what it keeps, and how far it came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bindings.analysis.crawl import Deadline
from bindings.applying.apply import PLANNING_SECONDS
from bindings.diffing.comparison.compare import compare
from bindings.diffing.forms.text import format_meaning, format_settings, plan_lines
from bindings.diffing.planning.plan import Plan, is_reserved
from bindings.diffing.planning.step import Step
from bindings.diffing.settings.changes import compare_settings
from exchange.text.display import count_noun, count_rest
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread, format_unread

MAX_LISTED_STEPS: Final = 20
"""Maximum number of steps that are listed."""
MEANING_LINES: Final = 40
"""Maximum number of lines about what the plan means."""


def format_plan(plan: Plan, before: Topology, after: Topology, where: str) -> Iterator[str]:
    """Yield the steps of a plan, and what it means to messages; ``where`` names the virtual host."""
    if plan.steps:
        yield f"plan for {where}:"
    yield from plan_lines(plan)
    if not plan.steps:
        yield from format_unread(find_unread(after))
        return
    yield "meaning:"
    meaning = compare(before, after.with_profile(before.profile), deadline=Deadline(PLANNING_SECONDS))
    lines = [*format_meaning(meaning), *format_settings(compare_settings(before, after))]
    yield from lines[:MEANING_LINES]
    if len(lines) > MEANING_LINES:
        yield f"  and {count_noun(len(lines) - MEANING_LINES, 'more line')}; hashstar diff prints all"


def format_kept(before: Topology, wanted: Topology) -> Iterator[str]:
    """Yield a line about what --prune would delete; none if that is nothing."""
    counts = (
        (sum(not is_reserved(name) for name in before.exchanges if name not in wanted.exchanges), "exchange", ""),
        (sum(not is_reserved(name) for name in before.queues if name not in wanted.queues), "queue", ""),
        (sum(binding not in wanted.bindings for binding in before.bindings), "binding", ""),
        (sum(name not in wanted.policies for name in before.policies), "policy", "policies"),
    )
    kept = ", ".join([count_noun(*each) for each in counts if each[0]])
    if kept:
        yield f"kept, although the file does not have it: {kept} (--prune deletes)"


def format_steps(title: str, steps: Sequence[Step]) -> Iterator[str]:
    """Yield the first of these steps below a title; nothing if there are none."""
    if steps:
        yield title
    yield from map(_format_step, steps[:MAX_LISTED_STEPS])
    yield from count_rest(len(steps), MAX_LISTED_STEPS)


def format_stop(done: Sequence[Step], left: Sequence[Step], reason: str, *, certain: bool) -> Iterator[str]:
    """Yield which steps are done, which one failed and why, and which are not done.

    The first of ``left`` failed. Unless that is ``certain``, the broker may have carried it out all the same.
    """
    yield from format_steps("done:", done)
    yield "failed:" if certain else "failed, perhaps done:"
    yield from map(_format_step, left[:1])
    yield from f"      ! {reason}".split("\n")
    yield from format_steps("not done:", left[1:])


def _format_step(step: Step) -> str:
    return f"  {'+' if step.added else '-'} {step}"
