"""Random arguments of queues, and the recorded patterns: a live broker answers as the engine does."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from exchange import Policy, Queue, Topology
from exchange.entities.queue_arguments import MODULES, refuse_consumer
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError
from exchange.values.field_values import Typed
from tests.recorders import policy_patterns
from tests.recorders.policy_patterns import NAMES, PATTERNS
from tests.recorders.rabbitmq_arguments import NAME, TYPES, VALUES, Declarer
from tests.support.amqp_wire import all_types_in_pika

if TYPE_CHECKING:
    from tests.support.servers import Server

QUEUES = 300
CONSUMER_VALUES: dict[str, tuple[Any, ...]] = {
    "x-priority": (0, -1, "1", True, None, Typed("short", 5)),
    "x-consumer-timeout": (0, -1, 60_000, 2**40, "3000", b"3000", True, None, 1.5, Typed("timestamp", 1)),
    "x-cancel-on-ha-failover": (True, False, 1, "true"),
    "x-stream-offset": ("first", "next", "1h", "0h", "later", "", b"last", 0, -1, Typed("timestamp", 1), True, 1.5),
    "x-stream-filter": ("a", 1),
    "x-stream-match-unfiltered": (True, 1),
    "x-unknown-to-all": ("anything", -1),
}
CONSUMERS = 150


def test_a_live_broker_refuses_the_same_random_queues(rabbitmq_servers: list[Server]) -> None:
    """With the same words, where it is not that the broker itself fails."""
    for server in rabbitmq_servers:
        rng, topology = Random(15), Topology(profile=find_profile(server.version))
        declarer = Declarer(server.url)
        for _ in range(QUEUES):
            some = rng.sample(sorted(VALUES), rng.randrange(4))
            arguments = {**rng.choice(TYPES), **{name: rng.choice(VALUES[name]) for name in some}}
            queue = Queue(NAME, arguments=arguments)
            try:
                topology.declare_queue(queue)
                ours = None
            except BrokerError as error:
                ours = str(error)
            answer = declarer.answer_to(queue)
            failed = answer is not None and answer.startswith("541")
            assert ours is not None if failed else ours == answer, (server.version, arguments)
        declarer.close()


def test_a_live_broker_refuses_the_same_random_consumers(rabbitmq_servers: list[Server]) -> None:
    """So does the virtual broker, and with the same words, where it is not that the broker itself fails."""
    for server in rabbitmq_servers:
        rng, profile = Random(32), find_profile(server.version)
        queues = {kind: Queue(f"{NAME}-{kind}", arguments={"x-queue-type": kind}) for kind in MODULES}
        connection = pika.BlockingConnection(pika.URLParameters(server.url))
        for queue in queues.values():
            connection.channel().queue_declare(queue.name, durable=True, arguments={**queue.arguments})
        for _ in range(CONSUMERS):
            queue = queues[rng.choice([*queues])]
            some = rng.sample(sorted(CONSUMER_VALUES), rng.randrange(1, 4))
            arguments = {name: rng.choice(CONSUMER_VALUES[name]) for name in some}
            ours = answer = None
            try:
                refuse_consumer(queue, f"queue '{queue.name}' in vhost '/'", arguments, profile)
            except BrokerError as error:
                ours = str(error)
            channel = connection.channel()
            channel.basic_qos(prefetch_count=1)
            try:
                with all_types_in_pika():
                    channel.basic_consume(queue.name, lambda *_: None, arguments=arguments)
                channel.close()
            except ChannelClosedByBroker as error:
                answer = f"{error.reply_code} {error.reply_text}"
            except ConnectionClosedByBroker as error:
                answer = f"{error.reply_code} {error.reply_text}"
                connection = pika.BlockingConnection(pika.URLParameters(server.url))
            failed = answer is not None and answer.startswith("541")
            assert ours is not None if failed else ours == answer, (server.version, queue, arguments, answer, ours)
        for queue in queues.values():
            connection.channel().queue_delete(queue.name)
        connection.close()


def test_a_live_broker_applies_policies_to_the_same_names(rabbitmq_servers: list[Server]) -> None:
    """Where the engine gives an answer."""
    for server in rabbitmq_servers:
        if server.management_url is None:
            pytest.skip("needs the management API")
        policy_patterns.declare(server)
        try:
            for pattern in PATTERNS:
                applied = policy_patterns.apply(server, pattern)
                for name in NAMES if applied is not None else ():
                    assert Policy("p", pattern).is_found_in(name) in (None, name in (applied or ())), (pattern, name)
        finally:
            policy_patterns.delete(server)
