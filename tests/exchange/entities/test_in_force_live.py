"""Random arguments, policies and operator policies: a live broker merges them as the engine does.

Policies are compared with the broker's own ``effective_policy_definition``; how arguments are merged with them, which
no broker shows, by what its queues do.
"""

from __future__ import annotations

import os
import time
from random import Random
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from urllib.parse import quote

import pytest

from exchange import Policy, Queue, Topology
from exchange.entities.profile import Profile
from exchange.entities.releases import find_profile
from exchange.values.field_values import thaw
from tests.support.differential import manage
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

NAME: Final = unique_name("in-force")
ROUNDS: Final = int(os.environ.get("HASHSTAR_POLICY_ROUNDS", "2"))  # the management API follows some seconds later
VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "expires": (3_600_000, 7_200_000), "message-ttl": (1000, 2000, 0), "max-length": (0, 5, 9),
    "max-length-bytes": (10, 1000), "max-in-memory-length": (1, 2), "delivery-limit": (-1, 0, 3, 20),
    "overflow": ("drop-head", "reject-publish"), "dead-letter-exchange": ("a", "b"), "dead-letter-routing-key": ("k",),
    "dead-letter-strategy": ("at-least-once", "at-most-once"), "max-age": ("1h", "7D"), "queue-mode": ("lazy",),
    "queue-leader-locator": ("balanced", "client-local"), "ha-mode": ("all",), "target-group-size": (3, 5),
    "stream-max-segment-size-bytes": (500_000,), "queue-version": (2,), "alternate-exchange": ("a",),
    "delayed-retry-min": (1, 5), "delayed-retry-max": (6, 9), "consumer-timeout": (60_000,),
}  # fmt: skip
APPLY_TO: Final = ("all", "queues", "classic_queues", "quorum_queues", "streams")


def test_a_live_broker_has_the_same_effective_definitions(rabbitmq_servers: list[Server]) -> None:
    """On queues of each type and on an exchange, with two policies and two operator policies of different priority."""
    for server in rabbitmq_servers:
        if server.management_url is None:
            pytest.skip("needs the management API")
        rng, profile = Random(20), find_profile(server.version)
        with_queues = [
            Queue(f"{NAME}-{kind}", arguments={"x-queue-type": kind}) for kind in ("classic", "quorum", "stream")
        ]
        policies: dict[str, Policy] = {}
        try:
            for queue in with_queues:
                declare(server, queue)
            for round_ in range(ROUNDS):
                before, policies = policies, {}
                for operator in (False, True):
                    for priority in range(2):
                        policy = random_policy(rng, profile, priority, operator=operator)
                        if policy is not None:
                            policies[policy_path(policy)] = policy
                for path in before.keys() - policies.keys():
                    manage(server, "DELETE", path)
                for path, policy in policies.items():
                    set_policy(server, path, policy)
                topology = Topology(policies=policies.values(), profile=profile)
                for queue in with_queues:
                    settings = topology.policies_in_force().settings_of(queue)
                    assert settings is not None
                    there = await_definition(server, queue, settings.policy_definition)
                    assert there == settings.policy_definition, (server.version, round_, queue.name, policies)
        finally:
            for path in policies:
                manage(server, "DELETE", path)
            for queue in with_queues:
                manage(server, "DELETE", f"queues/%2F/{queue.name}")


def random_policy(rng: Random, profile: Profile, priority: int, *, operator: bool) -> Policy | None:
    known = profile.settings.policy_settings & VALUES.keys()
    if operator:
        known &= profile.settings.operator_settings
    definition = {name: rng.choice(VALUES[name]) for name in rng.sample(sorted(known), rng.randrange(1, 4))}
    if not profile.lives.negative_limit_is_none and "delivery-limit" in definition:
        definition["delivery-limit"] = abs(definition["delivery-limit"])
    apply_to = rng.choice([name for name in APPLY_TO if name in profile.settings.apply_to])
    if rng.random() < 0.3:
        return None
    return Policy(f"{NAME}-{priority}", f"^{NAME}", definition, apply_to, priority, operator)


def policy_path(policy: Policy) -> str:
    return f"{'operator-' if policy.operator else ''}policies/%2F/{quote(policy.name)}"


def set_policy(server: Server, path: str, policy: Policy) -> None:
    body = {"pattern": policy.pattern, "definition": thaw(policy.definition), "priority": policy.priority,
            "apply-to": policy.apply_to}  # fmt: skip
    try:
        manage(server, "PUT", path, body)
    except HTTPError as error:
        raise AssertionError(f"{server.version}: {policy}: {error.read().decode()}") from None


def declare(server: Server, queue: Queue) -> None:
    manage(server, "PUT", f"queues/%2F/{queue.name}", {"durable": True, "arguments": dict(queue.arguments)})


