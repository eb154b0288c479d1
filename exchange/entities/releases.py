"""The table of RabbitMQ's releases: one row for each, with what it does, accepts, and asks for before an upgrade.

Nothing else in the product compares with a release: what differs is a field, named for what the broker does. A row is
its predecessor with what changed, so a new release is a row here, a profile in `exchange.entities.release_profiles`,
and facts in `bindings.upgrading.facts`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Final

from exchange.entities.profile import NEWEST_PATCH, Profile, ReleaseRow, read_release
from exchange.entities.release_profiles import PATCHES
from exchange.errors import UnknownReleaseWarning

_MACHINES: Final = (
    "see in rabbitmq-queues quorum_status that no quorum queue has machine version 3 when the feature flag "
    "rabbitmq_4.0.0 is enabled: at the next basic.consume it would crash for ever, and lose what is published and "
    "confirmed"
)
"""An open fault of RabbitMQ: https://github.com/rabbitmq/rabbitmq-server/issues/17504."""

_ROW_3_10: Final = ReleaseRow((3, 10, 0), PATCHES[3, 10][0], 25, (), ())
_ROW_3_11: Final = replace(
    _ROW_3_10, since=(3, 11, 0), newest_patch=28, upgraded_from=("3.10",), before_upgrade=("be on Erlang 25",)
)
_ROW_3_12: Final = ReleaseRow(
    (3, 12, 0),
    PATCHES[3, 12][0],
    newest_patch=14,
    upgraded_from=("3.11",),
    before_upgrade=(),
    needed_patch=(18, "be on 3.11.18 or later, which has all feature flags that 3.12 requires"),
)
_ROW_3_13: Final = replace(
    _ROW_3_12,
    since=(3, 13, 0),
    newest_patch=7,
    upgraded_from=("3.12",),
    before_upgrade=("be on Erlang 26",),
    needed_patch=None,
)
_ROW_4_0: Final = replace(
    _ROW_3_13,
    since=(4, 0, 0),
    newest_patch=9,
    upgraded_from=("3.13",),
    before_upgrade=(
        _MACHINES,
        "be on Erlang 26.2",
        "remove classic_queue.default_version = 1 from the configuration: nodes do not start with it",
        "a cluster of 3.13 with Khepri cannot be upgraded: set up a new one beside it",
    ),
    max_message_bytes=16 << 20,
)
_ROW_4_1: Final = replace(
    _ROW_4_0,
    since=(4, 1, 0),
    newest_patch=8,
    upgraded_from=("3.13", "4.0"),
    before_upgrade=(_MACHINES, "raise a frame_max that clients set below 8192"),
    min_frame_max=8_192,
)
_ROW_4_2: Final = replace(
    _ROW_4_1,
    since=(4, 2, 0),
    newest_patch=9,
    upgraded_from=("3.13", "4.0", "4.1"),
    before_upgrade=(_MACHINES, "have Erlang 27 for each node that gets 4.2.9 or later, which require it"),
)
_ROW_4_3: Final = replace(
    _ROW_4_2,
    since=(4, 3, 0),
    newest_patch=6,
    upgraded_from=("4.2",),
    before_upgrade=(
        _MACHINES,
        "be on Erlang 27",
        "enable the feature flag khepri_db, which enable_feature_flag all may leave out: 4.3 has no Mnesia",
        "see that quorum_queue_non_voters and message_containers_deaths_v2 are enabled, too",
        "set deprecated_features.permit.* on all nodes for what is still needed of the features that 4.3 denies",
        "restart all nodes once with the feature flag rabbitmq_4.0.0 if 3.13 had the plugin rabbitmq_amqp1_0",
    ),
    needed_patch=(NEWEST_PATCH, "be on the latest patch release of 4.2"),
)
_ROW_4_4: Final = replace(
    _ROW_4_3, since=(4, 4, 0), newest_patch=1, upgraded_from=("4.3",), before_upgrade=(), needed_patch=None
)

