"""Definitions of a live 3.10, transformed: newer brokers import them without an error, and route as foretold.

Each topology is imported into a virtual host of the oldest broker and exported from it; the transformed export is
imported into one of each newer broker. ``HASHSTAR_UPGRADE_TOPOLOGIES=100`` makes it long.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from bindings.sources.definitions import Definitions
from bindings.upgrading.releases import release_of
from bindings.upgrading.run import upgrade
from exchange import Message, Policy, Queue, Router, Topology
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError
from tests.bindings.upgrading.transform.test_transform import HA, Drawn, drawn
from tests.support import topologies
from tests.support.amqp_wire import all_types_in_pika
from tests.support.differential import manage, publish
from tests.support.unique import unique_name

if TYPE_CHECKING:
    from tests.support.servers import Server

TOPOLOGIES = int(os.environ.get("HASHSTAR_UPGRADE_TOPOLOGIES", "4"))
PRECONDITION_FAILED = 406
MESSAGES = 100
"""Number of messages published to each broker in each topology."""
GIVEN: Drawn = (
    {
        "x-queue-type": ["classic", "quorum"], "x-queue-mode": ["lazy"], "x-queue-version": [1, 2],
        "x-queue-master-locator": ["min-masters"], "x-max-priority": [5], "x-overflow": ["reject-publish-dlx"],
        "note": ["ours"],
    },
    [HA, {**HA, "dead-letter-exchange": "d"}, {**HA, "queue-mode": "lazy"}, {"queue-mode": "lazy"},
     {"overflow": "reject-publish-dlx", **HA}, {"queue-master-locator": "random"}],
)  # fmt: skip
"""Without limits, which drop messages, and without streams, which are not consumed in the same way."""


@contextmanager
def new_vhost(server: Server, name: str) -> Iterator[pika.URLParameters]:
    """Make a virtual host for the tests' user; yield how to connect to it."""
    path, user = quote(name, safe=""), unquote(urlsplit(server.url).username or "")
    manage(server, "PUT", f"vhosts/{path}")
    try:
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        manage(server, "PUT", f"permissions/{path}/{quote(user, safe='')}", everything)
        parameters = pika.URLParameters(server.url)
        parameters.virtual_host = name
        yield parameters
    finally:
        manage(server, "DELETE", f"vhosts/{path}")


def arrived(parameters: pika.URLParameters, topology: Topology, sent: list[Message]) -> list[frozenset[str]]:
    with all_types_in_pika():
        connection = pika.BlockingConnection(parameters)
        got, _ = publish(connection.channel(), topology.queues, sent)
        connection.close()
    return [frozenset(got.get(number, Counter())) for number in range(len(sent))]


def check(server: Server, topology: Topology, sent: list[Message], got: list[frozenset[str]]) -> None:
    """Compare where a broker has put messages with the routes of a topology."""
    router = Router(topology)
    for message, queues in zip(sent, got, strict=True):
        bindings = "\n".join(map(repr, topology.bindings))
        assert queues == frozenset(router.route(message).queues), f"{server.version}: {message}\n{bindings}"


def is_accepted(topology: Topology, message: Message) -> bool:
    try:
        Router(topology).route(message)
    except BrokerError:
        return False
    return True


