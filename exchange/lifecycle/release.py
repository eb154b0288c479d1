"""The differences between RabbitMQ releases in what becomes of messages in queues: a table, read by names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

__all__ = ["RELEASES", "Release"]


@dataclass(frozen=True, slots=True)
class Release:
    """The behaviour of RabbitMQ's queues from a release on."""

    deaths_are_headers: bool
    """The dead-letter history is the header x-death itself, which a publisher may set (up to 3.12)."""
    published_deaths_count: bool
    """A header x-death that a publisher sets counts for the history and for cycles (up to 3.13)."""
    names_last_death: bool
    """Dead letters have headers ``x-last-death-*`` beside ``x-first-death-*`` (since 3.13)."""
    delivery_limit: int | None
    """Delivery limit of a quorum queue that sets none: 20 since 4.0, before that none."""
    negative_limit_is_none: bool
    """A negative x-delivery-limit is no limit (since 4.0); before that it is one of 0."""
    get_shows_no_returns: bool
    """A message that basic.get takes from a quorum queue has x-delivery-count even if it is 0 (up to 3.11)."""
    limit_gives_credit: bool
    """A consumer that exceeds the delivery limit of a quorum queue may hold one message more from then on (3.10)."""
    cancel_delivers: bool
    """When the active consumer of a classic queue is cancelled, the next one gets what is ready (since 4.0)."""
    active_yields: bool
    """The single active consumer of a quorum queue yields to one of higher priority (since 4.0)."""
    failures_are_limited: bool
    """The delivery limit counts failed deliveries only (since 4.3), before that all returns to the queue."""
    counts_failures: bool
    """Dead letters of quorum queues take the number of failed deliveries along (since 4.0)."""
    classic_counts_failures: bool
    """Dead letters of classic queues do so, too, and are redelivered messages then (since 4.3)."""
    nack_is_no_failure: bool
    """basic.nack gives a message back without a failed delivery, unlike basic.reject (since 4.3)."""
    unlimited_returns_go_last: bool
    """What is given back to a quorum queue without a delivery limit goes to its end (up to 4.2), not to its place."""
    quorum_priorities: int
    """Number of priorities of a quorum queue: 1; 2 since 4.0, which take turns; 32 since 4.3, in strict order."""
    drops_in_order: bool
    """A quorum queue that drops several messages at once dead-letters the oldest first (since 4.3), not last."""
    hears_own_limit_late: bool
    """A quorum queue that a dead message fills takes its dead letter all the same, if it must arrive there (since 4.3).

    Not the first dead letter that the queue ever sends to itself.
    """
    properties_have_size: bool
    """The encoded properties of a message count for the max-length-bytes of a quorum queue (since 4.3)."""


_4_3: Final = Release(
    deaths_are_headers=False,
    published_deaths_count=False,
    names_last_death=True,
    delivery_limit=20,
    negative_limit_is_none=True,
    get_shows_no_returns=False,
    limit_gives_credit=False,
    cancel_delivers=True,
    active_yields=True,
    failures_are_limited=True,
    counts_failures=True,
    classic_counts_failures=True,
    nack_is_no_failure=True,
    unlimited_returns_go_last=False,
    quorum_priorities=32,
    drops_in_order=True,
    hears_own_limit_late=True,
    properties_have_size=True,
)
_4_0: Final = replace(
    _4_3,
    failures_are_limited=False,
    classic_counts_failures=False,
    nack_is_no_failure=False,
    unlimited_returns_go_last=True,
    quorum_priorities=2,
    drops_in_order=False,
    hears_own_limit_late=False,
    properties_have_size=False,
)
_3_13: Final = replace(
    _4_0,
    published_deaths_count=True,
    delivery_limit=None,
    negative_limit_is_none=False,
    cancel_delivers=False,
    active_yields=False,
    counts_failures=False,
    quorum_priorities=1,
)
_3_12: Final = replace(_3_13, deaths_are_headers=True, names_last_death=False)
_3_10: Final = replace(_3_12, get_shows_no_returns=True, limit_gives_credit=True)

RELEASES: Final[Mapping[str, Release]] = MappingProxyType({
    "3.10": _3_10,
    "3.12": _3_12,
    "3.13": _3_13,
    "4.0": _4_0,
    "4.3": _4_3,
})  # fmt: skip
"""`exchange.entities.profile.Profile.lives` -> behaviour."""
