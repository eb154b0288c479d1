"""Transformations: what each changes, that nothing else changes, and that messages are routed the same."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.upgrading.releases import release_of
from bindings.upgrading.transform.policies import INERT
from bindings.upgrading.transform.queues import shorten_pattern
from bindings.upgrading.transform.table import TRANSFORMATIONS
from bindings.upgrading.transform.transform import NAMES, SECTIONS, choose, transform_definitions, transform_topology
from bindings.upgrading.upgrade import upgrade_topology
from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology
from exchange.entities.in_force import find_possible_policies, find_unsupported_keys
from exchange.errors import BrokerError, InputError
from exchange.patterns.pattern import Pattern
from tests.support import topologies
from tests.support.tiers import examples

OLD = ("3.10", "3.12", "3.13", "4.0")
HA = {"ha-mode": "all"}


def transform(topology: Topology, names: str = "default", old: str = "3.12", new: str = "4.3") -> Topology:
    releases = release_of(old), release_of(new)
    return transform_topology(topology, *releases, choose(names.split(","), *releases))[0]


def left(topology: Topology, names: str = "default", old: str = "3.12", new: str = "4.3") -> list[str]:
    """Return why parts were left as they are."""
    releases = release_of(old), release_of(new)
    applied = transform_topology(topology, *releases, choose(names.split(","), *releases))[1]
    return [each.why for one in applied for each in one.left]


def reasons(topology: Topology, old: str = "3.12", new: str = "4.3") -> list[str]:
    """Return why parts were changed, where the transformation alone does not tell it."""
    releases = release_of(old), release_of(new)
    applied = transform_topology(topology, *releases, choose(["default"], *releases))[1]
    return [change.why for one in applied for change in one.changes if change.why]


def of(queue: Queue, *policies: Policy) -> Topology:
    return Topology([], [queue], [], policies)


def queue_after(queue: Queue, *policies: Policy, names: str = "default", old: str = "3.12", new: str = "4.3") -> Queue:
    return transform(of(queue, *policies), names, old, new).queues[queue.name]


def test_a_mirrored_queue_becomes_a_quorum_queue_without_the_arguments_that_are_refused() -> None:
    arguments = {
        "x-max-priority": 5, "x-queue-mode": "lazy", "x-queue-version": 1, "x-overflow": "reject-publish-dlx",
        "x-queue-master-locator": "min-masters", "x-max-length": 9, "x-ha-policy": "all", "note": "ours",
    }  # fmt: skip
    after = queue_after(Queue("q", arguments=arguments), Policy("p", "^q", HA, "queues"))
    assert dict(after.arguments) == {
        "x-overflow": "reject-publish", "x-max-length": 9, "note": "ours", "x-queue-type": "quorum",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("queue", "policies", "why"),
    [
        (Queue("q", durable=False), [Policy("p", "^q", HA)], "transient"),
        (Queue("q", auto_delete=True), [Policy("p", "^q", HA)], "auto-delete"),
        (Queue("q"), [Policy("p", "q", HA), Policy("o", "q", {"max-length": 1})], "not known here"),
        (Queue("q", arguments={"x-quorum-initial-group-size": 0}), [Policy("p", "^q", HA)], "it would be refused"),
    ],
)
def test_a_mirrored_queue_that_cannot_be_a_quorum_queue_is_left_and_named(
    queue: Queue, policies: list[Policy], why: str
) -> None:
    assert queue_after(queue, *policies, new="4.2").type == "classic"
    [reason] = left(of(queue, *policies), new="4.2")
    assert why in reason


def test_a_mirrored_transient_queue_becomes_durable_and_then_a_quorum_queue() -> None:
    topology = of(Queue("q", durable=False), Policy("p", "^q", HA))
    after = transform(topology).queues["q"]
    assert (after.durable, after.type, left(topology)) == (True, "quorum", [])


@pytest.mark.parametrize(
    "queue",
    [Queue("q"), Queue("q", arguments={"x-queue-type": "stream"}), Queue("q", arguments={"x-queue-type": "quorum"})],
)
def test_a_queue_that_is_not_mirrored_stays(queue: Queue) -> None:
    """Also one of a type to which a policy with ha-mode does not apply, or that another policy takes precedence for."""
    policies = [Policy("p", "^q", HA, "queues"), Policy("first", "^q", {"max-length": 9}, "queues", 5)]
    assert queue_after(queue, *(policies if queue.type == "classic" else policies[:1])) == queue


def test_up_to_3_13_mirrored_queues_stay_unless_they_are_named() -> None:
    mirrored, policy = Queue("q"), Policy("p", "^q", HA, "queues")
    assert queue_after(mirrored, policy, old="3.10", new="3.13") == mirrored
    assert queue_after(mirrored, policy, names="mirrored_to_quorum", old="3.10", new="3.13").type == "quorum"


@pytest.mark.parametrize(
    ("arguments", "new", "after"),
    [
        ({"x-queue-version": 1}, "4.3", {}),
        ({"x-queue-version": 2}, "4.3", {"x-queue-version": 2}),
        ({"x-queue-version": 1}, "4.2", {"x-queue-version": 1}),
        ({"x-queue-mode": "lazy"}, "4.3", {"x-queue-mode": "lazy"}),  # an application that declares it would be refused
        ({"x-queue-master-locator": "client-local"}, "4.3", {}),
        ({"x-queue-master-locator": "random"}, "4.2", {"x-queue-master-locator": "random"}),
        ({"x-max-priority": 5}, "4.3", {"x-max-priority": 5}),
    ],
)
def test_arguments_are_changed_from_the_release_on_that_wants_it(
    arguments: dict[str, Any], new: str, after: dict[str, Any]
) -> None:
    assert dict(queue_after(Queue("q", arguments=arguments), new=new).arguments) == after


def test_transient_queues_become_durable_from_4_3_on() -> None:
    for auto_delete in (True, False):
        queue = Queue("q", durable=False, auto_delete=auto_delete)
        assert queue_after(queue, new="4.2") == queue
        assert queue_after(queue) == Queue("q", auto_delete=auto_delete)


def limits(topology: Topology, names: str = "default,keep-delivery-limit") -> dict[str, int | None]:
    """Return the delivery limits that are set, of the queues after the transformation."""
    after = transform(topology, names)
    policies = after.policies_in_force()
    return {
        name: policies.possible_settings(queue)[0].integer("delivery-limit") for name, queue in after.queues.items()
    }


def test_the_delivery_limit_stays_as_it_was_if_that_is_wanted() -> None:
    """By policy: a broker refuses declarations that lack an argument of a queue. No classic queue loses its policy."""
    quorum = {"x-queue-type": "quorum"}
    queues = [
        Queue("free", arguments=quorum), Queue("limited", arguments={**quorum, "x-delivery-limit": 5}),
        Queue("by-policy", arguments=quorum), Queue("of-policy", arguments=quorum), Queue("was-mirrored"),
        Queue("classic"),
    ]  # fmt: skip
    policies = [
        Policy("five", "^by-policy", {"delivery-limit": 5}, "queues"),
        Policy("length", "^of-policy", {"max-length": 9}, "queues"),
        Policy("ha", "^was-mirrored", HA, "queues", -3),
        Policy("other", "^classic", {"max-length": 9}, "queues"),
    ]
    topology = Topology([], queues, [], policies)
    assert limits(topology, "default")["free"] is None
    assert limits(topology) == {
        "free": -1, "limited": 5, "by-policy": 5, "of-policy": -1, "was-mirrored": -1, "classic": None,
    }  # fmt: skip
    after = transform(topology, "default,keep-delivery-limit")
    assert dict(after.policies["length"].definition) == {"max-length": 9, "delivery-limit": -1}
    assert after.policies["other"] == policies[-1]
    assert transform(after, "default,keep-delivery-limit") == after


POLICY = st.tuples(
    st.sampled_from(["", "^q", "1$", "^x"]),
    st.sampled_from([{"delivery-limit": 5}, {"max-length": 9}, {"expires": 9}]),
    st.sampled_from(["all", "queues", "quorum_queues", "classic_queues"]), st.integers(-2, 2),
)  # fmt: skip


@examples(150)
@given(st.lists(POLICY, max_size=3))
@example([("^x", {"max-length": 9}, "queues", -2)])
@example([("^q", {"max-length": 9}, "all", 2), ("1$", {"max-length": 9}, "all", 2)])
def test_the_policy_that_keeps_the_delivery_limit_is_in_force_where_none_was_and_nowhere_else(drawn: list[Any]) -> None:
    """In quorum queues; each other policy is in force, or may be, where it was."""
    arguments: tuple[dict[str, Any], ...] = (
        {},
        {"x-queue-type": "quorum"},
        {"x-queue-type": "quorum", "x-delivery-limit": 3},
    )
    queues = [Queue(f"{name}{n}", arguments=given) for name in ("q", "x") for n, given in enumerate(arguments)]
    policies = [Policy(f"p{number}", *policy) for number, policy in enumerate(drawn)]
    before = Topology([], queues, [], policies, profile=release_of("4.3").profile)
    after = transform(before, "keep-delivery-limit")
    new = next(iter(after.policies.keys() - before.policies.keys()), None)

    def in_force(topology: Topology, queue: Queue) -> set[str | None]:
        possible = find_possible_policies(queue, topology.policies, topology.profile)
        return {None if policy is None else policy.name for policy in possible}

    for queue in queues:
        was = in_force(before, queue)
        assert in_force(after, queue) == ({new} if was == {None} and queue.type == "quorum" else was)


def test_a_delivery_limit_that_cannot_be_kept_without_a_change_elsewhere_is_left() -> None:
    """With a limit, the policy would no longer be in force in the classic queue."""
    queues = [Queue("q1", arguments={"x-queue-type": "quorum"}), Queue("q2")]
    topology = Topology([], queues, [], [Policy("p", "^q", {"max-length": 9}, "queues")])
    [why] = left(topology, "keep-delivery-limit")
    assert "by hand" in why


def test_policies_lose_the_keys_that_were_removed_and_keep_the_others() -> None:
    policy = Policy("p", "^x", {**HA, "ha-sync-mode": "automatic", "queue-mode": "lazy", "max-length": 9}, "queues")
    operator = Policy("o", "^x", {"ha-mode": "all", "expires": 9}, "queues", operator=True)
    after = transform(Topology(policies=[policy, operator]))
    assert dict(after.policies["p"].definition) == {"max-length": 9}
    assert dict(after.operator_policies["o"].definition) == {"expires": 9}
    locator = Policy("p", "^x", {"queue-master-locator": "min-masters"}, "queues")
    assert dict(transform(Topology(policies=[locator])).policies["p"].definition) == {
        "queue-leader-locator": "balanced"
    }


def test_version_1_of_classic_queues_is_removed_from_policies_from_4_3_on() -> None:
    one, two = Policy("p", "^x", {"queue-version": 1, "expires": 9}), Policy("q", "^y", {"queue-version": 2})
    operator = Policy("o", "^x", {"queue-version": 1}, "queues", operator=True)
    topology = Topology(policies=[one, two, operator])
    after = transform(topology)
    assert [dict(each.definition) for each in after.policies.values()] == [{"expires": 9}, {"queue-version": 2}]
    assert not after.operator_policies
    assert transform(topology, new="4.2").policies["p"].definition["queue-version"] == 1


def test_an_empty_policy_is_dropped_unless_it_keeps_another_one_out_of_force() -> None:
    """What rabbitmqadmin's drop_empty_policies does not look at: without it, jobs would get the limit of 9."""
    top = Policy("top", "^jobs", {"ha-mode": "all"}, "queues", 5)
    low = Policy("low", "", {"max-length": 9}, "queues", 1)
    queue = Queue("jobs")
    assert "top" not in transform(of(queue, top)).policies
    assert "top" not in transform(of(Queue("other"), top, low)).policies
    after = transform(of(queue, top, low))
    assert dict(after.policies["top"].definition) == {"queue-leader-locator": "client-local"}
    [in_force] = after.policies_in_force().possible_settings(after.queues["jobs"])
    assert in_force.get("max-length") is None


