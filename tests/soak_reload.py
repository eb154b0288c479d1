"""``python -m tests.soak_reload``: a bridge is reloaded under load, a thousand times; nothing may be lost.

A program publishes to a quorum queue of a real RabbitMQ while ``hashstar bridge run`` carries its messages to two
topics of Kafka, or to two queues. Before each reload, by SIGHUP and ``POST /reload`` in turn, the topology is replaced,
so that each key goes to the other place, and so is the window; after each, the bridge is drained and resumed. In the
end each message must be in one of the places, those of a key in order in each, and at most a window for each reload may
be there twice.
"""

from __future__ import annotations

import signal
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Final, Self
from urllib.parse import urlsplit

import click
import pika
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bridge.daemon.asking.orders import give_order
from tests.bridge.daemon.test_daemon import Running, running
from tests.support.servers import SERVERS, server_set
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, wait_until

KEYS: Final = 40
WINDOWS: Final = (200, 500)
PLACES: Final = ("a", "b")
CONFIG: Final = """\
topology = "t.bindings"
http = "127.0.0.1:0"
log_format = "json"
[policy]
window = {window}
[sources.from]
url = "{source}"
queue = "{name}"
exchange = "events"
[targets.to]
url = "{target}"
queues = {{ a = "{name}-a", b = "{name}-b" }}
"""


@dataclass(frozen=True)
class Outcome:
    """What is in the places after some reloads."""

    published: int
    lost: int
    twice: int
    out_of_order: int
    redelivered: int
    seconds: float
    reloads: int
    memory: tuple[int, int]
    """Resident memory after the first tenth of the reloads, and at the end, in bytes."""


class Load:
    """Publishes numbered messages, some hundred a second, until it is stopped."""

    def __init__(self, url: str, queue: str) -> None:
        self.count = 0
        self._url = url
        self._queue = queue
        self._over = Event()
        self._thread = Thread(target=self._publish)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _publish(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self._url))
        channel = connection.channel()
        while not self._over.wait(0.1):
            for _ in range(40):
                properties = pika.BasicProperties(headers={"key": f"k.{self.count % KEYS}"}, delivery_mode=2)
                channel.basic_publish(f"{self._queue}-in", f"k.{self.count % KEYS}", b"%d" % self.count, properties)
                self.count += 1
        connection.close()


def write_files(folder: Path, turn: int, source: str, target: str, name: str) -> Path:
    """Write another configuration for each turn, and return its path."""
    bindings = "".join(f'events -> {PLACES[(turn + key) % 2]}: "k.{key}"\n' for key in range(KEYS))
    text = f'vhost "/"\nexchange events: direct\nqueue a\nqueue b\n{bindings}'
    (folder / "t.bindings").write_text(text)
    path = folder / "bridge.toml"
    path.write_text(CONFIG.format(window=WINDOWS[turn % 2], source=source, target=target, name=name))
    return path


def read_memory(bridge: Running) -> int:
    """Return the resident memory of a bridge, in bytes."""
    lines = bridge.request("GET", "/metrics")[1].splitlines()
    return next(int(float(line.split()[1])) for line in lines if line.startswith("process_resident_memory_bytes "))


def drain_and_resume(bridge: Running) -> None:
    """Drain a bridge, check that nothing is under way, and let it go on."""
    address = bridge.event("serving")["address"].rstrip("/")
    result = give_order([address], "drain", find_limit())
    assert result.done, result
    status = bridge.status()
    assert (status["unsettled"], status["sources"][0]["up"], status["targets"][0]["up"]) == (0, False, True), status
    assert give_order([address], "resume", find_limit()).done


