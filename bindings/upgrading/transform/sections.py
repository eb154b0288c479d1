"""Definitions as a new release, or the user, wants them beside their topologies: virtual hosts, users, parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.operator_policies import COMPONENT
from exchange.entities.indexes import Change
from exchange.topology.topology import Topology

__all__ = ["SECTIONS", "SectionTransformation"]


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
        if given in ("undefined", "classic"):
            continue
        topology = definitions.topology(name)
        untyped = [queue for queue in topology.queues.values() if "x-queue-type" not in queue.arguments]
        tables = topology.tables()
        for queue in untyped:
            tables.apply(Change(True, replace(queue, arguments={**queue.arguments, "x-queue-type": "classic"})))
        changed.append(Topology.of_tables(tables, topology.vhost, topology.profile))
        count += len(untyped)
    return definitions.with_topologies(changed), count


def _without(*sections: str) -> Callable[[Definitions], tuple[Definitions, int]]:
    def edit(definitions: Definitions) -> tuple[Definitions, int]:
        count = 0
        for section in sections:
            count += len(definitions.other_entries(section))
            definitions = definitions.with_other_entries(section, [])
        return definitions, count

    return edit


def _without_parameters(definitions: Definitions) -> tuple[Definitions, int]:
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
        _without("users"),
    ),
    SectionTransformation(
        "exclude-permissions", "permissions are left out, also those of topics",
        _without("permissions", "topic_permissions"),
    ),
    SectionTransformation(
        "exclude-runtime-parameters", "parameters are left out, such as shovels, but for operator policies",
        _without_parameters,
    ),
)  # fmt: skip
"""In the order in which they are done."""