def test_before_4_0_a_policy_of_classic_queues_is_kept_by_a_setting_that_they_support() -> None:
    """A policy with queue-leader-locator would not be in force in them, and the one of lower priority would."""
    top = Policy("top", "^jobs", {"queue-mode": "lazy"}, "queues", 5)
    low = Policy("low", "", {"max-length": 9}, "queues", 1)
    for new in ("3.12", "3.13"):
        after = transform(of(Queue("jobs"), top, low), old="3.10", new=new)
        assert dict(after.policies["top"].definition) == {"queue-mode": "default"}
        [in_force] = after.policies_in_force().possible_settings(after.queues["jobs"])
        assert in_force.get("max-length") is None
        assert transform(after, old="3.10", new=new) == after


def test_the_setting_of_a_policy_that_is_kept_is_the_default_unless_the_broker_is_configured_otherwise() -> None:
    """A policy overrides the configuration; every type of queues supports this setting."""
    [row] = [each for each in TRANSFORMATIONS if each.name == "drop-empty-policies"]
    assert "queue_leader_locator is configured" in row.what
    policy = Policy("p", "", INERT[0])
    assert not [kind for kind in ("classic", "quorum", "stream") if find_unsupported_keys(policy, kind)]


def test_an_empty_operator_policy_that_keeps_another_one_out_of_force_is_left() -> None:
    top = Policy("top", "^jobs", {"ha-mode": "all"}, "queues", 5, operator=True)
    low = Policy("low", "", {"max-length": 9}, "queues", 1, operator=True)
    assert left(of(Queue("jobs"), top, low)) == ["without it, 'low' would come into force"]


