"""Find out what an upgrade does to topologies: what is refused or lost, and what means something else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from bindings.analysis.crawl import Deadline
from bindings.checking.rules.table import SEVERITIES, Severity
from bindings.diffing.comparison.compare import compare
from bindings.diffing.comparison.meaning import Meaning
from bindings.diffing.diff import SECONDS, Diff, diff
from bindings.diffing.planning.step import describe_part
from bindings.diffing.settings.changes import SettingsChange, compare_settings
from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.upgrading.facts.crossing import Crossing
from bindings.upgrading.facts.fact import ALWAYS, Fact, Numbers, Source
from bindings.upgrading.facts.table import FACTS
from bindings.upgrading.live.comparing import Shown
from bindings.upgrading.releases import Release, SeriesUpgrade, find_steps
from bindings.upgrading.requests.applications import Applications
from bindings.upgrading.transform.transform import Applied, SectionChange, transform_topology
from exchange.entities.part import Part
from exchange.errors import InputError
from exchange.text.display import list_some
from exchange.text.notebook import write_html
from exchange.topology.topology import Topology
from exchange.values.documents import document

if TYPE_CHECKING:
    from bindings.upgrading.traffic import ReroutedTraffic


class Sighting(NamedTuple):
    """A fact that the upgrade brings, with the parts of a topology where it is seen in the same way."""

    fact: Fact
    parts: tuple[Part, ...]
    """Where it is seen; empty for what is about the whole broker."""
    detail: str
    """The broker's answer for what is refused, else ""."""
    explanation: str = ""
    """What the fact means to the parts because of others in the topology, "" for nothing beside what it says."""
    brokers: tuple[Numbers, ...] = ()
    """The releases whose live brokers have shown it, the oldest first."""
    since: Numbers = ALWAYS
    """The first release of the series of the new one, or of all, for which it holds; `ALWAYS` if their rules decide."""

    @property
    def source(self) -> Source:
        """How it is known."""
        return self.fact.source_of(self.brokers)


@document("TransformedJson", "transformations = applied, sightings, meaning, settings")
class Transformed(NamedTuple):
    """The topology of a virtual host as the new release wants it, and the proof of what it is."""

    topology: Topology
    applied: tuple[Applied, ...]
    """Those that changed something, or left what they are for, in the order in which they were done."""
    meaning: Meaning
    """Which messages the new release routes differently because of the transformations, should there be any."""
    settings: tuple[SettingsChange, ...]
    """The settings in force that differ between the topology on the old release and this one on the new release."""
    sightings: tuple[Sighting, ...]
    """What the upgrade still brings, the most severe first; without what both releases refuse."""

    @property
    def left(self) -> tuple[Sighting, ...]:
        """What is still refused, lost or means something else."""
        return tuple(each for each in self.sightings if each.parts and each.fact.severity != "note")


class VhostUpgrade(NamedTuple):
    """What an upgrade does to one virtual host."""

    vhost: str
    sightings: tuple[Sighting, ...]
    """The most severe first."""
    difference: Diff
    """Which messages are routed differently, and which settings in force differ; its plan is empty.

    Without defaults that differ: the facts HSU007 and HSU008 are about these.
    """
    transformed: Transformed | None = None
    """None unless transformations were asked for."""
    traffic: ReroutedTraffic | None = None
    """The archived messages that are routed differently, also by the transformations; None without an archive."""

    @property
    def severity(self) -> Severity | None:
        """The highest severity of all; None if nothing is found in the virtual host.

        For routes and settings it is ``error`` if messages may be lost, ``warning`` if they go elsewhere. With
        transformations, it is the severity of what is left after them.
        """
        after = self.transformed
        if after is None:
            sightings, settings = self.sightings, self.difference.settings
        else:
            sightings, settings = after.sightings, after.settings
        found = [sighting.fact.severity for sighting in sightings if sighting.parts]
        meanings = (self.difference.meaning, *(() if after is None else (after.meaning,)))
        found += [
            "error" if _loses(meaning, settings) else "warning"
            for meaning in meanings
            if settings or meaning.verdict != "same"
        ]
        return max(found, key=SEVERITIES.index, default=None)

    @property
    def loses(self) -> bool:
        """Whether a message may be lost: a choice by a hash that moves it to another queue does not lose it."""
        return _loses(self.difference.meaning, self.difference.settings)


