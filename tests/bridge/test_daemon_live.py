"""The bridge of the guide, as it stands there, between a real RabbitMQ and a real Kafka."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pika
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from exchange.partition.partitioning import Partitioning
from tests.bridge.test_daemon import running, waited
from tests.bridge.test_examples import DOCS, EXAMPLES
from tests.servers import Server

pytestmark = pytest.mark.live

COUNT = 600
KEYS = ("order.eu.created", "order.us.paid", "order.ap.cancelled")


@pytest.fixture
def name() -> str:
    return f"hashstar-guide-{uuid4().hex[:8]}"


@pytest.fixture
def queue(rabbitmq: Server, name: str) -> Iterator[str]:
    """A queue with messages of a few tenants, numbered."""
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    channel = connection.channel()
    channel.queue_declare(name, durable=True)
    channel.exchange_declare(name, "fanout")
    channel.queue_bind(name, name)
    channel.confirm_delivery()
    for n in range(COUNT):
        properties = pika.BasicProperties(headers={"tenant": f"tenant {n % 7}"}, message_id=str(n), delivery_mode=2)
        channel.basic_publish(name, KEYS[n % 3], b"%d" % n, properties, mandatory=True)
    yield name
    channel.queue_delete(name)
    channel.exchange_delete(name)
    connection.close()


@pytest.fixture
def topics(kafka: Server, name: str) -> Iterator[dict[str, str]]:
    """Topics in the place of the guide's."""
    admin = AdminClient({"bootstrap.servers": kafka.url})
    made = {"billing": f"{name}-billing", "orders-audit": f"{name}-audit"}
    for future in admin.create_topics([NewTopic(made["billing"], 3), NewTopic(made["orders-audit"], 12)]).values():
        future.result(30)
    yield made
    admin.delete_topics(list(made.values()))


def records_of(bootstrap: str, topic: str, count: int) -> list[tuple[int, int, dict[str, bytes]]]:
    """Partition, number and headers of so many records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid4().hex, "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        found: list[tuple[int, int, dict[str, bytes]]] = []
        while len(found) < count:
            message = consumer.poll(20)
            assert message is not None, f"{len(found)} of {count}"
            assert message.error() is None
            found.append((message.partition() or 0, int(message.value() or b""), dict(message.headers() or [])))  # type: ignore[arg-type]
        assert consumer.poll(1.0) is None
        return found
    finally:
        consumer.close()


def test_the_bridge_of_the_guide_moves_everything_in_order_to_the_right_partitions(
    rabbitmq: Server, kafka: Server, queue: str, topics: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = re.search(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert block is not None
    text = block[1]
    parameters = pika.URLParameters(rabbitmq.url)
    changes = {
        '"amqp://bridge@127.0.0.1"': f'"amqp://guest@{parameters.host}:{parameters.port}"\nexchange = "orders"',
        'queue = "orders"': f'queue = "{queue}"',
        '"kafka://127.0.0.1:9092"': f'"kafka://{kafka.url}"',
        '"billing"': f'"{topics["billing"]}"',
        '"orders-audit"': f'"{topics["orders-audit"]}"',
    }
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    monkeypatch.setenv("BRIDGE_PASSWORD", "guest")
    shutil.copy(EXAMPLES / "shop.bindings", tmp_path)
    path = tmp_path / "bridge.toml"
    path.write_text('http = "127.0.0.1:0"\nlog_format = "json"\n' + text)
    with running(path) as bridge:
        waited(lambda: bridge.status()["sources"][0]["messages"] >= COUNT and not bridge.status()["unsettled"])
        assert bridge.asked("GET", "/ready")[0] == 200
        bridge.process.terminate()
        assert bridge.ended() == 0
    audit = records_of(kafka.url, topics["orders-audit"], COUNT)
    partitioning = Partitioning.parse("kafka.murmur2 over 12")
    by_tenant = defaultdict(list)
    for partition, number, headers in audit:
        tenant = headers["tenant"].decode()
        assert tenant == f"tenant {number % 7}"
        assert partition == partitioning.choose_for(tenant).partition
        assert headers["amqp.routing_key"] == KEYS[number % 3].encode()
        by_tenant[tenant].append(number)
    assert dict(by_tenant) == {f"tenant {n}": list(range(n, COUNT, 7)) for n in range(7)}
    billing = records_of(kafka.url, topics["billing"], COUNT * 2 // 3)
    assert sorted(number for _, number, _ in billing) == [n for n in range(COUNT) if n % 3 < 2]
    assert bridge.event("stopped")["not_settled"] == 0