def test_a_policy_for_classic_queues_follows_them_when_they_become_quorum_queues() -> None:
    policy = Policy("p", "^q", {**HA, "max-length": 9}, "classic_queues")
    assert transform(of(Queue("q"), policy)).policies["p"].apply_to == "quorum_queues"
    stays = transform(Topology([], [Queue("q1"), Queue("q2", auto_delete=True)], [], [policy]))
    assert stays.policies["p"].apply_to == "queues"  # one becomes a quorum queue, one stays


def test_a_policy_that_was_not_in_force_because_of_its_keys_does_not_come_into_force() -> None:
    """It does not apply to a quorum queue because of ha-mode, which is removed."""
    quorum = Queue("q", arguments={"x-queue-type": "quorum"})
    policy = Policy("p", "^q", {**HA, "max-length": 9}, "queues")
    after = transform(of(quorum, policy))
    [in_force] = after.policies_in_force().possible_settings(after.queues["q"])
    assert in_force.get("max-length") is None
    assert reasons(of(quorum, policy)) == [
        "it was not in force in quorum queue 'q' because of ha-mode: apply it to queues if it should be"
    ]


def test_a_policy_that_comes_into_force_because_of_its_lost_keys_is_named() -> None:
    """It is in force in a queue that was mirrored, and one policy cannot be for one of two quorum queues."""
    quorum = Queue("q", arguments={"x-queue-type": "quorum"})
    policy = Policy("p", "", {**HA, "message-ttl": 60_000}, "queues", operator=True)
    topology = Topology([], [quorum, Queue("mirrored")], [], [policy])
    [why] = left(topology)
    assert why.startswith("it comes into force in quorum queue 'q', where it was not because of ha-mode:")
    releases = release_of("3.12"), release_of("4.3")
    transformed = upgrade_topology(topology, *releases, choose(["default"], *releases)).transformed
    assert transformed is not None
    assert any(change.names == ("q",) and change.loses for change in transformed.settings)  # an error, for --fail-on


