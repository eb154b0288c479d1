"""Releases of RabbitMQ: the steps by which a running cluster can be upgraded, and what is to be done before each.

The steps are those of RabbitMQ's release notes. A new broker beside the old one needs none of them: definitions are
exported from the one and imported into the other.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from exchange.entities.profile import NEWEST_PATCH, Profile, ReleaseRow, read_release
from exchange.entities.releases import SERIES, find_profile_by_name, find_row
from exchange.errors import InputError
from exchange.text.display import clip_line
from exchange.values.documents import document

KNOWN: Final = (*SERIES,)
"""The series of releases, the oldest first."""
UNKNOWN: Final = "read its release notes: what it can be upgraded from, and what it asks for, is not known here"
"""What has to be done before the upgrade to a release that is newer than all that are known here."""
LONGEST: Final = 60
"""Maximum number of characters of an unknown release that an error quotes."""


class Release(NamedTuple):
    """A release of RabbitMQ."""

    numbers: tuple[int, int, int]
    profile: Profile

    @property
    def row(self) -> ReleaseRow:
        """What is known of it."""
        return find_row(self.numbers)

    @property
    def series(self) -> str:
        """Its numbers without that of the patch release: ``4.2``."""
        return f"{self.numbers[0]}.{self.numbers[1]}"

    def __str__(self) -> str:
        return self.series if self.is_newest else f"{self.series}.{self.numbers[2]}"

    @property
    def is_newest(self) -> bool:
        """Whether it is the newest patch release of its series, whichever that is."""
        return self.numbers[2] == NEWEST_PATCH


@document("StepJson", "start, end, before = first")
class SeriesUpgrade(NamedTuple):
    """An upgrade from one series of releases to another, node by node."""

    start: str
    end: str
    first: tuple[str, ...]
    """What has to be done before it, beside enabling all feature flags."""


def release_of(name: str) -> Release:
    """Return the release of a name, in any form that `read_release` takes. Raises InputError for an unknown one."""
    numbers = read_release(name) if isinstance(name, str) else None
    profile = None if numbers is None else find_profile_by_name(name)
    if numbers is None or profile is None:
        known = f"give one from {KNOWN[0]} to {KNOWN[-1]}, such as '4.3', '4.2.x' or '4.2.6'"
        raise InputError(f"{clip_line(repr(name), LONGEST)} is no release of RabbitMQ that is known here: {known}")
    return Release(numbers, profile)


def find_steps(old: Release, new: Release) -> tuple[SeriesUpgrade, ...]:
    """Return the steps of the upgrade of a running cluster; as few as RabbitMQ supports.

    None within one series. To a release newer than all that are known here, the last step begins at the newest series
    that is known. Raises InputError if the second release is not newer than the first, or one is unknown.
    """
    for release in (old, new):
        if release.series not in SERIES and not release.profile.applied_to:
            raise InputError(f"RabbitMQ {release} is not known here: give a release from {KNOWN[0]} to {KNOWN[-1]}")
    if new.numbers <= old.numbers:
        meant = ""
        if old.series not in SERIES and new.series in SERIES:
            meant = f"{KNOWN[-1]} is the newest release that is known here; give --to RELEASE"
        elif old.series == new.series and old.is_newest:
            meant = f"{old} without a patch number is its newest patch release"
        raise InputError(": ".join(filter(None, [f"from {old} to {new} is no upgrade", meant])))
    newest = new.row.newest_patch
    if new.series == old.series and new.series in SERIES and new.is_newest and old.numbers[2] >= newest:
        known = f"{new.series}.{newest} is the newest patch release of {new.series} that is known here"
        raise InputError(f"from {old} to {new} is no upgrade: {known}")
    if new.series == old.series:
        return ()
    if new.series not in SERIES:
        known = KNOWN[-1] if old.series in SERIES else old.series
        way = () if known == old.series else find_steps(old, release_of(known))
        return (*way, SeriesUpgrade(known, new.series, (UNKNOWN,)))
    # Backwards, each time as far as possible: each series can be reached from all between its first and its last one.
    path = [new.series]
    while path[-1] != old.series:
        sources = [KNOWN.index(series) for series in SERIES[path[-1]].upgraded_from]
        path.append(KNOWN[min(index for index in sources if index >= KNOWN.index(old.series))])
    path.reverse()
    return tuple(SeriesUpgrade(start, end, _before(old, start, end)) for start, end in pairwise(path))


def _before(old: Release, start: str, end: str) -> tuple[str, ...]:
    """Return what is to be done before a step: what its last series asks for, and each one that the step skips."""
    passed = KNOWN[KNOWN.index(start) + 1 : KNOWN.index(end) + 1]
    firsts = tuple(dict.fromkeys(first for series in passed for first in SERIES[series].before_upgrade))
    least = SERIES[end].needed_patch
    if least is None or (start == old.series and old.numbers[2] >= least[0]):
        return firsts
    return (least[1], *firsts)


FLAGS: Final = "enable all feature flags: rabbitmqctl enable_feature_flag all"
"""What has to be done before each step."""
