"""An upgrade as one JSON object: which fields of its values that has.

Fields may be added; none is renamed, removed or given another meaning.
"""

from __future__ import annotations

from typing import TypedDict

from bindings.diffing.forms import as_json  # noqa: F401  the documents of meanings
from bindings.diffing.planning.fields import FieldChange, find_changes
from bindings.upgrading.forms import applications, live  # noqa: F401  their documents
from bindings.upgrading.releases import Release
from bindings.upgrading.transform.transform import SectionChange
from bindings.upgrading.transform.transformation import TransformedPart
from bindings.upgrading.upgrade import Sighting, Upgrade, VhostUpgrade
from exchange.values.documents import document, write_as

__all__ = ["Upgrade"]

write_as(Release, str, str)


def _since(sighting: Sighting) -> str | None:
    """The first release of the new one's series, or of all, for which it holds; null where rules decide."""  # noqa: D401
    return ".".join(map(str, sighting.since)) if any(sighting.since) else None


def _until(sighting: Sighting) -> str | None:
    """The first release for which it holds no more; null if it holds for all since then."""  # noqa: D401
    until = sighting.fact.until
    return ".".join(map(str, until)) if until is not None else None


def _brokers(sighting: Sighting) -> list[str]:
    """The releases whose live brokers have shown it; empty for another source."""  # noqa: D401
    return [".".join(map(str, each)) for each in sighting.brokers]


document(
    "SightingJson",
    "fact.id, fact.severity, fact.what, fact.way_out, since, until, source, brokers, fact.page or null, parts, "
    "answer = detail or null, explanation or null",
    since=_since,
    until=_until,
    brokers=_brokers,
)(Sighting)


def _changes(change: TransformedPart) -> list[FieldChange]:
    """What differs; empty for bindings, whose keys do."""  # noqa: D401
    return [] if change.before is None or change.after is None else list(find_changes(change.before, change.after))


document("ChangeJson", "part = before, becomes = after, changes, why or null", changes=_changes)(TransformedPart)


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


def _traffic(upgrade: VhostUpgrade) -> TrafficJson | None:
    """Null without an archive."""
    traffic = upgrade.traffic
    if traffic is None:
        return None
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


document(
    "VhostUpgradeJson",
    "vhost, severity, sightings, difference.meaning, difference.settings, transformed, traffic",
    traffic=_traffic,
)(VhostUpgrade)


def _sections(upgrade: Upgrade) -> tuple[SectionChange, ...]:
    return () if upgrade.definitions is None else upgrade.definitions[1]


document(
    "UpgradeJson",
    "from = old, to = new, caveats if any, steps, vhosts, sections, applications, live",
    sections=_sections,
)(Upgrade)