def test_an_empty_policy_that_comes_into_force_is_named_only_if_it_displaces_another() -> None:
    quorum, mirrored = Queue("q", arguments={"x-queue-type": "quorum"}), Queue("mirrored")
    policy, low = Policy("p", "", HA, "queues", 5), Policy("low", "", {"max-length": 9}, "queues")
    assert left(Topology([], [quorum, mirrored], [], [policy])) == []
    comes, goes = left(Topology([], [quorum, mirrored], [], [policy, low]))
    assert comes.startswith("it comes into force in quorum queue 'q'")
    assert goes == "it is no longer in force in quorum queue 'q'"


def test_a_policy_that_follows_its_queues_says_which() -> None:
    topology = of(Queue("q"), Policy("p", "^q", {**HA, "max-length": 9}, "classic_queues"))
    assert reasons(topology) == ["it is in force in quorum queue 'q'"]


def test_a_policy_concerns_no_application() -> None:
    """Also where the transformation concerns those that declare queues."""
    releases = release_of("4.2"), release_of("4.3")
    locator = Policy("p", "", {"queue-master-locator": "min-masters"}, "queues")

    def applications(topology: Topology) -> list[str]:
        applied = transform_topology(topology, *releases, choose(["default"], *releases))[1]
        return [each.applications for each in applied]

    assert applications(of(Queue("q"), locator)) == [""]
    [text] = applications(of(Queue("q", arguments={"x-queue-master-locator": "random"}), locator))
    assert "x-queue-master-locator" in text


