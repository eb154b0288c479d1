"""What definitions have beside topologies, users and parameters, as the user wants it: one function for each name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.operator_policies import COMPONENT

__all__ = ["SECTIONS", "SectionTransformation"]


class SectionTransformation(NamedTuple):
    """A transformation of definitions that changes no topology, chosen by its name; none is done by default."""

    name: str
    what: str
    edit: Callable[[Definitions], tuple[Definitions, int]]
    """Returns the definitions, and the number of entries that are otherwise."""


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
        "obfuscate-usernames",
        "users get numbers for names, here and in permissions, and no password; addresses in parameters stay",
        _obfuscate,
    ),
    SectionTransformation("exclude-users", "users are left out", _without("users")),
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
