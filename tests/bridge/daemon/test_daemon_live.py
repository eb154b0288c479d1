"""The bridge of the guide, exactly as documented, between a real RabbitMQ and a real Kafka."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from exchange.partition.partitioning.specification import Partitioning
from tests.bridge.daemon.test_daemon import run_check, running
from tests.bridge.daemon.test_examples import EXAMPLES, GUIDE
from tests.support.differential import manage
from tests.support.servers import Server, missing
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, wait_until

COUNT = 300
LIMIT = 1
"""Number of times that a message of a queue may be put back, before the queue drops it: 20 by default, from 4.0 on."""
KEYS = ("order.eu.created", "order.us.paid", "order.ap.cancelled")


@pytest.fixture
def name() -> str:
    return unique_name("guide")


class Guest:
    """A virtual host that has only what the guide asks for."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self.vhost = name
        self.user = name
        manage(server, "PUT", f"vhosts/{name}")
        manage(server, "PUT", f"permissions/{name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        manage(server, "PUT", f"users/{name}", {"password": "hush", "tags": ""})
        command = re.search(r"rabbitmqctl set_permissions\s+bridge\s+'(.*?)'\s+'(.*?)'\s+'(.*?)'", GUIDE.read_text())
        assert command is not None
        rights = dict(zip(("configure", "write", "read"), command.groups(), strict=True))
        manage(server, "PUT", f"permissions/{name}/{name}", rights)
        parameters = pika.URLParameters(server.url)
        parameters.virtual_host = name
        self._connection = pika.BlockingConnection(parameters)
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        for queue in ("orders", "orders-dead"):
            arguments = {"x-queue-type": "quorum", "x-delivery-limit": LIMIT}
            self._channel.queue_declare(queue, durable=True, arguments=arguments)
        self._channel.exchange_declare("shop", "fanout")
        self._channel.queue_bind("orders", "shop")

    def publish(self, n: int, key: str) -> None:
        """Publish a numbered message to the queue, with a routing key."""
        properties = pika.BasicProperties(headers={"tenant": f"tenant {n % 7}"}, message_id=str(n), delivery_mode=2)
        exchange = "" if key == "orders" else "shop"
        self._channel.basic_publish(exchange, key, b"%d" % n, properties, mandatory=True)

    def count(self, queue: str) -> int:
        """Read all messages of a queue."""
        return int(self._channel.queue_declare(queue, durable=True, passive=True).method.message_count)

    def close(self) -> None:
        self._connection.close()
        manage(self._server, "DELETE", f"vhosts/{self.vhost}")
        manage(self._server, "DELETE", f"users/{self.user}")


@pytest.fixture
def guest(rabbitmq: Server, name: str) -> Iterator[Guest]:
    """Declare at a real RabbitMQ what the guide asks for."""
    if rabbitmq.management_url is None:
        missing("the RabbitMQ has no management API")
    made = Guest(rabbitmq, name)
    yield made
    made.close()


@pytest.fixture
def topics(kafka: Server, name: str) -> Iterator[dict[str, str]]:
    """Yield topics that replace those of the guide."""
    admin = AdminClient({"bootstrap.servers": kafka.url})
    partitions = {"billing": 3, "orders-audit": 12, "lost-and-found": 1}
    made = {topic: f"{name}-{topic}" for topic in partitions}
    for future in admin.create_topics([NewTopic(made[topic], count) for topic, count in partitions.items()]).values():
        future.result(find_limit())
    yield made
    admin.delete_topics(list(made.values()))


def records_of(bootstrap: str, topic: str, count: int) -> list[tuple[int, int, dict[str, bytes]]]:
    """Read partition, number and headers of ``count`` records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": unique_name("group"), "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=find_limit()).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        found: list[tuple[int, int, dict[str, bytes]]] = []
        while len(found) < count:
            message = consumer.poll(find_limit())
            assert message is not None, f"{len(found)} of {count}"
            assert message.error() is None
            found.append((message.partition() or 0, int(message.value() or b""), dict(message.headers() or [])))  # type: ignore[arg-type]
        assert consumer.poll(1.0) is None
        return found
    finally:
        consumer.close()


@pytest.fixture
def guide(
    rabbitmq: Server,
    kafka: Server,
    guest: Guest,
    topics: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Return the guide's configuration for these brokers."""
    block = re.search(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert block is not None
    text = block[1]
    server = urlsplit(rabbitmq.url)
    changes = {
        '"amqp://bridge@127.0.0.1"': (2, f'"amqp://{guest.user}@{server.hostname}:{server.port}/{guest.vhost}"'),
        '"kafka://127.0.0.1:9092"': (1, f'"kafka://{kafka.url}"'),
        **{f'"{old}"': (1, f'"{new}"') for old, new in topics.items()},
    }
    for old, (count, new) in changes.items():
        assert text.count(old) == count
        text = text.replace(old, new)
    monkeypatch.setenv("BRIDGE_PASSWORD", "hush")
    shutil.copy(EXAMPLES / "shop.bindings", tmp_path)
    path = tmp_path / "bridge.toml"
    path.write_text('http = "127.0.0.1:0"\nlog_format = "json"\n' + text)
    return path


def test_the_queues_that_the_guide_asks_for_are_enough(
    guest: Guest, guide: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guest.publish(0, "orders")
    for _ in range(LIMIT + 2):
        code, output = run_check(capsys, str(guide))
        assert (code, output.splitlines()[-1].partition(":")[0]) == (0, "ready to run"), output
    assert guest.count("orders") == 1
    assert "hush" not in output


def test_a_first_message_that_is_published_straight_to_the_queue_does_not_stop_the_bridge(
    kafka: Server, guest: Guest, guide: Path, topics: dict[str, str]
) -> None:
    guest.publish(0, "orders")
    with running(guide) as bridge:
        wait_until(lambda: bridge.status()["sources"][0]["messages"] == 1 and not bridge.status()["unsettled"])
        guest.publish(1, KEYS[0])
        wait_until(lambda: bridge.status()["sources"][0]["messages"] == 2 and not bridge.status()["unsettled"])
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 0
    [(_, number, _)] = records_of(kafka.url, topics["lost-and-found"], 1)
    assert number == 0
    assert guest.count("orders-dead") == 0


@pytest.mark.smoke
def test_the_bridge_of_the_guide_moves_everything_in_order_to_the_right_partitions(
    kafka: Server, guest: Guest, guide: Path, topics: dict[str, str]
) -> None:
    for n in range(COUNT):
        guest.publish(n, KEYS[n % 3])
    with running(guide) as bridge:
        wait_until(lambda: bridge.status()["sources"][0]["messages"] >= COUNT and not bridge.status()["unsettled"])
        assert bridge.request("GET", "/ready")[0] == 200
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 0
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