@pytest.mark.parametrize(
    ("exchanges", "queues", "bindings", "severity"),
    [
        ([Exchange("e", "x-rtopic")], [Queue("q")], [], "warning"),
        ([], [Queue("q", arguments={"x-queue-type": 7})], [], "error"),
        ([Exchange("e", "x-jms-topic")], [Queue("q")], [Binding.to_queue("e", "q", "a")], "error"),
    ],
)
@pytest.mark.parametrize("old", ["3.13", "4.2.1"])
def test_what_both_releases_refuse_is_not_left_over_after_a_transformation(
    exchanges: list[Exchange], queues: list[Queue], bindings: list[Binding], severity: str, old: str
) -> None:
    """An exchange of a community plugin is accepted where the plugin is: it is a warning as before."""
    releases = release_of(old), release_of("4.3")
    found = upgrade_topology(Topology(exchanges, queues, bindings), *releases, choose(["default"], *releases))
    assert found.transformed is not None
    before = {(each.fact.id, repr(part)) for each in found.sightings for part in each.parts}
    after = {(each.fact.id, repr(part)) for each in found.transformed.left for part in each.parts}
    assert after <= before
    assert found.severity == severity


def test_quorum_queues_refuse_what_they_cannot_dead_letter_if_the_policy_is_theirs_alone() -> None:
    policy = Policy("p", "^q", {**HA, "overflow": "reject-publish-dlx"}, "queues")
    assert transform(of(Queue("q"), policy)).policies["p"].definition["overflow"] == "reject-publish"
    mixed = Topology([], [Queue("q1"), Queue("q2", auto_delete=True)], [], [policy])
    assert transform(mixed).policies["p"].definition["overflow"] == "reject-publish-dlx"
    assert any("policy of their own" in why for why in left(mixed))


@given(
    st.lists(st.sampled_from(["*", "#", "a", "b", "", "#", "*"]), min_size=1, max_size=7).map(".".join),
    st.lists(st.sampled_from(["a", "b", "", "*"]), max_size=7).map(".".join),
)
def test_a_shortened_pattern_matches_the_same_keys(pattern: str, key: str) -> None:
    shorter = shorten_pattern(pattern)
    assert shorter.split(".").count("#") <= pattern.split(".").count("#")
    assert shorten_pattern(shorter) == shorter
    one, other = (Pattern(text) for text in (pattern, shorter))
    assert one.matches(key) == other.matches(key)


def test_a_binding_key_is_shortened_if_the_release_refuses_it_and_left_if_it_cannot_be() -> None:
    bindings = [Binding.to_queue("amq.topic", "q", key) for key in ("#.*.#.a.#", "#.a.#.b.#", "#.#", "#.a.#")]
    after = transform(Topology([], [Queue("q")], bindings))
    assert {binding.routing_key for binding in after.bindings} == {"*.#.a.#", "#.a.#.b.#", "#.#", "#.a.#"}
    assert left(Topology([], [Queue("q")], bindings)) == ["no key with 2 '#' or fewer matches the same keys"]


