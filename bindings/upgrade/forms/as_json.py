"""An upgrade as one JSON object. Fields may be added; none is renamed, removed or given another meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from bindings.check.report import BindingPartJson, NamedPartJson, part_json
from bindings.diff.forms.as_json import (
    FieldChangeJson,
    MeaningJson,
    SettingsChangeJson,
    fields_to_json,
    meaning_to_json,
    settings_to_json,
)
from bindings.upgrade.facts.fact import Severity, Source
from bindings.upgrade.forms.applications import ApplicationsJson, applications_to_json
from bindings.upgrade.forms.live import ShownJson, shown_to_json
from bindings.upgrade.transform.transformation import Change
from bindings.upgrade.upgrade import Sighting, Transformed, Upgrade

if TYPE_CHECKING:
    from bindings.upgrade.traffic import Traffic

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
    explanation: str | None
    """What it means to the parts because of others, such as policies of lower priority; null for nothing."""


class ChangeJson(TypedDict):
    """What a transformation did to a part."""

    part: NamedPartJson | BindingPartJson | None
    """Null for a new one."""
    becomes: NamedPartJson | BindingPartJson | None
    """Null if it is removed."""
    changes: list[FieldChangeJson]
    """What differs; empty for bindings, whose keys do."""
    why: str | None
    """The reason, where the transformation alone does not tell it."""


class LeftJson(TypedDict):
    """A part that a transformation is for and leaves as it is."""

    part: NamedPartJson | BindingPartJson
    why: str


class AppliedJson(TypedDict):
    """What a transformation did to a topology."""

    name: str
    what: str
    applications: str | None
    """What it means to applications that declare the parts; null if policies alone were changed."""
    changes: list[ChangeJson]
    left: list[LeftJson]


class TransformedJson(TypedDict):
    """The topology of a virtual host as the new release wants it."""

    transformations: list[AppliedJson]
    """Those that changed something, or left what they are for, in the order in which they were done."""
    sightings: list[SightingJson]
    """What the upgrade still brings."""
    meaning: MeaningJson
    """Which messages the new release routes differently because of the transformations."""
    settings: list[SettingsChangeJson]
    """The settings in force that differ between the topology before and this one after the upgrade."""


class MoveJson(TypedDict):
    """Archived messages that lose and gain the same queues."""

    exchange: str
    lost: list[str]
    gained: list[str]
    unsure: list[str]
    """Queues that they may lose or gain."""
    messages: int
    example: str | None
    """A routing key of theirs."""


class TrafficJson(TypedDict):
    """The archived messages that are routed differently."""

    share: float
    """Share of the archive that was read, by its bytes: from 0 to 1."""
    messages: int
    to_unknown_exchanges: int
    """Messages to exchanges that the topology lacks; they count as routed alike."""
    unreadable: int
    """Number of records that could not be read."""
    elsewhere: int
    """Messages that are or may be routed differently."""
    become_unroutable: int
    no_longer_unroutable: int
    moves: list[MoveJson]
    """The most frequent first."""


class SectionJson(TypedDict):
    """What a transformation did to definitions beside their topologies."""

    name: str
    what: str
    entries: int
    """Number of entries that were changed or left out."""


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
    transformed: TransformedJson | None
    """Null unless transformations were asked for."""
    traffic: TrafficJson | None
    """Null without an archive."""


# The key "from" is a keyword of Python.
UpgradeJson = TypedDict(
    "UpgradeJson",
    {
        "from": str,
        "to": str,
        "steps": list[StepJson],
        "vhosts": list[VhostUpgradeJson],
        "sections": list[SectionJson],
        "applications": ApplicationsJson | None,
        "live": ShownJson | None,
    },
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
                "transformed": None if each.transformed is None else _transformed_json(each.transformed),
                "traffic": None if each.traffic is None else _traffic_json(each.traffic),
            }
            for each in upgrade.vhosts
        ],
        "sections": [
            {"name": each.name, "what": each.what, "entries": each.entries}
            for each in (() if upgrade.definitions is None else upgrade.definitions[1])
        ],
        "applications": None if upgrade.applications is None else applications_to_json(upgrade.applications),
        "live": None if upgrade.live is None else shown_to_json(upgrade.live),
    }


def _transformed_json(transformed: Transformed) -> TransformedJson:
    return {
        "transformations": [
            {
                "name": each.transformation.name,
                "what": each.transformation.what,
                "applications": each.applications or None,
                "changes": [*map(_change_json, each.changes)],
                "left": [{"part": part_json(left.part), "why": left.why} for left in each.left],
            }
            for each in transformed.applied
        ],
        "sightings": [*map(_sighting_json, transformed.sightings)],
        "meaning": meaning_to_json(transformed.meaning),
        "settings": settings_to_json(transformed.settings),
    }


def _change_json(change: Change) -> ChangeJson:
    before, after, why = change
    return {
        "part": None if before is None else part_json(before),
        "becomes": None if after is None else part_json(after),
        "changes": [] if before is None or after is None else fields_to_json(before, after),
        "why": why or None,
    }


def _traffic_json(traffic: Traffic) -> TrafficJson:
    totals = traffic.changes.totals
    return {
        "share": traffic.share,
        "messages": totals.messages,
        "to_unknown_exchanges": traffic.to_unknown,
        "unreadable": traffic.unread.bad_records,
        "elsewhere": totals.elsewhere,
        "become_unroutable": totals.become_unroutable,
        "no_longer_unroutable": totals.no_longer_unroutable,
        "moves": [
            {
                "exchange": row.change.exchange,
                "lost": [*row.change.lost],
                "gained": [*row.change.gained],
                "unsure": [*row.change.unsure],
                "messages": row.messages,
                "example": row.shapes.items[0].example if row.shapes.items else None,
            }
            for row in traffic.changes.rerouted
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
        "explanation": sighting.explanation or None,
    }
