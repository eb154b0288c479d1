"""An upgrade as lines of text: for each virtual host what it does, then the steps of the way there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bindings.diffing.forms.text import format_meaning, format_settings
from bindings.upgrading.forms.applications import format_applications
from bindings.upgrading.forms.live import format_live
from bindings.upgrading.forms.words import (
    MAX_LISTED_CHANGES,
    describe_parts,
    describe_source,
    format_traffic,
    format_transformed,
    group_by_severity,
    introduce_answer,
    list_unseen,
)
from bindings.upgrading.releases import FLAGS, Release
from bindings.upgrading.upgrade import Sighting, Upgrade, VhostUpgrade
from exchange.text.display import count_noun

__all__ = ["to_text"]


def to_text(upgrade: Upgrade) -> Iterator[str]:
    """Yield what an upgrade does, and its steps."""
    yield f"upgrade from {upgrade.old} to {upgrade.new}"
    yield from upgrade.caveats or ()
    for vhost in upgrade.vhosts:
        if len(upgrade.vhosts) > 1:
            yield f"virtual host {vhost.vhost!r}:"
        yield from _vhost_lines(vhost, upgrade.new)
    if upgrade.definitions is not None:
        for section in upgrade.definitions[1]:
            yield f"{section.name}: {section.what} ({count_noun(section.entries, 'entry', 'entries')})"
    if upgrade.applications is not None:
        yield from format_applications(upgrade.applications)
    if upgrade.live is not None:
        yield from format_live(upgrade.live)
    if upgrade.steps:
        yield "steps of a running cluster, node by node:"
        yield f"  before each, {FLAGS}"
    for number, step in enumerate(upgrade.steps, 1):
        yield f"  {number}. {step.start} to {step.end}"
        yield from (f"      before: {first}" for first in step.first)
    for audience, unseen in list_unseen(upgrade):
        yield f"for {audience}:"
        for sighting in unseen:
            fact, source = sighting.fact, describe_source(sighting.fact, sighting.brokers)
            yield f"  {fact.id} {fact.what} ({source}); way out: {fact.way_out}"


def _vhost_lines(vhost: VhostUpgrade, release: Release) -> Iterator[str]:
    yield from _sightings_lines(vhost.sightings)
    yield "routes:"
    yield from format_meaning(vhost.difference.meaning, MAX_LISTED_CHANGES)
    yield from format_settings(vhost.difference.settings)
    if vhost.transformed is not None:
        yield f"transformed for {release}:"
        yield from format_transformed(vhost.transformed, release)
        yield from _sightings_lines(vhost.transformed.left, "what is left: ")
    if vhost.traffic is not None:
        yield "traffic:"
        yield from format_traffic(vhost.traffic)


def _sightings_lines(sightings: Sequence[Sighting], begin: str = "") -> Iterator[str]:
    for title, seen in group_by_severity(sightings):
        yield f"{begin}{title}:"
        for sighting in seen:
            yield from _sighting_lines(sighting)


def _sighting_lines(sighting: Sighting) -> Iterator[str]:
    fact = sighting.fact
    where = f"{describe_parts(sighting.parts)}: " if sighting.parts else ""
    yield f"  {fact.id} {where}{fact.what} ({describe_source(fact, sighting.brokers)})"
    if sighting.detail:
        yield f"      {introduce_answer(sighting)}: {sighting.detail}"
    if sighting.explanation:
        yield f"      here: {sighting.explanation}"
    yield f"      way out: {fact.way_out}"
