"""An upgrade as one JSON object. Fields may be added; none is renamed, removed or given another meaning."""

from __future__ import annotations

from typing import TypedDict

from bindings.check.report import BindingPartJson, NamedPartJson, part_json
from bindings.diff.forms.as_json import MeaningJson, SettingsChangeJson, meaning_to_json, settings_to_json
from bindings.upgrade.facts.fact import Severity, Source
from bindings.upgrade.upgrade import Sighting, Upgrade

__all__ = ["UpgradeJson", "to_json"]


class StepJson(TypedDict):
    """An upgrade from one series of releases to another, node by node."""

    start: str
    end: str
    before: list[str]
    """What has to be done before it, beside enabling all feature flags."""


class SightingJson(TypedDict):
    """A fact that the upgrade brings."""

    id: str
    severity: Severity
    """`error` for what is refused or lost, `warning` for what means something else, else `note`."""
    what: str
    way_out: str
    since: str | None
    """The first release for which it holds; null where the rules of each release decide."""
    until: str | None
    """The first release for which it holds no more; null if it holds for all since then."""
    source: Source
    page: str | None
    """Address of the release notes."""
    parts: list[NamedPartJson | BindingPartJson]
    """Where it is seen; empty for what is about the whole broker."""
    answer: str | None
    """The broker's answer for what is refused."""


class VhostUpgradeJson(TypedDict):
    """What an upgrade does to a virtual host."""

    vhost: str
    severity: Severity | None
    """The highest severity of all; null if nothing is found."""
    sightings: list[SightingJson]
    meaning: MeaningJson
    """Which messages the two releases route differently."""
    settings: list[SettingsChangeJson]
    """The settings in force that differ."""


# The key "from" is a keyword of Python.
UpgradeJson = TypedDict(
    "UpgradeJson", {"from": str, "to": str, "steps": list[StepJson], "vhosts": list[VhostUpgradeJson]}
)


def to_json(upgrade: Upgrade) -> UpgradeJson:
    """Return an upgrade as JSON values."""
    return {
        "from": str(upgrade.old),
        "to": str(upgrade.new),
        "steps": [{"start": step.start, "end": step.end, "before": [*step.first]} for step in upgrade.steps],
        "vhosts": [
            {
                "vhost": each.vhost,
                "severity": each.severity,
                "sightings": [*map(_sighting_json, each.sightings)],
                "meaning": meaning_to_json(each.difference.meaning),
                "settings": settings_to_json(each.difference.settings),
            }
            for each in upgrade.vhosts
        ],
    }


def _sighting_json(sighting: Sighting) -> SightingJson:
    fact = sighting.fact
    return {
        "id": fact.id,
        "severity": fact.severity,
        "what": fact.what,
        "way_out": fact.way_out,
        "since": ".".join(map(str, fact.since)) if any(fact.since) else None,
        "until": ".".join(map(str, fact.until)) if fact.until is not None else None,
        "source": fact.source,
        "page": fact.page or None,
        "parts": [part_json(part) for part in sighting.parts],
        "answer": sighting.detail or None,
    }