def _loses(meaning: Meaning, settings: Iterable[SettingsChange]) -> bool:
    return (
        bool(meaning.unread)
        or any(not effect.gained for effect in meaning.effects)
        or any(lost.now for lost in meaning.unroutable)
        or bool(meaning.undecided)
        or any(change.loses for change in settings)
    )


class Upgrade(NamedTuple):
    """What an upgrade does to the virtual hosts of a source, and the way there.

    >>> result = upgrade(Topology(queues=[Queue("replies", durable=False)]), "4.3", old="3.13")
    >>> result
    <Upgrade from 3.13 to 4.3: '/' error>
    >>> [f"{step.start} to {step.end}" for step in result.steps], result.reaches("error")
    (['3.13 to 4.2', '4.2 to 4.3'], True)
    """

    old: Release
    new: Release
    steps: tuple[SeriesUpgrade, ...]
    vhosts: tuple[VhostUpgrade, ...]
    definitions: tuple[Definitions | Document, tuple[SectionChange, ...]] | None = None
    """The whole source as the new release wants it, and what was changed beside the topologies.

    None for a topology alone, and unless transformations were asked for.
    """
    applications: Applications | None = None
    """What recorded applications are refused; None without a recording."""
    live: Shown | None = None
    """What a test broker of the new release has answered; None without one."""

    @property
    def caveats(self) -> tuple[str, ...] | None:
        """Which of the two releases is newer than all that are known here, and by whose rules it is judged."""
        found = dict.fromkeys(each.profile.caveat for each in (self.old, self.new) if each.profile.caveat)
        return tuple(found) or None

    def __repr__(self) -> str:
        """Return a line: the parts have thousands of characters."""
        found = [f"{vhost.vhost!r} {vhost.severity or 'nothing found'}" for vhost in self.vhosts]
        return f"<Upgrade from {self.old} to {self.new}: {list_some(found, 5)}>"

    def _repr_html_(self) -> str:
        """Return what is found in each virtual host as HTML, which notebooks show."""
        lists = {
            f"Virtual host {vhost.vhost!r}": [
                f"{each.fact.severity}: {f'{describe_part(each.parts[0])}: ' if each.parts else ''}{each.fact.what}"
                for each in vhost.sightings
                if each.parts
            ]
            for vhost in self.vhosts
        }
        return write_html(repr(self).strip("<>"), lists)

    def reaches(self, severity: Severity) -> bool:
        """Return whether something has this severity or a higher one. Raises InputError for no severity."""
        if severity not in SEVERITIES:
            raise InputError(f"{severity!r} is no severity: give {', '.join(SEVERITIES)}")
        found = [vhost.severity for vhost in self.vhosts]
        if self.applications is not None:
            found += [self.applications.severity]
        return any(SEVERITIES.index(each) >= SEVERITIES.index(severity) for each in found if each is not None)


def plan_upgrade(
    topologies: list[Topology],
    old: Release,
    new: Release,
    *,
    names: frozenset[str] | None = None,
    permitted: frozenset[str] = frozenset(),
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] | None = None,
) -> Upgrade:
    """Return what an upgrade from one release to another does to the topologies of virtual hosts.

    With the ``names`` of transformations (see `bindings.upgrading.transform.transform.choose`), also the topologies as
    the new release wants them. ``permitted`` has the deprecated features that the new broker is configured to permit.
    The comparisons of routes take ``seconds`` at most, what is not decided then is undecided; ``progress`` is called
    with the numbers of destinations compared and to compare. Raises InputError if the second release is not newer, or
    one is unknown.

    >>> plan = plan_upgrade([Topology(queues=[Queue("q", durable=False)])], release_of("4.0"), release_of("4.3"))
    >>> [sighting.fact.id for sighting in plan.vhosts[0].sightings if sighting.parts]
    ['HSU005']
    """
    steps = find_steps(old, new)
    share = seconds / max(1, len(topologies))
    vhosts = tuple(upgrade_topology(each, old, new, names, permitted, share, progress) for each in topologies)
    return Upgrade(old, new, steps, vhosts)


