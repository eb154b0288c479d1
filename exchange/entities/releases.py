"""The table of RabbitMQ's releases: one row for each, with what it does, accepts, and asks for before an upgrade.

Nothing else in the product compares with a release: what differs is a field, named for what the broker does. A row is
its predecessor with what changed, so a new release is a row here, with its facts in `bindings.upgrading.facts`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Final

from exchange.entities.profile import NEWEST_PATCH, Profile, QueueBehaviour, ReleaseRow, read_release
from exchange.entities.release_settings import (
    SETTINGS_3_10,
    SETTINGS_3_10_0,
    SETTINGS_3_11_10,
    SETTINGS_3_11_15,
    SETTINGS_3_11_24,
    SETTINGS_3_12,
    SETTINGS_3_12_0,
    SETTINGS_3_13,
    SETTINGS_3_13_0,
    SETTINGS_4_0,
    SETTINGS_4_2_7,
    SETTINGS_4_2_8,
    SETTINGS_4_3,
    SETTINGS_4_3_0,
    SETTINGS_4_3_1,
    SETTINGS_4_4,
)
from exchange.errors import UnknownReleaseWarning

__all__ = [
    "LATEST_PROFILE", "LIVE", "PROFILES", "RELEASES", "ROWS", "SERIES", "find_closest_profile", "find_profile",
    "find_profile_by_name", "find_row", "resolve_profile", "warn_of",
]  # fmt: skip

_LIVES_3_10: Final = QueueBehaviour(
    deaths_are_headers=True,
    published_deaths_count=True,
    sorts_deaths=False,
    names_last_death=False,
    delivery_limit=None,
    negative_limit_is_none=False,
    any_number_limits=True,
    get_shows_no_returns=True,
    limit_gives_credit=True,
    discards_need_consumer=False,
    cancel_delivers=False,
    active_yields=False,
    return_strands=False,
    least_max_priority=0,
    failures_are_limited=False,
    counts_failures=False,
    classic_counts_failures=False,
    nack_is_no_failure=False,
    unlimited_returns_go_last=True,
    quorum_priorities=1,
    drops_in_order=False,
    hears_own_limit_late=False,
    properties_have_size=False,
    refusals_name_streams=False,
    get_quotes_type=False,
    consumer_timeout=None,
)
_LIVES_3_11: Final = replace(_LIVES_3_10, limit_gives_credit=False)
_LIVES_3_12: Final = replace(_LIVES_3_11, get_shows_no_returns=False)
_LIVES_3_13: Final = replace(_LIVES_3_12, deaths_are_headers=False, names_last_death=True)
_LIVES_3_13_0: Final = replace(_LIVES_3_13, published_deaths_count=False, sorts_deaths=True)
_LIVES_3_13_4: Final = replace(_LIVES_3_13, least_max_priority=1)
_LIVES_4_0: Final = replace(
    _LIVES_3_13_4,
    published_deaths_count=False,
    delivery_limit=20,
    negative_limit_is_none=True,
    cancel_delivers=True,
    active_yields=True,
    return_strands=True,
    counts_failures=True,
    quorum_priorities=2,
    refusals_name_streams=True,
)
_LIVES_4_0_0: Final = replace(_LIVES_4_0, discards_need_consumer=True)
_LIVES_4_1_2: Final = replace(_LIVES_4_0, return_strands=False)
_LIVES_4_2_0: Final = replace(_LIVES_4_1_2, get_quotes_type=True)
_LIVES_4_2_1: Final = replace(_LIVES_4_2_0, drops_in_order=True)
_LIVES_4_2_5: Final = replace(_LIVES_4_2_1, any_number_limits=False)
_LIVES_4_3: Final = replace(
    _LIVES_4_2_5,
    failures_are_limited=True,
    classic_counts_failures=True,
    nack_is_no_failure=True,
    unlimited_returns_go_last=False,
    quorum_priorities=32,
    hears_own_limit_late=True,
    properties_have_size=True,
    consumer_timeout=1_800_000,
)

_UNDEFINED: Final[frozenset[str | None]] = frozenset({"undefined"})
_UNDEFINED_OR_NULL: Final = _UNDEFINED | {None}
_NO_TYPE: Final = _UNDEFINED_OR_NULL | {""}

_3_10_0: Final = Profile(
    name="",
    integers_equal_floats=True,
    timestamps_in_milliseconds=False,
    signed_zeros_differ=False,
    max_many=None,
    unknown_type_closes_connection=True,
    unknown_type_closes_channel=False,
    queues_have_a_type=False,
    local_random=False,
    hash_headers_have_types=True,
    counts_each_binding=True,
    needs_hash_header=False,
    hashes_empty_arrays=True,
    max_weight=None,
    modulus_hash_sorts=False,
    modulus_hash_depends_on_store=False,
    hash_rings_are_kept=False,
    selectors_are_checked=False,
    selector_patterns_are_checked=False,
    like_without_text_matches_nothing=False,
    delay_is_annotation=False,
    names_queues_by_prefix=False,
    import_needs_queue_flags=True,
    import_needs_durable=True,
    import_skips_bindings=True,
    import_checks_topic_exchanges=False,
    import_sets_topic_permissions_first=False,
    import_skips_generated=False,
    import_takes_any_metadata=False,
    values_for_no_default_type=None,
    import_gives_default_types=False,
    import_keeps_queue_limits=False,
    max_regex_bytes=None,
    max_user_tags=None,
    denied_features=frozenset(),
    settings=SETTINGS_3_10_0,
    lives=_LIVES_3_10,
)
_3_10_6: Final = replace(_3_10_0, routes_as="rabbitmq-3.10", counts_each_binding=False, settings=SETTINGS_3_10)
_3_10: Final = replace(_3_10_6, name="rabbitmq-3.10", routes_as="", values_for_no_default_type=frozenset())
_3_11_0: Final = replace(
    _3_10, name="", routes_as="rabbitmq-3.10", import_needs_queue_flags=False, import_gives_default_types=True,
    lives=_LIVES_3_11,
)  # fmt: skip
_3_11_10: Final = replace(_3_11_0, settings=SETTINGS_3_11_10)
_3_11_15: Final = replace(_3_11_0, settings=SETTINGS_3_11_15)
_3_11_24: Final = replace(_3_11_0, settings=SETTINGS_3_11_24)
_3_12_0: Final = replace(_3_11_0, routes_as="rabbitmq-3.12", settings=SETTINGS_3_12_0, lives=_LIVES_3_12)
_3_12_7: Final = replace(_3_12_0, settings=SETTINGS_3_12)
_3_12: Final = replace(_3_12_7, name="rabbitmq-3.12", routes_as="", values_for_no_default_type=_UNDEFINED)
_3_13_0: Final = replace(
    _3_12_7,
    routes_as="",
    integers_equal_floats=False,
    timestamps_in_milliseconds=True,
    hash_headers_have_types=False,
    needs_hash_header=True,
    hashes_empty_arrays=False,
    delay_is_annotation=True,
    settings=SETTINGS_3_13_0,
    lives=_LIVES_3_13_0,
)
_3_13_2: Final = replace(_3_13_0, values_for_no_default_type=_UNDEFINED)
_3_13_3: Final = replace(_3_13_2, unknown_type_closes_channel=True, import_keeps_queue_limits=True, lives=_LIVES_3_13)
_3_13_4: Final = replace(_3_13_3, settings=SETTINGS_3_13, lives=_LIVES_3_13_4)
_3_13_6: Final = replace(_3_13_4, import_skips_bindings=False)
_3_13: Final = replace(_3_13_6, name="rabbitmq-3.13", needs_hash_header=False)
_4_0: Final = replace(
    _3_13,
    name="rabbitmq-4.0",
    signed_zeros_differ=True,
    unknown_type_closes_connection=False,
    queues_have_a_type=True,
    local_random=True,
    import_sets_topic_permissions_first=True,
    modulus_hash_depends_on_store=True,
    settings=SETTINGS_4_0,
    lives=_LIVES_4_0,
)
_4_0_0: Final = replace(_4_0, name="", routes_as="rabbitmq-4.0", lives=_LIVES_4_0_0)
_4_1_2: Final = replace(_4_0, name="", routes_as="rabbitmq-4.0", lives=_LIVES_4_1_2)
_4_1_4: Final = replace(_4_1_2, import_sets_topic_permissions_first=False)
_4_1_8: Final = replace(_4_1_4, values_for_no_default_type=_UNDEFINED_OR_NULL)
_4_2_0: Final = replace(_4_1_4, lives=_LIVES_4_2_0)
_4_2_1: Final = replace(_4_2_0, lives=_LIVES_4_2_1)
_4_2_2: Final = replace(_4_2_1, import_needs_durable=False)
_4_2_5: Final = replace(_4_2_2, routes_as="", lives=_LIVES_4_2_5)
_4_2_6: Final = replace(_4_2_5, max_weight=10_000, selectors_are_checked=True, import_takes_any_metadata=True)
_4_2_7: Final = replace(_4_2_6, max_user_tags=32, settings=SETTINGS_4_2_7)
_4_2_8: Final = replace(_4_2_7, max_regex_bytes=1_024, settings=SETTINGS_4_2_8, values_for_no_default_type=_NO_TYPE)
_4_2_9: Final = replace(_4_2_8, selector_patterns_are_checked=True)
_4_3_0: Final = replace(
    _4_2_6,
    modulus_hash_sorts=True,
    modulus_hash_depends_on_store=False,
    hash_rings_are_kept=True,
    like_without_text_matches_nothing=True,
    values_for_no_default_type=_UNDEFINED_OR_NULL,
    denied_features=frozenset({"global_qos", "transient_nonexcl_queues"}),
    settings=SETTINGS_4_3_0,
    lives=_LIVES_4_3,
)
_4_3_1: Final = replace(_4_3_0, max_user_tags=32, settings=SETTINGS_4_3_1)
_4_3_2: Final = replace(
    _4_3_1,
    settings=SETTINGS_4_3,
    max_regex_bytes=1_024,
    values_for_no_default_type=_NO_TYPE,
    import_checks_topic_exchanges=True,
)
_4_3_3: Final = replace(_4_3_2, selector_patterns_are_checked=True)
_4_3: Final = replace(_4_3_3, name="rabbitmq-4.3", max_many=2, hashes_empty_arrays=True)
_4_4_0: Final = replace(_4_3, name="", routes_as="rabbitmq-4.3", names_queues_by_prefix=True, settings=SETTINGS_4_4)
_4_4: Final = replace(_4_4_0, name="rabbitmq-4.4", import_skips_generated=True)

_MACHINES: Final = (
    "see in rabbitmq-queues quorum_status that no quorum queue has machine version 3 when the feature flag "
    "rabbitmq_4.0.0 is enabled: at the next basic.consume it would crash for ever, and lose what is published and "
    "confirmed"
)
"""An open fault of RabbitMQ: https://github.com/rabbitmq/rabbitmq-server/issues/17504."""

