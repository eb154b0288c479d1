"""Queues that nobody can read: on 4.3, an x-consumer-timeout that is no integer crashes each channel that tries."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import PROFILES, BrokerError, Policy, Queue, Topology
from exchange.entities.releases import find_profile
from exchange.lifecycle.broker import Broker
from exchange.values.field_values import Typed
from tests.support.tiers import examples

ANSWERS: Final[tuple[tuple[Any, bool], ...]] = (
    (50_000, True), (1.8e6, False), ("5", False), (True, False), (None, True), (Typed("timestamp", 50_000), True),
    (-1, True), (Decimal("0.5"), False),
)  # fmt: skip
"""Timeout -> whether a broker of 4.3.6 lets a queue with it be read, of each type, as asked on 2026-11-29.

It declares no such queue, so the stored queue was given the argument afterwards.
"""
TYPES: Final = ("classic", "quorum", "stream")


def broker_of(value: Any, kind: str, release: str, by_policy: int | None = None) -> Broker:
    queue = Queue("q", arguments={"x-queue-type": kind, "x-consumer-timeout": value})
    policies = [] if by_policy is None else [Policy("p", "", {"consumer-timeout": by_policy})]
    return Broker(Topology(queues=[queue], policies=policies, profile=find_profile(release)))


def is_readable(broker: Broker, *, by_get: bool) -> bool:
    try:
        broker.get("q") if by_get else broker.consume("q", prefetch=5)
    except BrokerError as error:
        return error.code != 541  # 540 of basic.get of a stream
    return True


@pytest.mark.parametrize("release", ["4.3.0", "4.3.1", "4.3.6", "4.4"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_queue_can_be_read_whenever_a_broker_lets_it_be_read(kind: str, release: str) -> None:
    for value, answer in ANSWERS:
        broker = broker_of(value, kind, release)
        assert [is_readable(broker, by_get=by_get) for by_get in (False, True)] == [answer, answer], value


TIMEOUTS: Final = st.one_of(
    st.integers(-9, 9), st.floats(-9, 9), st.text(max_size=2), st.booleans(), st.none(),
    st.integers(0, 9).map(lambda value: Typed("timestamp", value)),
)  # fmt: skip
BY_POLICY: Final = st.none() | st.integers(0, 9)


def lower_in_erlang(one: Any, other: Any) -> Any:
    """Return erlang:min(one, other): numbers are lower than all else, and the first of two that are equal is taken."""
    numbers = [isinstance(each, (int, float)) and not isinstance(each, bool) for each in (one, other)]
    if all(numbers):
        return min(one, other)
    return one if numbers[0] else other


@examples(200)
@given(TIMEOUTS, BY_POLICY, st.sampled_from(TYPES), st.sampled_from([*PROFILES]), st.booleans())
def test_a_channel_crashes_unless_the_timeout_in_force_is_an_integer(
    given_timeout: Any, by_policy: int | None, kind: str, release: str, by_get: bool
) -> None:
    """As `rabbit_queue_type:get_consumer_timeout/2` has it since 4.3: undefined or an integer, and no other clause."""
    plain = given_timeout.value if isinstance(given_timeout, Typed) else given_timeout
    both = [each for each in (by_policy, plain) if each is not None]
    in_force = lower_in_erlang(*both) if len(both) == 2 else next(iter(both), None)
    has_clause = in_force is None or (isinstance(in_force, int) and not isinstance(in_force, bool))
    crashes = PROFILES[release].settings.crashes_on_timeouts and not has_clause
    broker = broker_of(given_timeout, kind, release, by_policy)
    assert is_readable(broker, by_get=by_get) != crashes


@pytest.mark.parametrize(("value", "readable"), [(1.5, False), (9.5, True), ("1", True), (5.0, True)])
def test_the_lower_timeout_of_a_policy_lets_a_queue_be_read(value: Any, readable: bool) -> None:
    assert is_readable(broker_of(value, "classic", "4.3.1", by_policy=5), by_get=True) == readable
