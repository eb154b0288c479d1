"""Plan the steps to a wanted topology of a live virtual host, and carry them out one by one.

Invariant: steps are carried out in order, and none after one that failed; the error has which were done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from bindings.analysis.crawl import Deadline
from bindings.applying.broker import LiveBroker
from bindings.applying.live import Live
from bindings.diffing.planning.plan import Plan, keep_extras, make_plan
from bindings.diffing.planning.step import Step
from exchange.errors import HashstarError
from exchange.topology.topology import Topology

PLANNING_SECONDS: Final = 60.0
"""Maximum duration in seconds of the search for a safe order of steps."""


class LivePlan(NamedTuple):
    """A plan for a live virtual host, and the topologies that it was made from."""

    plan: Plan
    wanted: Topology
    """The wanted topology, as the broker declares it."""
    before: Topology
    """The topology that the broker had when the plan was made."""
    after: Topology
    """The topology that the broker has when all steps are done."""

    def left_over(self, live: Live) -> Sequence[Step]:
        """Return the steps from what the broker has now to ``after``. Raises InputError if it cannot be read."""
        return make_plan(live.topology(self.wanted), self.after).steps


def plan_for(live: Live, wanted: Topology, *, prune: bool = False) -> LivePlan:
    """Return the plan that makes a live virtual host have the wanted topology; nothing is changed.

    With ``prune``, the plan also deletes what only the broker has. The search for a safe order takes at most
    `PLANNING_SECONDS`; steps for which none was found are marked as dangerous. Raises InputError if the broker cannot
    be read.
    """
    wanted = live.as_declared(wanted)
    before = live.topology(wanted)
    after = _with_operator_policies(wanted if prune else keep_extras(before, wanted), before)
    return LivePlan(make_plan(before, after, deadline=Deadline(PLANNING_SECONDS)), wanted, before, after)


def _with_operator_policies(after: Topology, before: Topology) -> Topology:
    """Return a topology with the operator policies that the broker has: no step changes these."""
    if after.operator_policies == before.operator_policies:
        return after
    return after.with_parts(policies=[*after.policies.values(), *before.operator_policies.values()])


class Stopped(HashstarError):
    """The error that stopped a plan: the text of its cause, and how far the plan came."""

    def __init__(self, cause: Exception, done: Sequence[Step], left: Sequence[Step]) -> None:
        super().__init__(str(cause))
        self.cause: Final = cause
        """Why the first step of ``left`` failed. It is not done if it is OperationRefused or InUse; else it may be."""
        self.done: Final = tuple(done)
        """The steps that are done."""
        self.left: Final = tuple(left)
        """The step that failed and those after it."""


def apply(steps: Iterable[Step], broker: LiveBroker, *, progress: Callable[[Step], None] = lambda step: None) -> None:
    """Carry out the steps of a plan on a live broker, in their order, until one fails.

    ``progress`` is called with each step as soon as it is done. The steps are those of a `Plan`, usually one that
    `plan_for` made. A step that is done already is no error, so that a plan can be made and applied again.

    Raises Stopped at the first step that fails; the steps before it stay done. KeyboardInterrupt is not caught: the
    steps that ``progress`` was called with are done, and the next one may be done or not.

    >>> class Printer:  # instead of bindings.applying.broker.LiveBroker.connect(addresses, vhost)
    ...     def carry_out(self, step):
    ...         print(step)
    >>> apply(diff(Topology(), Topology(queues=[Queue("billing")])).plan.steps, Printer())
    declare queue 'billing' (classic)
    """
    steps = list(steps)
    for number, step in enumerate(steps):
        try:
            broker.carry_out(step)
        except (HashstarError, ValueError, TypeError) as error:  # the last two: a name or value that AMQP cannot carry
            raise Stopped(error, steps[:number], steps[number:]) from error
        progress(step)
