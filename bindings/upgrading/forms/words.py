"""What an upgrade does as sentences and lines, which all forms for people have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from bindings.checking.rules.table import Severity
from bindings.diffing.forms.text import format_meaning, format_settings
from bindings.diffing.planning.step import describe_part
from bindings.diffing.words import describe_fields
from bindings.upgrading.facts import nodes
from bindings.upgrading.facts.fact import Fact, Numbers, Source
from bindings.upgrading.releases import Release
from bindings.upgrading.transform.transformation import TransformedPart
from bindings.upgrading.upgrade import Sighting, Transformed, Upgrade
from exchange.entities.entities import Binding, Policy
from exchange.entities.part import Part
from exchange.text.display import clip_line, count_noun, count_rest, list_some
from exchange.topology.unread import format_not_proved

if TYPE_CHECKING:
    from bindings.upgrading.traffic import ReroutedTraffic

MAX_NAMED_PARTS: Final = 5
"""Number of parts of a sighting that a sentence names; the others are counted, and in the JSON."""

MAX_PART_CHARACTERS: Final = 600
"""Maximum number of characters of a part: a binding with two names and a key, of 255 bytes at most each, has fewer
unless they are escaped."""

MAX_LISTED_CHANGES: Final = 20
"""Number of changes, of differences of routes, and of kinds of moves that are listed; the JSON has all."""

REASONS: Final = 5
"""Number of reasons for unreadable records that are listed."""

SOURCES: Final[dict[Source, str]] = {
    "live brokers": "shown by live brokers of ",
    "observed": "observed on live brokers, without a test",
    "release notes": "from the release notes",
    "source": "from the source",
}
TITLES: Final[dict[Severity, str]] = {
    "error": "refused or lost",
    "warning": "means something else",
    "note": "worth knowing",
}


class UpgradeRow(NamedTuple):
    """A fact where it is seen, or a request that is refused."""

    id: str
    severity: Severity
    where: str
    """The parts, or the request; "" for the whole broker."""
    what: str
    way_out: str
    source: str = ""
    """How it is known; "" for a request."""
    page: str = ""
    """Address of the page about it, "" if there is none."""
    answer: tuple[str, str] | None = None
    """Whose answer it is, and the answer."""
    note: tuple[str, str] | None = None
    """A label, and what there is to say here beside the fact."""


def build_row(sighting: Sighting) -> UpgradeRow:
    """Return what is to be read about a fact where it is seen."""
    fact, parts = sighting.fact, sighting.parts
    who = "the broker" if len(parts) == 1 else "the broker, for the first"
    return UpgradeRow(
        fact.id, fact.severity, _describe_parts(parts) if parts else "", fact.what, fact.way_out,
        describe_source(fact, sighting.brokers), fact.page,
        (who, sighting.detail) if sighting.detail else None,
        ("here", sighting.explanation) if sighting.explanation else None,
    )  # fmt: skip


def _describe_parts(parts: Sequence[Part]) -> str:
    """Return the parts of a sighting: ``queue 'a'``, or the number of several and the names of some."""
    if len(parts) == 1:
        return clip_line(describe_part(parts[0]), MAX_PART_CHARACTERS)
    kind = type(parts[0]).__name__.lower()
    if all(isinstance(part, Policy) and part.operator for part in parts):
        kind = "operator policy"
    names = [clip_line(describe_part(part).removeprefix(f"{kind} "), MAX_PART_CHARACTERS) for part in parts]
    number = (
        count_noun(len(parts), kind, f"{kind[:-1]}ies") if kind.endswith("policy") else count_noun(len(parts), kind)
    )
    return f"{number}, {list_some(names, MAX_NAMED_PARTS)}"


def _group_alike(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Return sightings, those of a fact as one whose answers differ only in the names of their parts.

    Its answer is the one for its first part.
    """
    groups: dict[tuple[str, str, str], list[Sighting]] = {}
    for sighting in sightings:
        answer = sighting.detail
        if len(sighting.parts) == 1:
            for name in _names_of(sighting.parts[0]):
                answer = answer.replace(f"'{name}'", "''")
        groups.setdefault((sighting.fact.id, answer, sighting.explanation), []).append(sighting)
    return [group[0]._replace(parts=tuple(part for each in group for part in each.parts)) for group in groups.values()]


def group_by_severity(sightings: Iterable[Sighting]) -> Iterator[tuple[str, list[Sighting]]]:
    """Yield the sightings of each severity under its title, the most severe first, alike ones together.

    Without those of the whole broker, and without severities that have none.
    """
    seen = [each for each in sightings if each.parts]
    for severity, title in TITLES.items():
        if alike := _group_alike(each for each in seen if each.fact.severity == severity):
            yield title, alike


def _names_of(part: Part) -> tuple[str, ...]:
    if isinstance(part, Binding):
        return part.source, part.destination.name, part.routing_key
    return (part.name,)


