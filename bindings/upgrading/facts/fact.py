"""What a fact about releases of RabbitMQ is: a row of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from bindings.upgrading.facts.crossing import Crossing, Seen
from exchange.entities.part import Part

__all__ = ["ALWAYS", "Fact", "Numbers", "Severity", "Source", "link_notes", "request", "link_tag"]

Severity = Literal["note", "warning", "error"]
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
    source: Source
    find: Callable[[Crossing], Iterator[Seen]]
    """Yields where it is seen; what no topology shows is seen once, in no part."""
    page: str = ""
    """Address of the release notes."""
    until: Numbers | None = None
    """The first release for which it holds no more; None if it holds for all since then."""
    feature: str = ""
    """The deprecated feature that a broker may be configured to permit: then the fact does not hold."""
    later: tuple[Numbers, ...] = ()
    """First releases of later series for which it holds, where these are not the first ones of their series."""
    explain: Callable[[Crossing, Part], str] = lambda crossing, part: ""
    """Returns what the fact means to a part because of others in the topology, "" for nothing beside ``what``."""
    recurs: bool = False
    """Whether it comes with each upgrade to a release for which it holds, also from one for which it held already."""

    @property
    def is_new_by_rules(self) -> bool:
        """Whether the rules of each release decide, and those of the old one do not have it."""
        return self.since == ALWAYS and not self.recurs

    def holds_for(self, numbers: Numbers) -> bool:
        """Return whether the fact holds for a release."""
        firsts = {first[:2]: first for first in self.later}
        return max(self.since, firsts.get(numbers[:2], self.since)) <= numbers and (
            self.until is None or numbers < self.until
        )

    def comes_between(self, old: Numbers, new: Numbers) -> bool:
        """Return whether the fact comes with the upgrade from an old release to a new one, or their rules decide."""
        return self.since == ALWAYS or (self.holds_for(new) and (self.recurs or not self.holds_for(old)))


def request(number: int) -> str:
    """Return the address of a pull request of RabbitMQ, from whose source a fact is read."""
    return f"https://github.com/rabbitmq/rabbitmq-server/pull/{number}"


def link_notes(version: str) -> str:
    """Return the address of the release notes of a version, such as ``4.3.0``."""
    return f"https://github.com/rabbitmq/rabbitmq-server/blob/main/release-notes/{version}.md"


def link_tag(version: str) -> str:
    """Return the address of a release, whose notes have what the file of `link_notes` has not yet."""
    return f"https://github.com/rabbitmq/rabbitmq-server/releases/tag/v{version}"
