"""x-consistent-hash and x-modulus-hash: a live RabbitMQ delivers each key to the queue that the engine chooses."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from exchange import Binding, Exchange, Message, Profile, Queue, Router, Topology
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError
from tests.recorders.keys import COUNTS, KEYS
from tests.support import topologies
from tests.support.amqp_wire import all_types_in_pika
from tests.support.differential import Outcome, compare_one, publish
from tests.support.tiers import scale
from tests.support.unique import unique_name

if TYPE_CHECKING:
    from tests.support.servers import Server

ROUTING_KEYS = [key for key in KEYS if len(key.encode()) <= 255]
EACH = min(scale(200), len(ROUTING_KEYS))
"""Number of keys that each exchange is asked for, others each time: all are recorded for the hashes themselves."""
WEIGHTS = ("1", "1", "1", "2", "3", "7", "20", "100")
HASHED: dict[str, dict[str, Any]] = {
    "header": {"hash-header": "h"},
    "message_id": {"hash-property": "message_id"},
    "correlation_id": {"hash-property": "correlation_id"},
    "timestamp": {"hash-property": "timestamp"},
}


def test_a_live_broker_sends_each_key_to_the_same_queue(
    rabbitmq_servers: list[Server], capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys, at night 1,000 and more, through rings and lists of 1, 2, 3, 7, 12, 16 and 100 queues, and by other parts."""
    assert len(ROUTING_KEYS) >= 1000
    for server in rabbitmq_servers:
        topology = rings(Random(2026), find_profile(server.version))
        outcome = Outcome()
        with all_types_in_pika():
            compare_one(server, topology, messages(Random(2026), topology.profile), outcome, "rings")
        with capsys.disabled():
            print(f"\nRabbitMQ {server.version}: {outcome.messages} keys, {len(outcome.differences)} differences")
        assert not outcome.differences, "\n\n".join(outcome.differences[:3])
        assert outcome.copies == outcome.messages


def rings(rng: Random, profile: Profile) -> Topology:
    """Build exchanges of each kind for each number of queues, bound in any order with any weights; and the hashed parts."""
    topology = Topology(profile=profile)
    names = [f"hashstar-q{number}" for number in range(max(COUNTS))]
    for name in names:
        topology = topology.declare_queue(Queue(name))
    for count in COUNTS:
        topology = topology.declare_exchange(Exchange(f"hashstar-ring-{count}", "x-consistent-hash"))
        topology = topology.declare_exchange(Exchange(f"hashstar-list-{count}", "x-modulus-hash"))
    for part, arguments in HASHED.items():
        topology = topology.declare_exchange(Exchange(f"hashstar-{part}", "x-consistent-hash", arguments=arguments))
    for exchange in topology.exchanges:
        *_, size = exchange.rsplit("-", 1)
        if exchange.startswith("hashstar-"):
            for name in rng.sample(names, int(size) if size.isdecimal() else 12):
                topology = topology.bind(Binding.to_queue(exchange, name, rng.choice(WEIGHTS)))
    return topology