def list_unseen(upgrade: Upgrade) -> Iterator[tuple[str, list[Sighting]]]:
    """Yield the sightings of facts that no topology shows: those about applications, then those about nodes."""
    found = [sighting for vhost in upgrade.vhosts[:1] for sighting in vhost.sightings if not sighting.parts]
    for audience, sightings in (
        ("applications, whatever the topology", [each for each in found if each.fact not in nodes.FACTS]),
        ("nodes, tools and monitoring", [each for each in found if each.fact in nodes.FACTS]),
    ):
        if sightings:
            yield audience, sightings


def describe_source(fact: Fact, brokers: tuple[Numbers, ...]) -> str:
    """Return since when a fact holds, and how that is known: by whose live brokers, if any."""
    since = f"since {' and '.join(map(_name, (fact.since, *fact.later)))}, " if any(fact.since) else ""
    until = f"before {_name(fact.until)}, " if fact.until is not None else ""
    source = fact.source_of(brokers)
    names = [".".join(map(str, each)) for each in brokers] if source == "live brokers" else []
    return f"{since}{until}{SOURCES[source]}{list_some(names, len(names), 'and')}"


def _name(numbers: Numbers) -> str:
    return ".".join(map(str, numbers[: 3 if numbers[2] else 2]))


def describe_change(change: TransformedPart) -> str:
    """Return what a transformation did to a part: ``queue 'a': durable false -> true``."""
    before, after, why = change
    if before is None or after is None:
        return f"{describe_part(change.part)} is {'new' if before is None else 'removed'}"
    if isinstance(before, Binding) and isinstance(after, Binding):
        return f"{describe_part(before)}: key {before.routing_key!r} -> {after.routing_key!r}"
    reason = f"; {why}" if why else ""
    return f"{describe_part(before)}: {', '.join(describe_fields(before, after))}{reason}"


def format_transformed(transformed: Transformed, release: Release) -> Iterator[str]:
    """Yield what transformations did to a topology, what they left, and the proof; without what is still refused."""
    for each in transformed.applied:
        yield f"  {each.transformation.name}: {each.transformation.what}"
        yield from (f"      {describe_change(change)}" for change in each.changes[:MAX_LISTED_CHANGES])
        yield from _more(len(each.changes))
        yield from (
            f"      left as it is: {describe_part(left.part)}: {left.why}" for left in each.left[:MAX_LISTED_CHANGES]
        )
        yield from _more(len(each.left))
        if each.applications:
            yield f"      in applications: {each.applications}"
    if not transformed.applied:
        yield "  nothing had to be transformed"
    refused = [sighting for sighting in transformed.sightings if sighting.fact.is_new_by_rules]
    parts = [part for sighting in refused for part in sighting.parts]
    unread = transformed.meaning.unread
    nothing = f"nothing of what was read; {format_not_proved(unread)}" if unread else "nothing"
    yield f"  newly refused by {release}: {count_noun(len(parts), 'part') if parts else nothing}"
    if transformed.meaning.verdict == "same":
        yield "  the transformations move no message: proved for all keys and headers"
    else:
        yield "  the transformations move messages, or may:"
        yield from (f"  {line}" for line in format_meaning(transformed.meaning, MAX_LISTED_CHANGES))
    yield from (f"  {line}" for line in format_settings(transformed.settings))


def format_traffic(traffic: ReroutedTraffic) -> Iterator[str]:
    """Yield how many archived messages go elsewhere, and which."""
    from bindings.counts.changes import summarize_changes  # an archive's packages are there if there is traffic
    from bindings.report.caveats import explain_many
    from bindings.report.words import describe_change as describe_move

    yield f"  {summarize_changes(traffic.changes.totals)}"
    if traffic.share < 1:
        yield f"  that is a sample: {traffic.share:.1%} of the archive, by bytes; --sample 0 reads all"
    if traffic.changes.many:
        yield f"  {explain_many(traffic.changes)}"
    if traffic.to_unknown:
        yield f"  {traffic.to_unknown:,} of them to exchanges that the topology lacks, refused before and after"
    for reason, number in traffic.unread.bad.most_common(REASONS):
        yield f"  not read: {count_noun(number, 'record')}: {traffic.unread.explain(reason)}"
    if len(traffic.unread.bad) > REASONS:
        others = traffic.unread.bad_records - sum(number for _, number in traffic.unread.bad.most_common(REASONS))
        yield f"  not read: {count_noun(others, 'record')} for other reasons"
    for row in traffic.changes.rerouted[:MAX_LISTED_CHANGES]:
        example = f", such as key '{row.shapes.items[0].example}'" if row.shapes.items else ""
        yield f"  {row.messages:,} {describe_move(row.change)}{example}"
    yield from _more(len(traffic.changes.rerouted))


def clip_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return lines, with a number in place of those beyond ``most``."""
    more = len(lines) - most
    return [*lines[:most], f"and {count_noun(more, 'more line')}"] if more > 0 else [*lines]


def _more(number: int) -> Iterator[str]:
    yield from count_rest(number, MAX_LISTED_CHANGES, "; the JSON has all", indent="      ")
