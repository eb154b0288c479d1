"""Numbers that RabbitMQ does not mean: what they do is what brokers do, and what is called without effect has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import PROFILES, BrokerError, Message, Policy, Queue, Topology
from exchange.entities.effects import explain_name
from exchange.entities.in_force import Policies, SettingsInForce
from exchange.entities.odd_numbers import explain_odd_number
from exchange.entities.queue_arguments import refuse_queue
from exchange.entities.releases import find_profile
from exchange.errors import PreconditionFailed
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.limits import Limits, build_limits
from tests.support.tiers import examples

MOST: Final = 25
DELIVERIES: Final[Mapping[str, Mapping[tuple[Any, int | None], int]]] = {
    "3.10.8": {
        (2.5, None): 3, (2.5, 5): 3, (2.0, None): 3, (-1.5, None): 1, (-1, 5): 1, (0, None): 1, ("abc", None): MOST,
        ("abc", 5): 6, (True, None): MOST, (None, 5): 6,
    },
    "4.0.5": {
        (2.5, None): 3, (2.5, 5): 3, (2.5, -1): 3, (-1.5, None): MOST, (-1.5, 5): 6, (-1, -1): MOST, (0, -1): 1,
        ("abc", None): MOST, ("abc", 5): 6, ("abc", -1): MOST, (True, -1): MOST, (None, None): 21, (None, -1): 21,
    },
    "4.3.6": {
        (2.5, None): 21, (2.5, 5): 21, (2.5, -1): 21, (-1.5, None): 21, (-1.5, 5): 6, (-1.5, -1): MOST, (0, 5): 1,
        ("abc", None): 21, ("abc", 5): 6, ("abc", -1): 21, (True, None): 21, (None, 5): 6, (None, -1): 21,
    },
}  # fmt: skip
"""Release of a live broker -> x-delivery-limit and delivery-limit by policy -> how often one message is delivered that
is rejected again and again, up to `MOST`. `test_odd_numbers_live.py` asks again."""


def queue_of(kind: str = "quorum", **arguments: Any) -> Queue:
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return Queue("q", arguments={"x-queue-type": kind, **named})


def broker_of(release: str, queue: Queue, policy: Mapping[str, Any] | None = None) -> Broker:
    policies = [Policy("p", "", policy)] if policy else []
    return Broker(Topology(queues=[queue], policies=policies, profile=find_profile(release)))


@pytest.mark.parametrize("release", [*DELIVERIES])
def test_a_message_is_delivered_as_often_as_by_a_live_broker(release: str) -> None:
    for (value, by_policy), times in DELIVERIES[release].items():
        policy = None if by_policy is None else {"delivery-limit": by_policy}
        broker = broker_of(release, queue_of(delivery_limit=value), policy)
        broker.publish(Message("", "q"))
        counted = 0
        while counted < MOST and (delivery := broker.get("q")) is not None:
            counted += 1
            broker.reject(delivery)
        assert counted == times, (value, by_policy)


@pytest.mark.parametrize(("release", "times"), [("4.2.4", 3), ("4.2.5", 21), ("4.1", 3), ("4.3.0", 21)])
def test_a_fraction_limits_deliveries_up_to_the_release_that_looks_at_it(release: str, times: int) -> None:
    [settings] = Policies({}, profile=find_profile(release)).possible_settings(queue_of(delivery_limit=2.5))
    assert build_limits(settings, queue_of(), find_profile(release)).delivery_limit == times - 1


NUMBERS: Final = st.sampled_from([-5, -1, 0, 1, 5, 500, -5.5, 2.5, 500.0, "abc", True, None])
ARGUMENTS: Final = st.fixed_dictionaries(
    {"x-queue-type": st.sampled_from(["classic", "quorum", "stream"])},
    optional={
        **{
            f"x-{name}": NUMBERS
            for name in (
                "delivery-limit", "consumer-timeout", "consumer-disconnected-timeout", "delayed-retry-min",
                "delayed-retry-max", "quorum-target-group-size", "max-length", "message-ttl",
            )
        },
        "x-delayed-retry-type": st.sampled_from(["all", "failed", "disabled", "al", 5]),
        "x-overflow": st.sampled_from(["reject-publish", "reject-publish-dlx", "drop-head"]),
        "x-dead-letter-exchange": st.just("amq.fanout"),
        "x-dead-letter-strategy": st.sampled_from(["at-least-once", "at-most-once"]),
        "x-dead-letter-routing-key": st.just("k"),
    },
)  # fmt: skip
DEFINITIONS: Final = st.fixed_dictionaries(
    {},
    optional={
        "delivery-limit": st.sampled_from([-1, 0, 5]),
        **{name: st.sampled_from([1, 60, 900]) for name in ("delayed-retry-min", "delayed-retry-max")},
        "consumer-timeout": st.sampled_from([0, 60]),
        "delayed-retry-type": st.sampled_from(["all", "returned", "disabled"]),
        "overflow": st.sampled_from(["reject-publish", "reject-publish-dlx", "drop-head"]),
        "dead-letter-strategy": st.sampled_from(["at-least-once", "at-most-once"]),
    },
)
Given = tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]
"""Arguments, the definition of the policy and of the operator policy."""


def in_force(given: Given, release: str) -> SettingsInForce:
    arguments, policy, operator = given
    policies = Policies(
        {"p": Policy("p", "", policy)}, {"o": Policy("o", "", operator, operator=True)}, profile=find_profile(release)
    )
    [settings] = policies.possible_settings(Queue("q", arguments=arguments))
    return settings


def limits_of(given: Given, release: str) -> Limits:
    return build_limits(in_force(given, release), Queue("q", arguments=given[0]), find_profile(release))


def remove(given: Given, source: str, name: str) -> Given:
    at = ["argument", "policy", "operator policy"].index(source)
    left = [{key: value for key, value in one.items() if key != name or where != at} for where, one in enumerate(given)]
    return left[0], left[1], left[2]


RELEASES: Final = (*PROFILES, "4.2.4", "4.2.5", "4.3.0", "4.3.1")


@examples(400)
@given(st.tuples(ARGUMENTS, DEFINITIONS, DEFINITIONS), st.sampled_from(RELEASES))
def test_to_remove_what_has_no_effect_changes_no_life(given: Given, release: str) -> None:
    """Each alone, and all at once: that is what the way out of HS606 and HS709 says."""
    limits, rest = limits_of(given, release), given
    for name, (setting, reason) in in_force(given, release).without_effect.items():
        assert limits_of(remove(given, setting.source, name), release) == limits, (name, reason)
        rest = remove(rest, setting.source, name)
    assert limits_of(rest, release) == limits


@examples(150)
@given(st.tuples(ARGUMENTS, DEFINITIONS, DEFINITIONS), st.sampled_from(RELEASES))
def test_what_only_hides_another_value_lets_it_count_when_it_is_removed(given: Given, release: str) -> None:
    settings = in_force(given, release)
    for name, (setting, _) in settings.only_hides.items():
        without = in_force(remove(given, setting.source, name), release)
        assert {key: each.value for key, each in without.values.items()} != {
            key: each.value for key, each in settings.values.items()
        }


@pytest.mark.parametrize("value", [0, -5])
def test_a_timeout_that_is_not_positive_takes_each_message_back_at_once(value: int) -> None:
    """As the queue of a live 4.3.6 that had the argument from before; of a new one, 4.3.2 and later refuse -5."""
    for broker, timeout in (
        (broker_of("4.3.1", queue_of(consumer_timeout=value)), None), (broker_of("4.3.1", queue_of()), value),
    ):  # fmt: skip
        consumer = broker.consume("q", prefetch=1, timeout=timeout)
        broker.publish(Message("", "q"))
        broker.advance(0.001)
        assert (len(broker.messages("q")), consumer.timeouts) == (1, 1)


@pytest.mark.parametrize("value", ["abc", 5.5, True])
def test_a_queue_crashes_on_a_consumer_whose_timeout_is_no_integer_before_it_is_checked(value: Any) -> None:
    with pytest.raises(BrokerError, match="541 INTERNAL_ERROR - the queue crashes, for ever, on an x-consumer"):
        broker_of("4.3.1", queue_of()).consume("q", prefetch=1, timeout=value)
    with pytest.raises(PreconditionFailed):
        broker_of("4.3.2", queue_of()).consume("q", prefetch=1, timeout=value)


@pytest.mark.parametrize("value", ["abc", 5.5, True])
def test_a_queue_whose_disconnected_timeout_is_no_integer_heeds_no_policy(value: Any) -> None:
    """A live 4.3.6 kept four messages in such a queue, which was stored before, with max-length 1 by a later policy."""
    queue = queue_of(consumer_disconnected_timeout=value)
    for release in ("4.3.0", "4.3.1"):
        with pytest.raises(BrokerError, match="541 INTERNAL_ERROR - the channel crashes on an x-consumer-disc"):
            refuse_queue(queue, "queue 'q'", find_profile(release))
    with pytest.raises(PreconditionFailed):
        refuse_queue(queue, "queue 'q'", find_profile("4.3.2"))
    for release, left in (("4.3.6", 4), ("4.2", 1)):
        broker = broker_of(release, queue)
        for _ in range(4):
            broker.publish(Message("", "q"))
        broker.set_policy(Policy("p", "", {"max-length": 1}))
        assert len(broker.messages("q")) == left


def test_the_size_of_the_group_is_read_since_3_13_and_any_value_stands_for_all_nodes() -> None:
    queue = queue_of(quorum_target_group_size=3)
    for release, is_read in (("3.12", False), ("3.13", True), ("4.4", True)):
        assert (explain_name(queue, "x-quorum-target-group-size", find_profile(release)) is None) is is_read
    assert explain_odd_number("quorum-target-group-size", 3, "quorum", find_profile("4.3")) is not None
    classic = replace(queue, arguments={**queue.arguments, "x-queue-type": "classic"})
    assert explain_name(classic, "x-quorum-target-group-size", find_profile("4.3")) is not None


@pytest.mark.parametrize(
    ("release", "kind", "crashes_from"),
    [("4.0", "quorum", 10**13), ("4.3", "quorum", 10**16), ("4.3", "classic", 10**13), ("3.10", "classic", 10**13)],
)
def test_a_time_to_live_is_too_long_where_queues_of_live_brokers_crash(
    release: str, kind: str, crashes_from: int
) -> None:
    profile = find_profile(release)
    assert explain_odd_number("message-ttl", crashes_from, kind, profile) is not None
    assert explain_odd_number("message-ttl", crashes_from // 10, kind, profile) is None
