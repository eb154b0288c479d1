"""Releases of RabbitMQ: from which to which a running cluster can be upgraded, and what is to be done before each step.

The steps are those of RabbitMQ's release notes. A new broker beside the old one needs none of them: definitions are
exported from the one and imported into the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from exchange.display import clip_line
from exchange.entities.profile import NEWEST_PATCH, Profile, profile_by_name, read_release
from exchange.errors import InputError

__all__ = ["FLAGS", "Release", "Step", "find_steps", "release_of"]

LONGEST: Final = 60
"""Maximum number of characters of an unknown release that an error quotes."""


class Release(NamedTuple):
    """A release of RabbitMQ."""

    numbers: tuple[int, int, int]
    profile: Profile

    @property
    def series(self) -> str:
        """The release without its patch number: ``4.2``."""
        return f"{self.numbers[0]}.{self.numbers[1]}"

    def __str__(self) -> str:
        return self.series if self.is_newest else f"{self.series}.{self.numbers[2]}"

    @property
    def is_newest(self) -> bool:
        """Whether it is the newest patch release of its series, whichever that is."""
        return self.numbers[2] == NEWEST_PATCH


class Step(NamedTuple):
    """An upgrade from one series of releases to another, node by node."""

    start: str
    end: str
    first: tuple[str, ...]
    """What has to be done before it, beside `FLAGS`."""


def release_of(name: str) -> Release:
    """Return the release of a name, in any form that `read_release` takes. Raises InputError for an unknown one."""
    numbers = read_release(name) if isinstance(name, str) else None
    profile = None if numbers is None else profile_by_name(name)
    if numbers is None or profile is None:
        known = f"give one from {SERIES[0]} to {SERIES[-1]}, such as '4.3', '4.2.x' or '4.2.6'"
        raise InputError(f"{clip_line(repr(name), LONGEST)} is no release of RabbitMQ that is known here: {known}")
    return Release(numbers, profile)


def find_steps(old: Release, new: Release) -> tuple[Step, ...]:
    """Return the steps of the upgrade of a running cluster; as few as RabbitMQ supports.

    None within one series. Raises InputError if the second release is not newer than the first, or one is unknown.
    """
    for release in (old, new):
        if release.series not in SERIES:
            raise InputError(f"RabbitMQ {release} is not known here: give a release from {SERIES[0]} to {SERIES[-1]}")
    if new.numbers <= old.numbers:
        meant = f"{old} without a patch number is its newest patch release" if old.is_newest else ""
        raise InputError(": ".join(filter(None, [f"from {old} to {new} is no upgrade", meant])))
    if new.series == old.series and new.is_newest and old.numbers[2] >= PATCHES[old.series]:
        newest = f"{new.series}.{PATCHES[new.series]} is the newest patch release of {new.series} that is known here"
        raise InputError(f"from {old} to {new} is no upgrade: {newest}")
    if new.series == old.series:
        return ()
    # Backwards, each time as far as possible: each series can be reached from all between its first and its last one.
    path = [new.series]
    while path[-1] != old.series:
        sources = [series for series in FROM[path[-1]] if SERIES.index(series) >= SERIES.index(old.series)]
        path.append(min(sources, key=SERIES.index))
    path.reverse()
    return tuple(Step(start, end, _before(old, start, end)) for start, end in pairwise(path))


def _before(old: Release, start: str, end: str) -> tuple[str, ...]:
    """Return what is to be done before a step: what its series asks for, and what those ask for that it skips."""
    passed = SERIES[SERIES.index(start) + 1 : SERIES.index(end) + 1]
    firsts = tuple(first for series in passed for first in FIRST.get(series, ()))
    least = LEAST.get(end)
    if least is None or (start == old.series and old.numbers[2] >= least[0]):
        return firsts
    return (least[1], *firsts)


SERIES: Final = ("3.10", "3.11", "3.12", "3.13", "4.0", "4.1", "4.2", "4.3")
FROM: Final[Mapping[str, tuple[str, ...]]] = {
    "3.11": ("3.10",),
    "3.12": ("3.11",),
    "3.13": ("3.12",),
    "4.0": ("3.13",),
    "4.1": ("3.13", "4.0"),
    "4.2": ("3.13", "4.0", "4.1"),
    "4.3": ("4.2",),
}
"""Series -> the series whose nodes can be upgraded to it one by one."""

FLAGS: Final = "enable all feature flags: rabbitmqctl enable_feature_flag all"
"""What has to be done before each step."""
FIRST: Final[Mapping[str, tuple[str, ...]]] = {
    "3.11": ("be on Erlang 25",),
    "3.13": ("be on Erlang 26",),
    "4.0": (
        "be on Erlang 26.2",
        "remove classic_queue.default_version = 1 from the configuration: nodes do not start with it",
        "a cluster of 3.13 with Khepri cannot be upgraded: set up a new one beside it",
    ),
    "4.1": ("raise a frame_max that clients set below 8192",),
    "4.2": ("have Erlang 27 for each node that gets 4.2.9 or later, which require it; 3.13 runs on Erlang 26",),
    "4.3": (
        "be on Erlang 27",
        "enable the feature flag khepri_db, which enable_feature_flag all may leave out: 4.3 has no Mnesia",
        "see that quorum_queue_non_voters and message_containers_deaths_v2 are enabled, too",
        "set deprecated_features.permit.* on all nodes for what is still needed of the features that 4.3 denies",
        "restart all nodes once with the feature flag rabbitmq_4.0.0 if 3.13 had the plugin rabbitmq_amqp1_0",
    ),
}
"""Series -> what its release notes ask for before the upgrade to it."""
LEAST: Final[Mapping[str, tuple[int, str]]] = {
    "3.12": (18, "be on 3.11.18 or later, which has all feature flags that 3.12 requires"),
    "4.3": (NEWEST_PATCH, "be on the latest patch release of 4.2"),
}
"""Series -> the patch number that its release notes ask for of the series before it, and the sentence."""
PATCHES: Final[Mapping[str, int]] = {
    "3.10": 25, "3.11": 28, "3.12": 14, "3.13": 7, "4.0": 9, "4.1": 8, "4.2": 9, "4.3": 6,
}  # fmt: skip
"""Series -> the number of its newest patch release that is known here."""
