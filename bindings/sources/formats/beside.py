"""What definitions have beside topologies, and other systems have objects for: settings, limits, operator policies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.operator_policies import COMPONENT

__all__ = ["LIMITS_COMPONENT", "kept_sections", "limits_of", "settings_of"]

LIMITS_COMPONENT: Final = "vhost-limits"
"""The component of the runtime parameters that limit virtual hosts."""


def settings_of(definitions: Definitions) -> dict[str, dict[str, Any]]:
    """Return virtual host -> its settings that are not empty; newer releases write them under "metadata", too."""
    found: dict[str, dict[str, Any]] = {}
    for entry in definitions.other_entries("vhosts"):
        metadata = entry.get("metadata")
        given = {**(metadata if isinstance(metadata, dict) else {}), **entry}
        found[entry["name"]] = {key: value for key, value in given.items() if key not in ("name", "metadata") and value}
    return found


def limits_of(definitions: Definitions) -> dict[str, Mapping[str, Any]]:
    """Return virtual host -> its limits."""
    return {
        str(item.get("vhost")): item["value"]
        for item in definitions.other_entries("parameters")
        if item.get("component") == LIMITS_COMPONENT and isinstance(item.get("value"), dict)
    }


def kept_sections(definitions: Definitions, settings: Collection[str]) -> Iterator[str]:
    """Yield the sections that are written whole where the format has all of this, and these settings."""
    yield "operator_policies"
    if all(item.get("component") in (LIMITS_COMPONENT, COMPONENT) for item in definitions.other_entries("parameters")):
        yield "parameters"
    if all(given.keys() <= set(settings) for given in settings_of(definitions).values()):
        yield "virtual hosts with settings"
