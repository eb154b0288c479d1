"""Which of two values of one setting counts: the operator's or the user's, the policy's or the argument's.

RabbitMQ compares with Erlang's min and max, in which numbers are below all else and the first of equals is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from exchange.entities.profile import Profile

Merge: TypeAlias = Callable[[Any, Any], bool]
"""Two values, the policy's and the argument's (or the operator's and the user's) -> whether the first counts."""


def prefer_lower(ours: Any, given: Any) -> bool:
    """Return whether erlang:min takes the first: if it is not above the second; no number is above all numbers."""
    return _is_number(ours) and (not _is_number(given) or ours <= given)


def prefer_higher(ours: Any, given: Any) -> bool:
    """Return whether the first of two numbers is the higher one."""
    return _is_number(ours) and _is_number(given) and ours > given


def prefer_stricter(ours: Any, given: Any) -> bool:
    """Return whether the first of two delivery limits is the stricter one: a negative one is no limit."""
    if _is_number(ours) and (ours < 0 or (_is_number(given) and given < 0)):
        return _is_number(given) and ours >= given  # erlang:max
    return prefer_lower(ours, given)


def prefer_argument(ours: Any, given: Any) -> bool:
    """Return False: the argument, or the user's policy, takes precedence."""
    return False


def prefer_policy(ours: Any, given: Any) -> bool:
    """Return True: the policy takes precedence over the argument, or the operator's over the user's."""
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


OF_OPERATORS: Final[Mapping[str, Merge]] = {
    "expires": prefer_lower,
    "message-ttl": prefer_lower,
    "max-length": prefer_lower,
    "max-length-bytes": prefer_lower,
    "max-in-memory-length": prefer_lower,
    "max-in-memory-bytes": prefer_lower,
    "delivery-limit": prefer_stricter,  # as before 4.0, where none can be negative
    "target-group-size": prefer_higher,
    "delayed-retry-min": prefer_higher,
    "delayed-retry-max": prefer_lower,
}
"""Setting that an operator policy and a policy may both have -> whether the operator's counts, as for all others."""

_ANY_TYPE: Final[Mapping[str, Merge]] = {
    "message-ttl": prefer_lower, "max-length": prefer_lower, "max-length-bytes": prefer_lower,
    "consumer-timeout": prefer_lower, "queue-leader-locator": prefer_policy, "queue-master-locator": prefer_policy,
}  # fmt: skip
_CLASSIC: Final[Mapping[str, Merge]] = {**_ANY_TYPE, "expires": prefer_lower}
_QUORUM: Final[Mapping[str, Merge]] = {
    **_ANY_TYPE,
    "expires": prefer_lower,
    "overflow": prefer_policy,
    "delivery-limit": prefer_stricter,
    "max-in-memory-length": prefer_lower,
    "max-in-memory-bytes": prefer_lower,
    "consumer-disconnected-timeout": prefer_lower,
    "delayed-retry-type": prefer_policy,
    "member-placement-tag": prefer_policy,
    "delayed-retry-min": prefer_lower,
    "delayed-retry-max": prefer_lower,
}
_STREAM: Final[Mapping[str, Merge]] = {
    **_ANY_TYPE,
    **dict.fromkeys(
        (
            "max-age",
            "stream-max-segment-size-bytes",
            "initial-cluster-size",
            "max-length-bytes",
            "stream-filter-size-bytes",
        ),
        prefer_policy,
    ),
}

_OLD_QUORUM: Final = {**_QUORUM, "expires": prefer_policy, "delivery-limit": prefer_lower}
_RULES: Final[Mapping[str, Mapping[str, Merge]]] = {"classic": _CLASSIC, "quorum": _QUORUM, "stream": _STREAM}
"""Type of queues -> setting -> whether the policy counts and not the argument, which does for all that are missing."""


def find_merge_rules(queue_type: str, profile: Profile) -> Mapping[str, Merge]:
    """Return which settings by policy count and not those by argument; see `_RULES`."""
    if queue_type == "quorum" and not profile.settings.stricter_counts:
        return _OLD_QUORUM
    return _RULES.get(queue_type, _CLASSIC)