def try_reloads(rabbitmq: str, kafka: str | None, reloads: int, folder: Path) -> Outcome:
    """Reload a bridge under load, and return what came of its messages."""
    name = unique_name("reload")
    server = pika.BlockingConnection(pika.URLParameters(rabbitmq))
    channel = server.channel()
    channel.exchange_declare(f"{name}-in", "fanout", durable=True)
    for queue in (name, *([] if kafka else [f"{name}-{each}" for each in PLACES])):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_bind(name, f"{name}-in")
    server.close()
    address = urlsplit(rabbitmq)
    source = f"amqp://guest:guest@{address.hostname}:{address.port}/%2F"
    if kafka:
        topics = [NewTopic(f"{name}-{each}", 3) for each in PLACES]
        admin = AdminClient({"bootstrap.servers": kafka})
        for future in admin.create_topics(topics).values():
            future.result(find_limit())
    target, began, first = f"kafka://{kafka}" if kafka else source, time.monotonic(), 0
    with running(write_files(folder, 0, source, target, name)) as bridge:
        with Load(rabbitmq, name) as load:
            wait_until(lambda: bridge.status()["sources"][0]["messages"])
            for turn in range(1, reloads + 1):
                write_files(folder, turn, source, target, name)
                if turn % 2:
                    code, body = bridge.request("POST", "/reload", {"X-Hashstar": "1"})
                    assert code == 200, body
                else:
                    bridge.process.send_signal(signal.SIGHUP)
                    wait_until(lambda turn=turn: bridge.status()["reloads"] >= turn)  # type: ignore[misc]
                for is_reloaded in (True, False):
                    if not is_reloaded:
                        drain_and_resume(bridge)
                    before = bridge.status()["sources"][0]["messages"]
                    wait_until(lambda before=before: bridge.status()["sources"][0]["messages"] > before)  # type: ignore[misc]
                if turn == max(1, reloads // 10):
                    first = read_memory(bridge)
            took = time.monotonic() - began
        server = pika.BlockingConnection(pika.URLParameters(rabbitmq))  # the one before was silent for long
        channel = server.channel()
        wait_until(lambda: channel.queue_declare(name, passive=True, durable=True).method.message_count == 0)
        wait_until(lambda: bridge.status()["unsettled"] == 0)
        memory, status = (first, read_memory(bridge)), bridge.status()
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 0
    found = read_topics(kafka, name) if kafka else read_queues(rabbitmq, name)
    server.close()
    seen = Counter(number for numbers in found.values() for number in numbers)
    disorder = sum(list(dict.fromkeys(each)) != sorted(set(each)) for each in found.values())
    return Outcome(
        load.count,
        load.count - len(seen),
        seen.total() - len(seen),
        disorder,
        status["sources"][0]["redelivered"],
        took,
        status["reloads"],
        memory,
    )


def read_queues(url: str, name: str) -> dict[tuple[str, int], list[int]]:
    """Return the numbers of the messages of each queue and key, in their order."""
    found = defaultdict[tuple[str, int], list[int]](list)
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    for each in PLACES:
        left = channel.queue_declare(f"{name}-{each}", passive=True, durable=True).method.message_count
        for method, _, body in channel.consume(f"{name}-{each}", auto_ack=True) if left else ():
            assert method is not None
            found[each, int(body) % KEYS].append(int(body))
            left -= 1
            if not left:
                break
        channel.cancel()
        assert channel.queue_delete(f"{name}-{each}").method.message_count == 0
    connection.close()
    return found


def read_topics(bootstrap: str, name: str) -> dict[tuple[str, int], list[int]]:
    """Return the numbers of the records of each topic and key, in the order of their partitions."""
    found = defaultdict[tuple[str, int], list[int]](list)
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False, "enable.partition.eof": True,
    })  # fmt: skip
    for each in PLACES:
        consumer.assign([TopicPartition(f"{name}-{each}", partition, 0) for partition in range(3)])
        ends = 0
        while ends < 3:
            record = consumer.poll(find_limit())
            assert record is not None
            if record.error() is not None:
                ends += 1  # of a partition
            else:
                number = int(record.value() or b"")
                found[each, number % KEYS].append(number)
    consumer.close()
    return found


@click.command(help=__doc__)
@click.option("--reloads", default=500, show_default=True, help="Number of reloads with each target.")
@click.option("--to", "targets", multiple=True, type=click.Choice(["kafka", "rabbitmq"]), default=["kafka", "rabbitmq"])
def main(reloads: int, targets: tuple[str, ...]) -> None:
    with server_set(SERVERS["rabbitmq"]) as rabbitmq_servers, server_set(SERVERS["kafka"]) as kafka_servers:
        for target in targets:
            kafka = kafka_servers.first().url if target == "kafka" else None
            with TemporaryDirectory() as folder:
                outcome = try_reloads(rabbitmq_servers.first().url, kafka, reloads, Path(folder))
            print(f"to {target}: {outcome}", flush=True)


if __name__ == "__main__":
    main()