@pytest.mark.parametrize("name", ["nothing", "mirrored", "-"])
def test_an_unknown_transformation_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(InputError, match="mirrored-to-quorum"):
        choose([name], release_of("3.12"), release_of("4.3"))


def test_the_names_of_rabbitmqadmin_are_understood() -> None:
    names = (
        "prepare_for_quorum_queue_migration", "strip_cmq_keys_from_policies", "drop_empty_policies",
        "obfuscate_usernames", "exclude_users", "exclude_permissions", "exclude_runtime_parameters",
        "exclude_policies", "no_op",
    )  # fmt: skip
    chosen = choose(names, release_of("3.12"), release_of("4.3"))
    assert {"mirrored-to-quorum", "drop-empty-policies", "exclude-users"} < chosen < {*NAMES}


Drawn = tuple[dict[str, list[Any]], list[dict[str, Any]]]
"""Argument of a queue -> its values, and the definitions of policies, of random topologies."""

ARGUMENTS: dict[str, list[Any]] = {
    "x-queue-type": ["classic", "quorum", "stream"], "x-queue-mode": ["lazy"], "x-queue-version": [1, 2],
    "x-queue-master-locator": ["min-masters"], "x-max-priority": [5], "x-overflow": ["reject-publish-dlx"],
    "x-max-length": [9], "x-delivery-limit": [3], "note": ["ours"],
}  # fmt: skip
DEFINITIONS: list[dict[str, Any]] = [
    HA, {**HA, "max-length": 9}, {**HA, "queue-mode": "lazy"}, {"queue-mode": "lazy"}, {"max-length": 5},
    {"overflow": "reject-publish-dlx", **HA}, {"queue-master-locator": "random"}, {"delivery-limit": 2}, {"expires": 9},
]  # fmt: skip


def drawn(rng: Random, old: str, given: Drawn = (ARGUMENTS, DEFINITIONS), prefix: str = "") -> Topology:
    """Return a topology that the old release accepts, with much that the new one does not."""
    profile = release_of(old).profile
    kinds = topologies.Kinds(types=("direct", "topic", "headers", "x-consistent-hash"), policies=False)
    topology = topologies.topology(rng, profile, kinds, prefix)
    arguments, definitions = given
    for name in topology.queues:
        for _ in range(3):
            chosen = {key: rng.choice(values) for key, values in arguments.items() if rng.random() < 0.25}
            queue = Queue(name, rng.random() < 0.8, rng.random() < 0.2, chosen)
            try:
                Topology(profile=profile).declare_queue(queue)
            except BrokerError:
                continue
            tables = [q if q.name != name else queue for q in topology.queues.values()]
            topology = Topology(
                topology.exchanges.values(), tables, topology.bindings, topology.policies.values(), profile=profile
            )
            break
    for number in range(rng.randint(0, 4)):
        apply_to = rng.choice(["all", "queues", "exchanges"] + ["classic_queues"] * (old != "3.10"))
        pattern = rng.choice(["", f"^{prefix}q", "q1$", "q[12]", "a.b"])
        policy = Policy(f"p{number}", pattern, rng.choice(definitions), apply_to, number)
        try:
            topology = topology.set_policy(policy)
        except BrokerError:
            continue
    return topology