_ROW_3_10: Final = ReleaseRow((3, 10, 0), _3_10_0, 25, (), ())
_ROW_3_11: Final = replace(
    _ROW_3_10,
    since=(3, 11, 0),
    profile=_3_11_0,
    newest_patch=28,
    upgraded_from=("3.10",),
    before_upgrade=("be on Erlang 25",),
)
_ROW_3_12: Final = ReleaseRow(
    (3, 12, 0),
    _3_12_0,
    newest_patch=14,
    upgraded_from=("3.11",),
    before_upgrade=(),
    needed_patch=(18, "be on 3.11.18 or later, which has all feature flags that 3.12 requires"),
)
_ROW_3_13: Final = replace(
    _ROW_3_12,
    since=(3, 13, 0),
    profile=_3_13_0,
    newest_patch=7,
    upgraded_from=("3.12",),
    before_upgrade=("be on Erlang 26",),
    needed_patch=None,
)
_ROW_4_0: Final = replace(
    _ROW_3_13,
    since=(4, 0, 0),
    profile=_4_0_0,
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
    profile=_4_0,
    newest_patch=8,
    upgraded_from=("3.13", "4.0"),
    before_upgrade=(_MACHINES, "raise a frame_max that clients set below 8192"),
    min_frame_max=8_192,
)
_ROW_4_2: Final = replace(
    _ROW_4_1,
    since=(4, 2, 0),
    profile=_4_2_0,
    newest_patch=9,
    upgraded_from=("3.13", "4.0", "4.1"),
    before_upgrade=(_MACHINES, "have Erlang 27 for each node that gets 4.2.9 or later, which require it"),
)
_ROW_4_3: Final = replace(
    _ROW_4_2,
    since=(4, 3, 0),
    profile=_4_3_0,
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
    _ROW_4_3,
    since=(4, 4, 0),
    profile=_4_4_0,
    newest_patch=1,
    upgraded_from=("4.3",),
    before_upgrade=(),
    needed_patch=None,
)

