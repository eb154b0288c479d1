"""Transform topologies and definitions by names, and write down what was changed, what was left, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.upgrading.releases import Release
from bindings.upgrading.transform.sections import SECTIONS
from bindings.upgrading.transform.table import ALIASES, DEFAULT, TRANSFORMATIONS
from bindings.upgrading.transform.transformation import Draft, Left, Transformation, TransformedPart
from exchange.entities.entities import Policy
from exchange.errors import InputError
from exchange.topology.topology import Topology
from exchange.values.documents import document

__all__ = ["NAMES", "Applied", "SectionChange", "choose", "transform_definitions", "transform_topology"]

NAMES: Final = (*[each.name for each in TRANSFORMATIONS], *[each.name for each in SECTIONS])
"""The names of all transformations, in the order in which they are done."""


@document("AppliedJson", "transformation.name, transformation.what, applications or null, changes, left")
class Applied(NamedTuple):
    """What a transformation did to a topology."""

    transformation: Transformation
    changes: tuple[TransformedPart, ...]
    left: tuple[Left, ...]
    """What it is for and could not change."""

    @property
    def applications(self) -> str:
        """What the changes mean to applications that declare the parts; "" if policies alone were changed."""
        declared = any(not isinstance(change.part, Policy) for change in self.changes)
        return self.transformation.applications if declared else ""


@document("SectionJson")
class SectionChange(NamedTuple):
    """What a transformation did to definitions beside their topologies."""

    name: str
    what: str
    entries: int
    """Number of entries that were changed or left out."""


def choose(names: Iterable[str], old: Release, new: Release) -> frozenset[str]:
    """Return the transformations that names stand for; ``default`` for those that the upgrade needs.

    Names of rabbitmqadmin, with ``_`` for ``-``, are understood. Raises InputError for an unknown name.

    >>> from bindings.upgrading.releases import release_of
    >>> sorted(choose(["default", "exclude_users"], release_of("3.10"), release_of("3.12")))
    ['drop-empty-policies', 'exclude-users', 'keep-policies-in-force', 'name-queue-types', 'remove-lazy-mode']
    """
    chosen: set[str] = set()
    for given in names:
        name = given.strip().replace("_", "-")
        if name == DEFAULT:
            chosen.update(each.name for each in TRANSFORMATIONS if each.default and each.since <= new.numbers)
            chosen.update(each.name for each in SECTIONS if each.since is not None and each.since <= new.numbers)
        elif name in ALIASES:
            chosen.update(ALIASES[name])
        elif name in NAMES:
            chosen.add(name)
        else:
            raise InputError(f"there is no transformation {given!r}; there are {', '.join([DEFAULT, *NAMES])}")
    return frozenset(chosen)


def transform_topology(
    topology: Topology, old: Release, new: Release, names: frozenset[str]
) -> tuple[Topology, tuple[Applied, ...]]:
    """Return a topology as the new release wants it, and what was changed; ``names`` are those of `choose`.

    What is transformed already stays as it is: a second time, nothing changes.
    """
    draft = Draft(topology.with_profile(old.profile), topology.with_profile(new.profile))
    applied: list[Applied] = []
    for transformation in TRANSFORMATIONS:
        if transformation.name in names:
            found = tuple(transformation.find(draft))
            changes = tuple(each for each in found if isinstance(each, TransformedPart) and each.before != each.after)
            left = tuple(each for each in found if isinstance(each, Left))
            draft = draft.with_changes(changes)
            if changes or left:
                applied.append(Applied(transformation, changes, left))
    return draft.now, tuple(applied)


def transform_definitions(
    content: Definitions | Document, topologies: Sequence[Topology], names: frozenset[str]
) -> tuple[Definitions | Document, tuple[SectionChange, ...]]:
    """Return the content of a source with these topologies in their virtual hosts, and the rest as the names want it.

    All other keys stay as they are, also those that are unknown here. The profile is that of the topologies.
    """
    if isinstance(content, Document):
        sections = {each.vhost: content.sections[each.vhost]._replace(topology=each) for each in topologies}
        changed = replace(content, sections={**content.sections, **sections})
        return changed.with_profile(topologies[0].profile) if topologies else changed, ()
    for topology in topologies:
        gone = content.topology(topology.vhost).operator_policies.keys() - topology.operator_policies.keys()
        content = content.with_topology(topology).without_operator_policies(topology.vhost, gone)
        content = content.with_profile(topology.profile)
    changes: list[SectionChange] = []
    for section in SECTIONS:
        if section.name in names:
            content, entries = section.edit(content)
            if entries:
                changes.append(SectionChange(section.name, section.what, entries))
    return content, tuple(changes)
