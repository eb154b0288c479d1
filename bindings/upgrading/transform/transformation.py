"""What a transformation is: a function from a draft of the new topology to changes, each of one part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, NamedTuple, TypeAlias

from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.in_force import Policies
from exchange.entities.indexes import Change as Edit
from exchange.entities.part import PartJson, encode_part
from exchange.topology.topology import Topology
from exchange.values.documents import As, document

Part: TypeAlias = Annotated[Queue | Binding | Policy, As(encode_part, PartJson)]
"""What transformations change."""
Place: TypeAlias = tuple[type, str]
"""Kind and name of a queue or an exchange."""
Names: TypeAlias = AbstractSet[str | None]
InForce: TypeAlias = Mapping[bool, Mapping[Place, Names]]
"""Whether operator policies -> part -> the names of those that may be in force there, None for none."""


class TransformedPart(NamedTuple):
    """A part before and after: ``before`` is None for a new part, ``after`` for one that is removed."""

    before: Part | None
    after: Part | None
    why: str = ""
    """The reason, where it is not the transformation's own."""

    @property
    def part(self) -> Part:
        """The part as it was, or the new one."""
        part = self.after if self.before is None else self.before
        assert part is not None  # one of both is there  # noqa: S101
        return part


@document("LeftJson")
class Left(NamedTuple):
    """A part that a transformation applies to and cannot change, and why."""

    part: Part
    why: str


@dataclass(frozen=True)
class Draft:
    """The topology under the rules of the old release, and after some transformations under those of the new one."""

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

    @cached_property
    def names_before(self) -> InForce:
        """The names of policies and operator policies in force before."""
        return {operator: _names_in_force(self.before, operator=operator) for operator in (False, True)}

    @cached_property
    def names_now(self) -> InForce:
        """The names of policies and operator policies in force now."""
        return {operator: _names_in_force(self.now, operator=operator) for operator in (False, True)}

    def with_changes(self, changes: Iterable[TransformedPart]) -> Draft:
        """Return the draft with changed parts replaced, new ones added and removed ones left out."""
        tables = self.now.tables()
        for before, after, _ in changes:
            if before is not None and (after is None or isinstance(before, Binding)):
                tables.apply(Edit(False, before))
            if after is not None:
                tables.apply(Edit(True, after))
        return replace(self, now=Topology.from_tables(tables, self.now.vhost, self.now.profile))


def _names_in_force(topology: Topology, *, operator: bool) -> dict[Place, Names]:
    policies = topology.policies_in_force()
    parts: list[Queue | Exchange] = [*topology.queues.values(), *topology.exchanges.values()]
    return {place_of(part): policies.find_names(part, operator=operator) for part in parts}


def place_of(part: Queue | Exchange) -> Place:
    """Return what identifies a queue or an exchange."""
    return type(part), part.name


class Transformation(NamedTuple):
    """A transformation of a topology, chosen by its name."""

    name: str
    since: tuple[int, int, int]
    """The first release that wants it: it is done by default in an upgrade to this release or a later one."""
    what: str
    applications: str
    """What it means to applications that declare the parts, "" for nothing."""
    find: Callable[[Draft], Iterator[TransformedPart | Left]]
    default: bool = True
    """Whether it is done unless the user chooses transformations."""
