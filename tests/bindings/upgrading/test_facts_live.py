"""The facts about releases whose source is live brokers: each broker that is here behaves as the table says."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pika
import pika.exceptions
import pytest

from bindings.upgrading.facts.table import FACTS
from bindings.upgrading.releases import release_of
from bindings.upgrading.upgrade import upgrade_topology
from exchange import Policy, Queue, Topology
from tests.recorders.rabbitmq_arguments import answer_to_policy
from tests.support.differential import manage
from tests.support.trials.lab import Lab, lab_of
from tests.support.trials.table import TRIALS
from tests.support.unique import unique_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pika.adapters.blocking_connection import BlockingChannel

    from tests.support.servers import Server


@pytest.fixture(scope="module")
def labs(rabbitmq_servers: list[Server]) -> Iterator[list[Lab]]:
    """Yield a virtual host of each broker."""
    with ExitStack() as stack:
        yield [stack.enter_context(lab_of(server)) for server in rabbitmq_servers if server.management_url is not None]


@pytest.mark.parametrize("fact", TRIALS)
def test_each_broker_behaves_as_the_fact_says_for_its_release(labs: list[Lab], fact: str) -> None:
    [row] = [each for each in FACTS if each.id == fact]
    if not labs:
        pytest.skip("needs the management API")
    for lab in labs:
        try:
            assert TRIALS[fact](lab) in (row.holds_for(release_of(lab.server.version).numbers), None), (
                lab.server.version
            )
        finally:
            lab.close()


def holds(fact: str, server: Server) -> bool:
    """Return whether a fact holds for the release of a server."""
    [row] = [each for each in FACTS if each.id == fact]
    return row.holds_for(release_of(server.version).numbers)


def code_of(server: Server, act: Callable[[BlockingChannel], Any]) -> int | None:
    """Return the code with which a broker closes the channel or connection on an action; None if it does not."""
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    try:
        act(connection.channel())
    except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker) as error:
        return int(error.reply_code)
    finally:
        if connection.is_open:
            connection.close()
    return None


@pytest.fixture
def name() -> str:
    return unique_name("upgrade")


def test_what_is_foretold_to_be_refused_is_what_the_broker_refuses(rabbitmq_servers: list[Server], name: str) -> None:
    """Of parts that 3.10 accepts: queues, bindings and policies, each asked of the broker itself."""
    queues = [
        Queue(name, arguments=arguments)
        for arguments in (
            {}, {"x-queue-mode": "lazy"}, {"x-queue-version": 1}, {"x-queue-version": 2},
            {"x-queue-master-locator": "min-masters"}, {"x-max-priority": 5},
        )
    ]  # fmt: skip
    policies = [
        Policy(name, f"^{name}$", definition, "queues")
        for definition in (
            {"ha-mode": "all"}, {"queue-master-locator": "min-masters"}, {"max-length": 5}, {"queue-mode": "lazy"},
        )
    ]  # fmt: skip
    for server in rabbitmq_servers:
        old, new = release_of("3.10"), release_of(server.version)

        def foretold(topology: Topology, old: Any = old, new: Any = new) -> bool:
            sightings = upgrade_topology(topology, old, new).sightings
            return any(sighting.fact.id in ("HSU001", "HSU004") for sighting in sightings)

        for queue in queues:

            def declare(channel: BlockingChannel, queue: Queue = queue) -> None:
                channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))
                channel.queue_delete(queue.name)

            refused = code_of(server, declare) is not None
            assert refused is foretold(Topology(queues=[queue])), (server.version, queue)
        for policy in policies if server.management_url is not None else ():
            refused = answer_to_policy(server, policy) is not None
            assert refused is foretold(Topology(policies=[policy])), (server.version, policy)


def test_transient_queues_that_are_not_exclusive_are_refused(rabbitmq_servers: list[Server], name: str) -> None:
    """Where the feature is denied, as it is by default since 4.3, but for packages that permit it."""

    def declare(channel: BlockingChannel) -> None:
        channel.queue_declare(name, durable=False)
        channel.queue_delete(name)

    for server in rabbitmq_servers:
        if server.management_url is None:
            pytest.skip("needs the management API")
        denied = False
        if holds("HSU101", server):  # the API came between 3.10 and 4.0
            features = manage(server, "GET", "deprecated-features")
            denied = any(
                f["name"] == "transient_nonexcl_queues" and f["deprecation_phase"] == "denied_by_default"
                for f in features
            )
        assert code_of(server, declare) == (541 if denied else None), server.version
        assert holds("HSU005", server) or not denied