def upgrade_topology(
    topology: Topology,
    old: Release,
    new: Release,
    names: frozenset[str] | None = None,
    permitted: frozenset[str] = frozenset(),
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] | None = None,
) -> VhostUpgrade:
    """Return what an upgrade does to one topology, whatever its own profile is; see `plan_upgrade`."""
    crossing = Crossing(topology.with_profile(old.profile), new.profile)
    share = seconds if names is None else seconds / 2
    difference = diff(crossing.before, crossing.after, upgraded=True, seconds=share, progress=progress)
    settings = tuple(_without_defaults(difference.settings))
    return VhostUpgrade(
        topology.vhost,
        _by_severity(_sightings(crossing, crossing, old, new, permitted)),
        difference._replace(settings=settings),
        None if names is None else _transform(crossing, old, new, names, permitted, share, progress),
    )


def _transform(
    crossing: Crossing,
    old: Release,
    new: Release,
    names: frozenset[str],
    permitted: frozenset[str],
    seconds: float,
    progress: Callable[[int, int], None] | None,
) -> Transformed:
    topology, applied = transform_topology(crossing.before, old, new, names)
    after = Crossing(topology.with_profile(old.profile), new.profile)
    sightings = _sightings(after, Crossing(topology, new.profile), old, new, permitted)
    return Transformed(
        topology,
        applied,
        compare(crossing.after, topology, keeps_refused=True, deadline=Deadline(seconds), progress=progress),
        tuple(_without_defaults(compare_settings(crossing.before, topology))),
        _by_severity(_brought(crossing, sightings, old, new)),
    )


def _brought(crossing: Crossing, sightings: Iterable[Sighting], old: Release, new: Release) -> Iterator[Sighting]:
    """Yield the sightings but for parts that both releases refuse, such as exchanges of a plugin that is not known."""
    by_rules = [fact for fact in FACTS if fact.is_new_by_rules]
    refused = {part for fact in by_rules for part, _ in fact.find(Crossing(crossing.after, new.profile))}
    if old.profile != new.profile:
        refused -= {part for fact in by_rules for part, _ in fact.find(crossing)}
    for each in sightings:
        parts = tuple(part for part in each.parts if not each.fact.is_new_by_rules or part not in refused)
        if parts or not each.parts:
            yield each._replace(parts=parts)


def _by_severity(sightings: Iterable[Sighting]) -> tuple[Sighting, ...]:
    return tuple(sorted(sightings, key=lambda sighting: -SEVERITIES.index(sighting.fact.severity)))


def _without_defaults(settings: Iterable[SettingsChange]) -> Iterator[SettingsChange]:
    """Yield the changes of settings but those that nothing sets, neither before nor after."""
    for change in settings:
        kept = tuple(
            each
            for each in change.changes
            if any(value is not None and value.source != "default" for value in (*each.before, *each.after))
        )
        if kept:
            yield change._replace(changes=kept)


def _sightings(
    crossing: Crossing, asked: Crossing, old: Release, new: Release, permitted: frozenset[str]
) -> Iterator[Sighting]:
    """Yield what the facts between the two releases find, parts that are seen in the same way together.

    ``asked`` is for the facts that the rules of each release decide.
    """
    for fact in FACTS:
        by_rules = fact.is_new_by_rules
        if old.profile == new.profile and by_rules and asked is crossing:
            continue  # two releases with the same rules
        if not fact.comes_between(old.numbers, new.numbers) or fact.feature in permitted:
            continue
        groups: dict[tuple[str, str], list[Part]] = {}
        looked_at = asked if by_rules else crossing
        for part, detail in fact.find(looked_at):
            parts = groups.setdefault((detail, "" if part is None else fact.explain(looked_at, part)), [])
            if part is not None:
                parts.append(part)
        brokers = fact.find_brokers(old, new)
        since = fact.first_for(new.numbers)
        yield from (Sighting(fact, tuple(parts), *seen, brokers, since) for seen, parts in groups.items())
