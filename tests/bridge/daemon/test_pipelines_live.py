"""Several pipelines between a real RabbitMQ and a real Kafka that is stopped meanwhile: the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from bridge.daemon.asking.orders import give_order
from tests.bridge.daemon.test_daemon import Running, running
from tests.bridge.endpoints.archive.test_archive import read_bodies
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics, topics_at
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, wait_until

COUNT = 200
QUEUES = ("to-kafka", "from-kafka", "to-archive")


@pytest.fixture
def name() -> str:
    return unique_name("pipelines")


@pytest.fixture
def channel(rabbitmq: Server, name: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    channel = connection.channel()
    channel.tx_select()
    for each in QUEUES:
        channel.queue_declare(f"{name}-{each}", durable=True)
    yield channel
    for each in QUEUES:
        channel.queue_delete(f"{name}-{each}")
    connection.close()


@pytest.fixture
def topics(kafka_broker: Broker) -> Iterator[Topics]:
    with topics_at(kafka_broker.url) as found:
        yield found


def write_config(folder: Path, rabbitmq: Server, kafka: Broker, name: str, written: str, read: str) -> Path:
    (folder / "t.bindings").write_text("exchange events: fanout\nqueue q\nevents -> q\n")
    url = urlsplit(rabbitmq.url)
    rabbit = f'url = "amqp://{url.username or "guest"}:{url.password or "guest"}@{url.hostname}:{url.port or 5672}"'
    at_kafka = f'url = "kafka://{kafka.url}"'
    kafka_group = f'{at_kafka}\ntopics = ["{read}"]\ngroup = "{name}"'
    ends = {
        "out": (f'{rabbit}\nqueue = "{name}-to-kafka"', f'{at_kafka}\nqueues = {{ q = "{written}" }}'),
        "back": (kafka_group, f'{rabbit}\nqueues = {{ q = "{name}-from-kafka" }}'),
        "spool": (f'{rabbit}\nqueue = "{name}-to-archive"', 'url = "archive:spool"\nqueues = { q = "." }'),
    }
    parts = [
        f'[pipelines.{pipeline}]\ntopology = "t.bindings"\n'
        f'[pipelines.{pipeline}.sources.from]\nexchange = "events"\n{source}\n'
        f"[pipelines.{pipeline}.targets.to]\n{target}\n"
        for pipeline, (source, target) in ends.items()
    ]
    path = folder / "bridge.toml"
    top = 'http = "127.0.0.1:0"\nlog_format = "json"\n[policy]\nwindow = 100\n[dead_letters]\nurl = "archive:dead"\n'
    path.write_text(top + "".join(parts))
    return path


def test_a_broker_that_is_away_stops_its_pipelines_only_and_nothing_is_lost(
    rabbitmq: Server, kafka_broker: Broker, channel: BlockingChannel, topics: Topics, name: str, tmp_path: Path
) -> None:
    written, read = topics.make(3), topics.make(3)
    path = write_config(tmp_path, rabbitmq, kafka_broker, name, written, read)

    def publish(queue: str, numbers: range) -> None:
        for n in numbers:
            channel.basic_publish("", f"{name}-{queue}", b"%d" % n, pika.BasicProperties(delivery_mode=2))
        channel.tx_commit()

    def is_ready(bridge: Running, *pipelines: str) -> bool:
        return all(bridge.request("GET", f"/ready?pipeline={each}")[0] == 200 for each in pipelines)

    def count(bridge: Running, pipeline: str) -> int:
        rows = bridge.status()["targets"]
        [row] = [each for each in rows if (each["pipeline"], each["name"]) == (pipeline, "to")]
        return int(sum(row["queues"].values()))

    with running(path) as bridge:
        address = bridge.event("serving")["address"].rstrip("/")
        wait_until(lambda: is_ready(bridge, "out", "back", "spool"))
        publish("to-kafka", range(COUNT))
        topics.put(read, [(b"%d" % (n % 5), b"%d" % n) for n in range(COUNT)])
        wait_until(lambda: count(bridge, "out") == count(bridge, "back") == COUNT)
        kafka_broker.stop()
        try:
            wait_until(lambda: not is_ready(bridge, "out") and not is_ready(bridge, "back"))
            publish("to-kafka", range(COUNT, 2 * COUNT))
            publish("to-archive", range(COUNT))
            wait_until(lambda: count(bridge, "spool") == COUNT)
            assert is_ready(bridge, "spool")
            code, reasons = bridge.request("GET", "/ready")
            assert code == 503
            assert all(line.startswith(("out: ", "back: ")) for line in reasons.splitlines())
            assert give_order([address], "pause", find_limit(), "spool").done  # whatever the others wait for
            path.write_text(path.read_text().replace('"archive:spool"', '"archive:other"'))
            assert bridge.request("POST", "/reload", {"X-Hashstar": "1"}) == (200, "reloaded\n")
            assert bridge.event("reloaded")["began"] == ["spool"]
            assert give_order([address], "resume", find_limit(), "spool").done
            publish("to-archive", range(COUNT, 2 * COUNT))
            wait_until(lambda: count(bridge, "spool") == 2 * COUNT)
        finally:
            kafka_broker.start()
            kafka_broker.wait()
        topics.put(read, [(b"%d" % (n % 5), b"%d" % n) for n in range(COUNT, 2 * COUNT)])
        wait_until(lambda: is_ready(bridge, "out", "back", "spool"))
        wait_until(lambda: count(bridge, "out") >= 2 * COUNT and count(bridge, "back") >= 2 * COUNT)
        wait_until(lambda: not bridge.status()["unsettled"])
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 0
    assert {int(each.value()) for each in topics.read(written, 2 * COUNT)} == {*range(2 * COUNT)}
    home = [channel.basic_get(f"{name}-from-kafka", auto_ack=True)[2] for _ in range(2 * COUNT)]
    assert {int(each) for each in home if each is not None} == {*range(2 * COUNT)}
    assert sorted(map(int, read_bodies(tmp_path / "spool") + read_bodies(tmp_path / "other"))) == [*range(2 * COUNT)]
