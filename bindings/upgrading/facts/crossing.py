"""What an upgrade crosses: a topology under the rules of the old release and of the new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from bindings.upgrading.facts.shifts import PolicyShifts
from bindings.upgrading.facts.ways import DeadLetterWays
from exchange.entities.entities import Queue
from exchange.entities.in_force import SettingsInForce
from exchange.entities.part import Part
from exchange.entities.profile import Profile
from exchange.topology.topology import Topology

__all__ = ["Crossing", "Seen", "everywhere", "may_dead_letter", "queues_where"]

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
    def in_force(self) -> list[tuple[Queue, tuple[SettingsInForce, ...], tuple[SettingsInForce, ...]]]:
        """Each queue with the settings that may be in force in it, in the old release and in the new one."""
        old, new = self.before.policies_in_force(), self.after.policies_in_force()
        return [(q, old.possible_settings(q), new.possible_settings(q)) for q in self.before.queues.values()]

    @cached_property
    def dead_letters(self) -> DeadLetterWays:
        """Where the dead letters of queues may go."""
        return DeadLetterWays(self.after)

    @cached_property
    def policy_shifts(self) -> PolicyShifts:
        """Which policies come into force when what the new release refuses is removed from others."""
        return PolicyShifts(self.before, self.new)


def everywhere(crossing: Crossing) -> Iterator[Seen]:
    """Yield the broker: no topology shows whether the fact matters."""
    yield None, ""


def queues_where(
    is_seen: Callable[[Queue, tuple[SettingsInForce, ...], tuple[SettingsInForce, ...]], bool], *types: str
) -> Callable[[Crossing], Iterator[Seen]]:
    """Return a function that yields the queues of some types, or of all, in which a fact is seen.

    ``is_seen`` is called with a queue and the settings that may be in force in it, in the old release and in the new.
    """

    def find(crossing: Crossing) -> Iterator[Seen]:
        for queue, old, new in crossing.in_force:
            if (not types or queue.type in types) and is_seen(queue, old, new):
                yield queue, ""

    return find


def may_dead_letter(queue: Queue, possible: tuple[SettingsInForce, ...]) -> bool:
    """Return whether a queue with one of these settings has a dead letter exchange."""
    return any(settings.dead_letters.exchange is not None for settings in possible)
