"""RabbitMQ targets put messages into the partitions of the topology, on live brokers."""

from __future__ import annotations

import pytest

from bridge.endpoint import BridgeLayout, Delivery, Disconnected, Outgoing
from bridge.endpoints.rabbitmq.config import PublishAddress, RabbitmqTarget
from exchange import Message, Queue, Router, Topology
from exchange.partition.partitioning.specification import Partitioning
from tests.support.bridge.behaviour import Reports, on_a_loop
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.servers import missing

COUNT = 600


def topology_of(partitioning: str) -> Topology:
    return Topology(queues=[Queue("q", partitioning=Partitioning.parse(partitioning))])


def target_of(broker: Broker, topology: Topology, address: PublishAddress) -> RabbitmqTarget:
    target = RabbitmqTarget("to", [broker.address], {"q": address})
    target.meet(BridgeLayout([], {"q": target}, topology, 1))
    return target


async def publish(
    broker: Broker, topology: Topology, address: PublishAddress, messages: list[Message]
) -> list[str | None]:
    """Publish messages to the topology's queue, and return the partitions that it chose."""
    target, reports = target_of(broker, topology, address), Reports()
    await target.open(reports)
    router = Router(topology)
    outgoing, chosen = [], []
    for number, message in enumerate(messages):
        [placement] = router.route(Message("", "q", message.headers, message.properties, message.body)).placements
        partitioning = placement.partitioning
        choice = partitioning.choose(message)
        partition = None if choice.partition is None else partitioning.partitions[choice.partition]
        placement = placement._replace(
            partition=choice.partition,
            name=None if partition is None else partition.name,
            key=partitioning.key.read(message),
        )
        chosen.append(placement.name)
        outgoing.append(Outgoing(message, Delivery(message), "q", placement, number))
    target.send(outgoing)
    await reports.answers(len(messages))
    await target.close()
    assert not reports.failures
    return chosen


def make_messages() -> list[Message]:
    return [Message("", f"key.{n % 50}", {"tenant": f"tenant-{n % 40}"}, body=b"%d" % n) for n in range(COUNT)]


def declare_queue(broker: Broker, name: str, queue_type: str = "classic") -> str:
    broker.channel.queue_declare(name, durable=True, arguments={"x-queue-type": queue_type})
    broker._queues.append(name)
    return name


async def stream_bodies(broker: Broker, queue: str, count: int) -> list[int]:
    source = broker.source(queue)
    await source.open()
    found: list[int] = []
    while len(found) < count:
        found += [int(delivery.message.body) for delivery in await source.read(count)]
    await source.close()
    return found


def by_partition(chosen: list[str | None]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, name in enumerate(chosen):
        assert name is not None
        found.setdefault(name, []).append(number)
    return found


@on_a_loop
async def test_600_messages_of_a_super_stream_are_in_the_streams_that_its_partitioner_chooses(broker: Broker) -> None:
    base = broker.queue(x_queue_type="stream")  # a name of its own
    streams = [declare_queue(broker, f"{base}-{n}", "stream") for n in range(3)]
    for text, names in ((f"over {','.join(streams)}", streams), ("over 3", ["0", "1", "2"])):
        topology = topology_of(f"rabbitmq.super_stream {text}")
        chosen = await publish(broker, topology, PublishAddress.queue(base), make_messages())
        placed = by_partition(chosen)
        assert sorted(placed) == names  # none is empty
        for stream, name in zip(streams, names, strict=True):
            found = await stream_bodies(broker, stream, len(placed[name]))
            assert found == placed[name]
            broker.channel.queue_delete(stream)
            declare_queue(broker, stream, "stream")


@on_a_loop
async def test_a_queue_for_each_partition_gets_what_kafkas_producer_would_put_there(broker: Broker) -> None:
    base = broker.queue()
    queues = [declare_queue(broker, f"{base}.{n}") for n in range(4)]
    topology = topology_of('kafka.murmur2 over 4 by header "tenant"')
    placed = by_partition(
        await publish(broker, topology, PublishAddress.queue(f"{base}.{{partition}}"), make_messages())
    )
    assert {name: [int(body) for body in broker.bodies(queues[int(name)])] for name in placed} == placed


@on_a_loop
async def test_an_exchange_is_published_to_with_the_partition_s_name_as_the_key(broker: Broker) -> None:
    exchange, queues = broker.exchange("direct"), [broker.queue() for _ in range(3)]
    for name, queue in zip("abc", queues, strict=True):
        broker.channel.queue_bind(queue, exchange, name)
    topology = topology_of("rabbitmq.super_stream over a,b,c")
    placed = by_partition(await publish(broker, topology, PublishAddress(exchange, "{partition}"), make_messages()))
    assert {
        name: [int(body) for body in broker.bodies(queue)] for name, queue in zip("abc", queues, strict=True)
    } == placed


@pytest.mark.parametrize("key", ["by routing_key", 'by header "tenant"'])
@on_a_loop
async def test_a_hashing_exchange_chooses_the_partitions_of_the_topology(broker: Broker, key: str) -> None:
    if broker.server.version_info < (3, 13):
        pytest.skip("before 3.13 the order of bindings decides otherwise")
    try:
        exchange = broker.exchange("x-consistent-hash")
    except Exception:  # noqa: BLE001  pika's, of a broker without the plugin
        missing("the broker has no x-consistent-hash")
    queues = [broker.queue() for _ in range(3)]
    for queue in queues:
        broker.channel.queue_bind(queue, exchange, "1")
    topology = topology_of(f"rabbitmq.consistent_hash over 3 {key}")
    placed = by_partition(await publish(broker, topology, PublishAddress(exchange), make_messages()))
    found = {str(n): [int(body) for body in broker.bodies(queue)] for n, queue in enumerate(queues)}
    assert found == placed


@on_a_loop
async def test_the_bridge_waits_while_partitions_are_missing_or_too_many(broker: Broker) -> None:
    base = broker.queue()
    names = [declare_queue(broker, f"{base}-{n}") for n in range(3)]
    for count, words in ((4, rf"'{base}-3': there is none; declare it \(the topology spreads 'q' over 4\)"),
                         (2, rf"'{base}-2' is one partition more")):  # fmt: skip
        target = target_of(
            broker, topology_of(f"kafka.murmur2 over {count}"), PublishAddress.queue(f"{base}-{{partition}}")
        )
        with pytest.raises(Disconnected, match=words):
            await target.open(Reports())
    target = target_of(broker, topology_of("kafka.murmur2 over 3"), PublishAddress.queue(f"{base}-{{partition}}"))
    await target.open(Reports())
    await target.close()
    assert len(names) == 3
