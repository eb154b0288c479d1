"""x-modulus-hash on a broker of 4.0 to 4.2 whose metadata are in Khepri: its order is not the one of Mnesia."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

import bindings
from bindings.applying.address import Addresses
from bindings.upgrading.releases import release_of
from bindings.upgrading.upgrade import upgrade_topology
from exchange import Binding, Exchange, Message, Queue, Topology
from exchange.entities.releases import find_profile
from tests.support.differential import Outcome, compare_one, manage
from tests.support.servers import SERVERS, addresses_of, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

NUMBER = 8
"""Number of queues: one of 40,320 orders of theirs is that of Mnesia."""


@pytest.fixture(scope="module")
def khepri(rabbitmq_servers: list[Server]) -> Iterator[Server]:
    """Yield a broker of its own with Khepri enabled, in a release that may also have Mnesia."""
    both = [each for each in rabbitmq_servers if (4, 0) <= each.version_info < (4, 3) and ":" in each.origin]
    if not both:
        pytest.skip("needs an image of RabbitMQ 4.0 to 4.2")
    kind = SERVERS["rabbitmq"]
    with running(kind, {kind.image_variable: both[0].origin}) as [server]:
        manage(server, "PUT", "feature-flags/khepri_db/enable", {"name": "khepri_db"})
        yield server


def counted(release: str) -> Topology:
    """Return an exchange with queues that are bound in an order of no store."""
    names = [f"hashstar-{number}" for number in range(NUMBER)]
    Random(2026).shuffle(names)
    return Topology(
        [Exchange("hashstar-counted", "x-modulus-hash")],
        [Queue(name) for name in names],
        [Binding.to_queue("hashstar-counted", name, "1") for name in names],
        profile=find_profile(release),
    )


def test_the_order_of_x_modulus_hash_is_another_one_with_khepri_which_upgrade_does_not_claim_to_know(
    rabbitmq_servers: list[Server], khepri: Server
) -> None:
    topology = counted(khepri.version)
    sent = [Message("hashstar-counted", f"key.{number}") for number in range(100)]
    with_khepri = Outcome()
    compare_one(khepri, topology, sent, with_khepri, "Khepri")
    assert with_khepri.copies == len(sent)
    assert with_khepri.differences
    for server in rabbitmq_servers:
        if server.version_info < (4, 2) or server.version_info >= (4, 3):  # 4.2 may begin with either
            outcome = Outcome()
            compare_one(server, counted(server.version), sent, outcome, server.version)
            assert not outcome.differences, outcome.differences[0]
    found = upgrade_topology(topology, release_of("3.13"), release_of(khepri.version))
    assert "HSU050" in {sighting.fact.id for sighting in found.sightings}
    assert found.difference.meaning.verdict == "undecided"


def test_a_test_broker_is_not_asked_where_its_metadata_store_sends_a_message(khepri: Server) -> None:
    """With Khepri it is not where the model sends it, which is no finding."""
    topology = counted("3.13")
    shown = bindings.upgrade(topology, khepri.version, live=Addresses.parse(*addresses_of(khepri))).live
    assert shown is not None
    assert (shown.not_foretold, shown.not_seen, shown.messages) == ([], [], 0)
    assert shown.not_asked > 0
    assert shown.accepted > NUMBER