ROWS: Final = tuple(
    replace(row, since=(*row.since[:2], patch), profile=profile)
    for row in (_ROW_3_10, _ROW_3_11, _ROW_3_12, _ROW_3_13, _ROW_4_0, _ROW_4_1, _ROW_4_2, _ROW_4_3, _ROW_4_4)
    for patch, profile in PATCHES[row.since[:2]].items()
)
"""All releases that are known here, the oldest first; a patch release has a row if it differs from those before it."""

LIVE: Final = ((3, 10, 8), (4, 0, 5), (4, 3, 6))
"""The releases of which live brokers were had: which facts are shown by live brokers follows from these."""
SERIES: Final = {row.series: row for row in ROWS}
"""Series of releases -> the row of its newest patch release, the oldest first."""
PROFILES: Final = {row.profile.name: row.profile for row in ROWS if row.profile.name}
"""Name -> profile, the oldest first. A server between two of them behaves as the older one."""
LATEST_PROFILE: Final = ROWS[-1].profile
"""The profile of the newest release, for whatever names none."""
OLDEST: Final = ROWS[0]
RELEASES: Final = f"{', '.join(PROFILES)}, or a release from {OLDEST.series} on, as 4.1.3, 4.1 or 4.1.x"
"""Names that `find_profile_by_name` accepts, for errors."""


def find_row(numbers: tuple[int, int, int]) -> ReleaseRow:
    """Return the row of a release: the newest one for a newer release, the oldest one for an older."""
    return next((row for row in reversed(ROWS) if row.since <= numbers), OLDEST)


def find_profile(version: str) -> Profile:
    """Return the profile of a server by the version it reports, ``"4.0.5"``.

    For a newer server, it is the newest profile; for an older one, the oldest, where `find_profile_by_name` returns
    None.
    """
    return find_closest_profile(version) or PROFILES[f"rabbitmq-{OLDEST.series}"]


def resolve_profile(profile: Profile | str) -> Profile:
    """Return the profile of a name, or the profile itself. Raises ValueError listing the names."""
    found = profile if isinstance(profile, Profile) else find_profile_by_name(profile)
    if found is None:
        raise ValueError(f"no profile {profile!r}; there are {RELEASES}")
    return found


def find_profile_by_name(name: str) -> Profile | None:
    """Return the profile that a user names, in any form that `read_release` takes: ``4.2.6`` or ``rabbitmq-4.2``.

    None for what is no release, and for one older than the oldest profile, whose rules are unknown.
    """
    numbers = read_release(name)
    return None if numbers is None or numbers < OLDEST.since else find_closest_profile(name)


def warn_of(profile: Profile, stacklevel: int) -> None:
    """Warn a caller of the library that a profile is not that of the release which was named; see `Profile.caveat`."""
    if profile.caveat:
        warnings.warn(profile.caveat, UnknownReleaseWarning, stacklevel + 1)


def find_closest_profile(name: str) -> Profile | None:
    """Return the profile as `find_profile_by_name`, but the oldest one for an older release; None for no release."""
    numbers = read_release(name)
    if numbers is None:
        return None
    if numbers < OLDEST.since:
        return PROFILES[f"rabbitmq-{OLDEST.series}"]
    row = find_row(numbers)
    release = ".".join(map(str, numbers if numbers[2] != NEWEST_PATCH else numbers[:2]))
    is_known = row.since[:2] >= numbers[:2]
    if is_known and numbers[2] in (NEWEST_PATCH, *range(row.newest_patch + 1)):
        return row.profile if row.profile.name else replace(row.profile, name=f"rabbitmq-{release}")
    newest = f"{row.series}.{row.newest_patch}"
    rules = row.profile.name or f"rabbitmq-{newest}"
    if is_known:
        why = f"is newer than {newest}, the newest of {row.series} that is known here"
    elif row is ROWS[-1]:
        why = "is newer than all that are known here"
    else:
        why = "is not known here"  # there is none between two series
    caveat = f"RabbitMQ {release} {why}: the rules of {rules} are applied"
    applied_to = release if is_known or row is ROWS[-1] else ""
    return replace(row.profile, name=rules, applied_to=applied_to, caveat=caveat)