@examples(60)
@given(st.integers(0, 10**9), st.sampled_from(OLD), st.sampled_from(["4.0", "4.2.6", "4.3"]))
def test_what_is_transformed_routes_the_same_is_accepted_and_stays_when_it_is_transformed_again(
    seed: int, old: str, new: str
) -> None:
    rng = Random(seed)
    topology = drawn(rng, old)
    if release_of(old).numbers >= release_of(new).numbers:
        return
    releases = release_of(old), release_of(new)
    names = choose(["default"], *releases)
    upgrade = upgrade_topology(topology, *releases, names)
    assert upgrade.transformed is not None
    after, applied = upgrade.transformed.topology, upgrade.transformed.applied
    again, once_more = transform_topology(after, *releases, names)
    assert (again, [one.changes for one in once_more if one.changes]) == (after, [])
    # Nothing is refused but what was left, and what no transformation is for: weights.
    reasons = {repr(each.part) for one in applied for each in one.left}
    assert {repr(each.part) for one in once_more for each in one.left} <= reasons
    refused = [part for each in upgrade.transformed.sightings if not any(each.fact.since) for part in each.parts]
    assert all(
        repr(part) in reasons or (isinstance(part, Binding) and after.exchanges[part.source].type != "topic")
        for part in refused
    ), refused
    # The slow, obvious oracle of the proof.
    assert upgrade.transformed.meaning.verdict == "same"
    routers = Router(topology.with_profile(releases[1].profile)), Router(after)
    for _ in range(30):
        message = topologies.message(rng, topology.with_profile(releases[1].profile))
        assert routed(routers[0], message) == routed(routers[1], message), message


def routed(router: Router, message: Message) -> tuple[str, ...] | str:
    try:
        return router.route(message).queues
    except BrokerError as error:
        return str(error)


DOCUMENT = {
    "rabbitmq_version": "3.12.1", "product": "RabbitMQ", "x": {"y": [1, 2.50, None]},
    "users": [
        {"name": "ann", "password_hash": "c2VjcmV0", "tags": [], "limits": {}},
        {"name": "bob", "password_hash": "eA=="},
    ],
    "permissions": [{"user": "ann", "vhost": "/", "configure": "^a", "write": "", "read": ".*"}],
    "topic_permissions": [{"user": "bob", "vhost": "/", "exchange": "e", "write": "", "read": ".*"}],
    "parameters": [
        {"vhost": "/", "component": "operator_policy", "name": "o",
         "value": {"pattern": "^q", "apply-to": "queues", "priority": 1, "definition": {"ha-mode": "all"}}},
        {"vhost": "/", "component": "shovel", "name": "s", "value": {"src-uri": "amqp://"}},
    ],
    "vhosts": [{"name": "/", "metadata": {"tags": ["a"]}}, {"name": "other"}],
    "policies": [],
    "queues": [
        {"vhost": "/", "name": "q", "durable": True, "auto_delete": False, "arguments": {}, "extra": 1},
        {"vhost": "other", "name": "t", "durable": False, "auto_delete": False, "arguments": {}},
    ],
    "exchanges": [], "bindings": [],
}  # fmt: skip


def transformed(names: str, vhosts: tuple[str, ...] = ("/", "other")) -> dict[str, Any]:
    releases = release_of("3.12"), release_of("4.3")
    definitions = Definitions.loads(json.dumps(DOCUMENT))
    chosen = choose(names.split(","), *releases)
    after = [transform_topology(definitions.topology(name), *releases, chosen)[0] for name in vhosts]
    content, _ = transform_definitions(definitions, after, chosen)
    result: dict[str, Any] = json.loads(content.dump())
    return result


def test_all_that_no_transformation_is_about_stays_as_it_is_written() -> None:
    result = transformed("default")
    changed = {key for key in result if result[key] != DOCUMENT.get(key)}
    assert changed == {"queues", "parameters", "hashstar"}
    assert result["queues"][0] == {
        "vhost": "/", "name": "q", "durable": True, "auto_delete": False, "arguments": {"x-queue-type": "quorum"},
        "extra": 1,
    }  # fmt: skip
    assert result["queues"][1]["durable"] is True
    assert [each["name"] for each in result["parameters"]] == ["s"]  # the operator policy was empty
    assert result["hashstar"] == {"profile": "rabbitmq-4.3"}


@pytest.mark.parametrize("where", ["default_queue_type", "metadata"])
@pytest.mark.parametrize("given", ["quorum", "classic", "undefined", ""])
def test_a_classic_queue_stays_one_where_an_import_would_make_another_of_it(where: str, given: str) -> None:
    """As a live 4.3 imports it: a queue without a type gets that of its virtual host."""
    fields = {"default_queue_type": given}
    vhosts = [{"name": "/", **(fields if where in fields else {"metadata": fields})}]
    definitions = Definitions.loads(json.dumps({**DOCUMENT, "vhosts": vhosts}), vhost="/")
    names = choose(["default"], release_of("3.12"), release_of("4.3"))
    content, sections = transform_definitions(definitions, [], names)
    assert "x-queue-type" in content.topology("/").queues["q"].arguments if given == "quorum" else not sections
    assert [(each.name, each.entries) for each in sections] == [("name-queue-types", 1)] * (given == "quorum")
    assert transform_definitions(content, [], names) == (content, ())


