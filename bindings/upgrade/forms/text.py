"""An upgrade as lines of text: for each virtual host what it does, then the steps of the way there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bindings.diff.forms.text import meaning_lines, settings_lines
from bindings.diff.planning.step import describe_part
from bindings.upgrade.facts.crossing import Part
from bindings.upgrade.facts.fact import Fact, Numbers, Severity, Source
from bindings.upgrade.releases import FLAGS
from bindings.upgrade.upgrade import Sighting, Upgrade, VhostUpgrade
from exchange.display import count_noun, list_some

__all__ = ["TITLES", "describe_parts", "describe_source", "to_text"]

NAMED: Final = 5
"""Number of parts of a sighting that the text names; the others are counted, and in the JSON."""

SOURCES: Final[dict[Source, str]] = {
    "live brokers": "shown by live brokers",
    "observed": "observed on live brokers, without a test",
    "release notes": "from the release notes",
}
TITLES: Final[dict[Severity, str]] = {
    "error": "refused or lost",
    "warning": "means something else",
    "note": "worth knowing",
}


def to_text(upgrade: Upgrade) -> Iterator[str]:
    """Yield what an upgrade does, and its steps."""
    yield f"upgrade from {upgrade.old} to {upgrade.new}"
    for vhost in upgrade.vhosts:
        if len(upgrade.vhosts) > 1:
            yield f"virtual host {vhost.vhost!r}:"
        yield from _vhost_lines(vhost)
    general = [sighting for sighting in upgrade.vhosts[0].sightings if not sighting.parts] if upgrade.vhosts else []
    if general:
        yield "what no topology shows:"
    for sighting in general:
        fact = sighting.fact
        yield f"  {fact.id} {fact.what} ({describe_source(fact)}); way out: {fact.way_out}"
    if upgrade.steps:
        yield "steps of a running cluster, node by node:"
        yield f"  before each, {FLAGS}"
    for number, step in enumerate(upgrade.steps, 1):
        yield f"  {number}. {step.start} to {step.end}"
        yield from (f"      before: {first}" for first in step.first)


def describe_parts(parts: Sequence[Part]) -> str:
    """Return the parts of a sighting: ``queue 'a'``, or the number of several and the names of some."""
    if len(parts) == 1:
        return describe_part(parts[0])
    kind = type(parts[0]).__name__.lower()
    names = [describe_part(part).removeprefix(f"{kind} ") for part in parts]
    number = count_noun(len(parts), kind, "policies") if kind == "policy" else count_noun(len(parts), kind)
    return f"{number}, {list_some(names, NAMED)}"


def describe_source(fact: Fact) -> str:
    """Return since when a fact holds, and how that is known."""
    since = f"since {_name(fact.since)}, " if any(fact.since) else ""
    until = f"before {_name(fact.until)}, " if fact.until is not None else ""
    return f"{since}{until}{SOURCES[fact.source]}"


def _name(numbers: Numbers) -> str:
    return ".".join(map(str, numbers[: 3 if numbers[2] else 2]))


def _vhost_lines(vhost: VhostUpgrade) -> Iterator[str]:
    for severity, title in TITLES.items():
        sightings = [each for each in vhost.sightings if each.parts and each.fact.severity == severity]
        if sightings:
            yield f"{title}:"
        for sighting in sightings:
            yield from _sighting_lines(sighting)
    yield "routes:"
    yield from meaning_lines(vhost.difference.meaning)
    yield from settings_lines(vhost.difference.settings)


def _sighting_lines(sighting: Sighting) -> Iterator[str]:
    fact = sighting.fact
    where = f"{describe_parts(sighting.parts)}: " if sighting.parts else ""
    yield f"  {fact.id} {where}{fact.what} ({describe_source(fact)})"
    if sighting.detail:
        yield f"      the broker: {sighting.detail}"
    yield f"      way out: {fact.way_out}"
