"""Carry out the transformations of given names, and note what was changed, what was left, and why.

Of definitions, not only the topologies are transformed, but also virtual hosts, users and parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.operator_policies import COMPONENT
from bindings.sources.document import Document
from bindings.upgrading.releases import Release
from bindings.upgrading.transform.table import ALIASES, DEFAULT, TRANSFORMATIONS
from bindings.upgrading.transform.transformation import Draft, Left, Transformation, TransformedPart
from exchange.entities.entities import Policy
from exchange.entities.indexes import Change
from exchange.errors import InputError
from exchange.topology.topology import Topology
from exchange.values.documents import document


@document("AppliedJson", "transformation.name, transformation.what, applications or null, changes, left")
class Applied(NamedTuple):
    """What a transformation did to a topology."""

    transformation: Transformation
    changes: tuple[TransformedPart, ...]
    left: tuple[Left, ...]
    """Parts that it is for and could not change, each with the reason."""

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
    """Return the content of a source with these topologies, and its other sections transformed as ``names`` say.

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


class SectionTransformation(NamedTuple):
    """A transformation of definitions that needs more than their topologies, chosen by its name."""

    name: str
    what: str
    edit: Callable[[Definitions], tuple[Definitions, int]]
    """Returns the definitions, and the number of entries that were changed or left out."""
    since: tuple[int, int, int] | None = None
    """The first release for which it is done by default; None if it never is."""


def _name_types(definitions: Definitions) -> tuple[Definitions, int]:
    """Name the type of classic queues where their virtual host has another default, which an import would take."""
    count = 0
    changed = []
    for name, given in definitions.default_queue_types.items():
        if given in ("undefined", "", "classic"):
            continue
        topology = definitions.topology(name)
        untyped = [queue for queue in topology.queues.values() if "x-queue-type" not in queue.arguments]
        tables = topology.tables()
        for queue in untyped:
            tables.apply(Change(True, replace(queue, arguments={**queue.arguments, "x-queue-type": "classic"})))
        changed.append(Topology.from_tables(tables, topology.vhost, topology.profile))
        count += len(untyped)
    return definitions.with_topologies(changed), count


def _leave_out(*sections: str) -> Callable[[Definitions], tuple[Definitions, int]]:
    """Return the edit that leaves these sections out."""

    def edit(definitions: Definitions) -> tuple[Definitions, int]:
        count = 0
        for section in sections:
            count += len(definitions.other_entries(section))
            definitions = definitions.with_other_entries(section, [])
        return definitions, count

    return edit


def _leave_out_parameters(definitions: Definitions) -> tuple[Definitions, int]:
    """Leave out the parameters but for operator policies, which belong to topologies."""
    entries = definitions.other_entries("parameters")
    kept = [entry for entry in entries if entry.get("component") == COMPONENT]
    return definitions.with_other_entries("parameters", kept), len(entries) - len(kept)


def _obfuscate(definitions: Definitions) -> tuple[Definitions, int]:
    """Give users numbers for names, and no passwords: nobody can log in with what is left."""
    keys = {"users": "name", "permissions": "user", "topic_permissions": "user"}
    named = [str(each.get(key)) for section, key in keys.items() for each in definitions.other_entries(section)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(named), 1)}
    count = 0
    for section, key in keys.items():
        before = definitions.other_entries(section)
        after = [{**each, key: f"obfuscated-username-{numbers[str(each.get(key))]}"} for each in before]
        if section == "users":
            after = [{**user, "password_hash": ""} for user in after]
        definitions = definitions.with_other_entries(section, after)
        count += sum(one != other for one, other in zip(before, after, strict=True))
    return definitions, count


SECTIONS: Final[tuple[SectionTransformation, ...]] = (
    SectionTransformation(
        "name-queue-types",
        "a classic queue gets x-queue-type in a virtual host whose default_queue_type is another one: an import would "
        "make it a queue of that type",
        _name_types, (3, 11, 0),
    ),
    SectionTransformation(
        "obfuscate-usernames",
        "users get numbers for names, here and in permissions, and no password; addresses in parameters stay",
        _obfuscate,
    ),
    SectionTransformation(
        "exclude-users",
        "users are left out; an import fails if permissions name a user that the new broker does not have: see "
        "exclude-permissions",
        _leave_out("users"),
    ),
    SectionTransformation(
        "exclude-permissions", "permissions are left out, also those of topics",
        _leave_out("permissions", "topic_permissions"),
    ),
    SectionTransformation(
        "exclude-runtime-parameters", "parameters are left out, such as shovels, but for operator policies",
        _leave_out_parameters,
    ),
)  # fmt: skip
"""In the order in which they are done."""

NAMES: Final = (*[each.name for each in TRANSFORMATIONS], *[each.name for each in SECTIONS])
"""The names of all transformations, in the order in which they are done."""
