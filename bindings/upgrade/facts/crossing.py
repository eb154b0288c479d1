"""What an upgrade crosses: a topology under the rules of the old release and of the new one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.in_force import DeadLetters, Policies, Settings
from exchange.entities.profile import Profile
from exchange.errors import HashstarError
from exchange.kinds import Decider, kind_of
from exchange.message import Message
from exchange.routing.router import Router
from exchange.topology.graph import TopologyGraph, find_cycles
from exchange.topology.topology import Topology

__all__ = ["Crossing", "Part", "Seen", "everywhere", "may_dead_letter", "queues_where"]

Part: TypeAlias = Exchange | Queue | Binding | Policy
Seen: TypeAlias = tuple[Part | None, str]
"""A part of the topology, None for the whole broker, and what distinguishes it, "" for nothing."""


@dataclass(frozen=True)
class Crossing:
    """A topology under the profile of the old release, and the profile of the new one."""

    before: Topology
    new: Profile

    @cached_property
    def after(self) -> Topology:
        """The topology under the profile of the new release."""
        return self.before.with_profile(self.new)

    @cached_property
    def in_force(self) -> list[tuple[Queue, tuple[Settings, ...], tuple[Settings, ...]]]:
        """Each queue with the settings that may be in force in it, in the old release and in the new one."""
        old, new = self.before.policies_in_force(), self.after.policies_in_force()
        return [(q, old.possible_settings(q), new.possible_settings(q)) for q in self.before.queues.values()]

    @cached_property
    def dead_letter_targets(self) -> dict[str, set[str]]:
        """Queue -> the queues that its dead letters may get to; without the queues that have none.

        Without what keeps its key on the default exchange, where the key of a message decides. Exact for a queue that
        gives its dead letters a key, if nothing but keys decides where they go.
        """
        graph, router = TopologyGraph(self.after), Router(self.after)
        return {
            name: {target for letters in possible for target in _targets(letters, graph, router)}
            for name, possible in graph.dead_letters.items()
        }

    @cached_property
    def circles(self) -> set[str]:
        """The queues that a message may come back to as a dead letter."""
        return self.circles_among(self.dead_letter_targets.keys())

    def circles_among(self, queues: Collection[str]) -> set[str]:
        """Return which of these queues a message may come back to as a dead letter without leaving them."""
        targets = {name: self.dead_letter_targets.get(name, set()).intersection(queues) for name in queues}
        found = {name for circle in find_cycles(targets) for name in circle}
        return found | {name for name in targets if name in targets[name]}


def everywhere(crossing: Crossing) -> Iterator[Seen]:
    """Yield the broker: no topology shows whether the fact matters."""
    yield None, ""


def queues_where(
    is_seen: Callable[[Queue, tuple[Settings, ...], tuple[Settings, ...]], bool], *types: str
) -> Callable[[Crossing], Iterator[Seen]]:
    """Return a function that yields the queues of some types, or of all, in which a fact is seen.

    ``is_seen`` is called with a queue and the settings that may be in force in it, in the old release and in the new.
    """

    def find(crossing: Crossing) -> Iterator[Seen]:
        for queue, old, new in crossing.in_force:
            if (not types or queue.type in types) and is_seen(queue, old, new):
                yield queue, ""

    return find


def may_dead_letter(queue: Queue, possible: tuple[Settings, ...]) -> bool:
    """Return whether a queue with one of these settings has a dead letter exchange."""
    return any(Policies.dead_letters_by(settings, queue.type).exchange is not None for settings in possible)


def _targets(letters: DeadLetters, graph: TopologyGraph, router: Router) -> set[str]:
    """Return the queues that dead letters of a queue may get to."""
    topology = graph.topology
    exchange = letters.exchange
    if exchange is None or exchange not in topology.exchanges:
        return set()
    behind = graph.graph.downstream([exchange]) if exchange else {""}
    by_key = all(kind_of(topology.exchanges[name]).decider in (Decider.NOTHING, Decider.KEY) for name in behind)
    if letters.routing_key is not None and by_key:
        try:
            return {*router.route_dead_letter(Message(exchange, letters.routing_key)).queues}
        except HashstarError:
            return set()
    return {
        binding.destination.name
        for name in behind
        if name
        for binding in topology.bindings_from(name)
        if binding.destination.kind == "queue"
    }