_PATCHES: Final[tuple[tuple[ReleaseRow, dict[int, Profile]], ...]] = (
    (_ROW_3_10, {6: _3_10_6, 8: _3_10}),
    (_ROW_3_11, {10: _3_11_10, 15: _3_11_15, 24: _3_11_24}),
    (_ROW_3_12, {7: _3_12_7, 14: _3_12}),
    (_ROW_3_13, {2: _3_13_2, 3: _3_13_3, 4: _3_13_4, 6: _3_13_6, 7: _3_13}),
    (_ROW_4_0, {3: _4_0}),
    (_ROW_4_1, {2: _4_1_2, 4: _4_1_4, 8: _4_1_8}),
    (_ROW_4_2, {1: _4_2_1, 2: _4_2_2, 5: _4_2_5, 6: _4_2_6, 7: _4_2_7, 8: _4_2_8, 9: _4_2_9}),
    (_ROW_4_3, {1: _4_3_1, 2: _4_3_2, 3: _4_3_3, 5: _4_3}),
    (_ROW_4_4, {1: _4_4}),
)
"""Row of a series -> number of each patch release that differs from those before it, and its profile."""
ROWS: Final = tuple(
    replace(row, since=(*row.since[:2], patch), profile=profile)
    for row, patches in _PATCHES
    for patch, profile in {0: row.profile, **patches}.items()
)
"""All releases that are known here, the oldest first; a patch release has a row if it differs from those before it."""

LIVE: Final = ((3, 10, 8), (4, 0, 5), (4, 3, 6))
"""The releases of which live brokers were had: what is said to be shown by live brokers follows from these."""
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
