"""An upgrade as sections, which text, Markdown and HTML write each in its own way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bindings.diffing.forms.text import format_meaning, format_settings
from bindings.upgrading.forms.applications import list_remarks, list_rows
from bindings.upgrading.forms.live import format_live
from bindings.upgrading.forms.words import (
    MAX_LISTED_CHANGES,
    UpgradeRow,
    build_row,
    format_traffic,
    format_transformed,
    group_by_severity,
    list_unseen,
)
from bindings.upgrading.releases import FLAGS, Release, SeriesUpgrade
from bindings.upgrading.upgrade import Sighting, Upgrade, VhostUpgrade
from exchange.text.display import count_noun


class UpgradeSection(NamedTuple):
    """A title, and what is below it, in the order of the fields."""

    title: str
    detail: str = ""
    """What follows the title in its line."""
    vhost: str | None = None
    """The virtual host that the inner sections below it are about; it has nothing else."""
    is_inner: bool = False
    rows: Sequence[UpgradeRow] = ()
    is_brief: bool = False
    """Whether a row is one line of text."""
    is_task: bool = False
    """Whether a row is something to do, to be ticked off."""
    lines: Sequence[str] = ()
    """Lines that are indented, to be read as they are."""
    remarks: Sequence[str] = ()
    steps: Sequence[SeriesUpgrade] = ()


def list_sections(upgrade: Upgrade) -> Iterator[UpgradeSection]:
    """Yield the sections in their order."""
    for vhost in upgrade.vhosts:
        yield UpgradeSection("virtual host", vhost=vhost.vhost)
        for section in _sections_of(vhost, upgrade.new):
            yield section._replace(is_inner=True)
    if upgrade.definitions is not None and (changes := upgrade.definitions[1]):
        counted = [f"{each.name}: {each.what} ({count_noun(each.entries, 'entry', 'entries')})" for each in changes]
        yield UpgradeSection("the rest of the definitions", remarks=counted)
    if (asked := upgrade.applications) is not None:
        requests = count_noun(asked.requests, "different request")
        rows, remarks = [*list_rows(asked)], [*list_remarks(asked)]
        yield UpgradeSection("recorded applications", requests, rows=rows, is_task=True, remarks=remarks)
    if upgrade.live is not None:
        yield UpgradeSection(f"a test broker of {upgrade.live.version}, asked", lines=[*format_live(upgrade.live)])
    if upgrade.steps:
        flags = [f"before each, {FLAGS}"]
        yield UpgradeSection("steps of a running cluster, node by node", remarks=flags, steps=upgrade.steps)
    for audience, unseen in list_unseen(upgrade):
        yield UpgradeSection(f"for {audience}", rows=[*map(build_row, unseen)], is_brief=True)


def _sections_of(vhost: VhostUpgrade, release: Release) -> Iterator[UpgradeSection]:
    yield from _severities(vhost.sightings)
    difference, transformed = vhost.difference, vhost.transformed
    lines = [*format_meaning(difference.meaning, MAX_LISTED_CHANGES), *format_settings(difference.settings)]
    yield UpgradeSection("routes", lines=lines)
    if transformed is not None:
        yield UpgradeSection(f"transformed for {release}", lines=[*format_transformed(transformed, release)])
        yield from _severities(transformed.left, "what is left: ")
    if vhost.traffic is not None:
        yield UpgradeSection("traffic", lines=[*format_traffic(vhost.traffic)])


def _severities(sightings: Iterable[Sighting], begin: str = "") -> Iterator[UpgradeSection]:
    for title, seen in group_by_severity(sightings):
        yield UpgradeSection(f"{begin}{title}", rows=[*map(build_row, seen)])
