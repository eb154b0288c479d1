"""An upgrade as Markdown, for an issue or a change request: what it does, then the steps as a list to tick off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bindings.diffing.forms.text import format_meaning, format_settings
from bindings.upgrading.forms.applications import format_applications_markdown
from bindings.upgrading.forms.live import format_live_markdown
from bindings.upgrading.forms.words import (
    MAX_LISTED_CHANGES,
    clip_lines,
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
from exchange.text.display import count_noun, count_rest
from exchange.text.markdown import escape_text, quote_block, quote_code

__all__ = ["to_markdown"]

EXPLANATION: Final = 3_000
"""Maximum number of characters of what a fact means because of others, such as policies and their queues."""
LINES: Final = 200
"""Maximum number of lines of a block, and of facts of one severity; the JSON has all."""


def to_markdown(upgrade: Upgrade) -> str:
    """Return what an upgrade does, and its steps."""
    return "\n".join(_lines(upgrade)) + "\n"


def _lines(upgrade: Upgrade) -> Iterator[str]:
    yield f"### hashstar upgrade: from {upgrade.old} to {upgrade.new}"
    for caveat in upgrade.caveats or ():
        yield from ("", caveat)
    yield ""
    for vhost in upgrade.vhosts:
        if len(upgrade.vhosts) > 1:
            yield f"#### Virtual host {quote_code(vhost.vhost, in_cell=False)}"
            yield ""
        yield from _vhost_lines(vhost, upgrade.new)
    if upgrade.definitions is not None and upgrade.definitions[1]:
        entries = [(each, count_noun(each.entries, "entry", "entries")) for each in upgrade.definitions[1]]
        yield from (*[f"- {each.name}: {escape_text(each.what)} ({count})" for each, count in entries], "")
    if upgrade.applications is not None:
        yield from format_applications_markdown(upgrade.applications)
    if upgrade.live is not None:
        yield from format_live_markdown(upgrade.live)
    if upgrade.steps:
        yield from ("**Steps of a running cluster, node by node**", "", f"Before each, {FLAGS}", "")
    for step in upgrade.steps:
        yield f"- [ ] {step.start} to {step.end}"
        yield from (f"  - [ ] before: {escape_text(first)}" for first in step.first)
    for audience, unseen in list_unseen(upgrade):
        yield from ("", f"**For {audience}**", "", *map(_row, unseen))


def _vhost_lines(vhost: VhostUpgrade, release: Release) -> Iterator[str]:
    yield from _severities(vhost.sightings)
    yield from ("**Routes**", "")
    yield from _block(
        [*format_meaning(vhost.difference.meaning, MAX_LISTED_CHANGES), *format_settings(vhost.difference.settings)]
    )
    if vhost.transformed is not None:
        yield from (f"**Transformed for {release}**", "")
        yield from _block([*format_transformed(vhost.transformed, release)])
        yield from _severities(vhost.transformed.left, "What is left: ")
    if vhost.traffic is not None:
        yield from ("**Traffic**", "")
        yield from _block([*format_traffic(vhost.traffic)])


def _severities(sightings: Sequence[Sighting], begin: str = "") -> Iterator[str]:
    for title, seen in group_by_severity(sightings):
        yield from (f"**{begin}{title if begin else title.capitalize()}**", "", *map(_row, seen[:LINES]))
        yield from count_rest(len(seen), LINES, "; the JSON has all", indent="- ")
        yield ""


def _block(lines: Sequence[str]) -> Iterator[str]:
    yield from quote_block(clip_lines(lines, LINES))
    yield ""


def _row(sighting: Sighting) -> str:
    fact = sighting.fact
    where = f"{escape_text(describe_parts(sighting.parts))}: " if sighting.parts else ""
    source = describe_source(fact, sighting.brokers)
    known = f"[{source}]({fact.page})" if fact.page else source
    answer = ""
    if sighting.detail:
        who = introduce_answer(sighting)
        answer = f" {who[0].upper()}{who[1:]}: {quote_code(sighting.detail, in_cell=False)}."
    here = f" Here: {escape_text(sighting.explanation, EXPLANATION)}." if sighting.explanation else ""
    return f"- {fact.id} {where}{escape_text(fact.what)} ({known}).{answer}{here} Way out: {escape_text(fact.way_out)}."
