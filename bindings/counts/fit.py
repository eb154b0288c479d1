"""Check that a saved tally could have been counted with a topology: files come from anywhere, and reports believe them.

What the form of a file shows is checked where it is read (`bindings.counts.codec`); this is what only the topology
shows: that its outcomes are routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bindings.counts.outcome import Outcome, ordered_bindings
from bindings.counts.tally import Tally
from exchange.entities.entities import Binding
from exchange.errors import InputError
from exchange.topology.topology import Topology

__all__ = ["check_fit"]

DEFAULT: Final = ""
"""The default exchange, whose bindings are implicit: it alone leads to queues without any binding."""


def check_fit(tally: Tally, topology: Topology, source: str) -> None:
    """Raise InputError, naming the source, if no messages have such outcomes or partitions in this topology."""
    bindings = ordered_bindings(topology)
    for outcome in tally.facts:
        fault = _fault_of(outcome, topology, bindings)
        if fault:
            raise InputError(f"{source}: a damaged tally: an outcome {fault}")
    for name, partition in tally.partitions:
        queue = topology.queues.get(name)
        partitioning = None if queue is None else queue.partitioning
        if partitioning is None or (partition is not None and partition not in partitioning.partitions):
            raise InputError(f"{source}: a damaged tally: a partition that no queue has")
    if tally.timeline.messages > tally.messages:
        raise InputError(f"{source}: a damaged tally: more messages have a time than there are")


def _fault_of(outcome: Outcome, topology: Topology, bindings: Sequence[Binding]) -> str:
    """Return why no message has this outcome; "" if one may have it."""
    if outcome.refused:
        return "" if outcome == Outcome(outcome.exchange, refused=outcome.refused) else "that is refused and routed"
    pairs = (
        (outcome.queues, outcome.possible_queues),
        (outcome.bindings, outcome.possible_bindings),
        (outcome.exchanges, outcome.possible_exchanges),
        (outcome.alternates, outcome.possible_alternates),
        (outcome.undecided, ()),
    )
    for certain, possible in pairs:
        both: tuple[object, ...] = (*certain, *possible)
        if len(set(both)) < len(both) or sorted(certain) != [*certain] or sorted(possible) != [*possible]:
            return "whose names and numbers are not sorted, or there twice"
    numbers = {*outcome.bindings, *outcome.possible_bindings}
    passed = {*outcome.exchanges, *outcome.possible_exchanges}
    queues = {*outcome.queues, *outcome.possible_queues}
    alternates = {*outcome.alternates, *outcome.possible_alternates}
    if any(number >= len(bindings) for number in numbers):
        return "with a binding that the topology does not have"
    if not (queues <= topology.queues.keys() and passed <= topology.exchanges.keys()):
        return "with a queue or an exchange that the topology does not have"
    if outcome.exchange not in outcome.exchanges or not {*outcome.undecided} <= passed:
        return "that does not pass its own exchanges"
    taken = [bindings[number] for number in sorted(numbers)]
    if any(binding.source not in passed for binding in taken) or any(
        each.exchange not in passed for each in alternates
    ):
        return "with a binding or an alternate of an exchange that it does not pass"
    reached = {tuple(binding.destination) for binding in taken} | {("exchange", each.alternate) for each in alternates}
    if any(("exchange", name) not in reached for name in passed - {outcome.exchange}):
        return "that gets to an exchange without a binding"
    if DEFAULT not in passed and any(("queue", name) not in reached for name in queues):
        return "that gets to a queue without a binding"
    if any(kind == "queue" and name in topology.queues and name not in queues for kind, name in reached):
        return "that takes a binding, and does not get to its queue"
    if (outcome.routed is False and queues) or (outcome.routed is True and not queues):
        return "whose fate contradicts its queues"
    return ""
