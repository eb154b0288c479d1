"""What RabbitMQ makes of a number of a queue that is not one that it means: text, a fraction, one below the least.

A declaration checks most numbers; those of this table some release takes as they are given, or a queue that has one is
older than the check. The rows are those of `rabbit_quorum_queue.erl`, `rabbit_fifo.erl`, `rabbit_queue_type.erl`,
`rabbit_channel.erl` and `rabbit_quorum_queue_periodic_membership_reconciliation.erl` between 3.10.0 and 4.3.5. Live
servers of 3.10.8, 4.0.5 and 4.3.6 have shown what the tests list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor, isfinite
from typing import Any, Final, NamedTuple

from exchange.entities.profile import Profile


class OddNumber(NamedTuple):
    """What becomes of a value that is not one that RabbitMQ means."""

    text: str
    """What it does, as a clause; for one that counts as none, why."""
    counts_as: int | None = None
    """The number as which it counts."""
    is_unset: bool = False
    """Whether it counts as if it were not given: it only keeps other values of the same setting out of force."""


Read = Callable[[Any, str, Profile], OddNumber | None]
"""Value, which is not None, type of the queue, release -> what becomes of it; None for one that is meant."""
_NO_INTEGER: Final = OddNumber("its value is no integer", is_unset=True)


def _delivery_limit(value: Any, queue_type: str, profile: Profile) -> OddNumber | None:
    lives = profile.lives
    if type(value) is int:
        return None
    if not lives.any_number_limits:
        return _NO_INTEGER
    if isinstance(value, float) and isfinite(value):
        return OddNumber(f"it is compared as it is, so it counts as {floor(value)}", floor(value))
    if lives.delivery_limit is None:
        return _NO_INTEGER
    return OddNumber(f"nothing limits deliveries, not even the default limit of {lives.delivery_limit}", -1)


def _consumer_timeout(value: Any, queue_type: str, profile: Profile) -> OddNumber | None:
    takes_back = profile.lives.consumer_timeout is not None
    if type(value) is not int:
        # Since 4.3, channels crash instead: `exchange.entities.queue_arguments.explain_crash`.
        return None if takes_back else OddNumber("no time is too long for a consumer, not even the default of 30 min")
    if value > 0 or (takes_back and queue_type != "quorum"):
        return None
    if takes_back:
        return OddNumber("the queue takes each message back from its consumer at once")
    return OddNumber("a channel that holds a message of the queue is closed at its next check, once a minute")


def _disconnected_timeout(value: Any, queue_type: str, profile: Profile) -> OddNumber | None:
    return None if type(value) is int else OddNumber(UNCONFIGURABLE)


def _retry_delay(value: Any, queue_type: str, profile: Profile) -> OddNumber | None:
    if type(value) is not int:
        return _NO_INTEGER
    return None if value >= 1 else OddNumber("its value is below 1", is_unset=True)


def _target_group_size(value: Any, queue_type: str, profile: Profile) -> OddNumber | None:
    # RabbitMQ compares {Type, Value}, which is greater than any number.
    return OddNumber("RabbitMQ lets the queue grow to all nodes, whatever the number is")


def _time_to_live(value: Any, queue_type: str, profile: Profile) -> OddNumber | None:
    is_late = queue_type == "quorum" and profile.lives.consumer_timeout is not None
    longest = _LONGEST * 1000 if is_late else _LONGEST
    is_longer = type(value) is int and value > longest
    return (
        OddNumber("the queue crashes when it gets a message: it is too long for Erlang's timers") if is_longer else None
    )


_LONGEST: Final = 7_000_000_000_000
"""Maximum message-ttl of a policy, in milliseconds, with which queues of live brokers go on: nothing limits it to the
ten years of an argument. Those of 3.10.8 and 4.0.5 crash from 7.2e12 (quorum) or 9.2e12 (classic) on, quorum queues of
4.3.6 from 7.2e15 on."""
UNCONFIGURABLE: Final = "policies are not applied to the queue any more, nor can it get new members"
_ROWS: Final[Mapping[str, Read]] = {
    "delivery-limit": _delivery_limit, "consumer-timeout": _consumer_timeout,
    "consumer-disconnected-timeout": _disconnected_timeout, "delayed-retry-min": _retry_delay,
    "delayed-retry-max": _retry_delay, "message-ttl": _time_to_live, "quorum-target-group-size": _target_group_size,
}  # fmt: skip
"""Setting, as policies name it -> what becomes of its values. Each release that reads another one checks it."""


def explain_odd_number(name: str, value: Any, queue_type: str, profile: Profile) -> OddNumber | None:
    """Return what becomes of the value in force of a setting that a queue reads; None for one that is meant."""
    read = _ROWS.get(name)
    if read is None:
        return None
    return _VOID if value is None and name != "quorum-target-group-size" else read(value, queue_type, profile)


_VOID: Final = OddNumber("its value is void", is_unset=True)