def await_definition(server: Server, queue: Queue, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the broker's definition, as soon as it is the one wanted; the last one after some seconds."""
    last = time.monotonic() + find_limit()
    while True:
        there = dict(manage(server, "GET", f"queues/%2F/{queue.name}").get("effective_policy_definition") or {})
        if there == wanted or time.monotonic() > last:
            return there
        time.sleep(0.25)


CASES: Final[tuple[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]], ...]] = (
    # type, arguments, policy, operator policy
    ("classic", {"x-max-length": 2}, {"max-length": 4}, {}),
    ("classic", {"x-max-length": 4}, {"max-length": 2}, {}),
    ("classic", {"x-max-length": 4}, {"max-length": 3}, {"max-length": 1}),
    ("quorum", {"x-max-length": 2}, {"max-length": 4}, {}),
    ("quorum", {"x-max-length": 4}, {"max-length": 3}, {"max-length": 1}),
    ("classic", {"x-max-length": 2, "x-overflow": "reject-publish"}, {"overflow": "drop-head"}, {}),
    ("classic", {"x-max-length": 2, "x-overflow": "drop-head"}, {"overflow": "reject-publish"}, {}),
    ("quorum", {"x-max-length": 2, "x-overflow": "reject-publish"}, {"overflow": "drop-head"}, {}),
    ("quorum", {"x-max-length": 2, "x-overflow": "drop-head"}, {"overflow": "reject-publish"}, {}),
)


@pytest.fixture
def cleared(rabbitmq_servers: list[Server]) -> Iterator[list[Server]]:
    yield rabbitmq_servers
    for server in rabbitmq_servers:
        for path in (f"queues/%2F/{NAME}", f"policies/%2F/{NAME}", f"operator-policies/%2F/{NAME}"):
            try:
                manage(server, "DELETE", path)
            except HTTPError as error:
                assert error.code == 404  # noqa: PT017  gone already


@pytest.mark.parametrize(("kind", "arguments", "policy", "operator"), CASES)
def test_a_live_queue_keeps_what_the_settings_in_force_let_it_keep(
    cleared: list[Server], kind: str, arguments: dict[str, Any], policy: dict[str, Any], operator: dict[str, Any]
) -> None:
    """Of ten messages, confirmed one by one: the first ones where it rejects publishes, the last ones where not."""
    import pika
    import pika.exceptions

    for server in cleared:
        if server.management_url is None:
            pytest.skip("needs the management API")
        queue = Queue(NAME, arguments={"x-queue-type": kind, **arguments})
        parts = [
            Policy(NAME, f"^{NAME}$", definition, operator=flag)
            for definition, flag in ((policy, False), (operator, True)) if definition
        ]  # fmt: skip
        for each in parts:
            set_policy(server, policy_path(each), each)
        settings = Topology(policies=parts, profile=find_profile(server.version)).policies_in_force().settings_of(queue)
        assert settings is not None
        declare(server, queue)  # the policies are there already, so they hold from the first message on
        length, rejects = settings.integer("max-length"), settings.get("overflow") == "reject-publish"
        assert length is not None
        with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for number in range(10):
                try:
                    channel.basic_publish("", NAME, str(number).encode())
                except pika.exceptions.NackError:
                    assert rejects
                time.sleep(0.02)  # a quorum queue takes note of its length a moment later
            bodies = []
            while (body := channel.basic_get(NAME, auto_ack=True)[2]) is not None:
                bodies.append(int(body))
            channel.queue_delete(NAME)
        if rejects and kind == "quorum":  # it may accept a message more than its limit
            assert bodies[:length] == list(range(length)), server.version
            assert len(bodies) <= length + 1
        else:
            kept = range(length) if rejects else range(10 - length, 10)
            assert bodies == list(kept), (server.version, settings)
        for each in parts:
            manage(server, "DELETE", policy_path(each))


def is_declared(server: Server) -> bool:
    try:
        manage(server, "GET", f"queues/%2F/{NAME}")
    except HTTPError as error:
        if error.code == 404:
            return False
        raise
    return True


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_live_queue_expires_when_the_settings_in_force_have_it_expire(cleared: list[Server], kind: str) -> None:
    """Up to 3.13, the policy decides for quorum queues, be its time longer than the argument's."""
    for server in cleared:
        if server.management_url is None:
            pytest.skip("needs the management API")
        policy = Policy(NAME, f"^{NAME}$", {"expires": 600_000})
        queue = Queue(NAME, arguments={"x-queue-type": kind, "x-expires": 100})
        set_policy(server, policy_path(policy), policy)
        topology = Topology(policies=[policy], profile=find_profile(server.version))
        settings = topology.policies_in_force().settings_of(queue)
        assert settings is not None
        declare(server, queue)
        last = time.monotonic() + (7 if settings.get("expires") == 600_000 else 60)
        while (is_there := is_declared(server)) and time.monotonic() < last:
            time.sleep(0.2)  # a quorum queue looks every five seconds whether it has expired
        assert is_there == (settings.get("expires") == 600_000), server.version
        manage(server, "DELETE", policy_path(policy))
        if is_there:
            manage(server, "DELETE", f"queues/%2F/{NAME}")
