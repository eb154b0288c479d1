"""What a transformation is: a function from a draft of the new topology to changes, each of one part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from exchange.entities.entities import Binding, Policy, Queue
from exchange.entities.in_force import Policies
from exchange.entities.indexes import Change as Edit
from exchange.topology.topology import Topology

__all__ = ["Change", "Draft", "Left", "Part", "Transformation"]

Part: TypeAlias = Queue | Binding | Policy
"""What transformations change."""


class Change(NamedTuple):
    """A part as it was, None for a new one, and as the new release wants it, None for one that is removed."""

    before: Part | None
    after: Part | None

    @property
    def part(self) -> Part:
        """The part as it was, or the new one."""
        part = self.after if self.before is None else self.before
        assert part is not None  # one of both is there  # noqa: S101
        return part


class Left(NamedTuple):
    """A part that a transformation is for and leaves as it is, and why."""

    part: Part
    why: str


@dataclass(frozen=True)
class Draft:
    """The topology under the rules of the old release, and as it is after some transformations under the new ones."""

    before: Topology
    now: Topology

    @cached_property
    def old_policies(self) -> Policies:
        """The policies before, under the rules of the old release."""
        return self.before.policies_in_force()

    @cached_property
    def policies(self) -> Policies:
        """The policies now, under the rules of the new release."""
        return self.now.policies_in_force()

    def with_changes(self, changes: Iterable[Change]) -> Draft:
        """Return the draft with each changed part in the place of the old one, and without the removed ones."""
        tables = self.now.tables()
        for before, after in changes:
            if before is not None and (after is None or isinstance(before, Binding)):
                tables.apply(Edit(False, before))
            if after is not None:
                tables.apply(Edit(True, after))
        return replace(self, now=Topology.of_tables(tables, self.now.vhost, self.now.profile))


class Transformation(NamedTuple):
    """A transformation of a topology, chosen by its name."""

    name: str
    since: tuple[int, int, int]
    """The first release that wants it: it is done by default in an upgrade to this release or a later one."""
    what: str
    applications: str
    """What it means to applications that declare the parts, "" for nothing."""
    find: Callable[[Draft], Iterator[Change | Left]]
    default: bool = True
    """Whether it is done unless the user chooses transformations."""
