"""The endpoints of RabbitMQ behave as every endpoint must, with each kind of queue, on live brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest

from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.config import PublishAddress, RabbitmqSource, RabbitmqTarget
from exchange import Message
from tests.support.bridge.behaviour import Place, SourceBehaviour, TargetBehaviour
from tests.support.bridge.relay import relay_to
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit


@pytest.fixture(params=["classic", "quorum", "stream"])
def place(request: pytest.FixtureRequest, rabbitmq: Server, tmp_path: Path) -> Iterator[Place]:
    """Return a place with a queue to read, one of the same kind to write to, and a broker that can be cut off."""
    kind = request.param
    host, port = urlsplit(rabbitmq.url).hostname or "", urlsplit(rabbitmq.url).port or 5672
    read, written = (unique_name(part) for part in ("read", "written"))
    connection = pika.BlockingConnection(pika.URLParameters(f"{rabbitmq.url}?heartbeat=0"))
    channel, putting = connection.channel(), connection.channel()
    putting.tx_select()  # a commit is answered when all is where it belongs: one wait for all messages
    for queue in (read, written):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    bodies: list[Message] = []

    def put(messages: Sequence[Message]) -> None:
        for message in messages:
            properties = pika.BasicProperties(delivery_mode=2, headers={"key": message.routing_key})
            putting.basic_publish(f"exchange-{read}", message.routing_key, message.body, properties)
        putting.tx_commit()

    def read_all(count: int) -> Sequence[Message]:
        def keep(_: object, method: pika.spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes) -> None:
            key = (properties.headers or {}).get("key") or method.routing_key
            bodies.append(Message("", key, body=body))
            reading.basic_ack(method.delivery_tag)

        reading = connection.channel()
        reading.basic_qos(prefetch_count=1_000)
        if kind == "stream":
            bodies.clear()
        reading.basic_consume(written, keep, arguments={"x-stream-offset": "first"} if kind == "stream" else {})
        end = time.monotonic() + find_limit()
        before = -1
        while (len(bodies) < count or len(bodies) > before) and time.monotonic() < end:
            before = len(bodies)
            connection.process_data_events(0.5)  # there may be more than asked for, as some were written twice
        reading.close()
        return list(bodies)

    channel.exchange_declare(f"exchange-{read}", "fanout")
    channel.queue_bind(read, f"exchange-{read}")
    channel.exchange_declare(f"exchange-{written}", "fanout")
    channel.queue_bind(written, f"exchange-{written}")
    offsets = tmp_path / "offsets" if kind == "stream" else None
    with relay_to(host, port) as relay:
        broker = parse_broker(f"amqp://guest:guest@127.0.0.1:{relay.port}/%2F")
        yield Place(
            make_source=lambda: RabbitmqSource("read", [broker], read, prefetch=2_000, offsets=offsets),
            make_target=lambda: RabbitmqTarget(
                "written",
                [broker],
                {"queue": PublishAddress(f"exchange-{written}"), "nowhere": PublishAddress("amq.direct", "none")},
            ),
            put=put,
            read_all=read_all,
            cut=relay.cut,
            refused=("nowhere", Message("", "none", body=b"x")),
        )
    for queue in (read, written):
        channel.queue_delete(queue)
        channel.exchange_delete(f"exchange-{queue}")
    connection.close()


class TestRabbitmqSource(SourceBehaviour):
    """The behaviour of RabbitMQ's endpoints."""


class TestRabbitmqTarget(TargetBehaviour):
    """The behaviour of RabbitMQ's endpoints."""
