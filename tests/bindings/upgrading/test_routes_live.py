"""Random topologies and messages on all brokers that are here: what moves between two releases is what was claimed.

``HASHSTAR_UPGRADE_MESSAGES=200000`` makes it long: it takes a quarter of an hour.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

import pika
import pytest

from bindings.diffing.comparison.compare import compare
from exchange import LATEST_PROFILE, Message, Router, Topology
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError
from tests.support import topologies
from tests.support.amqp_wire import all_types_in_pika
from tests.support.differential import declare, publish

if TYPE_CHECKING:
    from tests.support.servers import Server

MESSAGES = int(os.environ.get("HASHSTAR_UPGRADE_MESSAGES", "1200"))
"""Number of messages published to each broker."""
ROUND = 400
KINDS = topologies.Kinds(
    types=("direct", "topic", "headers", "headers", "headers", "x-consistent-hash"), policies=False
)
"""Without choices by chance, and without x-modulus-hash, whose order before 4.3 only the broker knows."""


def test_messages_move_between_two_releases_exactly_as_claimed(
    rabbitmq_servers: list[Server], capsys: pytest.CaptureFixture[str]
) -> None:
    with all_types_in_pika(), ThreadPoolExecutor(len(rabbitmq_servers)) as pool:
        sent = moved = number = 0
        while sent < MESSAGES:
            messages, moves = compare_round(rabbitmq_servers, number, pool)
            sent, moved, number = sent + messages, moved + moves, number + 1
    with capsys.disabled():
        print(f"\n{sent:,} messages to each of {len(rabbitmq_servers)} brokers, {moved:,} moves, 0 differences")


def compare_round(servers: list[Server], number: int, pool: ThreadPoolExecutor) -> tuple[int, int]:
    """Publish the messages of a round to all brokers, and compare each pair; return how many, and how many moves."""
    moved = 0
    rng = Random(f"upgrade/{number}")
    prefix = f"hashstar-upgrade-{number}-"
    topology = topologies.topology(rng, LATEST_PROFILE, KINDS, prefix)
    sides = [topology.with_profile(find_profile(server.version)) for server in servers]
    routers = [Router(side) for side in sides]
    drawn = [topologies.message(rng, topology, prefix) for _ in range(ROUND)]
    sent = [message for message in drawn if all(accepts(router, message) for router in routers)]
    arrived = [*pool.map(lambda server: queues_of(server, topology, sent), servers)]
    for one, other in combinations(range(len(sides)), 2):
        meaning = compare(sides[one], sides[other])
        claimed = {(effect.exchange, effect.queue, effect.gained) for effect in meaning.effects}
        hashed = {choice.exchange for choice in meaning.choices}
        for message, was, is_ in zip(sent, arrived[one], arrived[other], strict=True):
            where = servers[one].version, servers[other].version, message
            old, new = (frozenset(routers[side].route(message).queues) for side in (one, other))
            assert (was, is_) == (old, new), where
            moved += was != is_
            if not {"CC", "BCC"} & message.headers.keys() and message.exchange not in hashed:
                for queue in was ^ is_:
                    assert (message.exchange, queue, queue in is_) in claimed, where
    return len(sent), moved


def accepts(router: Router, message: Message) -> bool:
    """Return whether a release routes the message: some close the channel on an empty array as a hash-header."""
    try:
        router.route(message)
    except BrokerError:
        return False
    return True


def queues_of(server: Server, topology: Topology, sent: list[Message]) -> list[frozenset[str]]:
    """Return the queues to which a broker routes each message; on a thread for each broker."""
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    channel = connection.channel()
    try:
        declare(channel, topology)
        arrived, _ = publish(channel, topology.queues, sent)
    finally:
        for name in topology.exchanges:
            if name.startswith("hashstar-"):
                channel.exchange_delete(name)
        connection.close()  # its exclusive queues go with it
    return [frozenset(arrived.get(number, ())) for number in range(len(sent))]
