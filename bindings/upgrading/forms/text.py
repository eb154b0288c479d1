"""An upgrade as lines of text: for each virtual host what it does, then the steps of the way there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bindings.diffing.forms.text import meaning_lines, settings_lines
from bindings.upgrading.forms.applications import applications_to_text
from bindings.upgrading.forms.live import shown_to_text
from bindings.upgrading.forms.words import (
    LISTED,
    describe_parts,
    describe_source,
    group_by_severity,
    introduce_answer,
    traffic_lines,
    transformed_lines,
    unseen_facts,
)
from bindings.upgrading.releases import FLAGS, Release
from bindings.upgrading.upgrade import Sighting, Upgrade, VhostUpgrade
from exchange.text.display import count_noun

__all__ = ["to_text"]


def to_text(upgrade: Upgrade) -> Iterator[str]:
    """Yield what an upgrade does, and its steps."""
    yield f"upgrade from {upgrade.old} to {upgrade.new}"
    if upgrade.new.profile.caveat:
        yield upgrade.new.profile.caveat
    for vhost in upgrade.vhosts:
        if len(upgrade.vhosts) > 1:
            yield f"virtual host {vhost.vhost!r}:"
        yield from _vhost_lines(vhost, upgrade.new)
    if upgrade.definitions is not None:
        for section in upgrade.definitions[1]:
            yield f"{section.name}: {section.what} ({count_noun(section.entries, 'entry', 'entries')})"
    if upgrade.applications is not None:
        yield from applications_to_text(upgrade.applications)
    if upgrade.live is not None:
        yield from shown_to_text(upgrade.live)
    if upgrade.steps:
        yield "steps of a running cluster, node by node:"
        yield f"  before each, {FLAGS}"
    for number, step in enumerate(upgrade.steps, 1):
        yield f"  {number}. {step.start} to {step.end}"
        yield from (f"      before: {first}" for first in step.first)
    for audience, facts in unseen_facts(upgrade):
        yield f"for {audience}:"
        yield from (f"  {fact.id} {fact.what} ({describe_source(fact)}); way out: {fact.way_out}" for fact in facts)


def _vhost_lines(vhost: VhostUpgrade, release: Release) -> Iterator[str]:
    yield from _sightings_lines(vhost.sightings)
    yield "routes:"
    yield from meaning_lines(vhost.difference.meaning, LISTED)
    yield from settings_lines(vhost.difference.settings)
    if vhost.transformed is not None:
        yield f"transformed for {release}:"
        yield from transformed_lines(vhost.transformed, release)
        yield from _sightings_lines(vhost.transformed.left, "what is left: ")
    if vhost.traffic is not None:
        yield "traffic:"
        yield from traffic_lines(vhost.traffic)


def _sightings_lines(sightings: Sequence[Sighting], begin: str = "") -> Iterator[str]:
    for title, seen in group_by_severity(sightings):
        yield f"{begin}{title}:"
        for sighting in seen:
            yield from _sighting_lines(sighting)


def _sighting_lines(sighting: Sighting) -> Iterator[str]:
    fact = sighting.fact
    where = f"{describe_parts(sighting.parts)}: " if sighting.parts else ""
    yield f"  {fact.id} {where}{fact.what} ({describe_source(fact)})"
    if sighting.detail:
        yield f"      {introduce_answer(sighting)}: {sighting.detail}"
    if sighting.explanation:
        yield f"      here: {sighting.explanation}"
    yield f"      way out: {fact.way_out}"
