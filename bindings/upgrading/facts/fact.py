"""What a fact about releases of RabbitMQ is: a row of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, Literal, NamedTuple

from bindings.checking.rules.table import Severity
from bindings.upgrading.facts.crossing import Crossing, Seen
from bindings.upgrading.releases import Release
from exchange.entities.part import Part
from exchange.entities.releases import LIVE, find_row

Evidence = Literal["trial", "observed", "release notes", "source"]
"""How a fact is known; ``trial`` for one that the tests ask of live brokers, of as many releases as can be had."""
Source = Literal["live brokers", "observed", "release notes", "source"]
Numbers = tuple[int, int, int]
"""Numbers of a release."""
ALWAYS: Final[Numbers] = (0, 0, 0)
"""``since`` of a fact that the rules of each release decide."""


class Fact(NamedTuple):
    """A difference between releases of RabbitMQ."""

    id: str
    since: Numbers
    """The first release for which it holds, or `ALWAYS`."""
    severity: Severity
    """``error`` for what is refused or lost, ``warning`` for what means something else, else ``note``."""
    what: str
    way_out: str
    evidence: Evidence
    find: Callable[[Crossing], Iterator[Seen]]
    """Yields each part that shows the fact; one that no topology shows is yielded once, without a part."""
    page: str = ""
    """Address of the release notes."""
    until: Numbers | None = None
    """The first release for which it holds no more; None if it holds for all since then."""
    feature: str = ""
    """The deprecated feature that a broker may be configured to permit: then the fact does not hold."""
    later: tuple[Numbers, ...] = ()
    """For each later series that has it from a patch release on only: the first release for which it holds."""
    explain: Callable[[Crossing, Part], str] = lambda crossing, part: ""
    """Returns what the fact means to a part because of others in the topology, "" for nothing beside ``what``."""
    recurs: bool = False
    """Whether it comes with each upgrade to a release for which it holds, also from one for which it held already."""

    @property
    def is_new_by_rules(self) -> bool:
        """Whether the rules of the new release have it, and those of the old one do not."""
        return self.since == ALWAYS and not self.recurs

    def find_brokers(self, old: Release, new: Release) -> tuple[Numbers, ...]:
        """Return the releases whose live brokers have shown what the fact says of an upgrade.

        A fact that the rules decide is shown by brokers with the same row in the table of releases as the releases of
        the upgrade; a fact that holds since a release, by each broker for which it holds.
        """
        if self.evidence != "trial":
            return ()
        if self.since != ALWAYS:
            return tuple(live for live in LIVE if self.holds_for(live))
        asked = (old, new) if self.recurs else (new,)
        shown = [[live for live in LIVE if find_row(live) is each.row and not each.profile.caveat] for each in asked]
        return tuple(dict.fromkeys(chain.from_iterable(shown))) if all(shown) else ()

    def source_of(self, brokers: tuple[Numbers, ...]) -> Source:
        """Return how the fact is known, given the releases whose live brokers have shown it."""
        if self.evidence != "trial":
            return self.evidence
        return "live brokers" if brokers else "release notes" if self.page else "source"

    def first_for(self, numbers: Numbers) -> Numbers:
        """Return the first release for which the fact holds, of the series of a release if that has one of its own."""
        return next((first for first in self.later if first[:2] == numbers[:2]), self.since)

    def holds_for(self, numbers: Numbers) -> bool:
        """Return whether the fact holds for a release."""
        return self.first_for(numbers) <= numbers and (self.until is None or numbers < self.until)

    def comes_between(self, old: Numbers, new: Numbers) -> bool:
        """Return whether the fact comes with the upgrade from an old release to a new one, or their rules decide."""
        return self.since == ALWAYS or (self.holds_for(new) and (self.recurs or not self.holds_for(old)))


def link_pull_request(number: int) -> str:
    """Return the address of a pull request of RabbitMQ whose source shows a fact."""
    return f"https://github.com/rabbitmq/rabbitmq-server/pull/{number}"


def link_notes(version: str) -> str:
    """Return the address of the release notes of a version, such as ``4.3.0``."""
    return f"https://github.com/rabbitmq/rabbitmq-server/blob/main/release-notes/{version}.md"


def link_tag(version: str) -> str:
    """Return the address of a release, whose notes have what the file of `link_notes` has not yet."""
    return f"https://github.com/rabbitmq/rabbitmq-server/releases/tag/v{version}"