def test_the_export_of_one_virtual_host_names_its_default_type_itself() -> None:
    """Imported into another one, it meets that default, as a live 4.3 shows."""
    queues = [{key: value for key, value in DOCUMENT["queues"][0].items() if key != "vhost"}]  # type: ignore[index]
    given = {"rabbitmq_version": "3.13.7", "original_vhost_name": "prod", "metadata": {"default_queue_type": "quorum"}}
    definitions = Definitions.loads(json.dumps({**given, "queues": queues, "exchanges": [], "bindings": []}))
    names = choose(["default"], release_of("3.13"), release_of("4.3"))
    content, [section] = transform_definitions(definitions, [], names)
    assert (section.name, section.entries) == ("name-queue-types", 1)
    assert content.topology("prod").queues["q"].arguments["x-queue-type"] == "classic"


def test_users_that_are_left_out_leave_permissions_that_an_import_refuses_as_the_report_says() -> None:
    """A live 4.3 answers no_such_user unless it has the users."""
    result = transformed("exclude-users")
    assert result["permissions"] == DOCUMENT["permissions"]
    [section] = [each for each in SECTIONS if each.name == "exclude-users"]
    assert "exclude-permissions" in section.what


def test_virtual_hosts_that_were_not_chosen_stay() -> None:
    assert transformed("default", ("/",))["queues"][1]["durable"] is False


def test_users_and_parameters_are_left_out_or_made_anonymous() -> None:
    result = transformed("exclude-users,exclude-permissions,exclude-runtime-parameters,exclude-policies")
    assert (result["users"], result["permissions"], result["topic_permissions"]) == ([], [], [])
    assert [each["component"] for each in result["parameters"]] == ["operator_policy"]
    result = transformed("obfuscate-usernames")
    assert [(user["name"], user["password_hash"]) for user in result["users"]] == [
        ("obfuscated-username-1", ""), ("obfuscated-username-2", ""),
    ]  # fmt: skip
    assert [each["user"] for each in result["permissions"]] == ["obfuscated-username-1"]
    assert [each["user"] for each in result["topic_permissions"]] == ["obfuscated-username-2"]
    assert "c2VjcmV0" not in str(result)


def test_a_bindings_file_is_transformed_as_definitions_are() -> None:
    document = Document.loads('queue q: classic, transient\nexpect amq.topic "a" excludes q\n')
    releases = release_of("3.12"), release_of("4.3")
    names = choose(["default"], *releases)
    after, _ = transform_topology(document.topology(), *releases, names)
    content, sections = transform_definitions(document, [after], names)
    assert isinstance(content, Document)
    assert (content.topology().queues["q"].durable, content.expectations(), sections) == (
        True, document.expectations(), (),
    )  # fmt: skip
    assert content.profile == releases[1].profile


def test_an_exchange_or_a_queue_that_no_policy_is_about_is_never_touched() -> None:
    topology = Topology([Exchange("e", "x-unknown")], [Queue("q", arguments={"x-queue-version": 2})])
    assert transform(topology) == topology.with_profile(release_of("4.3").profile)


def test_the_documentation_has_every_transformation_with_what_it_does() -> None:
    page = (Path(__file__).parents[4] / "docs" / "upgrade.md").read_text()
    for each in TRANSFORMATIONS:
        since = f"since {each.since[0]}.{each.since[1]}" if each.default else "no"
        assert f"| {each.name} | {since} | {each.what} |" in page
    for section in SECTIONS:
        named = "no" if section.since is None else f"since {section.since[0]}.{section.since[1]}"
        assert f"| {section.name} | {named} | {section.what} |" in page
