"""Arguments, policies and operator policies, merged: the values in force and where they come from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exchange import Exchange, Policy, Queue, Topology
from exchange.entities.in_force import NO_DEAD_LETTERS, DeadLetters, Policies, SettingsInForce
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE, PROFILES
from exchange.errors import BadRequest, NotFound
from exchange.lifecycle.limits import find_limits
from exchange.values.field_values import Typed
from tests.support.cases import with_each

OLD, V4, NEW = (PROFILES[f"rabbitmq-{release}"] for release in ("3.13", "4.0", "4.3"))


def settings_of(queue: Queue | Exchange, *policies: Policy, profile: Profile = LATEST_PROFILE) -> SettingsInForce:
    topology = Topology(policies=policies, profile=profile)
    [settings] = topology.policies_in_force().possible_settings(queue)
    return settings


def operator(definition: dict[str, Any], **options: Any) -> Policy:
    return Policy("limits", "", definition, options.pop("apply_to", "queues"), operator=True, **options)


def quorum(**arguments: Any) -> Queue:
    return Queue(
        "q", arguments={"x-queue-type": "quorum", **{f"x-{k.replace('_', '-')}": v for k, v in arguments.items()}}
    )


def classic(**arguments: Any) -> Queue:
    return Queue("q", arguments={f"x-{name.replace('_', '-')}": value for name, value in arguments.items()})


def test_an_operator_policy_adds_what_nobody_else_sets() -> None:
    settings = settings_of(classic(), operator({"expires": 1000}))
    assert settings.get("expires") == 1000
    assert settings.policy is None
    assert settings.policy_definition == {"expires": 1000}


def test_the_argument_counts_for_dead_letters_and_the_policy_for_the_overflow_of_quorum_queues() -> None:
    policy = Policy("p", "", {"dead-letter-exchange": "policy", "overflow": "reject-publish"})
    for make, overflow in ((classic, "drop-head"), (quorum, "reject-publish")):
        settings = settings_of(make(dead_letter_exchange="argument", overflow="drop-head"), policy)
        assert settings.text("dead-letter-exchange") == "argument"
        assert settings.text("overflow") == overflow
    assert str(settings.values["dead-letter-exchange"]) == "argument"


def test_a_policy_decides_about_the_expiry_of_quorum_queues_up_to_3_13() -> None:
    for profile, expires in ((OLD, 2000), (V4, 1000), (NEW, 1000)):
        assert (
            settings_of(quorum(expires=1000), Policy("p", "", {"expires": 2000}), profile=profile).get("expires")
            == expires
        )
        assert (
            settings_of(classic(expires=1000), Policy("p", "", {"expires": 2000}), profile=profile).get("expires")
            == 1000
        )


def test_a_policy_decides_about_the_retention_of_streams() -> None:
    stream = Queue("q", arguments={"x-queue-type": "stream", "x-max-age": "1h", "x-max-length-bytes": 5})
    settings = settings_of(stream, Policy("p", "", {"max-age": "7D", "max-length-bytes": 10}, "streams"))
    assert (settings.get("max-age"), settings.get("max-length-bytes")) == ("7D", 10)


@pytest.mark.parametrize(
    ("argument", "policy", "limit"), [(-1, 5, 5), (5, -1, 5), (-1, -2, -1), (7, 5, 5), (None, -1, -1)]
)
def test_a_negative_delivery_limit_is_no_limit(argument: int | None, policy: int, limit: int) -> None:
    queue = quorum() if argument is None else quorum(delivery_limit=argument)
    assert settings_of(queue, Policy("p", "", {"delivery-limit": policy})).get("delivery-limit") == limit
    if argument is not None:
        both = settings_of(
            quorum(), Policy("p", "", {"delivery-limit": argument}), operator({"delivery-limit": policy})
        )
        assert both.get("delivery-limit") == limit


@pytest.mark.parametrize(("argument", "policy", "limit"), [(-1, 5, -1), (7, 5, 5), (5, 7, 5)])
def test_the_lower_delivery_limit_counts_up_to_3_13(argument: int, policy: int, limit: int) -> None:
    settings = settings_of(quorum(delivery_limit=argument), Policy("p", "", {"delivery-limit": policy}), profile=OLD)
    assert settings.get("delivery-limit") == limit


def test_a_policy_with_one_key_that_the_type_does_not_support_gives_way_to_the_next_one() -> None:
    policies = [
        Policy("limit", "", {"delivery-limit": 3, "message-ttl": 1}, "all", priority=5),
        Policy("ttl", "", {"message-ttl": 2}, "all"),
    ]
    assert settings_of(quorum(), *policies).get("message-ttl") == 1
    assert settings_of(classic(), *policies).get("message-ttl") == 2
    assert settings_of(Queue("s", arguments={"x-queue-type": "stream"}), *policies).policy is None


def test_the_leader_locator_of_classic_queues_is_known_since_4_0() -> None:
    policy = Policy("p", "", {"queue-leader-locator": "balanced"})
    assert settings_of(classic(), policy, profile=OLD).policy is None
    assert settings_of(classic(), policy, profile=V4).policy == policy


@pytest.mark.parametrize(
    ("apply_to", "types"),
    [
        ("all", "cqs"),
        ("queues", "cqs"),
        ("classic_queues", "c"),
        ("quorum_queues", "q"),
        ("streams", "s"),
        ("exchanges", ""),
    ],
)
def test_a_policy_applies_to_the_queues_of_its_type(apply_to: str, types: str) -> None:
    for letter, kind in (("c", "classic"), ("q", "quorum"), ("s", "stream")):
        policy = Policy("p", "", {"max-length-bytes": 1}, apply_to)
        assert (settings_of(Queue("q", arguments={"x-queue-type": kind}), policy).policy is policy) is (letter in types)


def test_policies_of_equal_priority_leave_it_open_unless_they_say_the_same() -> None:
    one, two = Policy("one", "", {"max-length": 1}), Policy("two", "", {"max-length": 2})
    possible = Policies({"one": one, "two": two})
    assert [settings.get("max-length") for settings in possible.possible_settings(classic())] == [1, 2]
    assert possible.settings_of(classic()) is None
    same = Policies({"one": one, "same": Policy("same", "", {"max-length": 1})})
    settings = same.settings_of(classic())
    assert settings is not None
    assert settings.get("max-length") == 1


def test_arguments_that_no_policy_sets_are_settings_too() -> None:
    settings = settings_of(Queue("q", arguments={"x-max-priority": Typed("byte", 9), "team": "payments"}))
    assert settings.integer("max-priority") == 9
    assert settings.get("team") is None
    assert (
        settings_of(
            Exchange("e", arguments={"alternate-exchange": "a"}), Policy("p", "", {"alternate-exchange": "b"})
        ).get("alternate-exchange")
        == "a"
    )
    assert settings_of(Exchange("e"), Policy("p", "", {"alternate-exchange": "b"})).get("alternate-exchange") == "b"


def test_dead_letters_at_least_once_need_a_quorum_queue_that_rejects() -> None:
    strategy = {"dead_letter_strategy": "at-least-once", "dead_letter_exchange": "dlx"}
    rejecting = Policy("p", "", {"overflow": "reject-publish"})
    assert find_limits(quorum(**strategy), Policies({})).dead_letters == DeadLetters("dlx")
    assert find_limits(quorum(**strategy), Policies({"p": rejecting})).dead_letters == DeadLetters(
        "dlx", at_least_once=True
    )
    assert find_limits(quorum(dead_letter_routing_key="k"), Policies({})).dead_letters == NO_DEAD_LETTERS
    by_policy = Policy("p", "", {"dead-letter-exchange": "", "dead-letter-routing-key": "parked"})
    assert find_limits(classic(), Policies({"p": by_policy})).dead_letters == DeadLetters("", "parked")


def test_operator_policies_are_set_and_cleared_beside_policies_of_the_same_name() -> None:
    topology = (
        Topology()
        .set_policy(Policy("p", "", {"max-length": 5}))
        .set_policy(Policy("p", "", {"max-length": 1}, operator=True))
    )
    assert (topology.policies["p"].definition, topology.operator_policies["p"].definition) == (
        {"max-length": 5},
        {"max-length": 1},
    )
    assert topology != topology.clear_policy("p", operator=True)
    assert list(topology.clear_policy("p", operator=True).policies) == ["p"]
    with pytest.raises(NotFound, match="no operator policy 'x'"):
        topology.clear_policy("x", operator=True)
    with pytest.raises(BadRequest, match=r"dead-letter-exchange.* are not recognised policy settings"):
        topology.set_policy(Policy("p", "", {"dead-letter-exchange": "d"}, operator=True))


LIMITS = ("message-ttl", "max-length", "max-length-bytes")
LIMIT = st.dictionaries(st.sampled_from(LIMITS), st.integers(0, 5), min_size=1)


@given(arguments=LIMIT, ours=LIMIT, theirs=LIMIT, kind=st.sampled_from(["classic", "quorum"]))
def test_every_limit_is_the_least_of_all_that_set_it(
    arguments: dict[str, int], ours: dict[str, int], theirs: dict[str, int], kind: str
) -> None:
    queue = Queue("q", arguments={"x-queue-type": kind, **{f"x-{name}": value for name, value in arguments.items()}})
    settings = settings_of(queue, Policy("p", "", ours), operator(theirs))
    for name in LIMITS:
        given_values = [source[name] for source in (arguments, ours, theirs) if name in source]
        assert settings.get(name) == min(given_values, default=None)
        if given_values:
            by = {"argument": arguments, "policy": ours, "operator policy": theirs}[settings.values[name].source]
            assert by[name] == settings.get(name)


STRICTEST = {
    "expires": min, "message-ttl": min, "max-length": min, "max-length-bytes": min, "target-group-size": max,
    "delayed-retry-min": max, "delayed-retry-max": min,
}  # fmt: skip
"""Setting -> which of the values of a user's policy and of an operator's counts."""


@with_each("name", STRICTEST)
@with_each(("ours", "theirs"), [(1, 2), (2, 1), (3, 3)])
def test_the_stricter_of_a_policy_and_an_operator_policy_counts(name: str, ours: int, theirs: int) -> None:
    needed = {"delayed-retry-type": "all", "delayed-retry-min": 9} if name.startswith("delayed-retry") else {}
    settings = settings_of(quorum(), Policy("p", "", {**needed, name: ours}), operator({name: theirs}))
    assert settings.get(name) == STRICTEST[name]([ours, theirs])


NAMED = st.tuples(
    st.sampled_from("ab"), st.sampled_from(["", "^a", "b$"]), st.integers(0, 1), st.integers(1, 3), st.booleans()
)
ASKED = st.tuples(st.sampled_from(["a", "b", "ab"]), st.sampled_from([{}, {"x-max-length": 2}]))


@given(st.lists(NAMED, max_size=4), st.lists(ASKED, min_size=2, max_size=4))
@example([("a", "^a", 0, 1, True)], [("a", {}), ("b", {})])
@example([("a", "^a", 0, 1, False)], [("a", {}), ("b", {})])
def test_what_is_in_force_does_not_depend_on_what_was_asked_before(
    drawn: list[tuple[str, str, int, int, bool]], queues: list[tuple[str, dict[str, int]]]
) -> None:
    """Queues that are alike share an answer, which must be that of each alone."""
    policies = [
        Policy(name, pattern, {"max-length": most}, "queues", priority, operator=is_operators)
        for name, pattern, priority, most, is_operators in drawn
    ]
    asked = Topology(
        policies={(policy.name, policy.operator): policy for policy in policies}.values()
    ).policies_in_force()
    for name, arguments in queues:
        alone = Policies(asked.policies, asked.operator_policies, asked.profile)
        queue = Queue(name, arguments=arguments)
        assert asked.possible_settings(queue) == alone.possible_settings(queue)
