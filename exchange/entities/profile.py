"""The differences between RabbitMQ releases in how they route and what they accept.

A profile is a row of a table: code reads a difference by its name, and never compares versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

__all__ = [
    "LATEST", "NEWEST_PATCH", "PROFILES", "RELEASES", "VERSION", "Profile", "closest_profile", "profile_by_name",
    "profile_for", "read_release",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Profile:
    """The behaviour of RabbitMQ from a release on, up to the next one in ``PROFILES``."""

    name: str
    integers_equal_floats: bool
    """In headers, 1 matches 1.0 (up to 3.12, which compares with Erlang's `==`; later releases use `=:=`)."""
    timestamps_in_milliseconds: bool
    """A message's timestamp header is multiplied by 1000 before it is compared, a binding's is not (since 3.13)."""
    signed_zeros_differ: bool
    """In headers, 0.0 does not match -0.0 (Erlang/OTP 27 and later, which 4.0 can run on and 4.2 must)."""
    max_many: int | None
    """Maximum number of ``#`` in a new topic binding, None for no maximum (since 4.3.5). Older bindings still route."""
    unknown_type_closes_connection: bool
    """An unknown exchange type is a 503 and not a 406 (up to 3.13)."""
    queues_have_a_type: bool
    """A queue declared without x-queue-type gets the argument, with the value classic (4.0; not in 3.10)."""
    local_random: bool
    """There is the exchange type x-local-random (since 4.0)."""
    hash_headers_have_types: bool
    """x-consistent-hash hashes the value of a header with its AMQP type, ``{longstr, V}`` (up to 3.12)."""
    hashes_empty_arrays: bool
    """x-consistent-hash takes an empty array as the value of a header; from 3.13 to 4.3.4 the channel crashes."""
    max_weight: int | None
    """Maximum weight, the key of a binding to x-consistent-hash (since 4.3, and 4.2.6)."""
    modulus_hash_sorts: bool
    """x-modulus-hash counts bindings in the order of their destinations, not of the broker's table (since 4.3)."""
    modulus_hash_depends_on_store: bool = field(repr=False)
    """The order in which x-modulus-hash counts bindings is another one in Khepri than in Mnesia (from 4.0 to 4.2)."""
    hash_rings_are_kept: bool = field(repr=False)  # a tally's fingerprint has the representation in it
    """A restart keeps the ring of x-consistent-hash; before 4.3 it builds a new one, in an order of its own."""
    selectors_are_checked: bool = field(repr=False)
    """x-jms-topic accepts only selectors of its grammar, with patterns that compile (4.3.6; not in 4.0)."""
    like_without_text_matches_nothing: bool = field(repr=False)
    """x-jms-topic takes no binding at all if a LIKE is applied to a value that is no text (4.3.6; in 4.0, the channel
    crashes)."""
    import_needs_queue_flags: bool = field(repr=False)
    """An import of definitions refuses queues without durable or auto_delete (3.10; not 4.0)."""
    import_needs_durable: bool = field(repr=False)
    """An import of definitions refuses exchanges without durable (3.10 and 4.0; not 4.3)."""
    import_skips_bindings: bool = field(repr=False)
    """An import leaves bindings out in silence whose ends are missing (3.10); 4.0 refuses the whole file."""
    import_checks_topic_exchanges: bool = field(repr=False)
    """An import refuses topic permissions for an exchange that does not exist (4.3; not 4.0)."""
    settings: str
    """Release that defines the queue arguments and policy settings: 3.10, 3.12, 4.0 or 4.3."""
    lives: str = field(repr=False)
    """Release that defines what becomes of messages in queues: 3.10, 3.12, 3.13, 4.0 or 4.3."""


_4_3: Final = Profile(
    name="rabbitmq-4.3",
    integers_equal_floats=False,
    timestamps_in_milliseconds=True,
    signed_zeros_differ=True,
    max_many=2,
    unknown_type_closes_connection=False,
    queues_have_a_type=True,
    local_random=True,
    hash_headers_have_types=False,
    hashes_empty_arrays=True,
    max_weight=10_000,
    modulus_hash_sorts=True,
    modulus_hash_depends_on_store=False,
    hash_rings_are_kept=True,
    selectors_are_checked=True,
    like_without_text_matches_nothing=True,
    import_needs_queue_flags=False,
    import_needs_durable=False,
    import_skips_bindings=False,
    import_checks_topic_exchanges=True,
    settings="4.3",
    lives="4.3",
)
_4_0: Final = replace(
    _4_3,
    name="rabbitmq-4.0",
    max_many=None,
    hashes_empty_arrays=False,
    max_weight=None,
    modulus_hash_sorts=False,
    modulus_hash_depends_on_store=True,
    hash_rings_are_kept=False,
    selectors_are_checked=False,
    like_without_text_matches_nothing=False,
    import_needs_durable=True,
    import_checks_topic_exchanges=False,
    settings="4.0",
    lives="4.0",
)
_3_13: Final = replace(
    _4_0,
    name="rabbitmq-3.13",
    modulus_hash_depends_on_store=False,
    signed_zeros_differ=False,
    unknown_type_closes_connection=True,
    queues_have_a_type=False,
    local_random=False,
    settings="3.12",
    lives="3.13",
)
_3_10: Final = replace(
    _3_13,
    name="rabbitmq-3.10",
    integers_equal_floats=True,
    timestamps_in_milliseconds=False,
    hash_headers_have_types=True,
    hashes_empty_arrays=True,
    import_needs_queue_flags=True,
    import_skips_bindings=True,
    settings="3.10",
    lives="3.10",
)

PROFILES: Final = {
    profile.name: profile
    for profile in (_3_10, replace(_3_10, name="rabbitmq-3.12", settings="3.12", lives="3.12"), _3_13, _4_0, _4_3)
}
"""Name -> profile, the oldest first. A server between two of them behaves as the older one."""

LATEST: Final = _4_3
"""The profile of the newest release, for whatever names none."""
OLDEST: Final = _3_10
RELEASES: Final = f"{', '.join(PROFILES)}, or a release from 3.10 on, as 4.1.3, 4.1 or 4.1.x"
"""Names that `profile_by_name` accepts, for errors."""

NEWEST_PATCH: Final = 999
"""Number of the patch release that a series of releases stands for: the newest."""


def read_release(name: str) -> tuple[int, int, int] | None:
    """Return the numbers of a release as users, brokers and packages write it; None for what is no release.

    What follows three numbers does not count: the revision of a package, a build, a release candidate. A series is its
    newest patch release, with the number `NEWEST_PATCH`.

    >>> read_release("v4.2.6"), read_release("4.2.6-1~bpo12+1"), read_release("rabbitmq-4.2"), read_release("4.2.x")
    ((4, 2, 6), (4, 2, 6), (4, 2, 999), (4, 2, 999))
    >>> read_release("4"), read_release("4.3-rc.1")  # which series, or which patch release?
    (None, None)
    """
    found = VERSION.fullmatch(name.strip())
    if found is None:
        return None
    major, minor = map(int, found[1].split("."))
    return major, minor, NEWEST_PATCH if found[2] is None else int(found[2])


def profile_for(version: str) -> Profile:
    """Return the profile of a server by the version it reports, ``"4.0.5"``.

    For a newer server, it is the newest profile; for an older one, the oldest, where `profile_by_name` returns None.
    """
    return closest_profile(version) or OLDEST


def profile_by_name(name: str) -> Profile | None:
    """Return the profile that a user names, in any form that `read_release` takes: ``4.2.6`` or ``rabbitmq-4.2``.

    None for what is no release, and for one older than the oldest profile, whose rules are unknown.
    """
    numbers = read_release(name)
    return None if numbers is None or numbers < _since(OLDEST) else closest_profile(name)


def closest_profile(name: str) -> Profile | None:
    """Return the profile as `profile_by_name`, but the oldest one for an older release; None for what is no release."""
    numbers = read_release(name)
    if numbers is None:
        return None
    own_name = f"rabbitmq-{numbers[0]}.{numbers[1]}" + (f".{numbers[2]}" if numbers[2] != NEWEST_PATCH else "")
    if (4, 3, 0) <= numbers < (4, 3, 5):
        return replace(_4_3, name=own_name, max_many=None, hashes_empty_arrays=False)
    if (4, 2, 6) <= numbers < (4, 3, 0):
        return replace(_4_0, name=own_name, max_weight=_4_3.max_weight)
    best = OLDEST
    for profile in PROFILES.values():
        if _since(profile) <= numbers:
            best = profile
    return best


def _since(profile: Profile) -> tuple[int, ...]:
    return tuple(map(int, profile.name.removeprefix("rabbitmq-").split(".")))


VERSION: Final = re.compile(
    r"(?:[Rr]abbit[Mm][Qq][- :])?v?([0-9]{1,4}\.[0-9]{1,4})"
    r"(?:(?:\.[xX*])?(?:-(?:management|alpine))*|\.([0-9]{1,4})(?:\.[0-9]{1,4})?(?:[-+~_][-+~_.0-9A-Za-z]*)?)"
)
"""A release as users, brokers, packages and images write it; its groups are the series, and the number of the patch
release unless the newest is meant."""
