"""Find out what an upgrade does to topologies: what is refused or lost, and what means something else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from bindings.diff.diff import SECONDS, Diff, diff
from bindings.diff.settings.changes import SettingsChange
from bindings.upgrade.facts.crossing import Crossing, Part
from bindings.upgrade.facts.fact import Fact, Severity
from bindings.upgrade.facts.table import FACTS
from bindings.upgrade.releases import Release, Step, find_steps
from exchange.topology.topology import Topology

__all__ = ["SEVERITIES", "Sighting", "Upgrade", "VhostUpgrade", "plan_upgrade", "upgrade_topology"]

SEVERITIES: Final[tuple[Severity, ...]] = ("note", "warning", "error")
"""From the least severe to the most severe."""


class Sighting(NamedTuple):
    """A fact that the upgrade brings, with the parts of a topology where it is seen in the same way."""

    fact: Fact
    parts: tuple[Part, ...]
    """Empty if it is about the whole broker."""
    detail: str
    """The broker's answer for what is refused, else ""."""


class VhostUpgrade(NamedTuple):
    """What an upgrade does to one virtual host."""

    vhost: str
    sightings: tuple[Sighting, ...]
    """The most severe first."""
    difference: Diff
    """Which messages are routed differently, and which settings in force differ; its plan is empty.

    Without defaults that differ: the facts HSU007 and HSU008 are about these.
    """

    @property
    def severity(self) -> Severity | None:
        """The highest severity of all; None if nothing is found in the virtual host.

        For routes and settings it is ``error`` if messages may be lost, ``warning`` if they go elsewhere.
        """
        found = [sighting.fact.severity for sighting in self.sightings if sighting.parts]
        if self.difference.differs:
            found.append("error" if self.loses else "warning")
        return max(found, key=SEVERITIES.index, default=None)

    @property
    def loses(self) -> bool:
        """Whether a message may be lost: a choice by a hash that moves it to another queue does not lose it."""
        meaning = self.difference.meaning
        return (
            any(not effect.gained for effect in meaning.effects)
            or any(lost.now for lost in meaning.unroutable)
            or bool(meaning.undecided)
            or any(change.loses for change in self.difference.settings)
        )


class Upgrade(NamedTuple):
    """What an upgrade does to the virtual hosts of a source, and the way there."""

    old: Release
    new: Release
    steps: tuple[Step, ...]
    vhosts: tuple[VhostUpgrade, ...]

    def reaches(self, severity: Severity) -> bool:
        """Return whether something has this severity or a higher one."""
        found = [vhost.severity for vhost in self.vhosts]
        return any(SEVERITIES.index(each) >= SEVERITIES.index(severity) for each in found if each is not None)


def plan_upgrade(
    topologies: list[Topology],
    old: Release,
    new: Release,
    *,
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] | None = None,
) -> Upgrade:
    """Return what an upgrade from one release to another does to the topologies of virtual hosts.

    The comparison of routes takes ``seconds`` at most, what is not decided then is undecided; ``progress`` is called
    with the numbers of destinations compared and to compare. Raises InputError if the second release is not newer,
    or one is unknown.

    >>> plan = plan_upgrade([Topology(queues=[Queue("q", durable=False)])], release_of("4.0"), release_of("4.3"))
    >>> [sighting.fact.id for sighting in plan.vhosts[0].sightings if sighting.parts]
    ['HSU005']
    """
    steps = find_steps(old, new)
    share = seconds / max(1, len(topologies))
    return Upgrade(old, new, steps, tuple(upgrade_topology(each, old, new, share, progress) for each in topologies))


def upgrade_topology(
    topology: Topology,
    old: Release,
    new: Release,
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] | None = None,
) -> VhostUpgrade:
    """Return what an upgrade does to one topology, whatever its own profile is; see `plan_upgrade`."""
    crossing = Crossing(topology.with_profile(old.profile), new.profile)
    sightings = sorted(_sightings(crossing, old, new), key=lambda s: -SEVERITIES.index(s.fact.severity))
    difference = diff(crossing.before, crossing.after, seconds=seconds, progress=progress)
    settings = tuple(_without_defaults(difference.settings))
    return VhostUpgrade(topology.vhost, tuple(sightings), difference._replace(settings=settings))


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


def _sightings(crossing: Crossing, old: Release, new: Release) -> Iterator[Sighting]:
    """Yield what the facts between the two releases find, parts that are seen in the same way together."""
    for fact in FACTS:
        if not fact.comes_between(old.numbers, new.numbers):
            continue
        groups: dict[str, list[Part]] = {}
        for part, detail in fact.find(crossing):
            parts = groups.setdefault(detail, [])
            if part is not None:
                parts.append(part)
        yield from (Sighting(fact, tuple(parts), detail) for detail, parts in groups.items())
