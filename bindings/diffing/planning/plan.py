"""The plan: the steps on a broker that make one topology of another, in an order that loses no message on the way.

Invariant: the steps, carried out one by one on the first topology, end at the second, and no step is refused. A step
has a ``danger`` if after it some message that both topologies route is unroutable, or goes to a queue to which neither
sends it. This holds for messages with one routing key to exchanges that both topologies have;
`bindings.diffing.planning.tangles` explains how it is ensured. A plan is a value: nothing is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from bindings.analysis.crawl import Deadline
from bindings.diffing.planning.order import PartsToChange, order_safely, to_destination
from bindings.diffing.planning.step import Step, StepState
from exchange.entities.entities import Binding, Destination, Exchange, Policy, Queue
from exchange.entities.part import Part
from exchange.errors import BrokerError
from exchange.topology.topology import Topology
from exchange.values.field_values import INTEGER_TYPES, resolve_type

__all__ = ["Plan", "Step", "normalise_arguments", "find_difference", "is_reserved", "keep_extras", "make_plan"]

FLOATS: Final = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps from one topology to another, in an order that loses no message; none if they are the same to a broker."""

    steps: tuple[Step, ...]
    refused: tuple[tuple[Step, BrokerError], ...] = ()
    """Steps that a broker would refuse, each with its answer; the plan leaves them out."""
    left_alone: tuple[Part, ...] = ()
    """Parts that differ and are not changed: those named amq.*, and bindings of these and of exclusive queues."""
    replaced: tuple[Exchange | Queue, ...] = ()
    """Parts, as the second topology has them, that a broker cannot change: they are deleted, messages included, and
    declared again."""

    @property
    def dangerous(self) -> bool:
        """Whether some step may lose messages or lead them astray."""
        return any(step.danger for step in self.steps)


def make_plan(before: Topology, after: Topology, *, deadline: Deadline | None = None) -> Plan:
    """Return the plan from one topology to another, under the rules of the first one's profile.

    A safe order of tangled steps is searched until the ``deadline``; those not looked at then are marked as dangerous.

    Differences that a broker does not see are ignored: how queues are partitioned, the width of an integer or a float
    among the arguments of an exchange or queue, the argument x-queue-type with the value classic.
    """
    after = after.with_profile(before.profile)
    difference, left_alone = find_difference(before, after)
    state = StepState(before)
    steps: list[Step] = []
    refused: list[tuple[Step, BrokerError]] = []
    for unit in order_safely(before, after, difference, deadline or Deadline()):
        steps += state.carry_out(unit, after, refused)
    replaced = tuple(new for _, new in difference.replaced)
    return Plan(tuple(steps), tuple(refused), left_alone, replaced)


def keep_extras(before: Topology, after: Topology) -> Topology:
    """Return the second topology plus all that only the first one has: the goal of a plan that may delete nothing."""
    return after.with_parts(
        exchanges={**before.exchanges, **after.exchanges}.values(),
        queues={**before.queues, **after.queues}.values(),
        bindings=[
            *(binding for binding in before.bindings if not _of_hidden_queue(binding, before)),
            *(binding for binding in after.bindings if binding not in before.bindings),
        ],
        policies={**before.policies, **after.policies}.values(),
    )


def is_reserved(name: str) -> bool:
    """Return whether an exchange or queue of this name is the broker's own: the default exchange, amq.*."""
    return not name or name.startswith("amq.")


def find_difference(before: Topology, after: Topology) -> tuple[PartsToChange, tuple[Part, ...]]:
    """Return what a plan must do, and the parts that differ but are left alone."""
    new: list[Exchange | Queue] = []
    gone: list[Exchange | Queue] = []
    replaced: list[tuple[Exchange | Queue, Exchange | Queue]] = []
    left_alone: list[Part] = []
    pairs: list[tuple[Mapping[str, Exchange | Queue], Mapping[str, Exchange | Queue]]]
    pairs = [(before.exchanges, after.exchanges), (before.queues, after.queues)]
    for olds, news in pairs:
        for name in {**news, **olds}:
            old, part = olds.get(name), news.get(name)
            if old is not None and part is not None and _same(old, part):
                continue
            if is_reserved(name):
                left_alone += [one for one in (old, part) if one is not None]
            elif old is not None and part is not None:
                replaced.append((old, part))
            elif part is not None:
                new.append(part)
            elif old is not None:
                gone.append(old)
    alone = {to_destination(part) for part in left_alone if not isinstance(part, Binding | Policy)}
    bound = [binding for binding in after.bindings if binding not in before.bindings]
    unbound: list[Binding] = []
    for binding in before.bindings:
        if binding not in after.bindings:
            ends = {Destination("exchange", binding.source), binding.destination}
            keep = ends & alone or _of_hidden_queue(binding, before)
            (left_alone if keep else unbound).append(binding)
    set_ = [policy for policy in after.policies.values() if before.policies.get(policy.name) != policy]
    cleared = [policy for policy in before.policies.values() if policy.name not in after.policies]
    return PartsToChange(new, gone, replaced, bound, unbound, set_, cleared), tuple(left_alone)


def _of_hidden_queue(binding: Binding, topology: Topology) -> bool:
    """Return whether a binding leads to an exclusive queue: RabbitMQ 4.0+ exports such bindings without the queue."""
    return binding.destination.kind == "queue" and binding.destination.name not in topology.queues


def _same(old: Exchange | Queue, new: Exchange | Queue) -> bool:
    """Return whether the two are equivalent to a broker."""
    if isinstance(old, Queue) and isinstance(new, Queue):
        flags = (old.durable, old.auto_delete) == (new.durable, new.auto_delete)
    else:
        flags = replace(old, arguments={}) == replace(new, arguments={})
    return flags and normalise_arguments(old) == normalise_arguments(new)


def normalise_arguments(part: Exchange | Queue) -> dict[str, tuple[str, str]]:
    """Return the arguments of a part in a form that is equal where a broker takes them for equal."""
    arguments = {name: resolve_type(value) for name, value in part.arguments.items()}
    if isinstance(part, Queue) and arguments.get("x-queue-type") == ("longstr", b"classic"):
        del arguments["x-queue-type"]
    return {name: (_class(kind), repr(value)) for name, (kind, value) in arguments.items()}


def _class(kind: str) -> str:
    return "integer" if kind in INTEGER_TYPES else "float" if kind in FLOATS else kind