def messages(rng: Random, profile: Profile) -> list[Message]:
    """Yield messages: all keys for exchanges by key; for the others headers of all types, the same keys, and none."""
    sent = [Message(f"hashstar-{kind}-{count}", key) for kind in ("ring", "list") for count in COUNTS
            for key in rng.sample(ROUTING_KEYS, EACH)]  # fmt: skip
    sent += [
        Message("hashstar-list-7", key, {"CC": rng.choices(ROUTING_KEYS, k=2), "BCC": rng.choices(ROUTING_KEYS, k=at)})
        for at in range(3)
        for key in ROUTING_KEYS[:100]
    ]
    values = [*topologies.VALUES, *rng.sample(KEYS, EACH), *range(-EACH, EACH), *[rng.randrange(-(2**63), 2**63) for _ in range(200)],
              *[rng.uniform(-1e9, 1e9) for _ in range(200)]]  # fmt: skip
    if not profile.hashes_empty_arrays:
        values = [value for value in values if value not in ([], {})]
    sent += [Message("hashstar-header", "", {"h": value, "i": 1}) for value in values]
    sent += [Message(f"hashstar-{part}", key, {"H": key}) for part in HASHED for key in ROUTING_KEYS[:20]]
    for part in ("message_id", "correlation_id"):
        sent += [Message(f"hashstar-{part}", "", {}, {part: key}) for key in rng.sample(ROUTING_KEYS, EACH)]
    times = [*range(EACH // 2), *[rng.randrange(2**33) for _ in range(EACH // 2)]]
    return sent + [Message("hashstar-timestamp", "", {}, {"timestamp": time}) for time in times]


def test_a_live_ring_has_the_same_history(rabbitmq_servers: list[Server]) -> None:
    """After each of many bindings, of the same queue twice too, unbindings and deletions, a router edited alike agrees."""
    import pika

    for server in rabbitmq_servers:
        connection = pika.BlockingConnection(pika.URLParameters(server.url))
        try:
            _compare_histories(connection, Router(Topology(profile=find_profile(server.version))), Random(2026))
        finally:
            channel = connection.channel()
            for name in EXCHANGES:
                channel.exchange_delete(name)
            connection.close()


EXCHANGES = {"hashstar-ring": "x-consistent-hash", "hashstar-list": "x-modulus-hash"}
QUEUES = [f"hashstar-q{number}" for number in range(6)]


def _compare_histories(connection: Any, router: Router, rng: Random) -> None:
    channel = connection.channel()
    for name, kind in EXCHANGES.items():
        router.declare_exchange(Exchange(name, kind))
        channel.exchange_declare(name, kind)
    for queue in QUEUES:
        router.declare_queue(Queue(queue))
        channel.queue_declare(queue, exclusive=True)
    alone: Counter[str] = Counter()
    for step in range(120):
        _edit(rng, router, channel)
        sent = [Message(name, f"{step}-{key}") for name in EXCHANGES for key in range(20)]
        reading = connection.channel()
        arrived, _ = publish(reading, QUEUES, sent)
        reading.close()
        for number, message in enumerate(sent):
            queues = router.route(message).queues
            assert tuple(arrived.get(number, ())) == queues, f"step {step}: {list(router.topology.bindings)}"
            alone.update(queues)
    assert set(alone) == set(QUEUES)


def _edit(rng: Random, router: Router, channel: Any) -> None:
    present = list(router.topology.bindings)
    chance = rng.random()
    if chance < 0.05:
        queue = rng.choice(QUEUES)
        router.delete_queue(queue)
        channel.queue_delete(queue)
        router.declare_queue(Queue(queue))
        channel.queue_declare(queue, exclusive=True)
    elif chance < 0.4 and present:
        source, (_, name), key, _ = binding = rng.choice(present)
        router.unbind(binding)
        channel.queue_unbind(name, source, key)
    else:
        binding = Binding.to_queue(rng.choice(list(EXCHANGES)), rng.choice(QUEUES), rng.choice(("1", "2", "5", "30")))
        router.bind(binding)
        channel.queue_bind(binding.destination.name, binding.source, binding.routing_key)


@pytest.mark.parametrize("value", [[], {}, [1], None], ids=repr)
def test_an_empty_array_crashes_the_channels_of_certain_releases(rabbitmq_servers: list[Server], value: object) -> None:
    """As the value of a hash header, where there is more than one bucket."""
    exchange = Exchange("hashstar-h", "x-consistent-hash", auto_delete=True, arguments={"hash-header": "h"})
    for server in rabbitmq_servers:
        topology = Topology(profile=find_profile(server.version)).declare_exchange(exchange)
        for queue in QUEUES[:2]:
            topology = topology.declare_queue(Queue(queue)).bind(Binding.to_queue(exchange.name, queue, "1"))
        expected = "taken"
        try:
            Router(topology).route(Message(exchange.name, "", {"h": value}))
        except BrokerError as error:
            expected = str(error).partition(" - ")[0]
        assert _answer(server, exchange, value) == expected, server.version


def _answer(server: Server, exchange: Exchange, value: object) -> str:
    """Return the broker's answer to a message with this header, for two queues of weight 1."""
    import pika
    import pika.exceptions

    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    channel = connection.channel()
    # A name of its own: the broker removes what is exclusive some time after its connection has gone.
    name = unique_name(exchange.name)
    channel.exchange_declare(name, exchange.type, auto_delete=True, arguments=dict(exchange.arguments))
    for _ in range(2):
        queue = channel.queue_declare("", exclusive=True).method.queue  # with these, and their bindings, it goes
        channel.queue_bind(queue, name, "1")
    channel.confirm_delivery()
    try:
        with all_types_in_pika():
            channel.basic_publish(name, "", b"", pika.BasicProperties(headers={"h": value}))
    except pika.exceptions.ConnectionClosedByBroker as error:
        return f"{error.reply_code} {error.reply_text}"
    connection.close()
    return "taken"
