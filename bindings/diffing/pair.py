"""Compare two sources, by the rules of one release or each by those of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from bindings.diffing.against import FileDiff, VhostDiff, list_caveats
from bindings.diffing.diff import SECONDS, diff
from bindings.diffing.words import describe_release, describe_rules
from bindings.sources.open import Source, open_source
from exchange.entities.profile import Profile
from exchange.limits import ANSWER_SECONDS
from exchange.topology.topology import Topology

Releases: TypeAlias = str | tuple[str | None, str | None] | None
"""A release for both sources, or one for each; None for that which the first one names, else the second."""


class SourcePair(NamedTuple):
    """Two sources that were read."""

    sources: Sequence[Source]
    """The sources, of which a single one is compared with itself."""
    old: Topology
    new: Topology
    releases: Releases

    @property
    def named(self) -> list[tuple[str, Profile]]:
        """Name and profile of each source that names a release, if the user names none."""
        sources = (self.sources[0], self.sources[-1])
        return [(each.name, each.profile) for each in sources if each.profile is not None and self.releases is None]

    @property
    def rules(self) -> str:
        """By which rules both are compared, for people; empty where that needs no word."""
        return describe_rules(self.named, self.new.profile)

    @property
    def caveats(self) -> tuple[str, ...] | None:
        """What is not known of the releases, see `list_caveats`."""
        by_one = None if isinstance(self.releases, tuple) else self.new.profile
        profiles = [*[profile for _, profile in self.named], self.old.profile, self.new.profile]
        return list_caveats(*profiles, rules=by_one)

    def compare(self, seconds: float = SECONDS, progress: Callable[[int, int], None] | None = None) -> FileDiff:
        """Return the difference; ``seconds`` and ``progress`` are as `diff` takes them."""
        old, new, releases = self.old, self.new, self.releases
        result = diff(old, new, upgraded=isinstance(releases, tuple), seconds=seconds, progress=progress)
        old_profile = None if old.profile == new.profile else old.profile.name
        each = VhostDiff(new.vhost, new.profile.name, result, old_profile, caveats=self.caveats)
        one, other = self.sources[0], self.sources[-1]
        if isinstance(releases, tuple):
            before, after = (
                describe_release(name or source.release or topology.profile.name, topology.profile.name)
                for name, source, topology in zip(releases, (one, other), (old, new), strict=True)
            )
            each = each._replace(releases=(before, after))
        return FileDiff(other.name, one.name, "changed", (each,))


def read_pair(
    names: Sequence[str],
    vhost: str | None = None,
    releases: Releases = None,
    *,
    allow_unread: bool = False,
    seconds: float = ANSWER_SECONDS,
) -> SourcePair:
    """Read one source or two, each answer of a broker within ``seconds``. Raises InputError."""
    sources = [open_source(name, vhost, seconds=seconds).allowing_unread(allow_unread) for name in names]
    one, other = sources[0], sources[-1]
    rules = releases if isinstance(releases, tuple) else [releases or one.profile or other.profile] * 2
    old, new = (source.routable(vhost, rule) for source, rule in zip((one, other), rules, strict=True))
    return SourcePair(sources, old, new, releases)