def test_transformed_definitions_are_imported_without_an_error_and_route_as_foretold(
    rabbitmq_servers: list[Server], capsys: pytest.CaptureFixture[str]
) -> None:
    servers = sorted(rabbitmq_servers, key=lambda server: release_of(server.version).numbers)
    if len(servers) < 2 or any(server.management_url is None for server in servers):
        pytest.skip("needs two releases with the management API")
    first, *others = servers
    changes: Counter[str] = Counter()
    messages = same = 0
    for number in range(TOPOLOGIES):
        rng = Random(f"transform/{number}")
        topology = as_json_has_it(drawn(rng, ".".join(first.version.split(".")[:2]), GIVEN))
        name = unique_name(f"transform-{number}")
        definitions = Definitions().with_topology(topology).only("/").dump()
        with new_vhost(first, name) as old:
            manage(first, "POST", f"definitions/{name}", _of_one_vhost(json.loads(definitions)))
            export = manage(first, "GET", f"definitions/{name}")
            source = Definitions.loads(json.dumps(export), vhost=name)
            before = source.topology(name, find_profile(first.version))
            drawn_messages = [topologies.message(rng, before) for _ in range(MESSAGES)]
            sides = [before, *[before.with_profile(find_profile(server.version)) for server in others]]
            sent = [each for each in drawn_messages if all(is_accepted(side, each) for side in sides)]
            was = arrived(old, before, sent)
            check(first, before, sent, was)
        for server in others:
            result = upgrade(before, server.version, old=first.version, transform=["default"])
            [vhost] = result.vhosts
            assert vhost.transformed is not None
            after = vhost.transformed.topology
            changes.update(each.transformation.name for each in vhost.transformed.applied for _ in each.changes)
            assert vhost.transformed.meaning.verdict == "same"
            with new_vhost(server, name) as new:
                written = json.loads(source.with_topology(after).dump())
                refused = [each for each in vhost.transformed.sightings if not any(each.fact.since) and each.parts]
                assert refused == []
                import_into(server, name, written)
                imported = Definitions.loads(json.dumps(manage(server, "GET", f"definitions/{name}")), vhost=name)
                assert {*imported.topology(name).queues} == {*after.queues}, (server.version, number)
                now = arrived(new, after, sent)
            check(server, after, sent, now)
            messages += len(sent)
            same += sum(one == other for one, other in zip(was, now, strict=True))
    with capsys.disabled():
        done = ", ".join(f"{name} {count}" for name, count in sorted(changes.items()))
        print(f"\n{TOPOLOGIES} topologies, {messages:,} messages, {same:,} routed as before, 0 otherwise than foretold")
        print(f"changes: {done}")


@pytest.mark.parametrize(
    ("was", "policy"),
    [
        (Queue("q", arguments={"x-max-priority": 5}), HA),
        (Queue("q", arguments={"x-queue-mode": "lazy"}), {"queue-mode": "lazy"}),
        (Queue("q", arguments={"x-queue-type": "quorum"}), {"max-length": 9}),
        (Queue("q"), HA),
        (Queue("q", durable=False), {"max-length": 9}),
    ],
)
def test_an_application_may_declare_a_queue_as_before_exactly_if_no_transformation_changed_it(
    rabbitmq_servers: list[Server], was: Queue, policy: dict[str, Any]
) -> None:
    for server in rabbitmq_servers:
        if server.management_url is None or release_of(server.version).numbers < (4, 0, 0):
            continue
        topology = Topology([], [was], [], [Policy("p", "", policy, "queues")])
        [vhost] = upgrade(topology, server.version, old="3.10", transform=["default", "keep-delivery-limit"]).vhosts
        assert vhost.transformed is not None
        after = vhost.transformed.topology.queues["q"]
        if not after.durable and server.version_info >= (4, 3):
            continue
        with new_vhost(server, "hashstar-transform-declare") as parameters:
            assert declares(parameters, after)
            assert declares(parameters, was) is (after == was), (server.version, after)


def declares(parameters: pika.URLParameters, queue: Queue) -> bool:
    """Return whether a broker accepts a declaration; 406 is the only answer otherwise."""
    connection = pika.BlockingConnection(parameters)
    try:
        connection.channel().queue_declare(queue.name, durable=queue.durable, arguments=dict(queue.arguments))
    except ChannelClosedByBroker as error:
        if error.reply_code != PRECONDITION_FAILED:
            raise
        return False
    else:
        return True
    finally:
        connection.close()


def import_into(server: Server, vhost: str, definitions: dict[str, Any]) -> None:
    """Import definitions of one virtual host; the broker's answer is the error if it refuses them."""
    try:
        manage(server, "POST", f"definitions/{vhost}", definitions)
    except HTTPError as error:
        pytest.fail(f"{server.version}: {error.read().decode()}\n{json.dumps(definitions)}")


def as_json_has_it(topology: Topology) -> Topology:
    """Return a topology without what an import does not keep: types of arguments, and the order of hash rings."""
    hashes = {name for name, exchange in topology.exchanges.items() if exchange.type == "x-consistent-hash"}
    bindings = [
        binding
        for binding in topology.bindings
        if binding.source not in hashes and all(type(v) in (str, int, bool) for v in binding.arguments.values())
    ]
    return Topology(
        topology.exchanges.values(), topology.queues.values(), bindings, topology.policies.values(),
        profile=topology.profile,
    )  # fmt: skip


def _of_one_vhost(document: dict[str, Any]) -> dict[str, Any]:
    """Return definitions without virtual hosts, for the import into one."""
    return {
        key: [{name: value for name, value in entry.items() if name != "vhost"} for entry in section]
        for key, section in document.items()
        if key in ("exchanges", "queues", "bindings", "policies")
    }
